//! Which call started an agent, and which request carried its result back.
//!
//! Invariant: no link without evidence; in this order: an agent named in a tool result, one named in a notification, a prompt that
//! is the same, and for workflows alone, time. What stays unmatched is counted, not guessed.

use std::collections::{HashMap, HashSet};

use crate::trace::vocab::{AgentKind, AgentStatus, AgentType, Evidence};

use super::draft::{Call, Draft, Outcome, SpawnCall, Tally};
use super::key::Tag;
use super::threads::{Threads, wrapped};

/// A call of a session: the request whose answer made it, and its place there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CallAt {
    pub(super) request: usize,
    pub(super) index: usize,
}

/// A call that set an agent going, and the request that it set going.
#[derive(Clone, Copy)]
pub(super) struct Spawn {
    pub(super) call: CallAt,
    pub(super) to: usize,
    pub(super) evidence: Evidence,
}

/// An agent's last request, and the request that carries its result back.
#[derive(Clone, Copy)]
pub(super) struct Join {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) evidence: Evidence,
}

/// What is known of an agent beyond its requests.
#[derive(Clone, Default)]
pub(super) struct AgentLinks {
    pub(super) parent: Option<usize>,
    pub(super) kind: Option<AgentKind>,
    pub(super) agent_type: Option<AgentType>,
    pub(super) status: Option<AgentStatus>,
    pub(super) tally: Tally,
    pub(super) spawns: Vec<Spawn>,
    pub(super) joins: Vec<Join>,
}

/// The links of a session.
pub(super) struct Lineage {
    /// By agent.
    pub(super) agents: Vec<AgentLinks>,
    /// By the id of a call: the requests that carry a result of it, in send order.
    pub(super) answered: HashMap<Tag, Vec<usize>>,
    /// The agent that each call started or spoke to.
    pub(super) child_of: HashMap<CallAt, usize>,
    /// The ids of calls that start an agent or a workflow.
    pub(super) spawning: HashSet<Tag>,
    /// Requests that a call set going.
    pub(super) starts: HashSet<usize>,
    /// Agents whose start has no evidence.
    pub(super) unmatched_agents: u64,
    /// Calls that start an agent of which no request was seen.
    pub(super) unmatched_calls: u64,
}

struct Finder<'a> {
    drafts: &'a [Draft],
    threads: &'a Threads,
    calls: HashMap<Tag, CallAt>,
    links: Vec<AgentLinks>,
    child_of: HashMap<CallAt, usize>,
}

/// Finds the links of a session.
pub(super) fn find(drafts: &[Draft], threads: &Threads) -> Lineage {
    let mut calls = HashMap::new();
    let mut answered: HashMap<Tag, Vec<usize>> = HashMap::new();
    for (request, draft) in drafts.iter().enumerate() {
        for (index, call) in draft.calls.iter().enumerate() {
            calls.entry(call.id).or_insert(CallAt { request, index });
        }
        for result in draft.results.iter().filter(|result| result.outcome != Outcome::ForkStarted) {
            answered.entry(result.call).or_default().push(request);
        }
    }
    let links = vec![AgentLinks::default(); threads.agents.len()];
    let mut finder = Finder { drafts, threads, calls, links, child_of: HashMap::new() };
    finder.by_name();
    finder.by_statement();
    finder.by_prompt();
    finder.workflows();
    finder.messages(&answered);
    finder.joins(&answered);
    finder.parents();
    let starts = finder.links.iter().flat_map(|links| &links.spawns).map(|spawn| spawn.to).collect();
    let unmatched_agents = finder.links.iter().skip(1).filter(|links| links.spawns.is_empty()).count();
    let spawns = drafts
        .iter()
        .enumerate()
        .flat_map(|(request, draft)| (0..draft.calls.len()).map(move |index| CallAt { request, index }));
    let matched: HashSet<CallAt> =
        finder.links.iter().flat_map(|links| &links.spawns).map(|spawn| spawn.call).collect();
    let unmatched_calls = spawns.filter(|at| finder.spawn_call(*at).is_some() && !matched.contains(at)).count();
    let spawning =
        drafts.iter().flat_map(|draft| &draft.calls).filter(|call| call.spawn.is_some()).map(|call| call.id).collect();
    Lineage {
        agents: finder.links,
        answered,
        spawning,
        starts,
        child_of: finder.child_of,
        unmatched_agents: u64::try_from(unmatched_agents).unwrap_or(u64::MAX),
        unmatched_calls: u64::try_from(unmatched_calls).unwrap_or(u64::MAX),
    }
}

