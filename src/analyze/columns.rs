//! A session as named values, row by row, for comparing.
//!
//! Invariant: every column of every table stands here once, but those that follow from others (row ids, `first_block`); a row
//! that is named is named within its session.

use std::collections::BTreeMap;

use crate::trace::vocab::{Relation, Vocabulary};
use crate::trace::{Agent, Edge, Request, Session, ToolCall};

use super::compare::Aspect;

/// A value: a number, or the place of a word in its vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) aspect: Aspect,
    pub(super) column: &'static str,
    pub(super) value: Option<i128>,
}

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Session,
    Agent,
    Request,
    Edge,
    Tool,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Session => "sessions",
            Self::Agent => "agents",
            Self::Request => "requests",
            Self::Edge => "edges",
            Self::Tool => "tools",
        }
    }

    /// What a row that is missing says.
    pub(super) fn aspect(self) -> Aspect {
        match self {
            Self::Request => Aspect::Lengths,
            Self::Edge => Aspect::Edges,
            _ => Aspect::Rest,
        }
    }
}

/// What makes two rows the same row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) table: Kind,
    /// The row; of an edge the request that waits, of a tool call the request that made it.
    pub(super) place: u64,
    /// Of an edge the request that is waited for, of a tool call its index.
    other: u64,
    relation: u64,
}

pub(super) type Rows = BTreeMap<Key, Vec<Cell>>;

fn cell<T: Into<i128>>(aspect: Aspect, column: &'static str, value: Option<T>) -> Cell {
    Cell { aspect, column, value: value.map(Into::into) }
}

fn word<V: Vocabulary>(aspect: Aspect, column: &'static str, value: Option<V>) -> Cell {
    let place = |value: V| V::ALL.iter().position(|member| *member == value);
    cell(aspect, column, value.and_then(place).and_then(|place| u64::try_from(place).ok()))
}

/// Everything that a session holds; its first request has the row id `base`.
pub(super) fn rows(session: &Session, base: u64) -> Rows {
    let key =
        |table, place: usize| Key { table, place: u64::try_from(place).unwrap_or(u64::MAX), other: 0, relation: 0 };
    let mut rows = Rows::new();
    let Session { start_ms, harness, source_number, agents, requests, edges, tools } = session;
    rows.insert(
        key(Kind::Session, 0),
        vec![
            cell(Aspect::Times, "start_ms", *start_ms),
            word(Aspect::Rest, "harness", Some(*harness)),
            cell(Aspect::Rest, "source_number", *source_number),
        ],
    );
    rows.extend(agents.iter().enumerate().map(|(row, agent)| (key(Kind::Agent, row), of_agent(agent))));
    rows.extend(requests.iter().enumerate().map(|(row, request)| (key(Kind::Request, row), of_request(request, base))));
    for edge in edges {
        let relation = u64::try_from(relation_place(edge)).unwrap_or(u64::MAX);
        let key = Key { table: Kind::Edge, place: edge.to.into(), other: edge.from.into(), relation };
        rows.insert(key, of_edge(edge));
    }
    for tool in tools {
        let key = Key { table: Kind::Tool, place: tool.request.into(), other: tool.index.into(), relation: 0 };
        rows.insert(key, of_tool(tool));
    }
    rows
}

fn relation_place(edge: &Edge) -> usize {
    Relation::ALL.iter().position(|relation| *relation == edge.relation).unwrap_or(usize::MAX)
}

fn of_agent(agent: &Agent) -> Vec<Cell> {
    let Agent { parent_agent, depth, kind, agent_type, status, spawn_request, join_request, total_tokens, tool_calls } =
        *agent;
    vec![
        cell(Aspect::Rest, "parent_agent", parent_agent),
        cell(Aspect::Rest, "depth", Some(depth)),
        word(Aspect::Rest, "kind", Some(kind)),
        word(Aspect::Rest, "type", Some(agent_type)),
        word(Aspect::Rest, "status", status),
        cell(Aspect::Edges, "spawn_request", spawn_request),
        cell(Aspect::Edges, "join_request", join_request),
        cell(Aspect::Rest, "total_tokens", total_tokens),
        cell(Aspect::Rest, "tool_calls", tool_calls),
    ]
}

