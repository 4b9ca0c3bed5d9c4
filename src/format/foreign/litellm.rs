//! LiteLLM's spend rows with `prefix_block_hashes`, inwards.
//!
//! Invariant: hashes are compared and dropped; session ids only group rows; keys, users and costs are not read.

use std::collections::HashMap;

use super::json::{Object, items, object, string, whole};
use super::session::{Groups, Models, conversation, ended, request, sequence};
use super::{
    ForeignError, Frame, Head, Ids, ImportOptions, ImportReport, Importer, RowError, RowFault, Source, Take,
    TreeFromIds,
};
use crate::trace::vocab::{Anomaly, DelayKind, Evidence, Inferred, Loss, Scope, SourceFormat, Status, Trigger};
use crate::trace::{Request, Session};

/// Tokens per block, where neither the rows nor the caller say.
const BLOCK: u32 = 64;

/// The format.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiteLlm;

/// A row as it is stated.
struct Row {
    session: Option<String>,
    /// Milliseconds since 1970.
    start: i64,
    request: Request,
    model: String,
    ids: Ids,
}

impl Importer for LiteLlm {
    fn format(&self) -> SourceFormat {
        SourceFormat::LiteLlm
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.has(&["startTime", "prompt_tokens"]) || head.has(&["prefix_block_hashes"])
    }

    fn loss(&self) -> &'static [Loss] {
        &[
            Loss::Edges,
            Loss::Agents,
            Loss::Tools,
            Loss::PartialBlocks,
            Loss::Parts,
            Loss::Stops,
            Loss::Identifiers,
            Loss::Unknown,
        ]
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        let mut report = ImportReport::default();
        let mut names: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut stated = options.block_size;
        let mut read: Vec<Row> = Vec::new();
        for source in sources {
            source.each(&mut report, |row, _, _| {
                read.push(Row::read(row, &mut names, &mut stated)?);
                Ok(())
            })?;
        }
        let frame = Frame { block_size: stated.unwrap_or(BLOCK), scope: Scope::Dataset };
        read.sort_by_key(|row| row.start);
        let first = read.first().map_or(0, |row| row.start);
        let mut sessions: Groups<Result<String, usize>, Vec<Row>> = Groups::default();
        for (at, row) in read.into_iter().enumerate() {
            // A row that names no session is one of its own.
            sessions.of(row.session.clone().ok_or(at)).push(row);
        }
        let mut tree = TreeFromIds::new();
        for rows in sessions.into_groups() {
            take(frame, session(rows, first, frame.block_size, &mut tree, &mut report))?;
        }
        Ok(report)
    }
}

/// A time as ISO 8601, with a blank or a T, in milliseconds since 1970.
fn instant(bytes: &[u8]) -> Result<i64, RowFault> {
    let text = string(bytes)?.replacen(' ', "T", 1);
    let utc = || format!("{text}Z").parse::<jiff::Timestamp>();
    let time = text.parse::<jiff::Timestamp>().or_else(|_| utc()).map_err(|_| RowFault::Type)?;
    Ok(time.as_millisecond())
}

impl Row {
    fn read(row: &Object<'_>, names: &mut HashMap<Vec<u8>, u64>, stated: &mut Option<u32>) -> Result<Self, RowError> {
        // A database gives its JSON columns as text.
        let text = match row.raw("metadata") {
            Some(bytes) if bytes.starts_with(b"\"") => {
                Some(string(bytes).map_err(|fault| RowError::new("metadata", fault))?.into_owned())
            }
            _ => None,
        };
        let metadata = text.as_deref().map(str::as_bytes).or_else(|| row.raw("metadata"));
        let metadata = metadata.map(object).transpose().map_err(|fault| RowError::new("metadata", fault))?;
        let of = metadata.as_ref().unwrap_or(row);
        let (hashes, block_size) = hashes(of, names)?;
        if let Some(size) = block_size.filter(|size| *size > 0) {
            if stated.is_some_and(|stated| stated != size) {
                return Err(RowError::new("block_size", RowFault::Disagrees));
            }
            *stated = Some(size);
        }
        let input = row.get("prompt_tokens", whole::<u32>)?;
        let start = row.get("startTime", instant)?;
        let since = |time: Option<i64>| time.and_then(|time| u32::try_from(time.checked_sub(start)?.max(0)).ok());
        let mut request = request(input, row.maybe("completion_tokens", whole)?);
        request.duration_ms = since(row.maybe("endTime", instant)?);
        let first = since(row.maybe("completionStartTime", instant)?);
        request.ttft_ms = first.filter(|first| request.duration_ms.is_none_or(|all| *first < all));
        request.status = match row.maybe("status", string)?.as_deref() {
            Some("failure") => Status::ServerError,
            _ => Status::Ok,
        };
        let model = row.maybe("model", string)?.unwrap_or_default().into_owned();
        let session = row.maybe("session_id", string)?.map(std::borrow::Cow::into_owned);
        Ok(Self { session: session.filter(|session| !session.is_empty()), start, request, model, ids: hashes })
    }
}

