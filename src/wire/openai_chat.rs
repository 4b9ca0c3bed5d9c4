//! OpenAI's chat completions: requests and answers, whole or streamed, in the form that all requests and answers are seen in.
//!
//! Invariant: leading system and developer messages are the system prompt; results of tools are what a user says; the prompt's
//! tokens are counted without those read from a cache, as elsewhere.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::WireError;
use super::anthropic::{Answer, Block, ContentBlock, Made, Message, MessagesRequest, Role, ToolDefinition, Usage};
use super::json::{Object, Text, compact, lenient, list, text};

/// Reads a request body.
///
/// # Errors
/// If it is not JSON, or a part of the prompt is not of the form that the API has.
pub fn parse(body: &[u8]) -> Result<MessagesRequest<'_>, WireError> {
    let fields = Object::parse(body)?;
    let given = fields.get("messages").ok_or(WireError { line: 0, column: 0, too_deep: false })?;
    let mut system = Vec::new();
    let mut messages: Vec<Message<'_>> = Vec::new();
    let mut after_result = false;
    for raw in list(Some(given))? {
        let (role, is_result, blocks) = message(raw)?;
        match messages.last_mut() {
            None if role == Role::System => system.extend(blocks),
            // Results of parallel calls are messages of their own here.
            Some(before) if is_result && after_result => before.blocks.extend(blocks),
            _ => messages.push(said(role, blocks)),
        }
        after_result = is_result;
    }
    request(&fields, system, messages)
}

/// A request of either API, with what they have in common.
pub(super) fn request<'a>(
    fields: &Object<'a>,
    system: Vec<Block<'a>>,
    messages: Vec<Message<'a>>,
) -> Result<MessagesRequest<'a>, WireError> {
    Ok(MessagesRequest {
        model: fields.word("model"),
        tools: list(fields.get("tools"))?.into_iter().map(tool).collect::<Result<_, _>>()?,
        system,
        messages,
        messages_at: 0,
        user_id: lenient::<Text<'_>>(fields.get("user")).map(|text| text.0),
        max_tokens: lenient(fields.any(&["max_completion_tokens", "max_output_tokens", "max_tokens"])),
        stream: lenient(fields.get("stream")),
    })
}

/// A message, which marks nothing for a cache.
pub(super) fn said(role: Role, blocks: Vec<Block<'_>>) -> Message<'_> {
    Message { role, blocks, last_mark: None, end: 0 }
}

/// A tool: its function in a member, as in chat completions, or not.
fn tool(raw: &RawValue) -> Result<ToolDefinition<'_>, WireError> {
    let outer = Object::of(raw)?;
    let kind = text(outer.get("type"))?;
    let inner = outer.get("function").map_or(Ok(outer), Object::of)?;
    Ok(ToolDefinition {
        kind: if matches!(&*kind, "function" | "custom") { Cow::Borrowed("") } else { kind },
        name: text(inner.get("name"))?,
        description: text(inner.get("description"))?,
        schema: compact(inner.any(&["parameters", "input_schema"]).map_or(raw.get(), RawValue::get)),
    })
}

/// A message: who speaks, whether it is the result of a tool, and its blocks.
fn message(raw: &RawValue) -> Result<(Role, bool, Vec<Block<'_>>), WireError> {
    let fields = Object::of(raw)?;
    let content = content(fields.get("content"))?;
    let Some(role) = role(&text(fields.get("role"))?)? else {
        let id = text(fields.get("tool_call_id"))?;
        return Ok((Role::User, true, vec![Block::ToolResult { id, is_error: false, content }]));
    };
    let thought = lenient::<Text<'_>>(fields.any(REASONING)).map(|text| text.0).unwrap_or_default();
    let mut blocks: Vec<Block<'_>> = Vec::new();
    blocks.extend((!thought.is_empty()).then_some(Block::Thinking(thought)));
    blocks.extend(content.into_iter().map(Block::Content));
    for raw in list(fields.get("tool_calls"))? {
        let call = Object::of(raw)?;
        let function = call.inside(&["function", "custom"]);
        let input = arguments(function.any(&["arguments", "input"]))?;
        blocks.push(Block::ToolUse { id: text(call.get("id"))?, name: text(function.get("name"))?, input });
    }
    Ok((role, false, blocks))
}

/// Where servers put what a model thought.
const REASONING: &[&str] = &["reasoning_content", "reasoning"];

/// A role; none for that of a tool.
pub(super) fn role(word: &str) -> Result<Option<Role>, WireError> {
    match word {
        "user" => Ok(Some(Role::User)),
        "assistant" => Ok(Some(Role::Assistant)),
        "system" | "developer" => Ok(Some(Role::System)),
        "tool" | "function" => Ok(None),
        _ => Err(WireError { line: 0, column: 0, too_deep: false }),
    }
}

