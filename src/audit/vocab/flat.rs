//! The flat table: one row a request with its block ids, as our own `export --to flat` writes it and others do.
//!
//! Invariant: its columns are those of our tables, by the same vocabularies, and the few short names that others use.

use super::Shape::{Bool, Int, List, Listed, Model, Number, Request, Signed, Word};
use super::{EXACT, Format, MILLIS, Partial, Role, Shape, TOKENS, field, with};
use crate::trace::vocab::{
    AgentKind, AgentStatus, AgentType, DelayKind, Evidence, Harness, Relation, RequestKind, Status, Stop, ToolClass,
    Trigger, Vocabulary,
};

/// A word of one of our vocabularies.
const fn word<V: Vocabulary>() -> Shape {
    Listed(|word| V::parse(word).is_some())
}

/// Row ids of other rows.
const ROW: Shape = Signed(EXACT);

/// One row a request.
pub(super) static FLAT: Format = Format {
    name: "flat",
    record: Request(&[
        with("session", Int(EXACT), Role::Session),
        field("request", Int(EXACT)),
        field("agent", Int(EXACT)),
        field("parent_agent", ROW),
        field("turn", Int(TOKENS)),
        field("extends", Bool),
        with("t_ms", Number(MILLIS), Role::Time),
        with("start_ms", Number(MILLIS), Role::Time),
        field("duration_ms", Int(EXACT)),
        field("ttft_ms", Int(EXACT)),
        with("in_tokens", Int(TOKENS), Role::Input),
        with("out_tokens", Int(TOKENS), Role::Output),
        with("input_tokens", Int(TOKENS), Role::Input),
        with("output_tokens", Int(TOKENS), Role::Output),
        field("model", Model),
        field("kind", word::<RequestKind>()),
        field("stop", word::<Stop>()),
        field("status", word::<Status>()),
        field("attempt", Int(255)),
        field("streaming", Bool),
        field("max_tokens", Int(TOKENS)),
        field("usage_input", Int(TOKENS)),
        field("usage_cache_read", Int(TOKENS)),
        field("usage_cache_write_5m", Int(TOKENS)),
        field("usage_cache_write_1h", Int(TOKENS)),
        field("usage_output", Int(TOKENS)),
        field("usage_reasoning", Int(TOKENS)),
        with("tools_tokens", Int(TOKENS), Role::Configuration),
        with("system_tokens", Int(TOKENS), Role::Configuration),
        field("messages", Int(1 << 16)),
        field("input_parts", Int(127)),
        field("output_parts", Int(127)),
        with("session_start_ms", Number(MILLIS), Role::Plain),
        field("session_harness", word::<Harness>()),
        field("session_source_number", Int(EXACT)),
        field("agent_parent_agent", ROW),
        field("agent_depth", Int(1 << 16)),
        field("agent_kind", word::<AgentKind>()),
        field("agent_type", word::<AgentType>()),
        field("agent_status", word::<AgentStatus>()),
        field("agent_spawn_request", ROW),
        field("agent_join_request", ROW),
        field("agent_total_tokens", Int(EXACT)),
        field("agent_tool_calls", Int(TOKENS)),
        field("edge_from_request", List(&ROW)),
        field("edge_relation", List(&word::<Relation>())),
        field("edge_trigger", List(&word::<Trigger>())),
        field("edge_delay_ms", List(&Int(MILLIS))),
        field("edge_delay_kind", List(&word::<DelayKind>())),
        field("edge_evidence", List(&word::<Evidence>())),
        field("tool_index", List(&Int(1 << 16))),
        field("tool_class", List(&word::<ToolClass>())),
        field("tool_is_error", List(&Bool)),
        field("tool_consumer_request", List(&ROW)),
        field("tool_child_agent", List(&ROW)),
        field("tool_start_ms", List(&Int(MILLIS))),
        field("tool_duration_ms", List(&Int(MILLIS))),
        field("tool_input_tokens", List(&Int(TOKENS))),
        field("tool_output_tokens", List(&Int(TOKENS))),
        with("block_size", Int(1 << 20), Role::BlockSize),
        with("hash_id_scope", Word(&["local", "global", "session", "shared", "dataset"]), Role::Scope),
        with("hash_ids", List(&Int(EXACT)), Role::Ids),
    ]),
    required: &["session", "hash_ids"],
    local: false,
    block_size: 64,
    partial: Partial::Dropped,
};