/// The hashes as numbers by first appearance, and tokens per block where it is said: a list, or an object around it.
fn hashes(of: &Object<'_>, names: &mut HashMap<Vec<u8>, u64>) -> Result<(Ids, Option<u32>), RowError> {
    const NAME: &str = "prefix_block_hashes";
    let Some(bytes) = of.raw(NAME) else { return Err(RowError::new(NAME, RowFault::Missing)) };
    let hash = |bytes| {
        let hash = string(bytes)?;
        let digits = hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
        if digits { Ok(hash.into_owned().into_bytes()) } else { Err(RowFault::Type) }
    };
    let (hashes, block_size) = if bytes.starts_with(b"{") {
        let inner = of.get(NAME, object)?;
        let named = ["hashes", "block_hashes", "ids"].into_iter().find(|name| inner.raw(name).is_some());
        (inner.get(named.unwrap_or("hashes"), items(hash))?, inner.maybe("block_size", whole)?)
    } else {
        (of.get(NAME, items(hash))?, of.maybe("prefix_block_size", whole)?)
    };
    let mut ids = Ids::default();
    for hash in hashes {
        let next = u64::try_from(names.len()).unwrap_or(u64::MAX);
        ids.push(*names.entry(hash).or_insert(next));
    }
    Ok((ids, block_size))
}

fn session(rows: Vec<Row>, first: i64, block_size: u32, tree: &mut TreeFromIds, report: &mut ImportReport) -> Session {
    let begin = rows.first().map_or(0, |row| row.start);
    let mut models = Models::default();
    let (mut requests, mut lists): (Vec<Request>, Vec<Ids>) = Default::default();
    for (turn, row) in (0..).zip(rows) {
        let (model, renamed) = models.number(&row.model);
        report.lost.note(Loss::Models, renamed && !row.model.is_empty());
        // The tokenizer that cut the blocks need not be the one that counted.
        let blocks = row.request.input_tokens.div_ceil(block_size);
        report.inferred.note(Inferred::Lengths, row.ids.len() != blocks);
        report.anomalies.note(Anomaly::EmptyOutput, row.request.output_tokens == Some(0));
        let mut ids = row.ids;
        // The last hash is that of a partial block, where the last block is partial.
        ids.truncate(row.request.blocks(block_size));
        requests.push(Request { turn, model, start_ms: u64::try_from(row.start - begin).ok(), ..row.request });
        lists.push(ids);
    }
    report.inferred.add(Inferred::Tails, tree.fill(&mut requests, lists, block_size));
    let mut edges = Vec::new();
    for (from, pair) in (0..).zip(requests.windows(2)) {
        let [before, request] = pair else { continue };
        let mut edge = sequence(from, from + 1, 0, DelayKind::None, Evidence::Time);
        report.inferred.note(Inferred::Sequence, true);
        if ended(before) <= request.start_ms {
            edge.delay_ms = request.start_ms.zip(ended(before)).map_or(0, |(start, end)| start - end);
        } else {
            edge.trigger = Trigger::Dispatch;
            edge.delay_ms = request.start_ms.zip(before.start_ms).map_or(0, |(start, before)| start - before);
            report.anomalies.note(Anomaly::Overlap, true);
        }
        edges.push(edge);
    }
    conversation(u64::try_from(begin - first).ok(), requests, edges)
}
