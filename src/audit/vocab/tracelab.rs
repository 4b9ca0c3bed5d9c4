//! TraceLab: JSONL of one LLM round a row, and its CSV for replay.
//!
//! Invariant: declared is not harmless: wall-clock times, character lengths and tool names are marked by role and shape.

use super::Shape::{Bool, Instant, Int, List, Model, Number, Object, Opaque, Request, Tool, Word};
use super::{EXACT, Format, MILLIS, Partial, Role, TOKENS, field, with};

const EVENTS: &[&str] = &[
    "user_message",
    "assistant_message",
    "reasoning",
    "tool_use",
    "tool_call",
    "tool_result",
    "tool_output",
    "thinking",
    "text",
    "token_count",
    "system",
    "compaction",
    "assistant_text",
    "user_prompt",
    "request_start",
    "request_end",
];
const SOURCES: &[&str] = &["claude", "codex", "transcript", "usage", "derived", "event", "message", "tool"];

/// One round a row.
pub(super) static ROUNDS: Format = Format {
    name: "tracelab",
    record: Request(&[
        field("provider", Word(&["claude", "codex", "anthropic", "openai"])),
        field("project", Opaque),
        with("session_id", Opaque, Role::Session),
        field("round_index", Int(TOKENS)),
        field("round_id", Opaque),
        field("model", Model),
        with("input_tokens_total", Int(TOKENS), Role::Input),
        field("prefix_tokens", Int(TOKENS)),
        field("newly_append_tokens", Int(TOKENS)),
        field("claude_uncached_tokens", Int(TOKENS)),
        field("claude_cache_creation_tokens", Int(TOKENS)),
        field("claude_cache_read_tokens", Int(TOKENS)),
        field("claude_uncached_input_tokens", Int(TOKENS)),
        field("claude_cache_creation_input_tokens", Int(TOKENS)),
        field("claude_cache_read_input_tokens", Int(TOKENS)),
        with("output_tokens", Int(TOKENS), Role::Output),
        field("reasoning_output_tokens", Int(TOKENS)),
        field(
            "timing_events",
            List(&Object(&[
                field("event_type", Word(EVENTS)),
                with("timestamp", Instant, Role::WallClock),
                field("source", Word(SOURCES)),
                with("content_chars", Int(EXACT), Role::Characters),
                with("result_chars", Int(EXACT), Role::Characters),
                field("tool_call_id", Opaque),
                field("tool_name", Tool),
                field("is_error", Bool),
            ])),
        ),
        field(
            "tools",
            List(&Object(&[
                field("tool_index", Int(TOKENS)),
                field("tool_name", Tool),
                field("tool_call_id", Opaque),
                with("emitted_at", Instant, Role::WallClock),
                with("input_chars", Int(EXACT), Role::Characters),
                with("result_chars", Int(EXACT), Role::Characters),
                field("tool_wall_latency_ms", Number(MILLIS)),
                field("tool_internal_latency_ms", Number(MILLIS)),
                field("is_error", Bool),
                with("result_at", Instant, Role::WallClock),
            ])),
        ),
        with("current_user_chars", Int(EXACT), Role::Characters),
        with("current_tool_result_chars", Int(EXACT), Role::Characters),
        with("current_input_chars", Int(EXACT), Role::Characters),
        field("current_user_count", Int(TOKENS)),
        field("current_tool_result_count", Int(TOKENS)),
        field("first_input_event_type", Word(EVENTS)),
        field("store", Word(&["claude", "codex"])),
        field("trace_key", Opaque),
    ]),
    required: &["provider", "session_id", "round_index"],
    local: false,
    block_size: 1,
    partial: Partial::Free,
};

/// The CSV that its replayer takes.
pub(super) static CSV: Format = Format {
    name: "tracelab (csv)",
    record: Request(&[
        field("id", Opaque),
        with("input_len", Int(TOKENS), Role::Input),
        with("output_len", Int(TOKENS), Role::Output),
        with("arrival_time", Number(MILLIS), Role::Time),
        field("round_idx", Int(TOKENS)),
        field("tool_wait_after_ms", Number(MILLIS)),
        field("prefix_len", Int(TOKENS)),
    ]),
    required: &["id", "input_len", "output_len", "round_idx"],
    local: false,
    block_size: 1,
    partial: Partial::Free,
};
