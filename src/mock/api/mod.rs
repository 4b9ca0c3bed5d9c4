//! The APIs: what a request body asks for, and how an answer is said.
//!
//! Invariant: text of a body is borrowed from it. A refusal says which part is wrong, never what it holds.

mod chat;
mod completions;
mod messages;
mod openai;
mod responses;

use std::time::Duration;

use super::options::Imitate;
use super::tokens::Counter;
use crate::tokenize::Token;

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// The prompt.
    pub(super) tokens: Vec<Token>,
    pub(super) stream: bool,
    /// Whether a stream is to say its usage (OpenAI).
    pub(super) include_usage: bool,
    pub(super) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) ignore_eos: bool,
    /// The model, as a JSON string.
    pub(super) model: String,
}

/// Why a body is refused with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) &'static str);

/// An answer, for whoever says it.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) number: u64,
    /// As a JSON string.
    pub(super) model: String,
    pub(super) imitate: Imitate,
    pub(super) include_usage: bool,
    pub(super) prompt_tokens: u32,
    /// None where the server does not tell.
    pub(super) cached_tokens: Option<u32>,
    /// Prompt tokens in full blocks.
    pub(super) cacheable_tokens: u32,
    pub(super) output_tokens: u32,
    /// Whether the limit ended it.
    pub(super) by_length: bool,
    /// Time that the prompt took.
    pub(super) prefill: Duration,
}

/// An API.
pub(super) trait Api: Sync {
    /// Its name in a recording.
    fn name(&self) -> &'static str;

    /// Reads a request body.
    fn read(&self, body: &[u8], counter: &Counter, imitate: Imitate) -> Result<Call, Refused>;

    /// The whole answer.
    fn whole(&self, said: &Said, text: &str) -> String;

    /// What comes before the first piece of a stream.
    fn open(&self, said: &Said, out: &mut String);

    /// A piece; `first` is the first one.
    fn piece(&self, said: &Said, text: &str, first: bool, out: &mut String);

    /// What comes after the last piece of text.
    fn close(&self, said: &Said, text: &str, out: &mut String);

    /// An error as a body.
    fn error(&self, status: u16, message: &str) -> String {
        openai::error(status, message)
    }
}

/// The API at a path.
pub(super) fn at(path: &str) -> Option<&'static dyn Api> {
    Some(match path {
        "/v1/chat/completions" => &chat::Chat,
        "/v1/completions" => &completions::Completions,
        "/v1/responses" => &responses::Responses,
        "/v1/messages" => &messages::Messages,
        _ => return None,
    })
}

/// The prompt of a body for `/v1/messages/count_tokens`.
pub(super) fn count_messages(body: &[u8], counter: &Counter) -> Result<usize, Refused> {
    messages::tokens(body, counter).map(|tokens| tokens.len())
}

/// The prompt of a body for `/tokenize`: `prompt`, `content` or `messages`.
pub(super) fn tokenize(body: &[u8], counter: &Counter) -> Result<Vec<Token>, Refused> {
    openai::tokenize(body, counter)
}

/// Appends a server-sent event with a name.
fn event(name: &str, data: &str, out: &mut String) {
    for part in ["event: ", name, "\ndata: ", data, "\n\n"] {
        out.push_str(part);
    }
}

/// Appends a server-sent event without one.
fn data(data: &str, out: &mut String) {
    for part in ["data: ", data, "\n\n"] {
        out.push_str(part);
    }
}

#[cfg(test)]
mod tests;
