//! Anthropic Messages.
//!
//! Invariant: usage is merged over `message_start` and `message_delta`: some servers finish it in the one, some in the other.

use serde::{Deserialize, Serialize};

use super::loose::{Count, loose};
use super::{Answer, Ask, Endpoint, role, turns};
use crate::replay::chunks::Chunks;
use crate::replay::prompt::PromptForm;
use crate::tokenize::Role;

/// `/v1/messages`.
pub(super) struct Messages;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    message: Option<Started>,
    delta: Option<Delta>,
    content_block: Option<Block>,
    #[serde(deserialize_with = "loose")]
    usage: Option<Usage>,
    content: Option<Vec<Block>>,
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Started {
    #[serde(deserialize_with = "loose")]
    usage: Option<Usage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    text: Option<String>,
    thinking: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
struct Usage {
    input_tokens: Count,
    cache_read_input_tokens: Count,
    cache_creation_input_tokens: Count,
    output_tokens: Count,
}

impl Endpoint for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn path(&self) -> &'static str {
        "/v1/messages"
    }

    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Chunks> {
        let mut messages: Vec<_> = match prompt {
            PromptForm::Chat(messages) => messages.iter().map(|turn| (turn.role, &turn.content)).collect(),
            PromptForm::Text(text) => vec![(Role::User, text)],
            PromptForm::Tokens(_) => return None,
        };
        // Leading instructions have a member of their own; the API has no such role.
        let head = messages.iter().position(|(role, _)| *role != Role::System).unwrap_or(messages.len());
        let system = messages.drain(..head).map(|(_, text)| &**text).collect::<Vec<_>>().join("\n\n");
        let plain = |said: Role| role(if said == Role::System { Role::User } else { said });
        let messages = messages.into_iter().map(|(said, text)| (plain(said), text));
        let (model, max_tokens, stream) = (ask.model, ask.max_tokens, ask.stream);
        turns("messages", messages)?.rest(&Body { model, max_tokens, stream, system })
    }

    fn event(&self, data: &[u8], answer: &mut Answer) -> bool {
        if data == b"[DONE]" {
            return false;
        }
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            answer.unreadable += 1;
            return false;
        };
        note(answer, event.message.and_then(|message| message.usage));
        note(answer, event.usage);
        match event.kind.as_str() {
            "message_stop" => answer.whole = !answer.error,
            "error" => answer.error = true,
            _ => {}
        }
        let delta = event.delta.unwrap_or_default();
        answer.whole |= delta.stop_reason.is_some();
        let some = |text: Option<String>| text.is_some_and(|text| !text.is_empty());
        let called = event.content_block.as_ref().is_some_and(|block| block.kind == "tool_use");
        let begun = event.content_block.and_then(|block| block.text);
        answer.said(delta.text.as_deref())
            | answer.said(begun.as_deref())
            | some(delta.thinking)
            | some(delta.partial_json)
            | called
    }

    fn whole(&self, data: &[u8], answer: &mut Answer) {
        let Ok(body) = serde_json::from_slice::<Event>(data) else {
            answer.unreadable += 1;
            return;
        };
        note(answer, body.usage);
        answer.error |= body.kind == "error";
        answer.whole |= body.stop_reason.is_some();
        for block in body.content.unwrap_or_default() {
            answer.said(block.text.as_deref());
        }
    }

    fn forces_lengths(&self) -> bool {
        false
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }
}

fn note(answer: &mut Answer, usage: Option<Usage>) {
    let (Some(usage), stated) = (usage, &mut answer.usage) else { return };
    stated.apart = true;
    stated.input = usage.input_tokens.0.or(stated.input);
    stated.cached = usage.cache_read_input_tokens.0.or(stated.cached);
    stated.written = usage.cache_creation_input_tokens.0.or(stated.written);
    stated.output = usage.output_tokens.0.or(stated.output);
}
