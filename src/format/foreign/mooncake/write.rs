//! Writing Mooncake rows.
//!
//! Invariant: ⌈input / block⌉ ids a row; an id of a full block is never that of a partial one, since each partial block has an id
//! of its own.

use std::io::Write;
use std::path::Path;

use super::sessions;
use crate::format::foreign::json_out::Json;
use crate::format::foreign::outgoing::{Blocks, Renumber, factor, reblock, starts};
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::{ExportOptions, ExportReport, ForeignError};
use crate::format::{TraceSource, count};
use crate::trace::Request;
use crate::trace::vocab::{Loss, RequestKind, Status};

/// Whether a request prefills anything, and its answer came.
pub(super) fn counts(request: &Request) -> bool {
    let whole = matches!(request.status, Status::Ok | Status::ClientCancelled);
    whole && request.kind != RequestKind::CountTokens && request.input_tokens > 0
}

struct Row {
    timestamp: u64,
    input: u32,
    output: u32,
    /// Of its full blocks, at the new size.
    ids: Vec<(u64, u32)>,
}

/// Writes the trace.
pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    if options.sessions { sessions::export(trace, target, options) } else { by_time(trace, target, options) }
}

/// All rows in order of time.
fn by_time(trace: &mut dyn TraceSource, target: &Path, options: &ExportOptions) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    let block_size = options.block_size.unwrap_or(manifest.block_size);
    let factor = factor(manifest.block_size, block_size)?;
    let output = Output::file(target, options.replace)?;
    let mut report = ExportReport::default();
    let mut blocks = Blocks::new(manifest.scope, manifest.block_size);
    let mut rows = Vec::new();
    for session in &mut *trace {
        let session = session?;
        let arrival = match session.start_ms {
            Some(start) => start,
            None if manifest.totals.sessions == 1 => 0,
            None => {
                return Err(ForeignError::Unfit(
                    "the trace does not say when its sessions began; convert with --keep arrivals, or give --sessions",
                ));
            }
        };
        let lists = blocks.session(&session)?;
        let (starts, worked_out) = starts(&session);
        let lost = &mut report.lost;
        lost.add(Loss::Agents, count(session.agents.len().saturating_sub(1)));
        lost.add(Loss::Edges, count(session.edges.len()));
        lost.add(Loss::Tools, count(session.tools.len()));
        report.sessions += 1;
        for ((request, list), start) in session.requests.iter().zip(lists).zip(starts) {
            if !counts(request) {
                report.left_out += 1;
                continue;
            }
            lost.note(Loss::Durations, request.duration_ms.is_some());
            lost.note(Loss::PartialBlocks, request.prefix.extends);
            lost.note(Loss::Outputs, request.output_tokens.is_none());
            lost.note(Loss::Starts, worked_out && request.start_ms.is_none());
            rows.push(Row {
                timestamp: arrival.saturating_add(start),
                input: request.input_tokens,
                output: request.output_tokens.unwrap_or(0),
                ids: reblock(&list, factor),
            });
        }
    }
    if rows.is_empty() {
        return Err(ForeignError::Unfit("no request is left to export"));
    }
    rows.sort_by_key(|row| row.timestamp);
    report.requests = count(rows.len());
    let mut file = output.create("")?;
    let mut ids = Renumber::from(0);
    let mut json = Json::default();
    for row in rows {
        json.clear();
        json.open(b'{');
        json.number_member("timestamp", row.timestamp);
        json.number_member("input_length", u64::from(row.input));
        json.number_member("output_length", u64::from(row.output));
        json.key("hash_ids");
        let mut list = ids.list(&row.ids);
        if row.input % block_size != 0 {
            list.push((ids.fresh(), 1));
        }
        json.runs(list);
        json.close(b'}');
        json.line();
        file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
    }
    finish(file)?;
    output.publish()?;
    Ok(report)
}
