//! Flat Parquet: one row a request, with an explicit list of block ids, for DuckDB, pandas, Polars and whoever reads lists.
//!
//! Invariant: it loses nothing of a trace but compactness: every column of every table is there, those of edges and tool calls as
//! lists of the request that waited or called; agents without a request are the one exception.

mod columns;
mod read;
mod write;

use std::path::Path;

use super::{
    ExportOptions, ExportReport, Exporter, ForeignError, Head, ImportOptions, ImportReport, Importer, Source, Take,
};
use crate::format::TraceSource;
use crate::trace::vocab::{Loss, SourceFormat};

/// The format, both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat;

impl Importer for Flat {
    fn format(&self) -> SourceFormat {
        SourceFormat::Flat
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.bytes.starts_with(b"PAR1")
    }

    fn loss(&self) -> &'static [Loss] {
        &[]
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        read::import(sources, options, take)
    }
}

impl Exporter for Flat {
    fn format(&self) -> SourceFormat {
        SourceFormat::Flat
    }

    fn loss(&self) -> &'static [Loss] {
        &[]
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
