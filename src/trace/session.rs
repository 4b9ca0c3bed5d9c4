//! One session as rows: its agents, requests, edges and tool calls.
//!
//! Invariant: agent 0 is the main agent; requests stand in send order; an edge leads from an earlier request to a later one.
//! Row numbers inside a [`Session`] are local to it (from 0); a writer adds the dataset-wide bases.

use super::model::Model;
use super::vocab::{
    AgentKind, AgentStatus, AgentType, DelayKind, Evidence, Harness, Relation, RequestKind, Status, Stop, ToolClass,
    Trigger,
};

/// All requests that one user task caused.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session {
    /// When it began, in milliseconds since the first session of the dataset; only where arrivals are kept.
    pub start_ms: Option<u64>,
    /// The program that sent it.
    pub harness: Harness,
    /// The number that a public source gave it (imports of numbered public traces).
    pub source_number: Option<u32>,
    /// Its agents; the first is the main agent.
    pub agents: Vec<Agent>,
    /// Its requests, in send order.
    pub requests: Vec<Request>,
    /// What its requests waited for, by `to_request`, then `from_request`, then relation.
    pub edges: Vec<Edge>,
    /// Tool calls, by request, then index.
    pub tools: Vec<ToolCall>,
}

impl Session {
    /// What a request waits for.
    pub fn waits_of(&self, row: u32) -> &[Edge] {
        let begin = self.edges.partition_point(|edge| edge.to < row);
        let end = self.edges.partition_point(|edge| edge.to <= row);
        self.edges.get(begin..end).unwrap_or_default()
    }
}

/// One conversation: the main agent or a subagent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agent {
    /// The agent that started it; null for the main agent and where it is not known.
    pub parent_agent: Option<u32>,
    /// How many agents stand above it.
    pub depth: u16,
    /// How it came to be.
    pub kind: AgentKind,
    /// Its built-in type, else custom.
    pub agent_type: AgentType,
    /// How it ended; null where nothing tells.
    pub status: Option<AgentStatus>,
    /// The request whose answer started it (its first start, where it was continued).
    pub spawn_request: Option<u32>,
    /// The request that carried its (last) result back.
    pub join_request: Option<u32>,
    /// Tokens it used, as its harness counted them.
    pub total_tokens: Option<u32>,
    /// Tool calls it made, as its harness counted them.
    pub tool_calls: Option<u32>,
}

/// How a prompt relates to the prompts before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The earlier request that shares the most leading full blocks (ties: the latest), as a dataset-wide row id; null if
    /// none shares any. Under scope `session` it lies in the same session.
    pub request: Option<u64>,
    /// How many leading full blocks are shared with it.
    pub shared_blocks: u32,
    /// This prompt begins with the whole of that one, its partial last block included.
    pub extends: bool,
    /// Block id of the first full block that is new here: the running count of new blocks in the dataset so far.
    pub first_block: u64,
}

/// Token counts as the provider stated them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usage {
    /// Prompt tokens that were neither read from nor written to the cache.
    pub input: Option<u32>,
    /// Prompt tokens read from the cache.
    pub cache_read: Option<u32>,
    /// Prompt tokens written to the cache for 5 minutes.
    pub cache_write_5m: Option<u32>,
    /// Prompt tokens written to the cache for 1 hour.
    pub cache_write_1h: Option<u32>,
    /// Tokens of the answer.
    pub output: Option<u32>,
    /// Of those, tokens of hidden reasoning.
    pub reasoning: Option<u32>,
}

/// Which kinds of content a prompt or an answer holds, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Parts(pub u16);

impl Parts {
    /// Plain text.
    pub const TEXT: Self = Self(1);
    /// Thinking, shown or redacted.
    pub const THINKING: Self = Self(2);
    /// A tool call.
    pub const TOOL_USE: Self = Self(4);
    /// A tool result.
    pub const TOOL_RESULT: Self = Self(8);
    /// An image.
    pub const IMAGE: Self = Self(16);
    /// A document.
    pub const DOCUMENT: Self = Self(32);
    /// Anything else.
    pub const OTHER: Self = Self(64);
    /// Every bit that has a meaning.
    pub const ALL: Self = Self(127);

    /// Both sets together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every bit of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// One LLM call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Its agent, within the session.
    pub agent: u32,
    /// Its place in its agent's thread, from 0.
    pub turn: u32,
    /// What it was for.
    pub kind: RequestKind,
    /// The model asked for.
    pub model: Model,
    /// Length of the prompt in tokens.
    pub input_tokens: u32,
    /// Length of the answer in tokens; null where nothing tells.
    pub output_tokens: Option<u32>,
    /// Its place in the prefix tree.
    pub prefix: Prefix,
    /// Send time in milliseconds since the session's first request; null where the source has none.
    pub start_ms: Option<u64>,
    /// Until the last byte, in milliseconds.
    pub duration_ms: Option<u32>,
    /// Until the first content, in milliseconds.
    pub ttft_ms: Option<u32>,
    /// Why the model stopped.
    pub stop: Option<Stop>,
    /// How the request ended.
    pub status: Status,
    /// 0, or which retry of the same request it is.
    pub attempt: u8,
    /// Whether the answer was asked for as a stream.
    pub streaming: Option<bool>,
    /// The limit asked for.
    pub max_tokens: Option<u32>,
    /// What the provider counted.
    pub usage: Usage,
    /// Tokens of the leading tools part of the prompt.
    pub tools_tokens: Option<u32>,
    /// Tokens of the system part of the prompt.
    pub system_tokens: Option<u32>,
    /// Messages in the prompt.
    pub messages: Option<u16>,
    /// What the prompt holds.
    pub input_parts: Parts,
    /// What the answer holds.
    pub output_parts: Parts,
}

impl Request {
    /// Full blocks of the prompt at block size `block_size`.
    pub fn blocks(&self, block_size: u32) -> u32 {
        self.input_tokens.checked_div(block_size).unwrap_or(0)
    }

    /// When the last byte came, in milliseconds since the session's first request.
    pub fn end_ms(&self) -> Option<u64> {
        Some(self.start_ms? + u64::from(self.duration_ms?))
    }
}

/// A dependency: `to` goes out at the latest of (trigger + delay) over its edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The request that waits.
    pub to: u32,
    /// The request that is waited for.
    pub from: u32,
    /// What they are to each other.
    pub relation: Relation,
    /// Which moment of `from` counts.
    pub trigger: Trigger,
    /// Time between the trigger and the sending of `to`, in milliseconds.
    pub delay_ms: u64,
    /// What that time was spent on.
    pub delay_kind: DelayKind,
    /// What shows that the edge exists.
    pub evidence: Evidence,
}

/// A tool call that an answer made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolCall {
    /// The request whose answer made it.
    pub request: u32,
    /// Its place among the calls of that answer, from 0.
    pub index: u16,
    /// What the tool does.
    pub class: ToolClass,
    /// Whether its result was an error; null where no result was seen.
    pub is_error: Option<bool>,
    /// The request that carried its result back.
    pub consumer_request: Option<u32>,
    /// The agent it started or spoke to.
    pub child_agent: Option<u32>,
    /// When it began, in milliseconds since the session's first request.
    pub start_ms: Option<u64>,
    /// How long it ran, in milliseconds.
    pub duration_ms: Option<u32>,
    /// Tokens of its input.
    pub input_tokens: Option<u32>,
    /// Tokens of its result.
    pub output_tokens: Option<u32>,
}
