//! ServeGen's offline rows, inwards: requests of batch jobs, with block ids (traces a to c) or with lengths and durations (d to f).
//!
//! Invariant: each row is a session of its own, since a batch states no order but that of its file.

use super::json::{Object, ids, items, string, whole};
use super::session::{conversation, request};
use super::{
    ForeignError, Frame, Head, ImportOptions, ImportReport, Importer, RowError, RowFault, Source, Take, TreeFromIds,
};
use crate::format::count;
use crate::trace::vocab::{Anomaly, Inferred, Loss, Scope, SourceFormat};
use crate::trace::{Parts, Session};

/// Tokens per block, which the format does not say.
const BLOCK: u32 = 16;

const ROW: &[&str] = &["request_id", "type", "input_length", "output_length", "duration", "hash_ids", "img_ids"];

/// The format.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServeGen;

impl Importer for ServeGen {
    fn format(&self) -> SourceFormat {
        SourceFormat::ServeGen
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.has(&["request_id", "type", "input_length"]) && (head.has(&["hash_ids"]) || head.has(&["duration"]))
    }

    fn loss(&self) -> &'static [Loss] {
        &[
            Loss::Sessions,
            Loss::Edges,
            Loss::Starts,
            Loss::Arrivals,
            Loss::Outputs,
            Loss::Models,
            Loss::PartialBlocks,
            Loss::Identifiers,
        ]
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        let mut report = ImportReport::default();
        let frame = Frame { block_size: options.block_size.unwrap_or(BLOCK), scope: Scope::Dataset };
        let mut tree = TreeFromIds::new();
        for source in sources {
            source.each(&mut report, |row, _, report| {
                let session = session(row, frame.block_size, &mut tree, report)?;
                Ok(take(frame, session)?)
            })?;
        }
        Ok(report)
    }
}

fn session(
    row: &Object<'_>,
    block_size: u32,
    tree: &mut TreeFromIds,
    report: &mut ImportReport,
) -> Result<Session, RowError> {
    report.lost.add(Loss::Unknown, count(row.unknown(ROW)));
    row.get("request_id", whole::<u64>)?;
    let parts = row.get("type", |bytes| match &*string(bytes)? {
        "text" => Ok(Parts::TEXT),
        "multimodal" => Ok(Parts::TEXT.with(Parts::IMAGE)),
        _ => Err(RowFault::Word),
    })?;
    let input = row.get("input_length", whole::<u32>)?;
    let ids = row.maybe("hash_ids", ids)?;
    if ids.as_ref().is_some_and(|ids| ![input / block_size, input.div_ceil(block_size)].contains(&ids.len())) {
        return Err(RowError::new("hash_ids", RowFault::Disagrees));
    }
    report.inferred.note(Inferred::Blocks, ids.is_none());
    row.maybe("img_ids", items(string))?;
    let mut request = request(input, row.maybe("output_length", whole)?);
    request.duration_ms = row.maybe("duration", whole)?;
    request.input_parts = parts;
    report.anomalies.note(Anomaly::EmptyOutput, request.output_tokens == Some(0));
    let mut requests = vec![request];
    tree.fill(&mut requests, [ids.unwrap_or_default()], block_size);
    Ok(conversation(None, requests, Vec::new()))
}
