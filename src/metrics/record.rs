//! What replaying one request measured.
//!
//! Invariant: times are microseconds since the replay began; what did not happen is absent, not 0. Content is never kept.

use std::fmt;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// With a whole answer.
    Ok,
    /// Closed by us after the time after which the recorded client closed it.
    Cancelled,
    /// The server refused it (4xx).
    Refused,
    /// Too many requests, also after waiting as told.
    RateLimited,
    /// The server failed (5xx).
    ServerError,
    /// The answer holds an error in place of content.
    ErrorEvent,
    /// The answer stopped before its end.
    Cut,
    /// What came is not an answer of this API.
    Unreadable,
    /// There was no connection.
    NoConnection,
    /// Nothing came for too long.
    TimedOut,
    /// The connection broke.
    Broken,
    /// No prompt can be made for it.
    NoPrompt,
    /// Given up by the user.
    Aborted,
    /// Not sent: an earlier request of its session failed.
    SessionFailed,
    /// Not sent: the replay was stopped, or its time was up.
    Stopped,
}

impl Ending {
    /// Every ending.
    pub const ALL: [Self; 15] = [
        Self::Ok,
        Self::Cancelled,
        Self::Refused,
        Self::RateLimited,
        Self::ServerError,
        Self::ErrorEvent,
        Self::Cut,
        Self::Unreadable,
        Self::NoConnection,
        Self::TimedOut,
        Self::Broken,
        Self::NoPrompt,
        Self::Aborted,
        Self::SessionFailed,
        Self::Stopped,
    ];

    /// Its word in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Cancelled => "cancelled",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::ServerError => "server_error",
            Self::ErrorEvent => "error_event",
            Self::Cut => "cut",
            Self::Unreadable => "unreadable",
            Self::NoConnection => "no_connection",
            Self::TimedOut => "timed_out",
            Self::Broken => "broken",
            Self::NoPrompt => "no_prompt",
            Self::Aborted => "aborted",
            Self::SessionFailed => "session_failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether it ended as it should.
    pub fn is_fine(self) -> bool {
        matches!(self, Self::Ok | Self::Cancelled)
    }

    /// Whether it counts: whatever was sent, and what a failure kept from being sent. What was stopped does not.
    pub fn counts(self) -> bool {
        !matches!(self, Self::Stopped | Self::Aborted)
    }
}

/// The id that a request is sent with, made for the run. It is written as a random UUID is, which is what harnesses send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestId(pub u128);

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Version 4, variant 1.
        let bits = self.0 & !(0xf << 76) & !(3 << 62) | 4 << 76 | 2 << 62;
        let part = |low: u32, bits_wide: u32| (bits >> low) & ((1 << bits_wide) - 1);
        write!(
            formatter,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            part(96, 32),
            part(80, 16),
            part(64, 16),
            part(48, 16),
            part(0, 48)
        )
    }
}

/// Measurements of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its session's number in the trace.
    pub session: u32,
    /// Its row in the session.
    pub request: u32,
    /// Its agent, within the session.
    pub agent: u32,
    /// Its place in its agent's thread.
    pub turn: u32,
    /// Its id in the header `x-request-id`, by which a server's logs name it.
    pub id: RequestId,
    /// Sent with one token of output to fill the cache; left out of every figure.
    pub prime: bool,
    /// How it ended.
    pub ending: Ending,
    /// The last HTTP status.
    pub status: Option<u16>,
    /// How often it was sent.
    pub attempts: u32,
    /// Answers that said "too many requests".
    pub rate_limited: u32,
    /// When it was due.
    pub due_us: Option<u64>,
    /// How long the bound on requests in flight kept it back after that.
    pub held_us: u64,
    /// When it was first sent.
    pub sent_us: Option<u64>,
    /// When it was last sent, if more than once.
    pub resent_us: Option<u64>,
    /// When the head of the answer came.
    pub first_byte_us: Option<u64>,
    /// When the first content came; absent without a stream.
    pub first_content_us: Option<u64>,
    /// When the last content came.
    pub last_content_us: Option<u64>,
    /// When it ended.
    pub last_byte_us: Option<u64>,
    /// Events with content. Not tokens: one may hold several or a part of one.
    pub events: u32,
    /// Prompt tokens of the trace.
    pub input_tokens: u32,
    /// Answer tokens of the trace.
    pub output_tokens: Option<u32>,
    /// Prompt tokens sent, as planned by the tokenizer.
    pub sent_tokens: Option<u32>,
    /// The most answer tokens asked for.
    pub max_tokens: u32,
    /// Leading prompt tokens that an earlier prompt had, as planned.
    pub planned_cached: Option<u32>,
    /// Full blocks that the trace shares and the prompt does not, since the chat template's own tokens don't fit in; absent where
    /// all are shared.
    pub short_blocks: Option<u32>,
    /// Earlier answers in the prompt that were longer or shorter than the trace says.
    pub corrected: u32,
    /// Prompt tokens as the server counted them.
    pub prompt_tokens: Option<u64>,
    /// Of those, from its cache.
    pub cached_tokens: Option<u64>,
    /// Answer tokens as the server counted them.
    pub answer_tokens: Option<u64>,
    /// Which worker answered, where a header tells: numbered by first appearance.
    pub worker: Option<u32>,
}

impl RequestRecord {
    /// From the first sending to the first content: waits for a busy server are a part of it.
    pub fn ttft_us(&self) -> Option<u64> {
        self.first_content_us?.checked_sub(self.sent_us?)
    }

    /// From the first sending to the end.
    pub fn latency_us(&self) -> Option<u64> {
        self.last_byte_us?.checked_sub(self.sent_us?)
    }

    /// Mean time between tokens after the first, by the server's count.
    pub fn itl_us(&self) -> Option<u64> {
        let between = self.last_content_us?.checked_sub(self.first_content_us?)?;
        between.checked_div(self.answer_tokens?.checked_sub(1)?)
    }

    /// How late it was sent, the bound on requests in flight left out.
    pub fn lag_us(&self) -> Option<u64> {
        Some(self.sent_us?.saturating_sub(self.due_us? + self.held_us))
    }

    /// By how many tokens the server's count of the prompt differs from the planned one.
    pub fn prompt_error(&self) -> Option<u64> {
        Some(self.prompt_tokens?.abs_diff(self.sent_tokens?.into()))
    }
}
