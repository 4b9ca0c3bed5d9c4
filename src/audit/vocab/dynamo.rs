//! NVIDIA Dynamo: `agentic_mooncake` rows (versions 1 and 2) and `dynamo.request.trace.v1`.
//!
//! Invariant: declared is not harmless: wall-clock members, opaque ids and unkeyed hashes are marked by role and shape.

use super::Shape::{Bool, Int, List, Model, Number, Object, Opaque, Request, Tool, Word};
use super::{EXACT, Field, Format, MILLIS, Partial, Role, TOKENS, field, with};

/// The first line of an agentic_mooncake file.
pub(super) static AGENTIC_HEADER: Format = Format {
    name: "dynamo agentic_mooncake",
    record: Request(ROW),
    required: &["schema", "version", "block_size", "hash_id_scope"],
    local: false,
    block_size: 64,
    partial: Partial::Free,
};

/// Version 2 without its header.
pub(super) static AGENTIC_ROW: Format = Format {
    name: "dynamo agentic_mooncake",
    record: Request(ROW),
    required: &["request_id", "play_id", "session_id", "hash_ids"],
    local: false,
    block_size: 64,
    partial: Partial::Free,
};

/// Version 1.
pub(super) static AGENTIC_ROW_V1: Format = Format {
    name: "dynamo agentic_mooncake 1",
    record: Request(ROW),
    required: &["request_id", "session_id", "wait_for", "hash_ids"],
    local: false,
    block_size: 64,
    partial: Partial::Free,
};

const ROW: &[Field] = &[
    field("schema", Word(&["dynamo.agentic_mooncake"])),
    field("version", Int(9)),
    with("block_size", Int(1 << 20), Role::BlockSize),
    with("hash_id_scope", Word(&["local", "global"]), Role::Scope),
    field(
        "source",
        Object(&[
            field("format", Word(&["tracecloak", "weka", "mooncake", "claude", "dynamo"])),
            field("digest", Opaque),
        ]),
    ),
    field("request_id", Opaque),
    field("play_id", Opaque),
    with("session_id", Opaque, Role::Session),
    field("model", Model),
    with("input_length", Int(TOKENS), Role::Input),
    with("output_length", Int(TOKENS), Role::Output),
    with("hash_ids", List(&Int(u64::MAX)), Role::Ids),
    with("not_before_ms", Number(MILLIS), Role::Time),
    with("timestamp", Number(MILLIS), Role::Time),
    field("priority", Int(TOKENS)),
    field("wait_for", List(&Opaque)),
    field("branches", List(&Opaque)),
    field("prefix_reset", Bool),
    field("delay", Number(MILLIS)),
    field("tool_wait_ms", Number(MILLIS)),
    field(
        "dependencies",
        List(&Object(&[
            field("request_id", Opaque),
            field("trigger", Word(&["dispatch", "completion"])),
            field("delay_ms", Number(MILLIS)),
            field("relation", Word(&["sequence", "spawn", "join", "replay_barrier"])),
        ])),
    ),
];

/// `dynamo.request.trace.v1`: real times, real ids, hashes without a key.
pub(super) static REQUEST_TRACE: Format = Format {
    name: "dynamo request.trace.v1",
    record: Request(&[
        field("schema", Word(&["dynamo.request.trace.v1"])),
        field("event_type", Word(&["request_end", "request_start", "tool_start", "tool_end", "tool_error"])),
        with("event_time_unix_ms", Int(EXACT), Role::WallClock),
        field("event_source", Word(&["frontend", "dynamo", "harness", "claude", "replay"])),
        field(
            "agent_context",
            Object(&[field("session_id", Opaque), field("parent_session_id", Opaque), field("session_final", Bool)]),
        ),
        field(
            "request",
            Object(&[
                field("request_id", Opaque),
                field("x_request_id", Opaque),
                field("model", Model),
                field("input_tokens", Int(TOKENS)),
                field("output_tokens", Int(TOKENS)),
                field("cached_tokens", Int(TOKENS)),
                with("request_received_ms", Int(EXACT), Role::WallClock),
                field("prefill_wait_time_ms", Number(MILLIS)),
                field("prefill_time_ms", Number(MILLIS)),
                field("ttft_ms", Number(MILLIS)),
                field("total_time_ms", Number(MILLIS)),
                field("avg_itl_ms", Number(MILLIS)),
                field("kv_hit_rate", Number(1)),
                field("queue_depth", Int(TOKENS)),
                field(
                    "replay",
                    Object(&[
                        with("trace_block_size", Int(1 << 20), Role::BlockSize),
                        with("input_length", Int(TOKENS), Role::Input),
                        with("input_sequence_hashes", List(&Int(u64::MAX)), Role::Ids),
                    ]),
                ),
                field(
                    "finish_reason_metadata",
                    Object(&[field("tool_calls", List(&Object(&[field("id", Opaque), field("name", Tool)])))]),
                ),
            ]),
        ),
        field(
            "tool",
            Object(&[
                field("tool_call_id", Opaque),
                field("tool_class", Tool),
                field("tool_name_hash", Opaque),
                with("output_bytes", Int(EXACT), Role::Characters),
                field("output_tokens", Int(TOKENS)),
                field("duration_ms", Number(MILLIS)),
                with("started_at_unix_ms", Int(EXACT), Role::WallClock),
                with("ended_at_unix_ms", Int(EXACT), Role::WallClock),
            ]),
        ),
    ]),
    required: &["schema", "event_type", "event_time_unix_ms"],
    local: false,
    block_size: 64,
    partial: Partial::Kept,
};
