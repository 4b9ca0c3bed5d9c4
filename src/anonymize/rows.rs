//! From the drafts of a session to its rows, exact, before any profile.
//!
//! Invariant: rows are a function of drafts, threads, lineage and edges; block ids and published order come later.

use std::collections::HashMap;

use crate::trace::vocab::{AgentKind, AgentType, Relation, RequestKind, Status, ToolClass};
use crate::trace::{Agent, Edge, Model, Prefix, Request, Session, ToolCall};

use super::chains::{Chains, Prompt};
use super::draft::{Draft, ModelName};
use super::edges::{self, Times};
use super::key::Tag;
use super::lineage::{self, CallAt, Lineage};
use super::threads::Threads;

/// A session with what the prefix tree still needs.
pub(super) struct Exact {
    pub(super) session: Session,
    /// By request.
    pub(super) prompts: Vec<Prompt>,
    /// Wall clock, microseconds: for kept arrivals only.
    pub(super) start_us: i64,
    pub(super) found: Found,
}

/// What was and was not found, for the summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Agents but the main ones.
    pub subagents: u64,
    /// Of those, agents whose start has no evidence.
    pub unmatched_agents: u64,
    /// Calls that start an agent of which no request was seen.
    pub unmatched_calls: u64,
    /// Requests, but the first of each session, that wait for nothing known.
    pub without_edge: u64,
}

impl Found {
    /// Adds up.
    pub(super) fn add(&mut self, other: &Self) {
        self.subagents += other.subagents;
        self.unmatched_agents += other.unmatched_agents;
        self.unmatched_calls += other.unmatched_calls;
        self.without_edge += other.without_edge;
    }
}

impl Exact {
    /// Leaves out the requests of a kind that no other request goes on from; gives how many.
    pub(super) fn drop_kind(&mut self, kind: RequestKind) -> u64 {
        let mut place: Vec<Option<u32>> = Vec::with_capacity(self.session.requests.len());
        let mut next = 0;
        for request in &self.session.requests {
            place.push((request.kind != kind).then_some(next));
            next += u32::from(request.kind != kind);
        }
        let moved = |row: u32| place.get(usize::try_from(row).unwrap_or(usize::MAX)).copied().flatten();
        let dropped = place.iter().filter(|place| place.is_none()).count();
        let session = &mut self.session;
        session.requests.retain(|request| request.kind != kind);
        session.edges = session
            .edges
            .iter()
            .filter_map(|edge| Some(Edge { to: moved(edge.to)?, from: moved(edge.from)?, ..*edge }))
            .collect();
        let tools = session.tools.iter().filter_map(|tool| {
            Some(ToolCall {
                request: moved(tool.request)?,
                consumer_request: tool.consumer_request.and_then(moved),
                ..*tool
            })
        });
        session.tools = tools.collect();
        for agent in &mut session.agents {
            agent.spawn_request = agent.spawn_request.and_then(moved);
            agent.join_request = agent.join_request.and_then(moved);
        }
        let mut kept = place.iter();
        self.prompts.retain(|_| kept.next().is_some_and(Option::is_some));
        u64::try_from(dropped).unwrap_or(u64::MAX)
    }
}

/// The rows of one session.
pub(super) fn build(mut drafts: Vec<Draft>, chains: &Chains) -> Exact {
    let threads = Threads::new(&drafts, chains);
    settle_cuts(&mut drafts, &threads);
    let lineage = lineage::find(&drafts, &threads);
    let begin = drafts.first().map_or(0, |draft| draft.start_us);
    let times: Vec<Times> = drafts.iter().map(|draft| times(draft, begin)).collect();
    let (edges, without_edge) = edges::find(&drafts, &threads, &lineage, &times);
    let mut unlisted: HashMap<Tag, u16> = HashMap::new();
    let turns = turns(&threads, &edges);
    let requests =
        drafts.iter().zip(&threads.requests).zip(&times).zip(turns).map(|(((draft, plan), times), turn)| Request {
            agent: narrow(plan.agent),
            turn,
            kind: plan.kind,
            model: match draft.model {
                ModelName::Listed(model) => model,
                ModelName::Unlisted(tag) => {
                    let next = u16::try_from(unlisted.len()).unwrap_or(u16::MAX);
                    Model::other(*unlisted.entry(tag).or_insert(next))
                }
            },
            input_tokens: draft.prompt.tokens,
            output_tokens: draft.usage.output,
            prefix: Prefix::default(),
            start_ms: Some(times.start),
            duration_ms: draft.duration_us.map(|_| milliseconds(times.end - times.start)),
            ttft_ms: draft.ttft_us.map(|ttft| milliseconds(ttft / 1000)),
            stop: draft.stop,
            status: draft.status,
            attempt: plan.attempt,
            streaming: draft.streaming,
            max_tokens: draft.max_tokens,
            usage: draft.usage,
            tools_tokens: Some(draft.tools_tokens),
            system_tokens: Some(draft.system_tokens),
            messages: Some(u16::try_from(draft.messages).unwrap_or(u16::MAX)),
            input_parts: draft.input_parts,
            output_parts: draft.output_parts,
        });
    let requests: Vec<Request> = requests.collect();
    let agents = agents(&threads, &lineage);
    let tools = tools(&drafts, &threads, &lineage, &times);
    let found = Found {
        subagents: u64::try_from(agents.len().saturating_sub(1)).unwrap_or(u64::MAX),
        unmatched_agents: lineage.unmatched_agents,
        unmatched_calls: lineage.unmatched_calls,
        without_edge,
    };
    let harness = drafts.iter().map(|draft| draft.harness).min().unwrap_or(crate::trace::vocab::Harness::Other);
    let session = Session { start_ms: None, harness, source_number: None, agents, requests, edges, tools };
    Exact { session, prompts: drafts.into_iter().map(|draft| draft.prompt).collect(), start_us: begin, found }
}