impl Finder<'_> {
    fn call(&self, at: CallAt) -> Option<&Call> {
        self.drafts.get(at.request)?.calls.get(at.index)
    }

    fn spawn_call(&self, at: CallAt) -> Option<&SpawnCall> {
        self.call(at)?.spawn.as_ref()
    }

    fn is_workflow(&self, at: CallAt) -> bool {
        self.spawn_call(at).is_some_and(|spawn| spawn.kind == AgentKind::Workflow)
    }

    fn agent_of(&self, request: usize) -> Option<usize> {
        Some(self.threads.requests.get(request)?.agent)
    }

    fn first_request(&self, agent: usize) -> Option<usize> {
        self.threads.agents.get(agent)?.requests.first().copied()
    }

    /// Links a call to the agent that it started, unless one of them is taken.
    fn link(&mut self, call: CallAt, agent: usize, evidence: Evidence) {
        let Some(to) = self.first_request(agent).filter(|to| *to > call.request) else { return };
        let Some(spawn) = self.spawn_call(call) else { return };
        let (kind, agent_type) = (spawn.kind, spawn.agent_type);
        // A workflow starts many agents; its call names none of them.
        let taken = self.child_of.contains_key(&call) && kind != AgentKind::Workflow;
        let Some(links) = self.links.get_mut(agent).filter(|links| links.spawns.is_empty() && agent != 0 && !taken)
        else {
            return;
        };
        links.spawns.push(Spawn { call, to, evidence });
        links.kind = Some(kind);
        links.agent_type = Some(agent_type);
        if kind != AgentKind::Workflow {
            self.child_of.insert(call, agent);
        }
    }

    /// By an agent named in a result or a notification, or a fork told by the id of its own call.
    fn by_name(&mut self) {
        let mut found = Vec::new();
        for (request, draft) in self.drafts.iter().enumerate() {
            for result in &draft.results {
                let named = result.agent.and_then(|tag| self.threads.by_tag.get(&tag).copied());
                let agent = if result.outcome == Outcome::ForkStarted { self.agent_of(request) } else { named };
                found.extend(
                    self.calls.get(&result.call).zip(agent).map(|(call, agent)| (*call, agent, Evidence::ToolResult)),
                );
            }
        }
        for notice in self.drafts.iter().flat_map(|draft| &draft.notices) {
            let agent = self.threads.by_tag.get(&notice.task).copied();
            let call = notice.call.and_then(|call| self.calls.get(&call));
            found.extend(call.zip(agent).map(|(call, agent)| (*call, agent, Evidence::Notification)));
        }
        let by_prompt = self.calls_by_prompt();
        for (call, agent, evidence) in found {
            // A report may quote the id of another agent; that one began with the prompt of its own call.
            let asked: Vec<&CallAt> = self.texts(agent).filter_map(|text| by_prompt.get(&text)).flatten().collect();
            if asked.is_empty() || asked.contains(&&call) {
                self.link(call, agent, evidence);
            }
        }
    }

    /// By a recorder that says which call started the agent.
    fn by_statement(&mut self) {
        for agent in 1..self.threads.agents.len() {
            let first = self.first_request(agent).and_then(|first| self.drafts.get(first));
            let call = first.and_then(|first| self.calls.get(&first.spawn_call?)).copied();
            if let Some(call) = call {
                self.link(call, agent, Evidence::Stated);
            }
        }
    }

    /// By the prompt of a call that is the agent's first text: the earliest free call for the earliest agent.
    fn by_prompt(&mut self) {
        let by_prompt = self.calls_by_prompt();
        for agent in 1..self.threads.agents.len() {
            let calls = self.texts(agent).filter_map(|text| by_prompt.get(&text)).flatten();
            let free = calls.copied().find(|call| {
                (!self.child_of.contains_key(call) || self.is_workflow(*call)) && self.may_start(*call, agent)
            });
            if let Some(call) = free {
                self.link(call, agent, Evidence::Prompt);
            }
        }
    }

    fn calls_by_prompt(&self) -> HashMap<Tag, Vec<CallAt>> {
        let mut calls: HashMap<Tag, Vec<CallAt>> = HashMap::new();
        for (request, draft) in self.drafts.iter().enumerate() {
            for (index, call) in draft.calls.iter().enumerate() {
                for prompt in call.spawn.iter().flat_map(|spawn| &spawn.prompts) {
                    calls.entry(*prompt).or_default().push(CallAt { request, index });
                }
            }
        }
        calls
    }

    /// What an agent began with: its first text, and its task without the wrapping.
    fn texts(&self, agent: usize) -> impl Iterator<Item = Tag> + use<> {
        let first = self.first_request(agent).and_then(|first| self.drafts.get(first));
        let texts = first.map(|first| [first.opening, first.directive.map(|(_, task)| task)]);
        texts.into_iter().flatten().flatten()
    }

    /// Whether the headers and the times allow that a call started an agent.
    fn may_start(&self, call: CallAt, agent: usize) -> bool {
        let Some(plan) = self.threads.agents.get(agent) else { return false };
        let caller = self.agent_of(call.request).and_then(|caller| self.threads.agents.get(caller));
        let fits = match (plan.parent_tag, plan.tag) {
            (Some(parent), _) => caller.is_some_and(|caller| caller.tag == Some(parent)),
            // A fork or a workflow's agent names no parent; any other agent without one is a child of the main agent.
            (None, Some(_)) => {
                caller.is_some_and(|caller| caller.tag.is_none())
                    || self.spawn_call(call).is_some_and(|spawn| spawn.kind != AgentKind::Subagent)
            }
            (None, None) => true,
        };
        fits && self.first_request(agent).is_some_and(|first| first > call.request)
    }

    /// A workflow's agents: the only workflow that was running when they began.
    fn workflows(&mut self) {
        let workflows: Vec<(CallAt, Tag)> =
            self.calls.iter().map(|(id, at)| (*at, *id)).filter(|(at, _)| self.is_workflow(*at)).collect();
        for agent in 1..self.threads.agents.len() {
            let Some(first) = self.first_request(agent) else { continue };
            if self.links.get(agent).is_none_or(|links| !links.spawns.is_empty())
                || self.drafts.get(first).and_then(wrapped) != Some(AgentKind::Workflow)
            {
                continue;
            }
            let ended = |id: Tag| {
                self.drafts.iter().take(first).any(|draft| draft.notices.iter().any(|notice| notice.call == Some(id)))
            };
            let mut running = workflows.iter().filter(|(at, id)| at.request < first && !ended(*id));
            if let (Some((call, _)), None) = (running.next(), running.next()) {
                self.link(*call, agent, Evidence::Time);
            }
        }
    }

    /// Calls that speak to an agent set its next request going.
    fn messages(&mut self, answered: &HashMap<Tag, Vec<usize>>) {
        for (request, draft) in self.drafts.iter().enumerate() {
            for (index, call, to) in
                draft.calls.iter().enumerate().filter_map(|(index, call)| Some((index, call, call.to?)))
            {
                let Some(agent) = self.threads.by_tag.get(&to).copied() else { continue };
                self.child_of.entry(CallAt { request, index }).or_insert(agent);
                let evidence = if answered.contains_key(&call.id) { Evidence::ToolResult } else { Evidence::Header };
                let next = self
                    .threads
                    .agents
                    .get(agent)
                    .and_then(|plan| plan.requests.iter().find(|next| **next > request))
                    .copied();
                if let (Some(next), Some(links)) = (next, self.links.get_mut(agent)) {
                    links.spawns.push(Spawn { call: CallAt { request, index }, to: next, evidence });
                }
            }
        }
    }

    /// Where results came back.
    fn joins(&mut self, answered: &HashMap<Tag, Vec<usize>>) {
        for (at, draft) in self.drafts.iter().enumerate() {
            if self.threads.requests.get(at).is_none_or(|plan| plan.attempt > 0) {
                continue;
            }
            for result in draft.results.iter().filter(|result| result.outcome != Outcome::ForkStarted) {
                let first = answered.get(&result.call).and_then(|requests| requests.first()) == Some(&at);
                let Some(agent) = self
                    .calls
                    .get(&result.call)
                    .filter(|call| self.spawn_call(**call).is_some())
                    .and_then(|call| self.child_of.get(call))
                    .copied()
                else {
                    continue;
                };
                let status = match result {
                    _ if result.outcome == Outcome::Interrupted => AgentStatus::Interrupted,
                    _ if result.outcome == Outcome::Launched => AgentStatus::AsyncLaunched,
                    _ if result.is_error => AgentStatus::Failed,
                    _ => AgentStatus::Completed,
                };
                if first {
                    self.end(agent, at, status, Evidence::ToolResult, result.tally);
                }
            }
            for notice in &draft.notices {
                let status = if notice.failed { AgentStatus::Failed } else { AgentStatus::Completed };
                let call = notice.call.and_then(|call| self.calls.get(&call)).copied();
                let workflow = call.filter(|call| self.is_workflow(*call));
                let agents: Vec<usize> = match workflow {
                    Some(call) => (1..self.links.len())
                        .filter(|agent| {
                            self.links
                                .get(*agent)
                                .is_some_and(|links| links.spawns.iter().any(|spawn| spawn.call == call))
                        })
                        .collect(),
                    None => self
                        .threads
                        .by_tag
                        .get(&notice.task)
                        .copied()
                        .or_else(|| self.child_of.get(&call?).copied())
                        .into_iter()
                        .collect(),
                };
                let tally = if workflow.is_some() { Tally::default() } else { notice.tally };
                for agent in agents {
                    self.end(agent, at, status, Evidence::Notification, tally);
                }
            }
        }
    }

    /// An agent's result stands in the request `at`.
    fn end(&mut self, agent: usize, at: usize, status: AgentStatus, evidence: Evidence, tally: Tally) {
        let last = self
            .threads
            .agents
            .get(agent)
            .and_then(|plan| plan.requests.iter().rfind(|request| **request < at))
            .copied();
        let Some(links) = self.links.get_mut(agent) else { return };
        links.status = Some(status);
        links.tally = Tally {
            total_tokens: tally.total_tokens.or(links.tally.total_tokens),
            tool_calls: tally.tool_calls.or(links.tally.tool_calls),
        };
        if status == AgentStatus::AsyncLaunched {
            links.kind = links.kind.map(|kind| if kind == AgentKind::Subagent { AgentKind::Background } else { kind });
        }
        // A task may notify again without having done anything since.
        if let Some(from) = last.filter(|from| links.joins.last().is_none_or(|join| join.from < *from))
            && matches!(status, AgentStatus::Completed | AgentStatus::Failed)
        {
            links.joins.push(Join { from, to: at, evidence });
        }
    }

    /// The agent that made the call; else what the headers say; else the main agent, for an agent that names no parent.
    fn parents(&mut self) {
        for (agent, plan) in self.threads.agents.iter().enumerate().skip(1) {
            let caller = self
                .links
                .get(agent)
                .and_then(|links| links.spawns.first())
                .and_then(|spawn| self.agent_of(spawn.call.request));
            let named = plan.parent_tag.map_or(plan.tag.map(|_| 0), |parent| self.threads.by_tag.get(&parent).copied());
            let kind = self.first_request(agent).and_then(|first| self.drafts.get(first)).and_then(wrapped);
            if let Some(links) = self.links.get_mut(agent) {
                links.parent = caller.or(named).filter(|parent| *parent != agent);
                // A fork that runs in the background is still a fork.
                links.kind = kind.or(links.kind);
                if links.agent_type.is_none() && kind == Some(AgentKind::Workflow) {
                    links.agent_type = Some(AgentType::WorkflowSubagent);
                }
            }
        }
    }
}
