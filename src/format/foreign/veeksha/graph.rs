//! From rows of `timed_synthetic_session` to sessions.
//!
//! Invariant: each request waits for every parent, and the wait stands on each of those edges: it counts from the last of them.

use std::collections::HashMap;

use super::read::{Context, Row, sessions};
use crate::format::foreign::graph;
use crate::format::foreign::session::{request, sort_edges};
use crate::format::foreign::{ForeignError, Frame, ImportOptions, ImportReport, RowError, RowFault, Source, Take};
use crate::format::tokens::{Fresh, Planter, Prompt};
use crate::trace::vocab::{Anomaly, DelayKind, Evidence, Harness, Inferred, Loss, Relation, Scope, Trigger};
use crate::trace::{Edge, Request, Session};

/// Tokens per block, which the format does not have.
const BLOCK: u32 = 64;

/// A row whose links are places of rows.
struct Node {
    parents: Vec<usize>,
    history: Option<usize>,
}

pub(super) fn import(sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
    let mut report = ImportReport::default();
    let frame = Frame { block_size: options.block_size.unwrap_or(BLOCK), scope: Scope::Session };
    let mut planter = Planter::new(frame.block_size, true);
    for mut rows in sessions(sources, &mut report)? {
        let nodes = nodes(&mut rows)?;
        planter.begin_session();
        take(frame, session(&rows, &nodes, &mut planter, &mut report)?)?;
    }
    Ok(report)
}

/// Resolves the links; rows without any are a line.
fn nodes(rows: &mut [Row]) -> Result<Vec<Node>, ForeignError> {
    let stated = rows.iter().filter(|row| row.context.is_some()).count();
    let fault = |row: &Row, field, fault| RowError::new(field, fault).at(row.place.0, row.place.1);
    if stated < rows.len() {
        if let Some(row) = rows.iter().find(|row| stated > 0 && row.context.is_none()) {
            return Err(fault(row, "session_context", RowFault::Missing));
        }
        if rows.iter().all(|row| row.turn.is_some()) {
            rows.sort_by_key(|row| row.turn);
        }
        let line = (0..rows.len()).map(|row| {
            let history = row.checked_sub(1);
            Node { parents: history.into_iter().collect(), history }
        });
        return Ok(line.collect());
    }
    let mut places = HashMap::new();
    for (place, row) in rows.iter().enumerate() {
        let twice = row.context.as_ref().is_some_and(|context| places.insert(context.node, place).is_some());
        if twice {
            return Err(fault(row, "node_id", RowFault::Twice));
        }
    }
    let mut nodes = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let Some(Context { parents, history, .. }) = &row.context else { continue };
        let mut named = Vec::with_capacity(parents.len());
        for parent in parents {
            let place = *places.get(parent).ok_or_else(|| fault(row, "parent_nodes", RowFault::Dangling))?;
            if named.contains(&place) {
                return Err(fault(row, "parent_nodes", RowFault::Twice));
            }
            named.push(place);
        }
        if history.is_some_and(|history| !parents.contains(&history)) {
            return Err(fault(row, "history_parent", RowFault::Disagrees));
        }
        nodes.push(Node { parents: named, history: history.and_then(|history| places.get(&history)).copied() });
    }
    Ok(nodes)
}

