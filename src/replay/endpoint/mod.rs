//! The APIs that a replay speaks: each shapes a body and reads an answer, and does no I/O.
//!
//! Invariant: usage is merged over events, each count at its last statement; an event that carries no content (a role, a ping, a
//! count) is not the first token; content is never null.
//!
//! To add one: one new file, one line in [`ENDPOINTS`].

mod chat;
mod completions;
mod loose;
mod messages;
mod openai;
mod responses;

use crate::tokenize::Role;

use super::chunks::{Chunks, Writer};
use super::prompt::{PromptForm, Text};

/// What is asked for, beside the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The model's name at the endpoint.
    pub model: &'a str,
    /// The most tokens of the answer.
    pub max_tokens: u32,
    /// The answer in events.
    pub stream: bool,
    /// The answer is to have exactly `max_tokens` tokens, where the API has fields for that.
    pub exact: bool,
}

/// Tokens as the server counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of the whole prompt.
    pub prompt: Option<u64>,
    /// Of those, from the cache.
    pub cached: Option<u64>,
    /// Of the answer.
    pub output: Option<u64>,
}

/// An answer as far as it came.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// What was counted, as stated last.
    pub(crate) usage: Stated,
    /// Whether it came to its end.
    pub whole: bool,
    /// Whether the server reported an error in place of content.
    pub error: bool,
    /// Events that were no JSON of this API.
    pub unreadable: u32,
    /// The text, if it is kept.
    pub text: Option<String>,
}

/// Counts as the APIs state them, each at its last statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stated {
    /// The prompt: all of it, or without what came from the cache or went there.
    pub(crate) input: Option<u64>,
    pub(crate) cached: Option<u64>,
    /// Written to the cache; only where `input` leaves it out.
    pub(crate) written: Option<u64>,
    pub(crate) output: Option<u64>,
    /// Whether `input` leaves `cached` and `written` out.
    pub(crate) apart: bool,
}

impl Answer {
    /// An answer of which nothing came yet; its text is kept if `keep`.
    pub fn new(keep: bool) -> Self {
        Self { text: keep.then(String::new), ..Self::default() }
    }

    /// The counts, with the same meaning for every API.
    pub fn counts(&self) -> Counts {
        let Stated { input, cached, written, output, apart } = self.usage;
        let beside = if apart { cached.unwrap_or(0) + written.unwrap_or(0) } else { 0 };
        // The Messages API leaves a cache read of 0 out.
        let cached = cached.or((apart && input.is_some()).then_some(0));
        Counts { prompt: input.map(|input| input + beside), cached, output }
    }

    /// Adds a text; whether there was any.
    fn said(&mut self, text: Option<&str>) -> bool {
        let text = text.unwrap_or_default();
        if let Some(kept) = &mut self.text {
            kept.push_str(text);
        }
        !text.is_empty()
    }
}

/// An API.
pub trait Endpoint: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Where requests go.
    fn path(&self) -> &'static str;

    /// The body of a request; none if the API cannot carry a prompt of this form.
    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Chunks>;

    /// Reads the data of an event; whether it carries content.
    fn event(&self, data: &[u8], answer: &mut Answer) -> bool;

    /// Reads an answer that came in one piece.
    fn whole(&self, data: &[u8], answer: &mut Answer);

    /// Whether it has fields that force the length of an answer.
    fn forces_lengths(&self) -> bool;

    /// Headers that every request carries.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// Every API.
pub const ENDPOINTS: &[&dyn Endpoint] =
    &[&chat::Chat, &completions::Completions, &messages::Messages, &responses::Responses];

/// The API with this name.
pub fn endpoint(name: &str) -> Option<&'static dyn Endpoint> {
    ENDPOINTS.iter().copied().find(|endpoint| endpoint.name() == name)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// A body that begins with a prompt's messages as the member `name`; a text is one message of the user. None for token ids.
pub(super) fn messages(name: &str, prompt: &PromptForm) -> Option<Writer> {
    match prompt {
        PromptForm::Chat(messages) => {
            turns(name, messages.iter().map(|message| (role(message.role), &message.content)))
        }
        PromptForm::Text(text) => turns(name, [("user", text)]),
        PromptForm::Tokens(_) => None,
    }
}

fn turns<'a>(name: &str, turns: impl IntoIterator<Item = (&'a str, &'a Text)>) -> Option<Writer> {
    let mut writer = Writer::default();
    writer.raw(&format!("{{\"{name}\":["));
    for (at, (role, content)) in turns.into_iter().enumerate() {
        writer.raw(if at > 0 { ",{\"role\":\"" } else { "{\"role\":\"" });
        writer.raw(role);
        writer.raw("\",\"content\":");
        writer.text(content)?;
        writer.raw("}");
    }
    writer.raw("]");
    Some(writer)
}

#[cfg(test)]
mod tests;
