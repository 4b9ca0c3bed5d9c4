//! Formats of one row a request: Mooncake, Bailian, Veeksha, ServeGen, and the flat table of our own export.
//!
//! Invariant: numbers and closed words only; what has no session has one space of ids for the whole file.

use super::Shape::{Int, List, Model, Number, Object, Request, Signed, Word};
use super::{EXACT, Format, MILLIS, Partial, Role, SECONDS, TOKENS, field, with};

/// Mooncake FAST25, and its rows with sessions.
pub(super) static MOONCAKE: Format = Format {
    name: "mooncake",
    record: Request(&[
        with("timestamp", Number(MILLIS), Role::Time),
        with("input_length", Int(TOKENS), Role::Input),
        with("output_length", Int(TOKENS), Role::Output),
        with("hash_ids", List(&Int(EXACT)), Role::Ids),
        field("session_id", Int(EXACT)),
        field("delay", Number(MILLIS)),
        field("priority", Int(TOKENS)),
        field("model", Model),
    ]),
    required: &["timestamp", "input_length", "output_length"],
    local: false,
    block_size: 512,
    partial: Partial::Kept,
};

/// Qwen-Bailian.
pub(super) static BAILIAN: Format = Format {
    name: "bailian",
    record: Request(&[
        with("chat_id", Int(EXACT), Role::Session),
        field("parent_chat_id", Signed(EXACT)),
        with("timestamp", Number(SECONDS), Role::Time),
        with("input_length", Int(TOKENS), Role::Input),
        with("output_length", Int(TOKENS), Role::Output),
        field("type", Word(&["text", "search", "image", "file", "coder", "thinking"])),
        field("turn", Int(TOKENS)),
        with("hash_ids", List(&Int(EXACT)), Role::Ids),
    ]),
    required: &["chat_id", "parent_chat_id", "input_length"],
    local: false,
    block_size: 16,
    partial: Partial::Kept,
};

/// Veeksha `timed_synthetic_session`, JSONL and CSV.
pub(super) static VEEKSHA: Format = Format {
    name: "veeksha timed_synthetic_session",
    record: Request(&[
        with("session_id", Int(EXACT), Role::Session),
        with("input_length", Int(TOKENS), Role::Input),
        field("new_input_length", Int(TOKENS)),
        with("output_length", Int(TOKENS), Role::Output),
        field(
            "session_context",
            Object(&[
                field("node_id", Int(EXACT)),
                field("parent_nodes", List(&Int(EXACT))),
                field("history_parent", Int(EXACT)),
                field("wait_after_ready", Number(SECONDS)),
            ]),
        ),
        field("node_id", Int(EXACT)),
        field("parent_nodes", List(&Int(EXACT))),
        field("history_parent", Int(EXACT)),
        field("wait_after_ready", Number(SECONDS)),
        field("turn_idx", Int(TOKENS)),
        field("wait_after_previous_response_s", Number(SECONDS)),
        with("hash_ids", List(&Int(EXACT)), Role::Ids),
    ]),
    required: &["session_id", "new_input_length", "output_length", "session_context"],
    local: false,
    block_size: 512,
    partial: Partial::Free,
};

/// Veeksha `shared_prefix`, and its rows without a context.
pub(super) static VEEKSHA_PREFIX: Format = Format {
    name: "veeksha shared_prefix",
    record: Request(&[
        with("session_id", Int(EXACT), Role::Session),
        with("input_length", Int(TOKENS), Role::Input),
        field("new_input_length", Int(TOKENS)),
        with("output_length", Int(TOKENS), Role::Output),
        with("hash_ids", List(&Int(EXACT)), Role::Ids),
        field("turn_idx", Int(TOKENS)),
        field("node_id", Int(EXACT)),
        field("parent_nodes", List(&Int(EXACT))),
        field("history_parent", Int(EXACT)),
        field("wait_after_ready", Number(SECONDS)),
        field("wait_after_previous_response_s", Number(SECONDS)),
    ]),
    required: &["session_id", "new_input_length", "output_length"],
    local: false,
    block_size: 512,
    partial: Partial::Free,
};

/// ServeGen's offline rows.
pub(super) static SERVEGEN: Format = Format {
    name: "servegen",
    record: Request(&[
        field("request_id", Int(EXACT)),
        field("type", Word(&["text", "image", "file", "search"])),
        with("input_length", Int(TOKENS), Role::Input),
        with("output_length", Int(TOKENS), Role::Output),
        field("duration", Number(MILLIS)),
        with("hash_ids", List(&Int(EXACT)), Role::Ids),
        field("img_ids", List(&Int(EXACT))),
    ]),
    required: &["request_id", "type", "input_length"],
    local: false,
    block_size: 16,
    partial: Partial::Kept,
};
