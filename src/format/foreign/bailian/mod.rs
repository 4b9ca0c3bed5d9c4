//! Qwen-Bailian JSONL: chats that name the chat they go on from; blocks of 16 tokens known by their content, the last one padded.
//!
//! Invariant: chats that are linked become one session; ids keep what they say about prefixes and nothing else. What is written is
//! in order of time, with an id for each block begun, that of a partial one fresh.

mod write;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::json::{Object, ids, seconds, string, whole};
use super::session::{Groups, conversation, request, sequence, sort_edges};
use super::{
    ExportOptions, ExportReport, Exporter, ForeignError, Frame, Head, Ids, ImportOptions, ImportReport, Importer,
    RowError, RowFault, Source, Take, TreeFromIds,
};
use crate::format::{TraceSource, count};
use crate::trace::vocab::{Anomaly, DelayKind, Evidence, Inferred, Loss, Scope, SourceFormat};
use crate::trace::{Parts, Request, Session};

/// Tokens per block, which the format does not say.
const BLOCK: u32 = 16;

/// Types of chats, and what their prompts hold.
const TYPES: &[(&str, Parts)] = &[
    ("text", Parts::TEXT),
    ("search", Parts(Parts::TEXT.0 | Parts::OTHER.0)),
    ("image", Parts(Parts::TEXT.0 | Parts::IMAGE.0)),
    ("file", Parts(Parts::TEXT.0 | Parts::DOCUMENT.0)),
];

const ROW: &[&str] = &[
    "chat_id",
    "parent_chat_id",
    "timestamp",
    "input_length",
    "output_length",
    "type",
    "request_type",
    "turn",
    "hash_ids",
];

const LOSS: &[Loss] = &[
    Loss::Agents,
    Loss::Edges,
    Loss::Tools,
    Loss::PartialBlocks,
    Loss::MovedBlocks,
    Loss::Usage,
    Loss::Models,
    Loss::Durations,
    Loss::Outputs,
    Loss::Stops,
    Loss::PartTokens,
    Loss::Kinds,
    Loss::Settings,
    Loss::AgentTypes,
    Loss::Identifiers,
];

/// The format, both ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bailian;

/// A chat as it is stated; its time in milliseconds.
struct Chat {
    id: i64,
    parent: Option<i64>,
    time: i64,
    request: Request,
    ids: Ids,
}

impl Importer for Bailian {
    fn format(&self) -> SourceFormat {
        SourceFormat::Bailian
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        head.has(&["chat_id", "input_length", "timestamp"])
    }

    fn loss(&self) -> &'static [Loss] {
        LOSS
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        let mut report = ImportReport::default();
        let frame = Frame { block_size: options.block_size.unwrap_or(BLOCK), scope: Scope::Dataset };
        let (mut chats, mut known): (Vec<Chat>, HashMap<i64, usize>) = Default::default();
        // Chat ids of one file say nothing about another's.
        let mut groups: Vec<Vec<Chat>> = Vec::new();
        for source in sources {
            source.each(&mut report, |row, _, report| {
                let chat = Chat::read(row, frame.block_size, report)?;
                if known.insert(chat.id, chats.len()).is_some() {
                    return Err(RowError::new("chat_id", RowFault::Twice).into());
                }
                chats.push(chat);
                Ok(())
            })?;
            groups.extend(sessions(std::mem::take(&mut chats), &known, &mut report));
            known.clear();
        }
        groups.sort_by_key(|chats| chats.first().map(|chat| chat.time));
        let first = groups.first().and_then(|chats| Some(chats.first()?.time)).unwrap_or(0);
        report.inferred.note(Inferred::Origin, first != 0);
        let mut builder =
            Builder { block_size: frame.block_size, first, tree: TreeFromIds::new(), seen: HashSet::new() };
        for chats in groups {
            take(frame, builder.session(chats, &mut report))?;
        }
        Ok(report)
    }
}

