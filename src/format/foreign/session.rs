//! Sessions from rows: requests with only what a row states, models by number, order by time, sequence edges.
//!
//! Invariant: requests come out in send order and edges in theirs; unlisted models are numbered by first appearance.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::trace::vocab::{
    AgentKind, AgentType, DelayKind, Evidence, Harness, Relation, RequestKind, Status, Stop, Trigger,
};
use crate::trace::{Agent, Edge, Model, Parts, Prefix, Request, Session, Usage};

/// A request of which only this is known.
pub fn request(input_tokens: u32, output_tokens: Option<u32>) -> Request {
    Request {
        agent: 0,
        turn: 0,
        kind: RequestKind::Turn,
        model: Model::other(0),
        input_tokens,
        output_tokens,
        prefix: Prefix::default(),
        start_ms: None,
        duration_ms: None,
        ttft_ms: None,
        stop: None,
        status: Status::Ok,
        attempt: 0,
        streaming: None,
        max_tokens: None,
        usage: Usage::default(),
        tools_tokens: None,
        system_tokens: None,
        messages: None,
        input_parts: Parts::default(),
        output_parts: Parts::default(),
    }
}

/// A main agent, or a subagent of the main agent, of which nothing more is known.
pub fn agent(kind: AgentKind) -> Agent {
    let main = kind == AgentKind::Main;
    Agent {
        parent_agent: if main { None } else { Some(0) },
        depth: u16::from(!main),
        kind,
        agent_type: if main { AgentType::Main } else { AgentType::Custom },
        status: None,
        spawn_request: None,
        join_request: None,
        total_tokens: None,
        tool_calls: None,
    }
}

/// A session of a main agent alone.
pub fn conversation(start_ms: Option<u64>, requests: Vec<Request>, edges: Vec<Edge>) -> Session {
    let agents = vec![agent(AgentKind::Main)];
    Session { start_ms, harness: Harness::Other, source_number: None, agents, requests, edges, tools: Vec::new() }
}

/// What belongs together, in order of first appearance.
#[derive(Debug)]
pub struct Groups<K, T> {
    known: HashMap<K, usize>,
    groups: BTreeMap<usize, T>,
}

impl<K, T> Default for Groups<K, T> {
    fn default() -> Self {
        Self { known: HashMap::new(), groups: BTreeMap::new() }
    }
}

impl<K: Hash + Eq, T: Default> Groups<K, T> {
    /// The group of a key, begun if it is new.
    pub fn of(&mut self, key: K) -> &mut T {
        let next = self.groups.len();
        self.groups.entry(*self.known.entry(key).or_insert(next)).or_default()
    }

    /// Forgets the keys, not the groups: for the next file, where names of one say nothing about another's.
    pub fn begin_file(&mut self) {
        self.known.clear();
    }

    /// The groups.
    pub fn into_groups(self) -> impl Iterator<Item = T> {
        self.groups.into_values()
    }
}

/// The edge of a next turn.
pub fn sequence(from: u32, to: u32, delay_ms: u64, delay_kind: DelayKind, evidence: Evidence) -> Edge {
    Edge { to, from, relation: Relation::Sequence, trigger: Trigger::Completion, delay_ms, delay_kind, evidence }
}

/// What the time before a request was spent on, as far as its parts and the answer before it tell.
pub fn delay_kind(before: &Request, request: &Request) -> DelayKind {
    if request.input_parts.contains(Parts::TOOL_RESULT) {
        DelayKind::Tool
    } else if request.input_parts.contains(Parts::TEXT) {
        DelayKind::User
    } else {
        match before.stop {
            Some(Stop::ToolUse) => DelayKind::Tool,
            Some(Stop::EndTurn) => DelayKind::User,
            _ => DelayKind::None,
        }
    }
}

/// When a request had ended; its start, where its duration is not known.
pub fn ended(request: &Request) -> Option<u64> {
    Some(request.start_ms?.saturating_add(request.duration_ms.unwrap_or(0).into()))
}

/// Names of models within a session.
#[derive(Clone, Debug, Default)]
pub struct Models {
    /// Hashes of unlisted names: the names themselves are not kept.
    others: Vec<u64>,
}

impl Models {
    /// The model of this name: a public one, or numbered in order of the calls, so call it in row order.
    /// The flag says whether the name is not kept as it stands.
    pub fn number(&mut self, name: &str) -> (Model, bool) {
        let listed = Model::parse(name).filter(|model| model.other_number().is_none());
        if let Some(model) = listed {
            return (model, false);
        }
        if let Some(model) = Model::recognize(name) {
            return (model, true);
        }
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let hash = hasher.finish();
        let place = self.others.iter().position(|other| *other == hash).unwrap_or_else(|| {
            self.others.push(hash);
            self.others.len() - 1
        });
        (Model::other(u16::try_from(place).unwrap_or(u16::MAX)), true)
    }
}

/// Puts edges in their order.
pub fn sort_edges(edges: &mut [Edge]) {
    edges.sort_by_key(|edge| (edge.to, edge.from, edge.relation));
}

/// A number that equal sessions have in common, and hardly any others: lengths, times and prefixes of their requests.
pub fn fingerprint(session: &Session) -> u64 {
    let mut hasher = DefaultHasher::new();
    let first = session.requests.first().map_or(0, |request| request.prefix.first_block);
    session.agents.len().hash(&mut hasher);
    for request in &session.requests {
        let Request { agent, input_tokens, output_tokens, start_ms, duration_ms, prefix, .. } = request;
        (agent, input_tokens, output_tokens, start_ms, duration_ms).hash(&mut hasher);
        (prefix.shared_blocks, prefix.first_block.saturating_sub(first)).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_keep_their_order_and_keys_of_a_file_end_with_it() {
        let mut groups: Groups<&str, Vec<u8>> = Groups::default();
        for (name, item) in [("b", 0), ("a", 1), ("b", 2)] {
            groups.of(name).push(item);
        }
        groups.begin_file();
        groups.of("b").push(3);
        assert_eq!(groups.into_groups().collect::<Vec<_>>(), [vec![0, 2], vec![1], vec![3]]);
    }

    #[test]
    fn unlisted_models_are_numbered_and_public_ones_reduced() {
        let mut models = Models::default();
        assert_eq!(
            models.number("claude-opus-4-5-20251101"),
            (Model::parse("claude-opus-4-5-20251101").unwrap(), false)
        );
        assert_eq!(models.number("anthropic/claude-opus-4-6"), (Model::parse("claude-opus-4-6").unwrap(), true));
        assert_eq!(models.number("ours"), (Model::other(0), true));
        assert_eq!(models.number("other-7"), (Model::other(1), true));
        assert_eq!(models.number("ours"), (Model::other(0), true));
    }
}
