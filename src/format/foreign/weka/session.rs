//! From a WEKA object to a session: true times, send order, edges.
//!
//! Invariant: the think time of a request is the latest of (trigger + delay) over its edges, less the end of the turn before; so
//! an export works it out again.

use super::agents::{Placed, link};
use super::read::{Conversation, Row, Trace};
use crate::format::foreign::session::{self as rows, Models, delay_kind, ended, sequence, sort_edges};
use crate::format::foreign::{Ids, ImportReport, RowError, RowFault, TreeFromIds};
use crate::trace::vocab::{AgentKind, Anomaly, Evidence, Harness, Inferred, Loss, Scope};
use crate::trace::{Edge, Request, Session};

/// Times are often whole seconds: two of them may be apart by this much more, in milliseconds.
pub(super) const SLACK_MS: u64 = 1000;

/// A request on its way into the session.
struct Stated<'a> {
    agent: u32,
    /// Since the origin of the file's times.
    start: i64,
    tools_tokens: Option<u32>,
    system_tokens: Option<u32>,
    row: Row<'a>,
}

/// Makes the session of a trace.
pub(super) fn build(trace: Trace<'_>, tree: &mut TreeFromIds, report: &mut ImportReport) -> Result<Session, RowError> {
    let Trace { number, block_size, scope, main, agents } = trace;
    let placed: Vec<Placed> = agents.iter().map(|agent| Placed::new(agent, report)).collect();
    let mut stated = Vec::new();
    add(&mut stated, 0, 0, main, report);
    for (number, (agent, placed)) in (1..).zip(agents.into_iter().zip(&placed)) {
        add(&mut stated, number, placed.base(), agent.conversation, report);
    }
    stated.sort_by_key(|stated| stated.start);
    let origin = stated.first().map_or(0, |stated| stated.start);
    report.inferred.note(Inferred::Origin, origin != 0);
    let think: Vec<Option<i64>> = stated.iter().map(|stated| stated.row.think_ms).collect();
    let (mut models, mut turns) = (Models::default(), vec![0; placed.len() + 1]);
    let mut lists: Vec<Ids> = Vec::with_capacity(stated.len());
    let mut requests = Vec::with_capacity(stated.len());
    for mut stated in stated {
        let turn = turns.get_mut(usize::try_from(stated.agent).unwrap_or(usize::MAX));
        lists.push(std::mem::take(&mut stated.row.ids));
        requests.push(request(&stated, turn.map_or(0, next), origin, &mut models, report));
    }
    let unique = tree.unique_blocks();
    let (least, most) = span(&lists);
    report.inferred.add(Inferred::Tails, tree.fill(&mut requests, lists, block_size));
    let gaps = most.saturating_sub(least).saturating_sub(tree.unique_blocks() - unique);
    report.anomalies.add(Anomaly::IdGaps, if scope == Scope::Session { gaps } else { 0 });
    let mut session = Session {
        start_ms: None,
        harness: if requests.iter().all(|request| request.model.name().is_some_and(|name| name.starts_with("claude"))) {
            Harness::ClaudeCode
        } else {
            Harness::Other
        },
        source_number: number,
        agents: vec![rows::agent(AgentKind::Main)],
        edges: sequences(&requests, &think, report),
        requests,
        tools: Vec::new(),
    };
    link(&mut session, &placed, origin, report);
    sort_edges(&mut session.edges);
    if session.edges.windows(2).any(
        |pair| matches!(pair, [one, two] if one.to == two.to && one.from == two.from && one.relation == two.relation),
    ) {
        return Err(RowError::new("requests", RowFault::Twice));
    }
    Ok(session)
}

/// Adds the requests of one agent.
fn add<'a>(
    stated: &mut Vec<Stated<'a>>,
    agent: u32,
    base: i64,
    conversation: Conversation<'a>,
    report: &mut ImportReport,
) {
    let Conversation { mut tools_tokens, mut system_tokens, rows } = conversation;
    report.lost.note(Loss::Starts, rows.first().is_some_and(|row| row.think_ms.is_some_and(|think| think != 0)));
    let mut latest = i64::MIN;
    for row in rows {
        report.anomalies.note(Anomaly::Unordered, row.t < latest);
        latest = latest.max(row.t);
        let (tools_tokens, system_tokens) = (tools_tokens.take(), system_tokens.take());
        stated.push(Stated { agent, start: base.saturating_add(row.t), tools_tokens, system_tokens, row });
    }
}

fn request(stated: &Stated<'_>, turn: u32, origin: i64, models: &mut Models, report: &mut ImportReport) -> Request {
    let Stated { agent, start, tools_tokens, system_tokens, row } = stated;
    let (model, renamed) = models.number(&row.model);
    report.lost.note(Loss::Models, renamed);
    report.anomalies.note(Anomaly::EmptyOutput, row.output == 0);
    Request {
        agent: *agent,
        turn,
        model,
        start_ms: u64::try_from(start.saturating_sub(origin)).ok(),
        duration_ms: row.api_ms,
        ttft_ms: row.ttft_ms,
        stop: row.stop,
        streaming: Some(row.streaming),
        tools_tokens: *tools_tokens,
        system_tokens: *system_tokens,
        input_parts: row.input_parts,
        output_parts: row.output_parts,
        ..rows::request(row.input, Some(row.output))
    }
}

fn next(turn: &mut u32) -> u32 {
    let this = *turn;
    *turn += 1;
    this
}

/// The least id, and one more than the greatest.
fn span(lists: &[Ids]) -> (u64, u64) {
    let runs = || lists.iter().flat_map(Ids::runs);
    let least = runs().map(|(first, _)| *first).min().unwrap_or(0);
    (least.min(1), runs().map(|(first, count)| first.saturating_add((*count).into())).max().unwrap_or(0))
}

/// From turn to turn of each agent.
fn sequences(requests: &[Request], think: &[Option<i64>], report: &mut ImportReport) -> Vec<Edge> {
    let mut latest: Vec<Option<(u32, &Request)>> = Vec::new();
    let mut edges = Vec::with_capacity(requests.len());
    for ((row, request), think) in (0..).zip(requests).zip(think) {
        let agent = usize::try_from(request.agent).unwrap_or(usize::MAX);
        latest.resize(latest.len().max(agent + 1), None);
        let Some(slot) = latest.get_mut(agent) else { continue };
        if let Some((from, before)) = slot.replace((row, request)) {
            let gap = request.start_ms.zip(ended(before)).map_or(0, |(start, end)| start.saturating_sub(end));
            let overlap = request.start_ms.zip(ended(before)).is_some_and(|(start, end)| start + SLACK_MS < end);
            report.anomalies.note(Anomaly::Overlap, overlap);
            report.anomalies.note(Anomaly::Negative, think.is_some_and(|think| think < 0));
            report.inferred.note(Inferred::Sequence, think.is_none());
            let (delay, evidence) = match think {
                Some(think) => (u64::try_from(*think).unwrap_or(0), Evidence::Stated),
                None => (gap, Evidence::Time),
            };
            edges.push(sequence(from, row, delay, delay_kind(before, request), evidence));
        }
    }
    edges
}
