//! OpenAI Responses.
//!
//! Invariant: as the module's.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::loose::{Count, loose};
use super::{Answer, Ask, Endpoint, messages};
use crate::replay::chunks::Chunks;
use crate::replay::prompt::PromptForm;

/// `/v1/responses`.
pub(super) struct Responses;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_output_tokens: u32,
    stream: bool,
    store: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    delta: Option<serde_json::Value>,
    response: Option<Response>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    status: Option<String>,
    #[serde(deserialize_with = "loose")]
    usage: Option<Usage>,
    error: Option<IgnoredAny>,
    output: Option<Vec<Item>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    content: Option<Vec<Text>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Text {
    text: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    #[serde(deserialize_with = "loose")]
    input_tokens_details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Count,
}

impl Endpoint for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn path(&self) -> &'static str {
        "/v1/responses"
    }

    fn body(&self, ask: &Ask<'_>, prompt: &PromptForm) -> Option<Chunks> {
        let (model, max_output_tokens, stream) = (ask.model, ask.max_tokens, ask.stream);
        messages("input", prompt)?.rest(&Body { model, max_output_tokens, stream, store: false })
    }

    fn event(&self, data: &[u8], answer: &mut Answer) -> bool {
        if data == b"[DONE]" {
            return false;
        }
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            answer.unreadable += 1;
            return false;
        };
        match event.kind.as_str() {
            "response.completed" | "response.incomplete" | "response.failed" => {
                note(answer, event.response.unwrap_or_default(), false);
                false
            }
            "error" => {
                answer.error = true;
                false
            }
            "response.output_text.delta" => answer.said(event.delta.as_ref().and_then(|delta| delta.as_str())),
            kind if kind.rsplit('.').next() == Some("delta") => {
                event.delta.is_some_and(|delta| delta.as_str() != Some(""))
            }
            _ => false,
        }
    }

    fn whole(&self, data: &[u8], answer: &mut Answer) {
        match serde_json::from_slice::<Response>(data) {
            Ok(response) => note(answer, response, true),
            Err(_) => answer.unreadable += 1,
        }
    }

    fn forces_lengths(&self) -> bool {
        false
    }
}

fn note(answer: &mut Answer, response: Response, say: bool) {
    let status = response.status.as_deref();
    answer.error |= response.error.is_some() || status == Some("failed");
    answer.whole = !answer.error && matches!(status, None | Some("completed" | "incomplete"));
    if let Some(usage) = response.usage {
        let stated = &mut answer.usage;
        stated.input = usage.input_tokens.0.or(stated.input);
        stated.output = usage.output_tokens.0.or(stated.output);
        stated.cached = usage.input_tokens_details.and_then(|details| details.cached_tokens.0).or(stated.cached);
    }
    let items = response.output.unwrap_or_default().into_iter().filter(|_| say);
    for text in items.filter_map(|item| item.content).flatten() {
        answer.said(text.text.as_deref());
    }
}