impl Exporter for Bailian {
    fn format(&self) -> SourceFormat {
        SourceFormat::Bailian
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

impl Chat {
    fn read(row: &Object<'_>, block_size: u32, report: &mut ImportReport) -> Result<Self, RowError> {
        report.lost.add(Loss::Unknown, count(row.unknown(ROW)));
        let input = row.get("input_length", whole::<u32>)?;
        let ids = row.maybe("hash_ids", ids)?;
        if ids.as_ref().is_some_and(|ids| ![input / block_size, input.div_ceil(block_size)].contains(&ids.len())) {
            return Err(RowError::new("hash_ids", RowFault::Disagrees));
        }
        report.inferred.note(Inferred::Blocks, ids.is_none());
        let (time, exact) = row.get("timestamp", seconds)?;
        report.lost.note(Loss::Precision, !exact);
        let mut request = request(input, row.maybe("output_length", whole)?);
        let named = if row.raw("type").is_some() { "type" } else { "request_type" };
        let parts = row.maybe(named, |bytes| {
            let word = string(bytes)?;
            Ok(TYPES.iter().find(|(name, _)| *name == word).map(|(_, parts)| *parts))
        })?;
        report.lost.note(Loss::Parts, parts == Some(None));
        request.input_parts = parts.flatten().unwrap_or_default();
        row.maybe("turn", whole::<u32>)?;
        report.anomalies.note(Anomaly::EmptyOutput, request.output_tokens == Some(0));
        let parent = row.maybe("parent_chat_id", whole::<i64>)?.filter(|parent| *parent >= 0);
        Ok(Self { id: row.get("chat_id", whole)?, parent, time, request, ids: ids.unwrap_or_default() })
    }
}

/// Groups the chats of a file by their links, each group in order of time; parents stand before those that go on from them.
fn sessions(chats: Vec<Chat>, known: &HashMap<i64, usize>, report: &mut ImportReport) -> Vec<Vec<Chat>> {
    let parent = |chat: &Chat| chat.parent.and_then(|parent| known.get(&parent)).copied();
    let dangling = chats.iter().filter(|chat| chat.parent.is_some() && parent(chat).is_none()).count();
    report.anomalies.add(Anomaly::DanglingLinks, count(dangling));
    let above: Vec<Option<usize>> = chats.iter().map(parent).collect();
    let root = |chat: usize| {
        let mut root = chat;
        // A link into a circle leads nowhere after as many steps as there are chats.
        for _ in 0..above.len() {
            match above.get(root).copied().flatten() {
                Some(parent) => root = parent,
                None => break,
            }
        }
        root
    };
    let roots: Vec<usize> = (0..chats.len()).map(root).collect();
    let mut groups: Groups<usize, Vec<Chat>> = Groups::default();
    let mut latest = i64::MIN;
    for (chat, root) in chats.into_iter().zip(roots) {
        report.anomalies.note(Anomaly::Unordered, chat.time < latest);
        latest = latest.max(chat.time);
        groups.of(root).push(chat);
    }
    let mut sessions: Vec<Vec<Chat>> = groups.into_groups().collect();
    for session in &mut sessions {
        session.sort_by_key(|chat| chat.time);
    }
    sessions
}

struct Builder {
    block_size: u32,
    /// When the first session began.
    first: i64,
    tree: TreeFromIds,
    /// Every id that stood anywhere.
    seen: HashSet<u64>,
}

impl Builder {
    fn session(&mut self, chats: Vec<Chat>, report: &mut ImportReport) -> Session {
        let begin = chats.first().map_or(0, |chat| chat.time);
        let rows: HashMap<i64, u32> = (0..).zip(&chats).map(|(row, chat)| (chat.id, row)).collect();
        let since = |time: i64| u64::try_from(time.saturating_sub(begin)).unwrap_or(0);
        let mut edges = Vec::new();
        for (row, chat) in (0..).zip(&chats) {
            let before = chat.parent.and_then(|parent| rows.get(&parent)).copied();
            // One that is said to go on from a later one does not wait for it.
            report.anomalies.note(Anomaly::DanglingLinks, before.is_some_and(|before| before >= row));
            if let Some(before) = before.filter(|before| *before < row) {
                let earlier = usize::try_from(before).ok().and_then(|before| chats.get(before));
                let pause = earlier.map_or(0, |earlier| since(chat.time) - since(earlier.time));
                edges.push(sequence(before, row, pause, DelayKind::None, Evidence::Stated));
            }
        }
        sort_edges(&mut edges);
        let (mut requests, mut lists) = (Vec::with_capacity(chats.len()), Vec::with_capacity(chats.len()));
        for (turn, chat) in (0..).zip(chats) {
            requests.push(Request { turn, start_ms: Some(since(chat.time)), ..chat.request });
            lists.push(chat.ids);
        }
        report.inferred.add(Inferred::Tails, self.tree.fill(&mut requests, lists.iter().cloned(), self.block_size));
        for (request, ids) in requests.iter().zip(&lists) {
            let shared = usize::try_from(request.prefix.shared_blocks).unwrap_or(usize::MAX);
            let full = usize::try_from(request.blocks(self.block_size)).unwrap_or(0);
            let new = || ids.iter().take(full).skip(shared);
            report.lost.add(Loss::MovedBlocks, count(new().filter(|id| self.seen.contains(id)).count()));
            self.seen.extend(new());
        }
        conversation(u64::try_from(begin.saturating_sub(self.first)).ok(), requests, edges)
    }
}
