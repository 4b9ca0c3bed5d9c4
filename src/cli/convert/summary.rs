//! What `convert` says at its end.
//!
//! Invariant: counts and places only; the counts add up.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};

use super::gate::SourceCheck;
use crate::anonymize::Summary;
use crate::capture::{LogError, SkipReason};
use crate::cli::args::Globals;
use crate::cli::exit::print_to_stderr;
use crate::cli::output::{Stdout, bytes, number, percent};
use crate::trace::Manifest;
use crate::trace::vocab::{SourceFormat, Vocabulary};

/// What became of the inputs.
#[derive(Default)]
pub(super) struct InputCounts {
    pub(super) read: u64,
    pub(super) empty: u64,
    pub(super) unknown: u64,
    pub(super) unreadable: u64,
    pub(super) formats: BTreeSet<SourceFormat>,
    pub(super) errors: Vec<LogError>,
}

pub(super) struct Report<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) summary: &'a Summary,
    pub(super) inputs: &'a InputCounts,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) source_check: SourceCheck,
}

impl Report<'_> {
    pub(super) fn print(&self, globals: Globals) -> anyhow::Result<()> {
        let mut stdout = Stdout::new();
        if globals.json {
            serde_json::to_writer_pretty(&mut stdout, &self.json())?;
            writeln!(stdout)?;
        } else if !globals.quiet {
            stdout.write_all(self.text().as_bytes())?;
        }
        stdout.flush()?;
        Ok(())
    }

    fn json(&self) -> Value {
        let Self { manifest, summary, inputs, .. } = self;
        json!({
            "inputs": { "read": inputs.read, "empty": inputs.empty, "unknown": inputs.unknown, "unreadable": inputs.unreadable, "formats": inputs.formats },
            "records": {
                "read": summary.read, "kept": summary.kept, "auxiliary": summary.auxiliary,
                "in_small_sessions": summary.in_small_sessions, "skipped": skipped(summary),
            },
            "first_errors": inputs.errors.iter().map(|error| json!({
                "input": error.position.input, "record": error.position.record, "offset": error.position.offset, "reason": error.reason.name(),
            })).collect::<Vec<_>>(),
            "normalized": {
                "cache_control": summary.normalized.cache_control, "billing_header": summary.normalized.billing_header,
                "thinking_signature": summary.normalized.thinking_signature, "media": summary.normalized.media,
            },
            "links": {
                "subagents": summary.found.subagents, "unmatched_agents": summary.found.unmatched_agents,
                "unmatched_calls": summary.found.unmatched_calls, "without_edge": summary.found.without_edge,
            },
            "joined": { "merged": summary.joined.merged, "added": summary.joined.added, "conflicts": summary.joined.conflicts },
            "not_recorded": { "system": summary.no_system, "tools": summary.no_tools, "answers": summary.no_answer },
            "prompt_scale": summary.residual.map(|residual| json!({ "requests": residual.requests, "stated": residual.stated, "off": residual.off })),
            "source_check": match self.source_check {
                SourceCheck::Passed { bytes } => json!({ "run": true, "bytes": bytes }),
                SourceCheck::NotRun => json!({ "run": false }),
            },
            "totals": manifest.totals,
            "bytes": { "in": self.bytes_in, "out": self.bytes_out },
        })
    }

    fn text(&self) -> String {
        let Self { manifest, summary, inputs, .. } = self;
        let totals = &manifest.totals;
        let formats: Vec<&str> = inputs.formats.iter().map(|format| format.word()).collect();
        let others = [
            (inputs.empty, "empty"),
            (inputs.unknown, "in no known format"),
            (inputs.unreadable, "that cannot be read"),
        ];
        let others: Vec<String> = others
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!(", {} {what}", number(*count)))
            .collect();
        let others = others.concat();
        let reused = totals.blocks.saturating_sub(totals.unique_blocks);
        let mut text = format!(
            "inputs    {} read ({}){others}\n{}trace     {} sessions, {} agents, {} requests, {} edges, {} tool calls\n\
             tokens    {} in, {} out; {} of {} blocks were there before ({})\n\
             bytes     {} in, {} out ({:.1} per request)\n",
            number(inputs.read),
            formats.join(", "),
            records(summary),
            number(totals.sessions),
            number(totals.agents),
            number(totals.requests),
            number(totals.edges),
            number(totals.tools),
            number(totals.input_tokens),
            number(totals.output_tokens),
            number(reused),
            number(totals.blocks),
            percent(reused, totals.blocks),
            bytes(self.bytes_in),
            bytes(self.bytes_out),
            ratio(self.bytes_out, totals.requests),
        );
        if summary.joined.merged > 0 {
            let joined = &summary.joined;
            let (merged, added) = (number(joined.merged), number(joined.added));
            writeln!(
                text,
                "joined    {merged} requests that several logs tell of; {added} facts added, {} in conflict",
                number(joined.conflicts)
            )
            .ok();
        }
        let lost = [
            (summary.no_system, "without their system prompt"),
            (summary.no_tools, "without their tools"),
            (summary.no_answer, "without their answer"),
        ];
        for (requests, what) in lost.iter().filter(|(requests, _)| *requests > 0) {
            writeln!(text, "lost      {} requests {what}: their recorder kept none", number(*requests)).ok();
        }
        if let Some(residual) = summary.residual {
            writeln!(
                text,
                "scale     {} left over on {} requests",
                percent(residual.off, residual.stated),
                number(residual.requests)
            )
            .ok();
        }
        text.push_str(match self.source_check {
            SourceCheck::Passed { .. } => "checked   audited; nothing of the logs is in it\n",
            SourceCheck::NotRun => "checked   audited; source check not run: some input can't be read again\n",
        });
        for error in &inputs.errors {
            writeln!(text, "skipped   input {}: {error}", error.position.input).ok();
        }
        text
    }
}

/// What became of the records, on stderr, where there is no trace to report on.
pub(super) fn print_records(summary: &Summary) {
    print_to_stderr(&records(summary));
}

fn records(summary: &Summary) -> String {
    let mut text = format!("records   {} read = {} kept", number(summary.read), number(summary.kept));
    for (reason, count) in nonzero(summary) {
        write!(text, " + {} {}", number(count), reason.name()).ok();
    }
    if summary.in_small_sessions > 0 {
        write!(text, " + {} in small sessions", number(summary.in_small_sessions)).ok();
    }
    text.push('\n');
    let found = &summary.found;
    let missing = [
        (found.unmatched_agents, "agents without a known start"),
        (found.unmatched_calls, "calls without a known agent"),
        (found.without_edge, "requests that wait for nothing known"),
    ];
    let missing: Vec<String> = missing
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", number(*count)))
        .collect();
    if !missing.is_empty() {
        writeln!(text, "not found {}", missing.join(", ")).ok();
    }
    text
}

fn skipped(summary: &Summary) -> Value {
    nonzero(summary)
        .map(|(reason, count)| (reason.name().to_owned(), json!(count)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn nonzero(summary: &Summary) -> impl Iterator<Item = (SkipReason, u64)> {
    summary.skipped.iter().map(|(reason, count)| (*reason, *count)).filter(|(_, count)| *count > 0)
}

#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a ratio for people to read")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
