//! The Anthropic Messages API: request bodies and answers, whole or streamed.
//!
//! Invariant: a field of a wrong type that is not needed to lay the prompt out is as if absent; one that is needed makes the
//! whole body invalid.

mod answer;
pub(super) mod request;

pub use answer::{Answer, AnswerReader, Made, Usage};
pub use request::{
    Block, ContentBlock, Message, MessagesRequest, Outline, Role, ToolDefinition, messages, messages_from, user_id,
};
