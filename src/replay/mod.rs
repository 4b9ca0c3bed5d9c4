//! Replay: a trace drives a real endpoint, with its own prefixes and its own rhythm.
//!
//! ```text
//! Session → Schedule → Due → PromptSource → Endpoint → Transport → RequestRecord
//! ```
//!
//! Invariant: [`schedule`] is pure; [`endpoint`] shapes and reads JSON and does no I/O; only [`transport`] reaches outside and only
//! [`clock`] knows the time.

pub mod schedule;
