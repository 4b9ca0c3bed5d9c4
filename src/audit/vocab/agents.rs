//! WEKA traces: kv-cache-tester's dialect and SemiAnalysis' (AgentX).
//!
//! Invariant: no member holds free text; agent ids are numbers behind a prefix in the one, opaque in the other.

use super::Shape::{Int, List, Model, Number, Numbered, Object, Opaque, Request, Word};
use super::{EXACT, Field, Format, Partial, Role, SECONDS, TOKENS, field, with};

const PARTS: &[&str] =
    &["text", "thinking", "tool_use", "tool_result", "image", "document", "other", "redacted_thinking"];
const STOPS: &[&str] = &[
    "",
    "tool_use",
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "refusal",
    "pause_turn",
    "model_context_window_exceeded",
    "content_filter",
    "other",
];
const TYPES: &[&str] = &[
    "general-purpose",
    "Explore",
    "Plan",
    "statusline-setup",
    "output-style-setup",
    "fork",
    "custom",
    "workflow-subagent",
    "main",
];
const STATUSES: &[&str] = &["completed", "async_launched", "interrupted", "failed"];

const INNER: &[Field] = &[
    with("t", Number(SECONDS), Role::Time),
    field("type", Word(&["s", "n", "subagent"])),
    field("model", Model),
    with("in", Int(TOKENS), Role::Input),
    with("out", Int(TOKENS), Role::Output),
    with("hash_ids", List(&Int(EXACT)), Role::Ids),
    field("input_types", List(&Word(PARTS))),
    field("output_types", List(&Word(PARTS))),
    field("stop", Word(STOPS)),
    field("api_time", Number(SECONDS)),
    field("think_time", Number(SECONDS)),
    field("ttft", Number(SECONDS)),
];

/// A request, or the marker of a subagent with its own requests.
macro_rules! entry {
    ($agent_id:expr) => {
        &[
            with("t", Number(SECONDS), Role::Time),
            field("type", Word(&["s", "n", "subagent"])),
            field("model", Model),
            with("in", Int(TOKENS), Role::Input),
            with("out", Int(TOKENS), Role::Output),
            with("hash_ids", List(&Int(EXACT)), Role::Ids),
            field("input_types", List(&Word(PARTS))),
            field("output_types", List(&Word(PARTS))),
            field("stop", Word(STOPS)),
            field("api_time", Number(SECONDS)),
            field("think_time", Number(SECONDS)),
            field("ttft", Number(SECONDS)),
            field("agent_id", $agent_id),
            field("subagent_type", Word(TYPES)),
            field("duration_ms", Int(EXACT)),
            field("total_tokens", Int(EXACT)),
            field("tool_use_count", Int(TOKENS)),
            field("status", Word(STATUSES)),
            field("models", List(&Model)),
            with("tool_tokens", Int(TOKENS), Role::Configuration),
            with("system_tokens", Int(TOKENS), Role::Configuration),
            field("requests", List(&Request(INNER))),
        ]
    };
}

const SUM: &[Field] = &[field("input", Int(EXACT)), field("output", Int(EXACT))];

macro_rules! trace {
    ($id:expr, $agent_id:expr) => {
        Object(&[
            field("id", $id),
            field("models", List(&Model)),
            with("block_size", Int(1 << 20), Role::BlockSize),
            with("hash_id_scope", Word(&["local", "global"]), Role::Scope),
            with("tool_tokens", Int(TOKENS), Role::Configuration),
            with("system_tokens", Int(TOKENS), Role::Configuration),
            field("requests", List(&Request(entry!($agent_id)))),
            field(
                "totals",
                Object(&[
                    field("parent_tokens", Object(SUM)),
                    field("subagent_tokens", Object(SUM)),
                    field("combined_tokens", Object(SUM)),
                    field("subagent_count", Int(TOKENS)),
                ]),
            ),
        ])
    };
}

/// kv-cache-tester: `trace_NNNN`, tool and system lengths, ids from 1.
pub(super) static WEKA: Format = Format {
    name: "weka (tester)",
    record: trace!(Numbered("trace_"), Numbered("agent_")),
    required: &["id", "block_size", "hash_id_scope", "requests", "tool_tokens"],
    local: true,
    block_size: 64,
    partial: Partial::Dropped,
};

/// SemiAnalysis: no lengths of tools; agent ids keep the end of the real ones.
pub(super) static WEKA_AGENTX: Format = Format {
    name: "weka (agentx)",
    record: trace!(Opaque, Opaque),
    required: &["id", "block_size", "requests"],
    local: true,
    block_size: 64,
    partial: Partial::Dropped,
};
