//! Reading Mooncake rows, and telling sessions by what leads what.
//!
//! Invariant: a row goes on a session only if that session's latest prompt leads it block for block, and no other row goes on from
//! there: a head that many prompts share binds none of them.

use std::collections::HashMap;

use crate::format::foreign::json::{Object, ids, scaled, string, whole};
use crate::format::foreign::session::{self as rows, fingerprint, sequence};
use crate::format::foreign::{
    ForeignError, Frame, Ids, ImportOptions, ImportReport, RowError, RowFault, Source, Take, TreeFromIds,
};
use crate::trace::Session;
use crate::trace::vocab::{Anomaly, DelayKind, Evidence, Inferred, Loss, Scope};

/// Members that rows have.
pub(super) const KNOWN: &[&str] = &[
    "timestamp",
    "input_length",
    "output_length",
    "hash_ids",
    "delay",
    "session_id",
    "type",
    "priority",
    "extra",
    "model",
];
/// What Mooncake's own traces have.
const BLOCK_SIZE: u32 = 512;

/// Ids from here on stand for blocks that rows do not name.
const PRIVATE_IDS: u64 = 1 << 62;

/// A request as it is stated.
struct Row {
    /// Milliseconds.
    timestamp: Option<i64>,
    delay: Option<u64>,
    /// A number for the session that it names.
    session: Option<usize>,
    input: u32,
    output: Option<u32>,
    /// Of its full blocks.
    ids: Ids,
}

/// Reads all rows, since a session may go on anywhere, and hands out the sessions.
pub(super) fn import(sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
    let block_size = options.block_size.unwrap_or(BLOCK_SIZE);
    let mut report = ImportReport::default();
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut stated: Vec<Row> = Vec::new();
    for source in sources {
        source.each(&mut report, |row, _, report| {
            stated.push(Row::read(row, block_size, &mut names, report)?);
            Ok(())
        })?;
    }
    let origin = stated.iter().filter_map(|row| row.timestamp).min().unwrap_or(0);
    report.inferred.note(Inferred::Origin, origin != 0);
    let named = !stated.is_empty() && stated.iter().all(|row| row.session.is_some());
    if !named {
        let late = stated.windows(2).filter(|pair| matches!(pair, [one, two] if two.timestamp < one.timestamp));
        report.anomalies.add(Anomaly::Unordered, crate::format::count(late.count()));
        stated.sort_by_key(|row| row.timestamp);
    }
    let sessions = if named { by_name(&stated, names.len()) } else { by_prefix(&stated, &mut report) };
    let mut slots: Vec<Option<Row>> = stated.into_iter().map(Some).collect();
    let mut tree = TreeFromIds::new();
    let mut seen = std::collections::HashSet::new();
    let mut private = PRIVATE_IDS;
    for members in sessions {
        let mut members: Vec<Row> = members.iter().filter_map(|row| slots.get_mut(*row)?.take()).collect();
        if named {
            accumulate(&mut members, block_size, &mut private, &mut report);
        }
        let session = session(members, origin, block_size, &mut tree, &mut report);
        report.anomalies.note(Anomaly::DuplicateSessions, !seen.insert(fingerprint(&session)));
        take(Frame { block_size, scope: Scope::Dataset }, session)?;
    }
    Ok(report)
}

impl Row {
    fn read(
        row: &Object<'_>,
        block_size: u32,
        names: &mut HashMap<String, usize>,
        report: &mut ImportReport,
    ) -> Result<Self, RowError> {
        report.lost.add(Loss::Unknown, crate::format::count(row.unknown(KNOWN)));
        let timestamp = row.maybe("timestamp", |bytes| scaled(bytes, 0))?;
        let delay = row.maybe("delay", |bytes| scaled(bytes, 0))?;
        report.lost.note(Loss::Precision, [timestamp, delay].iter().flatten().any(|(_, exact)| !exact));
        report.anomalies.note(Anomaly::Negative, delay.is_some_and(|(delay, _)| delay < 0));
        let session = row.maybe("session_id", |bytes| {
            string(bytes).map(std::borrow::Cow::into_owned).or_else(|_| whole::<u64>(bytes).map(|id| id.to_string()))
        })?;
        report.lost.note(Loss::Identifiers, session.is_some());
        let known = names.len();
        let session = session.map(|name| *names.entry(name).or_insert(known));
        let input = row.get("input_length", whole::<u32>)?;
        let mut ids = row.maybe("hash_ids", ids)?.unwrap_or_default();
        if ids.len() > input.div_ceil(block_size) {
            return Err(RowError::new("hash_ids", RowFault::TooMany));
        }
        report.inferred.note(Inferred::Blocks, ids.len() < input / block_size);
        report.lost.note(Loss::PartialBlocks, ids.len() > input / block_size);
        ids.truncate(input / block_size);
        let output = row.maybe("output_length", whole::<u32>)?;
        report.anomalies.note(Anomaly::EmptyOutput, output == Some(0));
        Ok(Self {
            timestamp: timestamp.map(|(time, _)| time),
            delay: delay.map(|(delay, _)| u64::try_from(delay).unwrap_or(0)),
            session,
            input,
            output,
            ids,
        })
    }
}

