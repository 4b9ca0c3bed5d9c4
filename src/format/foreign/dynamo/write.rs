//! Writing `agentic_mooncake`, version 2.
//!
//! Invariant: sessions become plays and agents sessions, named by their row numbers in the file.

use std::io::Write;
use std::path::Path;

use super::{AGENTIC, LOSS};
use crate::format::foreign::json_out::Json;
use crate::format::foreign::losses::count_held;
use crate::format::foreign::outgoing::{Blocks, Renumber};
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::{ExportOptions, ExportReport, ForeignError};
use crate::format::{TraceSource, count};
use crate::trace::vocab::{Loss, Relation, Scope, Trigger, Vocabulary};
use crate::trace::{Edge, Session};

pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    if options.block_size.is_some_and(|size| size != manifest.block_size) {
        return Err(ForeignError::Unfit("Dynamo's format keeps the block size of the trace"));
    }
    let output = Output::file(target, options.replace)?;
    let mut file = output.create("")?;
    let mut json = Json::default();
    head(&mut json, manifest.block_size);
    let mut report = ExportReport::default();
    let mut blocks = Blocks::new(manifest.scope, manifest.block_size);
    let mut ids = Renumber::from(0);
    let mut first = 0;
    for session in &mut *trace {
        let session = session?;
        let lists = blocks.session(&session)?;
        let mut edges = session.edges.iter().peekable();
        for (row, (request, runs)) in (0_u32..).zip(session.requests.iter().zip(&lists)) {
            let mut list = ids.list(runs);
            // A prompt without tokens would have no block, which is refused: it counts as one token.
            let input = request.input_tokens.max(1);
            if input % manifest.block_size > 0 {
                list.push((ids.fresh(), 1));
            }
            json.open(b'{');
            json.word_member("request_id", &format!("r{}", first + u64::from(row)));
            json.word_member("play_id", &format!("p{}", report.sessions));
            json.word_member("session_id", &format!("p{}a{}", report.sessions, request.agent));
            json.word_member("model", &request.model.to_string());
            json.number_member("input_length", u64::from(input));
            json.number_member("output_length", u64::from(request.output_tokens.unwrap_or(0)));
            json.key("hash_ids");
            json.runs(list);
            let waits = edges.peek().is_some_and(|edge| edge.to == row);
            json.number_member("not_before_ms", if waits { 0 } else { not_before(&session, request.start_ms) });
            json.key("dependencies");
            json.open(b'[');
            while let Some(edge) = edges.next_if(|edge| edge.to == row) {
                dependency(&mut json, edge, first, &session, &mut report);
            }
            json.close(b']');
            json.close(b'}');
            json.line();
        }
        file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
        json.clear();
        count_held(&session, LOSS, &mut report.lost);
        report.lost.note(Loss::Sharing, manifest.scope != Scope::Session);
        report.sessions += 1;
        report.requests += count(session.requests.len());
        first += count(session.requests.len());
    }
    finish(file)?;
    output.publish()?;
    Ok(report)
}

fn head(json: &mut Json, block_size: u32) {
    json.open(b'{');
    json.word_member("schema", AGENTIC);
    json.number_member("version", 2);
    json.number_member("block_size", u64::from(block_size));
    json.word_member("hash_id_scope", "local");
    json.key("source");
    json.open(b'{');
    json.word_member("format", "tracecloak");
    // Of nothing: a digest of the source is what a trace must not hold.
    json.word_member("digest", "none");
    json.close(b'}');
    json.close(b'}');
    json.line();
}

/// When a request that waits for none may go out at the earliest.
fn not_before(session: &Session, start_ms: Option<u64>) -> u64 {
    session.start_ms.unwrap_or(0).saturating_add(start_ms.unwrap_or(0))
}

fn dependency(json: &mut Json, edge: &Edge, first: u64, session: &Session, report: &mut ExportReport) {
    let agent = |row: u32| session.requests.get(usize::try_from(row).ok()?).map(|request| request.agent);
    // Only a spawn goes by dispatch there; within one session it can only mean the next turn.
    let dispatch = edge.trigger == Trigger::Dispatch;
    let same_agent = agent(edge.from) == agent(edge.to);
    let relation = match edge.relation {
        Relation::Barrier if !dispatch => "replay_barrier",
        _ if dispatch => Relation::Spawn.word(),
        relation => relation.word(),
    };
    let kept = match edge.relation {
        Relation::Spawn => !same_agent,
        Relation::Sequence => !dispatch || same_agent,
        Relation::Join | Relation::Barrier => !dispatch,
    };
    report.lost.note(Loss::Edges, !kept);
    json.open(b'{');
    json.word_member("request_id", &format!("r{}", first + u64::from(edge.from)));
    json.word_member("trigger", edge.trigger.word());
    json.number_member("delay_ms", edge.delay_ms);
    json.word_member("relation", relation);
    json.close(b'}');
}
