//! Writing Mooncake rows that name their session and wait for the turn before, as AIPerf reads them.
//!
//! Invariant: a row after a session's first states only what is new since the turn before and its answer, since its reader adds
//! those; a turn that does not go on from there begins a session of its own. Needs no arrivals.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use super::write::counts;
use crate::format::foreign::json_out::Json;
use crate::format::foreign::outgoing::{Blocks, Renumber, factor, reblock, starts};
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::session::ended;
use crate::format::foreign::{ExportOptions, ExportReport, ForeignError};
use crate::format::{TraceSource, count};
use crate::trace::vocab::{Loss, Relation};
use crate::trace::{Request, Session};

/// The turn before of an agent.
struct Before {
    row: usize,
    /// The session that its row names.
    name: u64,
    /// Tokens that its reader then has: prompt and answer.
    tokens: u32,
}

/// Writes the trace, session by session.
pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    let block_size = options.block_size.unwrap_or(manifest.block_size);
    let factor = factor(manifest.block_size, block_size)?;
    let output = Output::file(target, options.replace)?;
    let mut file = output.create("")?;
    let mut report = ExportReport::default();
    let mut blocks = Blocks::new(manifest.scope, manifest.block_size);
    let (mut ids, mut json, mut names) = (Renumber::from(0), Json::default(), 0);
    for session in &mut *trace {
        let session = session?;
        let lists = blocks.session(&session)?;
        let (starts, _) = starts(&session);
        let mut threads: BTreeMap<u32, Before> = BTreeMap::new();
        report.sessions += 1;
        report.lost.add(Loss::Agents, count(session.agents.len().saturating_sub(1)));
        report.lost.add(Loss::Tools, count(session.tools.len()));
        json.clear();
        for (row, (request, list)) in session.requests.iter().zip(&lists).enumerate() {
            if !counts(request) {
                report.left_out += 1;
                continue;
            }
            let before = threads
                .remove(&request.agent)
                .filter(|before| goes_on(&session, before, row, &lists, manifest.block_size));
            json.open(b'{');
            let name = if let Some(before) = &before {
                json.word_member("session_id", &format!("session-{}", before.name));
                json.number_member("input_length", u64::from(request.input_tokens - before.tokens));
                json.number_member("delay", pause(&session, &starts, before.row, row));
                before.name
            } else {
                names += 1;
                report.lost.note(Loss::Sessions, row > 0);
                json.word_member("session_id", &format!("session-{names}"));
                json.number_member("input_length", u64::from(request.input_tokens));
                if let (Some(arrival), Some(start)) = (session.start_ms, starts.get(row)) {
                    json.number_member("timestamp", arrival.saturating_add(*start));
                }
                json.key("hash_ids");
                let mut list = ids.list(&reblock(list, factor));
                if request.input_tokens % block_size != 0 {
                    list.push((ids.fresh(), 1));
                }
                json.runs(list);
                names
            };
            json.number_member("output_length", u64::from(request.output_tokens.unwrap_or(0)));
            json.close(b'}');
            json.line();
            report.lost.note(Loss::Durations, request.duration_ms.is_some());
            report.lost.note(Loss::Outputs, request.output_tokens.is_none());
            report.requests += 1;
            let tokens = request.input_tokens.saturating_add(request.output_tokens.unwrap_or(0));
            threads.insert(request.agent, Before { row, name, tokens });
        }
        let kept = |relation| relation == Relation::Sequence;
        report.lost.add(Loss::Edges, count(session.edges.iter().filter(|edge| !kept(edge.relation)).count()));
        file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
    }
    if report.requests == 0 {
        return Err(ForeignError::Unfit("no request is left to export"));
    }
    finish(file)?;
    output.publish()?;
    Ok(report)
}

/// Whether a prompt is the whole of the one before and more: its answer, and something new.
fn goes_on(session: &Session, before: &Before, row: usize, lists: &[Vec<(u64, u32)>], block_size: u32) -> bool {
    let request = |row: usize| session.requests.get(row);
    let (Some(earlier), Some(later)) = (request(before.row), request(row)) else { return false };
    let last = |row: usize, blocks: u32| lists.get(row).and_then(|list| nth(list, blocks.checked_sub(1)?));
    let blocks = earlier.blocks(block_size);
    let leads = blocks == 0 || (last(before.row, blocks).is_some() && last(before.row, blocks) == last(row, blocks));
    leads && later.input_tokens > before.tokens
}

/// The id at a place.
fn nth(list: &[(u64, u32)], mut place: u32) -> Option<u64> {
    for &(first, count) in list {
        if place < count {
            return first.checked_add(place.into());
        }
        place -= count;
    }
    None
}

/// The time between the end of the turn before and this one.
fn pause(session: &Session, starts: &[u64], before: usize, row: usize) -> u64 {
    let (Some(earlier), Some(start)) = (session.requests.get(before), starts.get(row)) else { return 0 };
    let earlier = Request { start_ms: starts.get(before).copied(), ..*earlier };
    let to = u32::try_from(row).unwrap_or(u32::MAX);
    let stated = session.waits_of(to).iter().find(|edge| edge.relation == Relation::Sequence);
    let gap = ended(&earlier).map_or(0, |end| start.saturating_sub(end));
    // Where no duration is known, the gap holds the answer's time, and the edge knows better.
    stated.filter(|_| earlier.duration_ms.is_none()).map_or(gap, |edge| edge.delay_ms)
}