/// Places in the agents' threads: a retry keeps its number, and a side request takes that of the turn it hangs on.
fn turns(threads: &Threads, edges: &[Edge]) -> Vec<u32> {
    let mut next = vec![0; threads.agents.len()];
    let mut turns: Vec<u32> = Vec::with_capacity(threads.requests.len());
    for (at, plan) in threads.requests.iter().enumerate() {
        let turn_of = |request: usize| turns.get(request).copied().unwrap_or(0);
        let hangs_on = || {
            edges
                .iter()
                .find(|edge| edge.to == narrow(at) && edge.relation == Relation::Sequence)
                .and_then(|edge| usize::try_from(edge.from).ok())
        };
        let turn = match (plan.retries, plan.kind, next.get_mut(plan.agent)) {
            (Some(retried), _, _) => turn_of(retried),
            (None, RequestKind::Turn, Some(next)) => std::mem::replace(next, *next + 1),
            _ => hangs_on().map_or(0, turn_of),
        };
        turns.push(turn);
    }
    turns
}

/// A response that was cut, nobody recorded by whom: a client that then sent the same again had lost the connection.
fn settle_cuts(drafts: &mut [Draft], threads: &Threads) {
    for retried in threads.requests.iter().filter_map(|plan| plan.retries) {
        if let Some(draft) = drafts.get_mut(retried).filter(|draft| draft.cut_by_unknown) {
            draft.status = Status::NetworkError;
        }
    }
}

fn times(draft: &Draft, begin: i64) -> Times {
    let since = |moment: i64| u64::try_from(moment.saturating_sub(begin)).unwrap_or(0) / 1000;
    Times { start: since(draft.start_us), end: since(draft.end_us()) }
}

fn agents(threads: &Threads, lineage: &Lineage) -> Vec<Agent> {
    let depth = |mut agent: usize| {
        let mut depth = 0;
        while let Some(parent) = lineage
            .agents
            .get(agent)
            .and_then(|links| links.parent)
            .filter(|_| usize::from(depth) < threads.agents.len())
        {
            agent = parent;
            depth += 1;
        }
        depth
    };
    let rows = lineage.agents.iter().enumerate().map(|(agent, links)| Agent {
        parent_agent: links.parent.map(narrow),
        depth: depth(agent),
        kind: if agent == 0 { AgentKind::Main } else { links.kind.unwrap_or(AgentKind::Subagent) },
        agent_type: if agent == 0 { AgentType::Main } else { links.agent_type.unwrap_or(AgentType::Custom) },
        status: links.status,
        spawn_request: links.spawns.first().map(|spawn| narrow(spawn.call.request)),
        join_request: links.joins.last().map(|join| narrow(join.to)),
        total_tokens: links.tally.total_tokens,
        tool_calls: links.tally.tool_calls,
    });
    rows.collect()
}

fn tools(drafts: &[Draft], threads: &Threads, lineage: &Lineage, times: &[Times]) -> Vec<ToolCall> {
    let mut rows = Vec::new();
    for (request, draft) in drafts.iter().enumerate() {
        for (index, call) in draft.calls.iter().enumerate() {
            // A fork's own history repeats the call; its result belongs to the thread that made it.
            let agent = threads.requests.get(request).map(|plan| plan.agent);
            let consumer = lineage.answered.get(&call.id).into_iter().flatten().copied().find(|consumer| {
                *consumer > request && threads.requests.get(*consumer).map(|plan| plan.agent) == agent
            });
            let result = consumer
                .and_then(|consumer| drafts.get(consumer))
                .and_then(|consumer| consumer.results.iter().find(|result| result.call == call.id));
            let child =
                lineage.child_of.get(&CallAt { request, index }).copied().filter(|_| call.class == ToolClass::Agent);
            rows.push(ToolCall {
                request: narrow(request),
                index: u16::try_from(index).unwrap_or(u16::MAX),
                class: call.class,
                is_error: result.map(|result| result.is_error),
                consumer_request: consumer.map(narrow),
                child_agent: child.map(narrow),
                start_ms: call.whole_us.and_then(|whole| Some(times.get(request)?.start + whole / 1000)),
                duration_ms: None,
                input_tokens: Some(call.input_tokens),
                output_tokens: result.map(|result| result.tokens),
            });
        }
    }
    rows
}

fn milliseconds(span: u64) -> u32 {
    u32::try_from(span).unwrap_or(u32::MAX)
}

fn narrow(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}
