//! OpenAI's chat completions: requests and answers, whole or streamed, in the form that all requests and answers are seen in.
//!
//! Invariant: leading system and developer messages are the system prompt; results of tools are what a user says; the prompt's
//! tokens are counted without those read from a cache, as elsewhere.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::anthropic::request::{Text, lenient, list, text};
use super::anthropic::{Answer, Block, ContentBlock, Made, Message, MessagesRequest, Role, ToolDefinition, Usage};
use super::{WireError, compact};

/// Reads a request body.
///
/// # Errors
/// If it is not JSON, or a part of the prompt is not of the form that the API has.
pub fn parse(body: &[u8]) -> Result<MessagesRequest<'_>, WireError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        model: Option<&'a RawValue>,
        #[serde(borrow)]
        tools: Option<&'a RawValue>,
        #[serde(borrow)]
        messages: &'a RawValue,
        #[serde(borrow)]
        user: Option<&'a RawValue>,
        #[serde(borrow)]
        max_tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        max_completion_tokens: Option<&'a RawValue>,
        #[serde(borrow)]
        stream: Option<&'a RawValue>,
        #[serde(borrow)]
        response_format: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_slice(body)?;
    let mut system = Vec::new();
    let mut messages: Vec<Message<'_>> = Vec::new();
    let mut after_result = false;
    for raw in list(Some(fields.messages))? {
        let (message, is_result) = message(raw)?;
        match messages.last_mut() {
            None if message.role == Role::System => system.extend(message.blocks),
            // Results of parallel calls are messages of their own here.
            Some(before) if is_result && after_result => before.blocks.extend(message.blocks),
            _ => messages.push(message),
        }
        after_result = is_result;
    }
    Ok(MessagesRequest {
        model: lenient::<Text<'_>>(fields.model).map(|text| text.0).unwrap_or_default(),
        tools: list(fields.tools)?.into_iter().map(tool).collect::<Result<_, _>>()?,
        system,
        messages,
        messages_at: 0,
        user_id: lenient::<Text<'_>>(fields.user).map(|text| text.0),
        max_tokens: lenient(fields.max_completion_tokens).or(lenient(fields.max_tokens)),
        stream: lenient(fields.stream),
        wants_json: wants_json(fields.response_format),
    })
}

/// Whether a format that was asked for is JSON.
pub(super) fn wants_json(format: Option<&RawValue>) -> bool {
    #[derive(Deserialize)]
    struct Format<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
    }
    lenient::<Format<'_>>(format).is_some_and(|format| format.kind.0.starts_with("json"))
}

/// A tool of chat completions (its function in a member) or of Responses.
pub(super) fn tool(raw: &RawValue) -> Result<ToolDefinition<'_>, WireError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        function: Option<&'a RawValue>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        description: Option<&'a RawValue>,
        #[serde(borrow, alias = "input_schema")]
        parameters: Option<&'a RawValue>,
    }
    let outer: Fields<'_> = serde_json::from_str(raw.get())?;
    let kind = text(outer.kind)?;
    let inner = outer.function.map(|raw| serde_json::from_str(raw.get())).transpose()?.unwrap_or(outer);
    Ok(ToolDefinition {
        kind: if matches!(&*kind, "function" | "custom") { Cow::Borrowed("") } else { kind },
        name: text(inner.name)?,
        description: text(inner.description)?,
        schema: compact(inner.parameters.map_or(raw.get(), RawValue::get)),
    })
}