/// Arguments of a call: JSON in a string, or JSON itself.
pub(super) fn arguments(raw: Option<&RawValue>) -> Result<Cow<'_, str>, WireError> {
    match raw {
        Some(raw) if !raw.get().starts_with('"') => Ok(compact(raw.get())),
        raw => Ok(match text(raw)? {
            Cow::Borrowed(arguments) => compact(arguments),
            Cow::Owned(arguments) => Cow::Owned(compact(&arguments).into_owned()),
        }),
    }
}

/// Content: a string, a list of parts, or null. An empty string is nothing.
pub(super) fn content(raw: Option<&RawValue>) -> Result<Vec<ContentBlock<'_>>, WireError> {
    if raw.is_some_and(|raw| raw.get().starts_with('"')) {
        let text = text(raw)?;
        return Ok(if text.is_empty() { Vec::new() } else { vec![ContentBlock::Text(text)] });
    }
    let mut blocks = Vec::new();
    for raw in list(raw)? {
        let part = Object::of(raw)?;
        blocks.push(match &*text(part.get("type"))? {
            "text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" | "refusal" => {
                ContentBlock::Text(text(part.any(&["text", "refusal"]))?)
            }
            "image_url" | "input_image" | "image" => ContentBlock::Image(compact(raw.get())),
            "file" | "input_file" | "document" => ContentBlock::Document(compact(raw.get())),
            _ => ContentBlock::Other(compact(raw.get())),
        });
    }
    Ok(blocks)
}

/// Token counts as OpenAI states them; LiteLLM adds those of Anthropic.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Stated {
    #[serde(alias = "input_tokens")]
    prompt_tokens: Option<u64>,
    #[serde(alias = "output_tokens")]
    completion_tokens: Option<u64>,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<Details>,
    #[serde(alias = "output_tokens_details")]
    completion_tokens_details: Option<Details>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

impl Stated {
    /// In the terms of all usage.
    pub(super) fn usage(&self) -> Usage {
        let details = self.prompt_tokens_details.as_ref();
        let read = self.cache_read_input_tokens.or(details.and_then(|details| details.cached_tokens));
        let others = read.unwrap_or(0).saturating_add(self.cache_creation_input_tokens.unwrap_or(0));
        Usage {
            input: self.prompt_tokens.map(|all| all.saturating_sub(others)),
            cache_read: read,
            cache_write_5m: self.cache_creation_input_tokens,
            cache_write_1h: None,
            output: self.completion_tokens,
            reasoning: self.completion_tokens_details.as_ref().and_then(|details| details.reasoning_tokens),
        }
    }
}

/// An answer of chat completions, put together as it comes.
#[derive(Default)]
pub(super) struct Building {
    seen: bool,
    done: bool,
    id: String,
    text: String,
    thought: bool,
    calls: BTreeMap<u64, (String, String, String, Option<u64>)>,
    finish: String,
    usage: Option<Usage>,
    first_us: Option<u64>,
}

