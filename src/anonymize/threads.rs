//! Which agent sent a request, what it was for, and which requests are retries of one another.
//!
//! Invariant: an agent header decides; without one, a thread goes on where its messages go on, and starts a new agent only where
//! a call's prompt or a harness's wrapping says so.

use std::collections::HashMap;

use crate::trace::vocab::{AgentKind, RequestKind, Status};

use super::chains::{Chains, Node};
use super::draft::{Draft, Outcome, Shape};
use super::key::Tag;
use super::waiting::Waiting;

/// An agent of a session.
pub(super) struct AgentPlan {
    pub(super) tag: Option<Tag>,
    pub(super) parent_tag: Option<Tag>,
    /// Its requests, in send order.
    pub(super) requests: Vec<usize>,
}

/// What is known of a request beyond its draft.
#[derive(Clone, Copy)]
pub(super) struct RequestPlan {
    pub(super) agent: usize,
    pub(super) kind: RequestKind,
    /// The latest earlier request of its agent whose messages it begins with.
    pub(super) extends: Option<usize>,
    pub(super) attempt: u8,
    /// The attempt before this one.
    pub(super) retries: Option<usize>,
}

/// Where threads end, by the agent that headers name and the last message: the agents that ended there, each with its draft.
type Ends = HashMap<(Option<Tag>, Node), Vec<(usize, usize)>>;

/// The agents and requests of a session.
pub(super) struct Threads {
    pub(super) agents: Vec<AgentPlan>,
    pub(super) requests: Vec<RequestPlan>,
    pub(super) by_tag: HashMap<Tag, usize>,
}

impl Threads {
    /// Sorts the drafts of one session, which stand in send order.
    pub(super) fn new(drafts: &[Draft], chains: &Chains) -> Self {
        let main = AgentPlan { tag: None, parent_tag: None, requests: Vec::new() };
        let mut threads = Self { agents: vec![main], requests: Vec::new(), by_tag: HashMap::new() };
        // A session that never has tools talks without them; elsewhere a request without tools is a side request.
        let has_tools = drafts.iter().any(|draft| draft.agent.is_none() && draft.shape == Shape::Thread);
        let mut ends = Ends::new();
        let mut waiting = Waiting::new();
        let mut last: HashMap<(usize, Node, Shape), usize> = HashMap::new();
        for (at, draft) in drafts.iter().enumerate() {
            let kind = match draft.shape {
                Shape::Thread => RequestKind::Turn,
                Shape::Bare if draft.agent.is_some() || !has_tools => RequestKind::Turn,
                Shape::Side | Shape::Bare => RequestKind::Auxiliary,
                Shape::Compaction => RequestKind::Compaction,
                Shape::Recap => RequestKind::Recap,
                Shape::CountTokens => RequestKind::CountTokens,
            };
            // Requests without an agent header look for their thread among all of their kind.
            // Of agents that were asked the same, the thread is that of the one whose calls are answered.
            let ended = chains.up(draft.thread).find_map(|node| ends.get(&(draft.agent, node)));
            let answers = |(_, before): &&(usize, usize)| {
                let calls = drafts.get(*before).map(|before| &before.calls[..]).unwrap_or_default();
                draft.results.iter().any(|result| calls.iter().any(|call| call.id == result.call))
            };
            let found = ended.and_then(|ended| ended.iter().rev().find(answers).or(ended.last())).copied();
            waiting.end(draft);
            let spawned = draft.opening.filter(|prompt| waiting.has(*prompt));
            let same = ends.get(&(draft.agent, draft.thread)).and_then(|ended| drafts.get(ended.last()?.1));
            let forks = told_to_fork(draft) && same.is_none();
            // What was answered is not sent again: the same beginning is that of another agent, if a call waits for one.
            let again = same.is_some_and(|same| same.status == Status::Ok) && spawned.is_some();
            let starts_agent = forks || again || (found.is_none() && (spawned.is_some() || draft.directive.is_some()));
            let agent = match draft.agent {
                Some(tag) => *threads.by_tag.entry(tag).or_insert_with(|| {
                    threads.agents.push(AgentPlan {
                        tag: Some(tag),
                        parent_tag: draft.parent_agent,
                        requests: Vec::new(),
                    });
                    threads.agents.len() - 1
                }),
                None if kind != RequestKind::Turn && kind != RequestKind::Compaction => {
                    found.map_or(0, |(agent, _)| agent)
                }
                None if starts_agent => {
                    threads.agents.push(AgentPlan { tag: None, parent_tag: None, requests: Vec::new() });
                    threads.agents.len() - 1
                }
                None => found.map_or(0, |(agent, _)| agent),
            };
            let extends = found.filter(|(of, _)| *of == agent).map(|(_, request)| request);
            let before = last.get(&(agent, draft.thread, draft.shape)).copied();
            let repeated = before.zip(before.and_then(|before| drafts.get(before))).filter(|(_, before)| match kind {
                // What was answered is sent again only as it was.
                RequestKind::Turn | RequestKind::Compaction => {
                    before.status != Status::Ok || asks_the_same(before, draft)
                }
                RequestKind::CountTokens => false,
                RequestKind::Auxiliary | RequestKind::Recap => before.status != Status::Ok,
            });
            let repeated = repeated.map(|(before, _)| before);
            let attempt = repeated
                .and_then(|before| threads.requests.get(before))
                .map_or(0, |before| before.attempt.saturating_add(1));
            last.insert((agent, draft.thread, draft.shape), at);
            if kind == RequestKind::Turn {
                ends.entry((draft.agent, draft.thread)).or_default().push((agent, at));
                if let (Some(prompt), true) = (spawned, starts_agent && draft.agent.is_none()) {
                    waiting.take(prompt);
                }
            }
            // What is asked again makes its calls again.
            let again = repeated.and_then(|before| drafts.get(before)).into_iter().flat_map(|before| &before.calls);
            again.for_each(|call| waiting.forget(call.id));
            waiting.add(draft, ());
            threads.requests.push(RequestPlan { agent, kind, extends, attempt, retries: repeated });
            if let Some(agent) = threads.agents.get_mut(agent) {
                agent.requests.push(at);
            }
        }
        threads
    }

    /// Of the attempts that `request` belongs to, the one that counted: whose calls were answered, else the last that succeeded,
    /// else the last.
    pub(super) fn counted(&self, request: usize, drafts: &[Draft], answered: &HashMap<Tag, Vec<usize>>) -> usize {
        let attempts = || std::iter::successors(Some(request), |at| self.requests.get(*at)?.retries);
        let is_answered = |at: &usize| {
            drafts.get(*at).is_some_and(|draft| draft.calls.iter().any(|call| answered.contains_key(&call.id)))
        };
        let is_ok = |at: &usize| drafts.get(*at).is_some_and(|draft| draft.status == Status::Ok);
        attempts().find(is_answered).or_else(|| attempts().find(is_ok)).unwrap_or(request)
    }
}

/// Whether two requests of equal messages have the same system prompt, tools and model, as far as it is kept.
fn asks_the_same(one: &Draft, other: &Draft) -> bool {
    one.model == other.model && one.system == other.system && one.tools_tokens == other.tools_tokens
}

fn told_to_fork(draft: &Draft) -> bool {
    draft.results.iter().any(|result| result.outcome == Outcome::ForkStarted)
}

/// The kind that an agent's own first request shows.
pub(super) fn wrapped(draft: &Draft) -> Option<AgentKind> {
    draft.directive.map(|(kind, _)| kind).or_else(|| told_to_fork(draft).then_some(AgentKind::Fork))
}
