//! Writing Qwen-Bailian JSONL.
//!
//! Invariant: rows stand in order of time; a chat names at most one earlier chat; ids are those of blocks of 16 tokens wherever the
//! blocks of the trace can be cut so.

use std::io::Write;
use std::path::Path;

use super::{BLOCK, LOSS, TYPES};
use crate::format::foreign::json_out::Json;
use crate::format::foreign::losses::count_held;
use crate::format::foreign::outgoing::Renumber;
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::{ExportOptions, ExportReport, ForeignError};
use crate::format::tokens::{Planter, Speller};
use crate::format::{TraceSource, count};
use crate::trace::vocab::{Loss, Relation, Scope};
use crate::trace::{Parts, Request, Session};

/// A row that waits for its place.
struct Row {
    time: u64,
    chat: u64,
    parent: Option<u64>,
    turn: u32,
    request: Request,
    ids: Vec<(u64, u32)>,
}

pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    let usual = if manifest.block_size.is_multiple_of(BLOCK) { BLOCK } else { manifest.block_size };
    let block_size = options.block_size.unwrap_or(usual);
    if block_size == 0 {
        return Err(ForeignError::Unfit("a block has at least one token"));
    }
    let output = Output::file(target, options.replace)?;
    let mut report = ExportReport::default();
    let (mut speller, mut planter) = (Speller::default(), Planter::new(block_size, true));
    let mut ids = Renumber::from(0);
    let mut rows: Vec<Row> = Vec::new();
    for session in &mut *trace {
        let session = session?;
        if manifest.scope == Scope::Session {
            speller.begin_session();
            planter.begin_session();
        }
        let first = count(rows.len());
        let begin = session.start_ms.ok_or(ForeignError::Unfit(
            "Bailian rows need the time of each session, which this trace does not hold: keep arrivals, or choose another format",
        ))?;
        for (row, request) in (0_u32..).zip(&session.requests) {
            planter.plant(&speller.spell(request, manifest.block_size));
            let mut list = ids.list(&planter.block_runs(first + u64::from(row)));
            if request.input_tokens % block_size > 0 {
                list.push((ids.fresh(), 1));
            }
            let start = request.start_ms.ok_or(ForeignError::Unfit(
                "Bailian rows need the time of each request, which this trace does not hold",
            ))?;
            let before = before(&session, row);
            let turn = before.and_then(|before| rows.get(usize::try_from(first + u64::from(before)).ok()?));
            rows.push(Row {
                time: begin.saturating_add(start),
                chat: first + u64::from(row),
                parent: before.map(|before| first + u64::from(before)),
                turn: turn.map_or(1, |before| before.turn + 1),
                request: *request,
                ids: list,
            });
            report
                .lost
                .note(Loss::Parts, word(request.input_parts).is_none() || request.output_parts != Parts::default());
        }
        // One link a request is all there is, and no delay but between starts.
        let links = session
            .requests
            .iter()
            .enumerate()
            .filter(|(row, _)| before(&session, u32::try_from(*row).unwrap_or(u32::MAX)).is_some());
        report.lost.add(Loss::Edges, count(session.edges.len() - links.count()));
        count_held(&session, LOSS, &mut report.lost);
        report.sessions += 1;
        report.requests += count(session.requests.len());
    }
    rows.sort_by_key(|row| row.time);
    let mut file = output.create("")?;
    let mut json = Json::default();
    for row in rows {
        write(&mut json, row);
        file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
        json.clear();
    }
    finish(file)?;
    output.publish()?;
    Ok(report)
}

/// The request that one goes on from: the turn before, or what started its agent.
fn before(session: &Session, row: u32) -> Option<u32> {
    let of = |relation: Relation| session.waits_of(row).iter().rfind(|edge| edge.relation == relation);
    of(Relation::Sequence).or_else(|| of(Relation::Spawn)).map(|edge| edge.from)
}

/// The type that stands for exactly these parts.
fn word(parts: Parts) -> Option<&'static str> {
    TYPES.iter().find(|(_, known)| *known == parts).map(|(word, _)| *word)
}

fn write(json: &mut Json, row: Row) {
    json.open(b'{');
    json.number_member("chat_id", row.chat);
    json.key("parent_chat_id");
    match row.parent {
        Some(parent) => json.number(Some(parent)),
        None => json.minus_one(),
    }
    json.seconds_member("timestamp", row.time);
    json.number_member("input_length", u64::from(row.request.input_tokens));
    json.number_member("output_length", u64::from(row.request.output_tokens.unwrap_or(0)));
    json.word_member("type", word(row.request.input_parts).unwrap_or("text"));
    json.number_member("turn", u64::from(row.turn));
    json.key("hash_ids");
    json.runs(row.ids);
    json.close(b'}');
    json.line();
}
