//! Replay: a trace drives a real endpoint, with its own prefixes and its own rhythm.
//!
//! ```text
//! Session → Schedule → Due → PromptSource → Endpoint → Transport → RequestRecord
//! ```
//!
//! Invariant: what is sent follows from the trace, the seed and the options; no text of a log is involved. [`schedule`] is pure;
//! [`endpoint`] shapes and reads JSON and does no I/O; only [`http`] reaches outside and only [`clock`] knows the time.

pub mod calibrate;
pub mod call;
pub mod chunks;
pub mod clock;
pub mod counters;
pub mod dispatch;
pub mod endpoint;
pub mod forecast;
pub mod http;
pub mod identity;
pub mod preflight;
pub mod prompt;
pub mod route;
pub mod schedule;
pub mod source;
pub mod transport;

use prompt::{Prompt, PromptError};

/// Where prompts come from. Sessions are named by their place in the list that is replayed, requests by their row in the session.
pub trait PromptSource: Send + Sync + 'static {
    /// The prompt of a request.
    ///
    /// # Errors
    /// Where there can be none.
    fn prompt(&self, session: u32, request: u32) -> Result<Prompt, PromptError>;

    /// Tells what was answered, for later prompts that hold it.
    fn answered(&self, _session: u32, _request: u32, _answer: &str) {}

    /// Whether later prompts hold answers.
    fn wants_answers(&self) -> bool {
        false
    }
}
