//! Veeksha's trace flavours, both ways: `timed_synthetic_session` (a graph a session, JSONL or CSV) and `shared_prefix` (turns in
//! line, block ids for the first).
//!
//! Invariant: a prompt begins with the whole prompt and answer that it goes on from: that is what Veeksha sends. Block ids are not
//! carried, but for the first turns of `shared_prefix`.

mod graph;
mod read;
mod shared_prefix;
mod write;

use std::path::Path;

use super::{
    ExportOptions, ExportReport, Exporter, ForeignError, Head, ImportOptions, ImportReport, Importer, Source, Take,
};
use crate::format::TraceSource;
use crate::trace::Session;
use crate::trace::vocab::{Loss, SourceFormat};

/// `timed_synthetic_session`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Veeksha;

/// `shared_prefix`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedPrefix;

const LOSS: &[Loss] = &[
    Loss::Edges,
    Loss::Tools,
    Loss::PartialBlocks,
    Loss::Blocks,
    Loss::Sharing,
    Loss::Usage,
    Loss::Models,
    Loss::Durations,
    Loss::Starts,
    Loss::Arrivals,
    Loss::Outputs,
    Loss::Parts,
    Loss::Stops,
    Loss::PartTokens,
    Loss::Kinds,
    Loss::Settings,
    Loss::AgentTypes,
    Loss::Identifiers,
    Loss::Lengths,
];

const SHARED_PREFIX_LOSS: &[Loss] = &[
    Loss::Edges,
    Loss::Agents,
    Loss::Tools,
    Loss::PartialBlocks,
    Loss::Blocks,
    Loss::Usage,
    Loss::Models,
    Loss::Durations,
    Loss::Starts,
    Loss::Arrivals,
    Loss::Outputs,
    Loss::Parts,
    Loss::Stops,
    Loss::PartTokens,
    Loss::Kinds,
    Loss::Settings,
    Loss::AgentTypes,
    Loss::Identifiers,
    Loss::Lengths,
];

/// Whether a file has the columns of both flavours, as keys or in its head line.
fn columns(head: &Head<'_>, names: &[&str]) -> bool {
    let line = head.first_line();
    let listed = |name: &&str| line.split(|byte| *byte == b',').any(|cell| cell.trim_ascii() == name.as_bytes());
    head.has(names) || (!line.starts_with(b"{") && names.iter().all(listed))
}

impl Importer for Veeksha {
    fn format(&self) -> SourceFormat {
        SourceFormat::Veeksha
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        columns(head, &["session_id", "new_input_length", "output_length"]) && !SharedPrefix.sniff(head)
    }

    fn loss(&self) -> &'static [Loss] {
        LOSS
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        graph::import(sources, options, take)
    }
}

impl Exporter for Veeksha {
    fn format(&self) -> SourceFormat {
        SourceFormat::Veeksha
    }

    fn loss(&self) -> &'static [Loss] {
        LOSS
    }

    fn export(
        &self,
        trace: &mut dyn TraceSource,
        target: &Path,
        options: &ExportOptions,
    ) -> Result<ExportReport, ForeignError> {
        write::export(trace, target, options)
    }
}

impl Importer for SharedPrefix {
    fn format(&self) -> SourceFormat {
        SourceFormat::VeekshaSharedPrefix
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        columns(head, &["session_id", "new_input_length", "output_length", "hash_ids"])
    }

    fn loss(&self) -> &'static [Loss] {
        SHARED_PREFIX_LOSS
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        shared_prefix::import(sources, options, take)
    }
}

impl Exporter for SharedPrefix {
    fn format(&self) -> SourceFormat {
        SourceFormat::VeekshaSharedPrefix
    }

    fn loss(&self) -> &'static [Loss] {
        SHARED_PREFIX_LOSS
    }

    fn export(
        &self,
        trace: &mut dyn TraceSource,
        target: &Path,
        options: &ExportOptions,
    ) -> Result<ExportReport, ForeignError> {
        shared_prefix::export(trace, target, options)
    }
}

/// What a request adds to the prompt and the answer that it goes on from, so that its length comes out; at least one token, and
/// whether that is exact.
fn new_tokens(session: &Session, row: usize, before: Option<usize>) -> (u32, bool) {
    let input = session.requests.get(row).map_or(0, |request| request.input_tokens);
    let carried = before
        .and_then(|before| session.requests.get(before))
        .map_or(0, |before| before.input_tokens.saturating_add(answer(before.output_tokens)));
    let new = input.saturating_sub(carried).max(1);
    (new, carried.saturating_add(new) == input)
}

/// The length of an answer: at least one token is asked for.
fn answer(output_tokens: Option<u32>) -> u32 {
    output_tokens.unwrap_or(1).max(1)
}