/// A message, and whether it is the result of a tool.
fn message(raw: &RawValue) -> Result<(Message<'_>, bool), WireError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow)]
        role: Text<'a>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow, alias = "reasoning")]
        reasoning_content: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_calls: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_call_id: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Call<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow, alias = "custom")]
        function: Function<'a>,
    }
    #[derive(Deserialize)]
    struct Function<'a> {
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow, alias = "input")]
        arguments: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_str(raw.get())?;
    let content = content(fields.content)?;
    let role = role(&fields.role.0)?;
    if role.is_none() {
        let id = text(fields.tool_call_id)?;
        let blocks = vec![Block::ToolResult { id, is_error: false, content }];
        return Ok((Message { role: Role::User, blocks, last_mark: None, end: 0 }, true));
    }
    let thought: Cow<'_, str> = lenient::<Text<'_>>(fields.reasoning_content).map(|text| text.0).unwrap_or_default();
    let mut blocks: Vec<Block<'_>> = Vec::new();
    blocks.extend((!thought.is_empty()).then_some(Block::Thinking(thought)));
    blocks.extend(content.into_iter().map(Block::Content));
    for raw in list(fields.tool_calls)? {
        let call: Call<'_> = serde_json::from_str(raw.get())?;
        let input = arguments(call.function.arguments)?;
        blocks.push(Block::ToolUse { id: text(call.id)?, name: text(call.function.name)?, input });
    }
    Ok((Message { role: role.unwrap_or(Role::User), blocks, last_mark: None, end: 0 }, false))
}

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
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        #[serde(borrow, alias = "refusal")]
        text: Option<&'a RawValue>,
    }
    if raw.is_some_and(|raw| raw.get().starts_with('"')) {
        let text = text(raw)?;
        return Ok(if text.is_empty() { Vec::new() } else { vec![ContentBlock::Text(text)] });
    }
    let part = |raw: &'_ RawValue| -> Result<_, WireError> {
        let part: Part<'_> = serde_json::from_str(raw.get())?;
        Ok(match part.kind.as_ref().map(|kind| &*kind.0) {
            Some("text" | "input_text" | "output_text" | "summary_text" | "reasoning_text" | "refusal") => {
                Some(text(part.text)?.into_owned())
            }
            _ => None,
        })
    };
    let mut blocks = Vec::new();
    for raw in list(raw)? {
        let whole = raw.get();
        blocks.push(match part(raw)? {
            Some(text) => ContentBlock::Text(Cow::Owned(text)),
            None if whole.contains("image") => ContentBlock::Image(compact(whole)),
            None if whole.contains("\"file") || whole.contains("input_file") => ContentBlock::Document(compact(whole)),
            None => ContentBlock::Other(compact(whole)),
        });
    }
    Ok(blocks)
}

/// An answer, or a piece of a stream; members of a wrong type are as if absent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Frame<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Choice<'a> {
    #[serde(borrow, alias = "message")]
    delta: Option<Said<'a>>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow, alias = "reasoning")]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<Called<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Called<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    function: CalledFunction<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CalledFunction<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
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
        let Ok(Frame { id, choices: Some(choices), usage }) = serde_json::from_slice(data) else { return false };
        self.seen = true;
        let word =
            |raw: Option<&RawValue>| lenient::<Text<'_>>(raw).map(|text| text.0.into_owned()).unwrap_or_default();
        let id = word(id);
        if !id.is_empty() {
            self.id = id;
        }
        for choice in choices.into_iter().take(1) {
            let said = choice.delta.unwrap_or_default();
            let (text, thought) = (word(said.content), word(said.reasoning_content));
            let calls = said.tool_calls.unwrap_or_default();
            if !text.is_empty() || !thought.is_empty() || !calls.is_empty() {
                self.first_us = self.first_us.or(at_us);
            }
            self.text.push_str(&text);
            self.thought |= !thought.is_empty();
            for (at, call) in (0..).zip(calls) {
                let index = lenient(call.index).unwrap_or(at);
                if !self.calls.contains_key(&index) {
                    self.end_calls(at_us);
                }
                let (id, name, input, _) = self.calls.entry(index).or_default();
                id.push_str(&word(call.id));
                name.push_str(&word(call.function.name));
                input.push_str(&word(call.function.arguments));
            }
            let finish = word(choice.finish_reason);
            if !finish.is_empty() {
                self.finish = finish;
                self.end_calls(at_us);
            }
        }
        if let Some(stated) = lenient::<Stated>(usage) {
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
            "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type": "object"}}}],"max_completion_tokens":7,"stream":true,"response_format":{"type":"json_schema"}}"#;
        let request = parse(body).unwrap();
        assert_eq!((request.system.len(), request.messages.len(), request.max_tokens), (1, 4, Some(7)));
        assert_eq!((request.stream, request.wants_json), (Some(true), true));
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