fn session(
    rows: &[Row],
    nodes: &[Node],
    planter: &mut Planter,
    report: &mut ImportReport,
) -> Result<Session, ForeignError> {
    let waits_for: Vec<Vec<usize>> = nodes.iter().map(|node| node.parents.clone()).collect();
    let circle = || {
        let (file, row) = rows.first().map_or((0, 0), |row| row.place);
        RowError::new("parent_nodes", RowFault::Disagrees).at(file, row)
    };
    let order = graph::order(&waits_for).ok_or_else(circle)?;
    let places = graph::places(&order);
    let threads = threads(nodes, &order);
    let mut edges = Vec::new();
    let (mut prompts, mut answers) = (vec![Prompt::default(); rows.len()], vec![Prompt::default(); rows.len()]);
    let mut fresh = Fresh::default();
    let (mut requests, mut sorted): (Vec<Request>, Vec<Prompt>) = Default::default();
    for &at in &order {
        let (Some(row), Some(node)) = (rows.get(at), nodes.get(at)) else { continue };
        let history = node.history.map_or_else(Prompt::default, |history| {
            let whole = prompts.get(history).cloned().unwrap_or_default();
            let length = whole.tokens();
            let both = whole.with(answers.get(history).unwrap_or(&Prompt::default()));
            // A stated length that leaves no room for the whole answer wins: the lengths are the source's.
            both.head(row.input.filter(|input| *input >= length).unwrap_or(u32::MAX))
        });
        let sent = history.tokens().saturating_add(row.new);
        let input = row.input.filter(|input| *input >= history.tokens()).unwrap_or(sent);
        report.anomalies.note(Anomaly::Totals, row.input.is_some_and(|stated| stated != sent));
        report.inferred.note(Inferred::Lengths, row.input.is_none());
        let prompt = history.clone().with(&fresh.tokens(input - history.tokens()));
        if let (Some(slot), Some(answer)) = (prompts.get_mut(at), answers.get_mut(at)) {
            slot.clone_from(&prompt);
            *answer = fresh.tokens(row.output);
        }
        let mut request = request(input, Some(row.output));
        request.agent = threads.get(at).copied().unwrap_or(0);
        requests.push(request);
        sorted.push(prompt);
        report.lost.note(Loss::Starts, node.parents.is_empty() && row.wait_ms > 0);
        for (place, &from) in node.parents.iter().enumerate() {
            let own = threads.get(from) == threads.get(at);
            let leads = node.history.map_or(place == 0, |history| history == from);
            let relation = match (leads, own) {
                (true, true) => Relation::Sequence,
                (true, false) => Relation::Spawn,
                (false, _) => Relation::Join,
            };
            edges.push(Edge {
                to: places.get(at).copied().unwrap_or(0),
                from: places.get(from).copied().unwrap_or(0),
                relation,
                trigger: Trigger::Completion,
                delay_ms: row.wait_ms,
                delay_kind: DelayKind::None,
                evidence: Evidence::Stated,
            });
        }
    }
    sort_edges(&mut edges);
    planter.fill(&mut requests, &sorted);
    Ok(Session {
        start_ms: None,
        harness: Harness::Other,
        source_number: None,
        agents: graph::agents(&mut requests, &edges),
        requests,
        edges,
        tools: Vec::new(),
    })
}

/// A number for each row, the same for those that are one agent: a row goes on with the agent that it has its history from, if no
/// other row does; of several, the first that waits for others too. The rest began agents of their own.
fn threads(nodes: &[Node], order: &[usize]) -> Vec<u32> {
    let mut heirs: HashMap<usize, Vec<usize>> = HashMap::new();
    for (row, node) in nodes.iter().enumerate() {
        if let Some(history) = node.history {
            heirs.entry(history).or_default().push(row);
        }
    }
    let mut threads = vec![0; nodes.len()];
    let mut next = 0;
    for &row in order {
        let history = nodes.get(row).and_then(|node| node.history);
        let goes_on = history.filter(|history| match heirs.get(history).map_or(&[][..], Vec::as_slice) {
            [_] => true,
            heirs => {
                let waits = |heir: &&usize| nodes.get(**heir).is_some_and(|node| node.parents.len() > 1);
                heirs.iter().find(waits) == Some(&row)
            }
        });
        let thread = goes_on.and_then(|history| threads.get(history)).copied().unwrap_or_else(|| {
            next += 1;
            next - 1
        });
        if let Some(slot) = threads.get_mut(row) {
            *slot = thread;
        }
    }
    threads
}
