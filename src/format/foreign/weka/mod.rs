//! WEKA JSON: one object a session, its requests in a list, subagents nested one level. Two dialects are around, that of
//! kv-cache-tester and that of SemiAnalysis (AgentX); files of one object, or lines, or a folder of them.
//!
//! Invariant: what a file of kv-cache-tester states comes back from an export of its import, block ids renumbered by first
//! appearance, main agent first.

mod agents;
mod card;
mod read;
mod select;
mod session;
mod write;

use std::collections::HashSet;
use std::path::Path;

use super::{
    ExportOptions, ExportReport, Exporter, ForeignError, Frame, Head, ImportOptions, ImportReport, Importer, RowError,
    RowFault, Source, Take, TreeFromIds, session::fingerprint,
};
use crate::format::TraceSource;
use crate::trace::vocab::{Anomaly, Loss, Scope, SourceFormat};

/// The format, both ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weka;

impl Importer for Weka {
    fn format(&self) -> SourceFormat {
        SourceFormat::Weka
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.has(&["block_size", "hash_id_scope", "requests"])
    }

    fn loss(&self) -> &'static [Loss] {
        &[Loss::Edges, Loss::Depth, Loss::Tools, Loss::PartialBlocks, Loss::Usage]
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        let mut report = ImportReport::default();
        let mut frame: Option<Frame> = None;
        let mut tree = TreeFromIds::new();
        let mut seen = HashSet::new();
        for source in sources {
            source.each(&mut report, |row, _, report| {
                let trace = read::Trace::read(row, report)?;
                let stated = Frame { block_size: trace.block_size, scope: trace.scope };
                if frame.is_some_and(|frame| frame != stated)
                    || options.block_size.is_some_and(|size| size != trace.block_size)
                {
                    return Err(RowError::new("block_size", RowFault::Disagrees).into());
                }
                frame = Some(stated);
                if stated.scope == Scope::Session {
                    tree.begin_session();
                }
                let session = session::build(trace, &mut tree, report)?;
                report.anomalies.note(Anomaly::DuplicateSessions, !seen.insert(fingerprint(&session)));
                Ok(take(stated, session)?)
            })?;
        }
        Ok(report)
    }
}

impl Exporter for Weka {
    fn format(&self) -> SourceFormat {
        SourceFormat::Weka
    }

    fn loss(&self) -> &'static [Loss] {
        Importer::loss(self)
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
