//! What chat and text completions have in common.
//!
//! Invariant: members of another type than the API's are as if absent; members that are not known are never looked at.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::loose::{Count, loose};
use super::{Answer, Ask};

/// Members beside the prompt.
#[derive(Serialize)]
pub(super) struct Rest<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    temperature: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_eos: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tokens: Option<u32>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl<'a> Rest<'a> {
    pub(super) fn new(ask: &Ask<'a>) -> Self {
        Self {
            model: ask.model,
            max_tokens: ask.max_tokens,
            stream: ask.stream,
            stream_options: ask.stream.then_some(StreamOptions { include_usage: true }),
            temperature: 0.0,
            ignore_eos: ask.exact.then_some(true),
            min_tokens: ask.exact.then_some(ask.max_tokens),
        }
    }
}

/// A chunk of a stream, or a whole answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(deserialize_with = "loose")]
    usage: Option<Usage>,
    error: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Option<Said<'a>>,
    #[serde(borrow)]
    message: Option<Said<'a>>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    finish_reason: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow, deserialize_with = "loose")]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "loose")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "loose")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(deserialize_with = "loose")]
    tool_calls: Option<Vec<IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: Count,
    completion_tokens: Count,
    #[serde(deserialize_with = "loose")]
    prompt_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
}

/// Reads a chunk or a whole answer; whether it carries content.
pub(super) fn read(data: &[u8], answer: &mut Answer) -> bool {
    if data == b"[DONE]" {
        answer.whole = !answer.error;
        return false;
    }
    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        answer.unreadable += 1;
        return false;
    };
    if let Some(usage) = chunk.usage {
        let stated = &mut answer.usage;
        stated.input = usage.prompt_tokens.0.or(stated.input);
        stated.output = usage.completion_tokens.0.or(stated.output);
        stated.cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens.0).or(stated.cached);
    }
    answer.error |= chunk.error.is_some();
    let mut content = false;
    for choice in chunk.choices.unwrap_or_default() {
        answer.whole |= choice.finish_reason.is_some();
        content |= answer.said(choice.text.as_deref());
        for said in choice.delta.into_iter().chain(choice.message) {
            content |= answer.said(said.content.as_deref());
            let reasoned = |text: Option<Cow<'_, str>>| text.is_some_and(|text| !text.is_empty());
            content |= reasoned(said.reasoning_content) || reasoned(said.reasoning);
            content |= said.tool_calls.is_some_and(|calls| !calls.is_empty());
        }
    }
    content
}
