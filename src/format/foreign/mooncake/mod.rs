//! Mooncake JSONL: one request a line, with when it came, how long it is and the ids of its blocks, the partial last one among
//! them. Some tools add `session_id` and `delay`.
//!
//! Invariant: ids are equal across sessions; a partial block's id is never that of another block.

mod read;
mod sessions;
mod write;

use std::path::Path;

use super::{
    ExportOptions, ExportReport, Exporter, ForeignError, Head, ImportOptions, ImportReport, Importer, Source, Take,
};
use crate::format::TraceSource;
use crate::trace::vocab::{Loss, SourceFormat};

/// The format, both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mooncake;

/// What no row of the format has.
const LOSS: &[Loss] = &[
    Loss::Edges,
    Loss::Sessions,
    Loss::Agents,
    Loss::Tools,
    Loss::PartialBlocks,
    Loss::Usage,
    Loss::Models,
    Loss::Durations,
    Loss::Parts,
    Loss::Stops,
    Loss::PartTokens,
    Loss::Kinds,
    Loss::Settings,
    Loss::AgentTypes,
];

impl Importer for Mooncake {
    fn format(&self) -> SourceFormat {
        SourceFormat::Mooncake
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        // Other formats that have these members have others beside them.
        head.has(&["input_length", "hash_ids"])
            && head.keys.iter().all(|key| read::KNOWN.contains(&&**key))
            && (head.has(&["timestamp"]) || head.has(&["delay"]) || head.has(&["session_id"]))
    }

    fn loss(&self) -> &'static [Loss] {
        LOSS
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        read::import(sources, options, take)
    }
}

impl Exporter for Mooncake {
    fn format(&self) -> SourceFormat {
        SourceFormat::Mooncake
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