/// Rows of each session, by the name that they give.
fn by_name(rows: &[Row], sessions: usize) -> Vec<Vec<usize>> {
    let mut members = vec![Vec::new(); sessions];
    for (row, stated) in rows.iter().enumerate() {
        if let Some(session) = stated.session.and_then(|session| members.get_mut(session)) {
            session.push(row);
        }
    }
    members
}

/// Rows that name their session may state only what is new since the turn before and its answer, as AIPerf reads them: such a
/// prompt is the whole turn before, its answer, and what is new.
fn accumulate(members: &mut [Row], block_size: u32, private: &mut u64, report: &mut ImportReport) {
    let mut before: Option<(u32, u32, Ids)> = None;
    for row in members {
        if let Some((input, output, ids)) = before.take()
            && (ids.is_empty() || row.ids.common(&ids) < ids.len())
        {
            row.input = row.input.saturating_add(input).saturating_add(output);
            row.ids = ids;
            report.inferred.note(Inferred::Lengths, true);
        }
        while row.ids.len() < row.input / block_size {
            row.ids.push(*private);
            *private += 1;
        }
        before = Some((row.input, row.output.unwrap_or(0), row.ids.clone()));
    }
}

/// Rows of each session, by prompts that lead one another.
fn by_prefix(rows: &[Row], report: &mut ImportReport) -> Vec<Vec<usize>> {
    // What follows a block: one id, or several.
    let mut after: HashMap<u64, (u64, bool)> = HashMap::new();
    for row in rows {
        let mut before = None;
        for id in row.ids.iter() {
            if let Some(before) = before.replace(id) {
                let next = after.entry(before).or_insert((id, false));
                next.1 |= next.0 != id;
            }
        }
    }
    let mut sessions: Vec<Vec<usize>> = Vec::new();
    // By the last block of a session's latest prompt.
    let mut tails: HashMap<u64, usize> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        let goes_on = row.ids.iter().enumerate().filter_map(|(depth, id)| Some((depth, id, *tails.get(&id)?))).last();
        let session = goes_on.filter(|(depth, id, session)| {
            let latest = sessions.get(*session).and_then(|session| rows.get(*session.last()?));
            let leads = latest.is_some_and(|latest| latest.ids.common(&row.ids) == latest.ids.len());
            let further = usize::try_from(row.ids.len()).is_ok_and(|length| length > depth + 1);
            leads && further && after.get(id).is_some_and(|(_, forks)| !forks)
        });
        let session = if let Some((_, id, session)) = session {
            tails.remove(&id);
            report.inferred.note(Inferred::Sessions, true);
            session
        } else {
            sessions.push(Vec::new());
            sessions.len() - 1
        };
        if let Some(members) = sessions.get_mut(session) {
            members.push(at);
        }
        if let Some(last) = row.ids.iter().last() {
            tails.insert(last, session);
        }
    }
    sessions
}

fn session(
    members: Vec<Row>,
    origin: i64,
    block_size: u32,
    tree: &mut TreeFromIds,
    report: &mut ImportReport,
) -> Session {
    let since = |time: i64, origin: i64| u64::try_from(time.saturating_sub(origin)).ok();
    let begun = members.first().and_then(|row| row.timestamp);
    let timed = members.iter().all(|row| row.timestamp.is_some()) && members.is_sorted_by_key(|row| row.timestamp);
    let mut requests = Vec::with_capacity(members.len());
    let mut edges = Vec::new();
    let mut before: Option<i64> = None;
    for (turn, row) in (0_u32..).zip(&members) {
        let start = begun.zip(row.timestamp).and_then(|(begun, time)| since(time, begun));
        requests.push(crate::trace::Request {
            turn,
            start_ms: start.filter(|_| timed),
            ..rows::request(row.input, row.output)
        });
        if let Some(from) = turn.checked_sub(1) {
            let gap = before.zip(row.timestamp).and_then(|(before, time)| since(time, before)).unwrap_or(0);
            report.inferred.note(Inferred::Sequence, row.delay.is_none());
            let (delay, evidence) = row.delay.map_or((gap, Evidence::Time), |delay| (delay, Evidence::Stated));
            edges.push(sequence(from, turn, delay, DelayKind::None, evidence));
        }
        before = row.timestamp;
    }
    let tails = tree.fill(&mut requests, members.into_iter().map(|row| row.ids), block_size);
    report.inferred.add(Inferred::Tails, tails);
    rows::conversation(begun.and_then(|begun| since(begun, origin)), requests, edges)
}
