//! NVIDIA Dynamo's formats: `agentic_mooncake` version 2, both ways, and its request trace, version 1, inwards.
//!
//! Invariant: a file that Dynamo wrote or would read is read, and what is written Dynamo reads: as many ids as blocks, a partial
//! one included and always fresh; no id stands in two sessions unless the prefix does; only `spawn` goes by dispatch. The hashes of
//! request traces are unkeyed: they are compared and never kept.

mod agentic;
mod trace;
mod write;

use std::path::Path;

use super::{
    ExportOptions, ExportReport, Exporter, ForeignError, Head, ImportOptions, ImportReport, Importer, Source, Take,
};
use crate::format::TraceSource;
use crate::trace::vocab::{Loss, SourceFormat};

/// The schema that the head of an `agentic_mooncake` file names.
const AGENTIC: &str = "dynamo.agentic_mooncake";
/// The schema that each row of a request trace names.
const REQUEST_TRACE: &str = "dynamo.request.trace.v1";

/// `agentic_mooncake`, version 2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dynamo;

/// The request trace, version 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct DynamoTrace;

/// What `agentic_mooncake` has no place for.
const LOSS: &[Loss] = &[
    Loss::Edges,
    Loss::Tools,
    Loss::PartialBlocks,
    Loss::Sharing,
    Loss::Usage,
    Loss::Durations,
    Loss::Starts,
    Loss::Outputs,
    Loss::Parts,
    Loss::Stops,
    Loss::PartTokens,
    Loss::Kinds,
    Loss::Settings,
    Loss::AgentTypes,
    Loss::Identifiers,
];

impl Importer for Dynamo {
    fn format(&self) -> SourceFormat {
        SourceFormat::Dynamo
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.has(&["schema", "version", "block_size", "hash_id_scope"])
    }

    fn loss(&self) -> &'static [Loss] {
        LOSS
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        agentic::import(sources, options, take)
    }
}

impl Exporter for Dynamo {
    fn format(&self) -> SourceFormat {
        SourceFormat::Dynamo
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

impl Importer for DynamoTrace {
    fn format(&self) -> SourceFormat {
        SourceFormat::DynamoTrace
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.has(&["schema", "event_type"]) || head.has(&["timestamp", "event"])
    }

    fn loss(&self) -> &'static [Loss] {
        &[
            Loss::Edges,
            Loss::PartialBlocks,
            Loss::Parts,
            Loss::PartTokens,
            Loss::Settings,
            Loss::AgentTypes,
            Loss::Identifiers,
        ]
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        trace::import(sources, options, take)
    }
}
