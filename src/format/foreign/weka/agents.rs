//! Subagents of a WEKA object: when they began, which request started them, which waited for them.
//!
//! Invariant: an agent's marker, duration and nested times can be told from its tool call and its requests. Spawn and join edges
//! rest on time alone, and say so.

use super::read::Subagent;
use super::session::SLACK_MS;
use crate::format::foreign::ImportReport;
use crate::format::foreign::session::{agent, ended};
use crate::trace::vocab::{
    AgentKind, AgentStatus, Anomaly, DelayKind, Evidence, Inferred, Relation, ToolClass, Trigger,
};
use crate::trace::{Agent, Edge, Session, ToolCall};

/// A subagent whose start is known.
pub(super) struct Placed {
    agent: Agent,
    /// Since the origin of the file's times.
    start: i64,
    duration_ms: Option<u32>,
    /// Whether nested times count from its start.
    relative: bool,
}

impl Placed {
    /// Works out when a subagent began.
    pub(super) fn new(stated: &Subagent<'_>, report: &mut ImportReport) -> Self {
        let Subagent { t, agent_type, status, duration_ms, total_tokens, tool_calls, .. } = *stated;
        let first = stated.conversation.rows.iter().map(|row| row.t).min().unwrap_or(0);
        // Nested times before the marker can't be counted from the session's beginning.
        let relative = first < t;
        report.inferred.note(if relative { Inferred::RelativeTimes } else { Inferred::AbsoluteTimes }, true);
        // kv-cache-tester writes a finished agent where its result came back.
        let lasted = duration_ms.filter(|duration| {
            relative && status == Some(AgentStatus::Completed) && i64::from(*duration) <= t && *duration > 0
        });
        report.anomalies.note(Anomaly::EndAsStart, lasted.is_some());
        report.inferred.note(Inferred::AgentStarts, lasted.is_some());
        let background = status == Some(AgentStatus::AsyncLaunched);
        let kind = if background { AgentKind::Background } else { AgentKind::Subagent };
        Self {
            agent: Agent { agent_type, status, total_tokens, tool_calls, ..agent(kind) },
            start: t - i64::from(lasted.unwrap_or(0)),
            duration_ms,
            relative,
        }
    }

    /// What its nested times count from.
    pub(super) fn base(&self) -> i64 {
        if self.relative { self.start } else { 0 }
    }
}

/// Adds the agents to a session whose requests are in order, with their edges and the tool calls that started them.
pub(super) fn link(session: &mut Session, placed: &[Placed], origin: i64, report: &mut ImportReport) {
    let mut joins: Vec<(u32, u32)> = Vec::new();
    for (number, placed) in (1..).zip(placed) {
        let Placed { mut agent, duration_ms, relative, start } = *placed;
        let slack = if relative { SLACK_MS } else { 0 };
        let own = || (0_u32..).zip(&session.requests).filter(|(_, request)| request.agent == number);
        let main = || (0_u32..).zip(&session.requests).filter(|(_, request)| request.agent == 0);
        let start_ms = u64::try_from(start.saturating_sub(origin)).unwrap_or(0);
        if let (Some((first, request)), Some((last, ending))) = (own().next(), own().last()) {
            let spawn = main().take_while(|(row, _)| *row < first).last();
            report.anomalies.note(Anomaly::DanglingLinks, spawn.is_none());
            if let Some((row, parent)) = spawn {
                agent.spawn_request = Some(row);
                report.inferred.note(Inferred::Spawn, true);
                session.edges.push(spawn_edge(row, first, ended(parent), parent.start_ms, request.start_ms, slack));
            }
            let end = duration_ms.map(|duration| start_ms + u64::from(duration)).max(ended(ending));
            let waits = agent.kind == AgentKind::Subagent;
            let join = main().find(|(row, request)| {
                waits && *row > last && request.start_ms.zip(end).is_some_and(|(start, end)| start + slack >= end)
            });
            let join = join.filter(|(row, _)| waited(session, *row, ended(ending)));
            if let Some((row, _)) = join {
                agent.join_request = Some(row);
                report.inferred.note(Inferred::Join, true);
                joins.push((last, row));
            }
        }
        if let Some(request) = agent.spawn_request {
            session.tools.push(ToolCall {
                request,
                index: 0,
                class: ToolClass::Agent,
                is_error: None,
                consumer_request: agent.join_request,
                child_agent: Some(number),
                start_ms: Some(start_ms),
                duration_ms,
                input_tokens: None,
                output_tokens: None,
            });
        }
        session.agents.push(agent);
    }
    session.tools.sort_by_key(|tool| (tool.request, tool.child_agent));
    let mut latest = None;
    for tool in &mut session.tools {
        tool.index = match latest {
            Some((request, index)) if request == tool.request => index + 1,
            _ => 0,
        };
        latest = Some((tool.request, tool.index));
    }
    join(session, &joins);
}

/// Whether a request can have waited for an agent that ended then: not if it is said to have followed its turn before at once,
/// when the agent still ran.
fn waited(session: &Session, row: u32, end: Option<u64>) -> bool {
    let turn = session.edges.iter().find(|edge| edge.to == row && edge.relation == Relation::Sequence);
    let before = turn.and_then(|turn| session.requests.get(usize::try_from(turn.from).ok()?)).and_then(ended);
    turn.is_none_or(|turn| turn.delay_ms > 0 || before >= end)
}

fn spawn_edge(
    from: u32,
    to: u32,
    parent_end: Option<u64>,
    parent_start: Option<u64>,
    start: Option<u64>,
    slack: u64,
) -> Edge {
    let since = |time: Option<u64>| start.zip(time).map_or(0, |(start, time)| start.saturating_sub(time));
    let after = start.zip(parent_end).is_some_and(|(start, end)| start + slack >= end);
    let (trigger, delay_ms) =
        if after { (Trigger::Completion, since(parent_end)) } else { (Trigger::Dispatch, since(parent_start)) };
    Edge {
        to,
        from,
        relation: Relation::Spawn,
        trigger,
        delay_ms,
        delay_kind: DelayKind::Agent,
        evidence: Evidence::Time,
    }
}

/// Adds the join edges. The pause before a request that waited for agents goes to the edge whose trigger came last.
fn join(session: &mut Session, joins: &[(u32, u32)]) {
    let end = |row: u32| session.requests.get(usize::try_from(row).unwrap_or(usize::MAX)).and_then(ended).unwrap_or(0);
    let mut targets: Vec<u32> = joins.iter().map(|(_, to)| *to).collect();
    targets.sort_unstable();
    targets.dedup();
    for to in targets {
        let from = || joins.iter().filter(|(_, target)| *target == to).map(|(last, _)| *last);
        let latest = from().max_by_key(|last| (end(*last), *last));
        let turn = session.edges.iter_mut().find(|edge| edge.to == to && edge.relation == Relation::Sequence);
        let mut rest = 0;
        if let (Some(turn), Some(latest)) = (turn, latest) {
            let planned = end(turn.from) + turn.delay_ms;
            if end(latest) >= end(turn.from) && planned >= end(latest) && turn.delay_kind != DelayKind::User {
                rest = planned - end(latest);
                turn.delay_ms = 0;
            }
        }
        session.edges.extend(from().map(|last| Edge {
            to,
            from: last,
            relation: Relation::Join,
            trigger: Trigger::Completion,
            delay_ms: if Some(last) == latest { rest } else { 0 },
            delay_kind: DelayKind::Agent,
            evidence: Evidence::Time,
        }));
    }
}