impl Building {
    /// Takes in a piece of a stream, or a whole answer; false if it is neither.
    pub(super) fn take(&mut self, data: &[u8], at_us: Option<u64>) -> bool {
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return true;
        }
        let Ok(frame) = Object::parse(data) else { return false };
        let Some(choices) = lenient::<Vec<Object<'_>>>(frame.get("choices")) else { return false };
        self.seen = true;
        let id = frame.word("id");
        if !id.is_empty() {
            self.id = id.into_owned();
        }
        if let Some(choice) = choices.first() {
            let said = choice.inside(&["delta", "message"]);
            let text = said.word("content");
            let thought = lenient::<Text<'_>>(said.any(REASONING)).is_some_and(|thought| !thought.0.is_empty());
            let calls = lenient::<Vec<Object<'_>>>(said.get("tool_calls")).unwrap_or_default();
            if !text.is_empty() || thought || !calls.is_empty() {
                self.first_us = self.first_us.or(at_us);
            }
            self.text.push_str(&text);
            self.thought |= thought;
            for (at, call) in (0..).zip(calls) {
                let index = lenient(call.get("index")).unwrap_or(at);
                if !self.calls.contains_key(&index) {
                    self.end_calls(at_us);
                }
                let function = call.inside(&["function"]);
                let (id, name, input, _) = self.calls.entry(index).or_default();
                id.push_str(&call.word("id"));
                name.push_str(&function.word("name"));
                input.push_str(&function.word("arguments"));
            }
            let finish = choice.word("finish_reason");
            if !finish.is_empty() {
                self.finish = finish.into_owned();
                self.end_calls(at_us);
            }
        }
        if let Some(stated) = lenient::<Stated>(frame.get("usage")) {
            self.usage = Some(stated.usage());
        }
        true
    }

    fn end_calls(&mut self, at_us: Option<u64>) {
        for (.., whole_us) in self.calls.values_mut() {
            *whole_us = whole_us.or(at_us);
        }
    }

    /// The answer; none if nothing of one came.
    pub(super) fn finish(self) -> Option<Answer> {
        if !self.seen {
            return None;
        }
        let mut made = Vec::new();
        made.extend(self.thought.then_some(Made::Thinking));
        made.extend((!self.text.is_empty()).then_some(Made::Text(self.text)));
        made.extend(self.calls.into_values().map(|(id, name, input, whole_at_us)| {
            let input = compact(&input).into_owned();
            Made::ToolUse { id, name, input, whole_at_us }
        }));
        Some(Answer {
            id: self.id,
            made,
            whole: !self.finish.is_empty() || self.done,
            stop_reason: match &*self.finish {
                "stop" => "end_turn".into(),
                "length" => "max_tokens".into(),
                "tool_calls" | "function_call" => "tool_use".into(),
                _ => self.finish,
            },
            usage: self.usage.unwrap_or_default(),
            first_content_us: self.first_us,
            error: String::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::anthropic::AnswerReader;

    #[test]
    fn a_request_is_seen_as_any_other() {
        let body = br#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"data:"}}]},
            {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},
            {"role":"tool","tool_call_id":"c1","content":"x"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"y"}]},{"role":"developer","content":"d"}],
            "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type": "object"}}}],"max_completion_tokens":7,"stream":true}"#;
        let request = parse(body).unwrap();
        assert_eq!((request.system.len(), request.messages.len(), request.max_tokens), (1, 4, Some(7)));
        assert_eq!(request.stream, Some(true));
        assert_eq!(
            (&*request.tools[0].name, &*request.tools[0].schema, &*request.tools[0].kind),
            ("f", r#"{"type":"object"}"#, "")
        );
        assert!(
            matches!(&request.messages[1].blocks[..], [Block::Thinking(_), Block::ToolUse { input, .. }, Block::ToolUse { .. }] if input == r#"{"a":1}"#)
        );
        assert!(matches!(&request.messages[2].blocks[..], [Block::ToolResult { .. }, Block::ToolResult { .. }]));
        assert_eq!(request.messages[3].role, Role::System);
        assert!(matches!(&request.messages[0].blocks[1], Block::Content(ContentBlock::Image(_))));
    }

    #[test]
    fn a_stream_and_a_whole_answer_say_the_same() {
        let stream = [
            r#"{"id":"x","choices":[{"delta":{"role":"assistant","content":"a"}}]}"#,
            r#"{"id":"x","choices":[{"delta":{"content":"b"}}]}"#,
            r#"{"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"k\""}}]}}]}"#,
            r#"{"id":"x","choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
            r#"{"id":"x","choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
            r#"{"id":"x","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":2}}}"#,
            "[DONE]",
        ];
        let mut streamed = AnswerReader::new();
        for (at, data) in stream.iter().enumerate() {
            streamed.push(format!("data: {data}\n\n").as_bytes(), Some(at as u64));
        }
        let mut whole = AnswerReader::new();
        whole.push(br#"{"id":"x","object":"chat.completion","choices":[{"message":{"content":"ab","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{\"k\":1}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":2}}}"#, None);
        for (answer, first) in [(streamed.finish(), Some(0)), (whole.finish(), None)] {
            assert!(answer.whole);
            assert_eq!((&*answer.id, &*answer.stop_reason, answer.first_content_us), ("x", "tool_use", first));
            assert_eq!(
                (answer.usage.input, answer.usage.cache_read, answer.usage.output, answer.usage.reasoning),
                (Some(4), Some(6), Some(4), Some(2))
            );
            assert!(
                matches!(&answer.made[..], [Made::Text(text), Made::ToolUse { id, input, .. }] if text == "ab" && id == "c1" && input == r#"{"k":1}"#)
            );
        }
    }

    #[test]
    fn what_is_wrong_is_an_error_without_its_content() {
        for body in [&br#"{"messages":[{"role":"SECRET"}]}"#[..], br#"{"messages":{"SECRET":1}}"#, b"SECRET"] {
            assert!(!parse(body).err().unwrap().to_string().contains("SECRET"));
        }
    }
}
