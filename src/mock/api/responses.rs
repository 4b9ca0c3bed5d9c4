//! OpenAI Responses.
//!
//! Invariant: nothing is kept between requests, so a body that builds on an earlier response is refused.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::openai::{self, Function, NOT_JSON};
use super::{Api, Call, Refused, Said, event};
use crate::mock::options::Imitate;
use crate::mock::tokens::Counter;
use crate::tokenize::{Block, Content, Message, Prompt, Role, Token};

pub(super) struct Responses;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    input: &'a RawValue,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    previous_response_id: Option<&'a RawValue>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    max_output_tokens: Option<u32>,
    #[serde(default)]
    min_tokens: Option<u32>,
    #[serde(default)]
    ignore_eos: Option<bool>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    role: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Cow<'a, str>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
}

fn tokens(body: &Body<'_>, counter: &Counter) -> Result<Vec<Token>, Refused> {
    let input = openai::text(body.input);
    let raws: Vec<&RawValue> = match &input {
        Some(_) => Vec::new(),
        None => serde_json::from_str(body.input.get()).map_err(|_| NOT_JSON)?,
    };
    let items = raws
        .iter()
        .map(|raw| serde_json::from_str(raw.get()).map(|item: Item<'_>| (item, *raw)).map_err(|_| NOT_JSON))
        .collect::<Result<Vec<_>, _>>()?;
    let functions: Vec<Option<Function<'_>>> =
        body.tools.iter().flatten().map(|tool| serde_json::from_str(tool.get()).ok()).collect();
    let mut prompt = Prompt {
        tools: functions.iter().flatten().map(Function::tool).collect(),
        system: openai::contents(body.instructions)?,
        messages: Vec::new(),
    };
    if let Some(text) = input {
        prompt.messages.push(Message { role: Role::User, blocks: vec![Block::Content(Content::Text(text))] });
    }
    for (item, raw) in &items {
        let (role, block) = match &*item.kind {
            "" | "message" => {
                let role = match &*item.role {
                    "system" | "developer" => Role::System,
                    "assistant" => Role::Assistant,
                    _ => Role::User,
                };
                if role == Role::System && prompt.messages.is_empty() {
                    prompt.system.extend(openai::contents(item.content)?);
                } else {
                    prompt.messages.push(Message { role, blocks: openai::blocks(item.content)? });
                }
                continue;
            }
            "function_call" => (Role::Assistant, Block::ToolUse { name: &item.name, input: &item.arguments }),
            "function_call_output" => (Role::User, Block::ToolResult(openai::contents(item.output)?)),
            _ => (Role::Assistant, Block::Other(raw.get())),
        };
        prompt.messages.push(Message { role, blocks: vec![block] });
    }
    openai::lay(&prompt, counter)
}

impl Api for Responses {
    fn name(&self) -> &'static str {
        "responses"
    }

    fn read(&self, body: &[u8], counter: &Counter, _: Imitate) -> Result<Call, Refused> {
        let body: Body<'_> = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
        if body.previous_response_id.is_some() {
            return Err(Refused("previous_response_id: no response is kept here"));
        }
        Ok(Call {
            tokens: tokens(&body, counter)?,
            stream: body.stream.unwrap_or(false),
            include_usage: true,
            max_tokens: body.max_output_tokens,
            min_tokens: body.min_tokens.unwrap_or(0),
            ignore_eos: body.ignore_eos.unwrap_or(false),
            model: openai::model(body.model),
        })
    }

    fn whole(&self, said: &Said, text: &str) -> String {
        response(said, Some(text))
    }

    fn open(&self, said: &Said, out: &mut String) {
        for kind in ["response.created", "response.in_progress"] {
            event(kind, &format!(r#"{{"type":"{kind}","response":{}}}"#, response(said, None)), out);
        }
        let item = format!(
            r#"{{"type":"response.output_item.added","output_index":0,"item":{{"type":"message","id":"msg_{}","status":"in_progress","role":"assistant","content":[]}}}}"#,
            said.number
        );
        event("response.output_item.added", &item, out);
        part("response.content_part.added", said, "", out);
    }

    fn piece(&self, said: &Said, text: &str, _: bool, out: &mut String) {
        let delta = format!(
            r#"{{"type":"response.output_text.delta","item_id":"msg_{}","output_index":0,"content_index":0,"delta":"{text}"}}"#,
            said.number
        );
        event("response.output_text.delta", &delta, out);
    }

    fn close(&self, said: &Said, text: &str, out: &mut String) {
        let done = format!(
            r#"{{"type":"response.output_text.done","item_id":"msg_{}","output_index":0,"content_index":0,"text":"{text}"}}"#,
            said.number
        );
        event("response.output_text.done", &done, out);
        part("response.content_part.done", said, text, out);
        let item = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{}}}"#, message(said, text));
        event("response.output_item.done", &item, out);
        let kind = if said.by_length { "response.incomplete" } else { "response.completed" };
        event(kind, &format!(r#"{{"type":"{kind}","response":{}}}"#, response(said, Some(text))), out);
    }
}

fn part(kind: &str, said: &Said, text: &str, out: &mut String) {
    let part = format!(
        r#"{{"type":"{kind}","item_id":"msg_{}","output_index":0,"content_index":0,"part":{{"type":"output_text","text":"{text}","annotations":[]}}}}"#,
        said.number
    );
    event(kind, &part, out);
}

fn message(said: &Said, text: &str) -> String {
    format!(
        r#"{{"type":"message","id":"msg_{}","status":"completed","role":"assistant","content":[{{"type":"output_text","text":"{text}","annotations":[]}}]}}"#,
        said.number
    )
}

/// The response object; in progress if there is no text yet.
fn response(said: &Said, text: Option<&str>) -> String {
    let (status, details) = match text {
        None => ("in_progress", "null"),
        Some(_) if said.by_length => ("incomplete", r#"{"reason":"max_output_tokens"}"#),
        Some(_) => ("completed", "null"),
    };
    let usage = text.map_or_else(
        || "null".to_owned(),
        |_| {
            let cached = said.cached_tokens.unwrap_or(0);
            format!(
                r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{cached}}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
                said.prompt_tokens,
                said.output_tokens,
                u64::from(said.prompt_tokens) + u64::from(said.output_tokens),
            )
        },
    );
    let output = text.map(|text| message(said, text)).unwrap_or_default();
    format!(
        r#"{{"id":"resp_{}","object":"response","created_at":0,"status":"{status}","error":null,"incomplete_details":{details},"model":{},"output":[{output}],"usage":{usage}}}"#,
        said.number, said.model,
    )
}
