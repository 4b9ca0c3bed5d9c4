//! API bodies: what the bytes of a request and of a response mean.
//!
//! Invariant: text side. Everything read is borrowed from the body or dropped with the value that holds it; unknown fields and
//! unknown block types are tolerated and never copied. An error says where, never what.

pub mod anthropic;
mod json;
pub mod openai_chat;
pub mod openai_responses;
mod sse;

pub use json::compact;
pub use sse::{Event, Sse};

/// A body that is not what its API says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not valid for its API at line {line}, column {column}")]
pub struct WireError {
    /// Line within the body, from 1; 0 where a field is at fault.
    pub line: usize,
    /// Column within the line.
    pub column: usize,
    /// Nested deeper than is read.
    pub too_deep: bool,
}

impl From<serde_json::Error> for WireError {
    fn from(error: serde_json::Error) -> Self {
        // serde_json has no category for depth; its messages quote input elsewhere, so only this fixed start is compared.
        let too_deep = error.is_syntax() && error.to_string().starts_with("recursion limit exceeded");
        Self { line: error.line(), column: error.column(), too_deep }
    }
}