fn of_request(request: &Request, base: u64) -> Vec<Cell> {
    let Request { prefix, usage, .. } = request;
    let earlier = prefix.request.map(|earlier| i128::from(earlier) - i128::from(base));
    vec![
        cell(Aspect::Rest, "agent", Some(request.agent)),
        cell(Aspect::Rest, "turn", Some(request.turn)),
        word(Aspect::Rest, "kind", Some(request.kind)),
        cell(Aspect::Rest, "model", Some(request.model.code())),
        cell(Aspect::Lengths, "input_tokens", Some(request.input_tokens)),
        cell(Aspect::Lengths, "output_tokens", request.output_tokens),
        cell(Aspect::Prefix, "prefix_request", earlier),
        cell(Aspect::Prefix, "shared_blocks", Some(prefix.shared_blocks)),
        cell(Aspect::Prefix, "extends", Some(i128::from(prefix.extends))),
        cell(Aspect::Times, "start_ms", request.start_ms),
        cell(Aspect::Times, "duration_ms", request.duration_ms),
        cell(Aspect::Times, "ttft_ms", request.ttft_ms),
        word(Aspect::Rest, "stop", request.stop),
        word(Aspect::Rest, "status", Some(request.status)),
        cell(Aspect::Rest, "attempt", Some(request.attempt)),
        cell(Aspect::Rest, "streaming", request.streaming.map(i128::from)),
        cell(Aspect::Rest, "max_tokens", request.max_tokens),
        cell(Aspect::Rest, "usage_input", usage.input),
        cell(Aspect::Rest, "usage_cache_read", usage.cache_read),
        cell(Aspect::Rest, "usage_cache_write_5m", usage.cache_write_5m),
        cell(Aspect::Rest, "usage_cache_write_1h", usage.cache_write_1h),
        cell(Aspect::Rest, "usage_output", usage.output),
        cell(Aspect::Rest, "usage_reasoning", usage.reasoning),
        cell(Aspect::Rest, "tools_tokens", request.tools_tokens),
        cell(Aspect::Rest, "system_tokens", request.system_tokens),
        cell(Aspect::Rest, "messages", request.messages),
        cell(Aspect::Rest, "input_parts", Some(request.input_parts.0)),
        cell(Aspect::Rest, "output_parts", Some(request.output_parts.0)),
    ]
}

fn of_edge(edge: &Edge) -> Vec<Cell> {
    vec![
        word(Aspect::Edges, "trigger", Some(edge.trigger)),
        cell(Aspect::Times, "delay_ms", Some(edge.delay_ms)),
        word(Aspect::Rest, "delay_kind", Some(edge.delay_kind)),
        word(Aspect::Rest, "evidence", Some(edge.evidence)),
    ]
}

fn of_tool(tool: &ToolCall) -> Vec<Cell> {
    vec![
        word(Aspect::Rest, "class", Some(tool.class)),
        cell(Aspect::Rest, "is_error", tool.is_error.map(i128::from)),
        cell(Aspect::Rest, "consumer_request", tool.consumer_request),
        cell(Aspect::Rest, "child_agent", tool.child_agent),
        cell(Aspect::Times, "start_ms", tool.start_ms),
        cell(Aspect::Times, "duration_ms", tool.duration_ms),
        cell(Aspect::Lengths, "input_tokens", tool.input_tokens),
        cell(Aspect::Lengths, "output_tokens", tool.output_tokens),
    ]
}

#[cfg(test)]
pub(super) mod testing {
    //! A session and a manifest to compare.

    use super::*;
    use crate::trace::manifest::{ToolName, ToolVersion};
    use crate::trace::vocab::*;
    use crate::trace::{Manifest, Model, Parts, Prefix, Usage};

    pub(in crate::analyze) fn manifest() -> Manifest {
        let tool = ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 1, patch: 0 };
        Manifest::imported(tool, 64, Scope::Session)
    }

    /// Three turns whose first request has the row id `base`.
    pub(in crate::analyze) fn session(base: u64) -> Session {
        let request = |turn: u32| Request {
            agent: 0,
            turn,
            kind: RequestKind::Turn,
            model: Model::other(0),
            input_tokens: 640 * (turn + 1),
            output_tokens: Some(10),
            prefix: Prefix {
                request: turn.checked_sub(1).map(|before| base + u64::from(before)),
                shared_blocks: 10 * turn,
                extends: turn > 0,
                first_block: 10 * (base + u64::from(turn)),
            },
            start_ms: Some(u64::from(turn) * 1000),
            duration_ms: Some(500),
            ttft_ms: None,
            stop: None,
            status: Status::Ok,
            attempt: 0,
            streaming: Some(true),
            max_tokens: None,
            usage: Usage::default(),
            tools_tokens: None,
            system_tokens: None,
            messages: None,
            input_parts: Parts::TEXT,
            output_parts: Parts::TEXT,
        };
        let edge = |to: u32| Edge {
            to,
            from: to - 1,
            relation: Relation::Sequence,
            trigger: Trigger::Completion,
            delay_ms: 500,
            delay_kind: DelayKind::User,
            evidence: Evidence::Prefix,
        };
        let main = Agent {
            parent_agent: None,
            depth: 0,
            kind: AgentKind::Main,
            agent_type: AgentType::Main,
            status: None,
            spawn_request: None,
            join_request: None,
            total_tokens: None,
            tool_calls: None,
        };
        Session {
            start_ms: None,
            harness: Harness::Other,
            source_number: None,
            agents: vec![main],
            requests: vec![request(0), request(1), request(2)],
            edges: vec![edge(1), edge(2)],
            tools: Vec::new(),
        }
    }
}
