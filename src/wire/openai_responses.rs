//! OpenAI's Responses API, as Codex uses it, in the form that all requests and answers are seen in.
//!
//! Invariant: items of one speaker that follow one another are one message; of reasoning only the summary is read, since what is
//! encrypted says nothing; a request that goes on from an earlier response is whole only with that response's items before its own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::anthropic::request::{Text, lenient, list, text};
use super::anthropic::{Answer, Block, ContentBlock, Made, Message, MessagesRequest, Role};
use super::openai_chat::{Stated, arguments, content, role, tool, wants_json};
use super::{Sse, WireError, compact};

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    max_output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    previous_response_id: Option<&'a RawValue>,
}

/// Reads a request body.
///
/// # Errors
/// If it is not JSON, or a part of the prompt is not of the form that the API has.
pub fn parse(body: &[u8]) -> Result<MessagesRequest<'_>, WireError> {
    #[derive(Deserialize)]
    struct Wanted<'a> {
        #[serde(borrow)]
        format: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_slice(body)?;
    let mut system: Vec<Block<'_>> = content(fields.instructions)?.into_iter().map(Block::Content).collect();
    let mut messages: Vec<Message<'_>> = Vec::new();
    let mut before = Kind::Other;
    if fields.input.is_some_and(|input| input.get().starts_with('"')) {
        let blocks = content(fields.input)?.into_iter().map(Block::Content).collect();
        messages.push(Message { role: Role::User, blocks, last_mark: None, end: 0 });
    } else {
        for raw in list(fields.input)? {
            let (role, kind, blocks) = item(raw)?;
            match messages.last_mut() {
                None if role == Role::System => system.extend(blocks),
                Some(last) if last.role == role && kind == before && kind != Kind::Other => last.blocks.extend(blocks),
                _ => messages.push(Message { role, blocks, last_mark: None, end: 0 }),
            }
            before = kind;
        }
    }
    Ok(MessagesRequest {
        model: lenient::<Text<'_>>(fields.model).map(|text| text.0).unwrap_or_default(),
        tools: list(fields.tools)?.into_iter().map(tool).collect::<Result<_, _>>()?,
        system,
        messages,
        messages_at: 0,
        user_id: None,
        max_tokens: lenient(fields.max_output_tokens),
        stream: lenient(fields.stream),
        wants_json: wants_json(lenient::<Wanted<'_>>(fields.text).and_then(|wanted| wanted.format)),
    })
}

/// Which items go into one message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What the model said, thought and called.
    Answer,
    /// Results of calls.
    Result,
    /// A message of its own.
    Other,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    role: Option<Text<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow, alias = "input", alias = "action")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

fn item(raw: &RawValue) -> Result<(Role, Kind, Vec<Block<'_>>), WireError> {
    let item: Item<'_> = serde_json::from_str(raw.get())?;
    let kind = item.kind.as_ref().map_or("message", |kind| &*kind.0);
    Ok(match kind {
        "message" => {
            let role = role(item.role.as_ref().map_or("user", |role| &*role.0))?.unwrap_or(Role::User);
            let kind = if role == Role::Assistant { Kind::Answer } else { Kind::Other };
            (role, kind, content(item.content)?.into_iter().map(Block::Content).collect())
        }
        "reasoning" => {
            let shown = content(item.summary)?.into_iter().chain(content(item.content)?);
            let thought = shown.filter_map(|block| match block {
                ContentBlock::Text(text) => Some(text.into_owned()),
                ContentBlock::Image(_) | ContentBlock::Document(_) | ContentBlock::Other(_) => None,
            });
            let thought = thought.collect::<Vec<_>>().join("\n");
            (Role::Assistant, Kind::Answer, vec![Block::Thinking(Cow::Owned(thought))])
        }
        _ if kind.ends_with("_call_output") => {
            let id = text(item.call_id)?;
            (Role::User, Kind::Result, vec![Block::ToolResult { id, is_error: false, content: output(item.output)? }])
        }
        _ if kind.ends_with("_call") => (Role::Assistant, Kind::Answer, vec![call(&item, kind)?]),
        _ => (Role::User, Kind::Other, vec![Block::Content(ContentBlock::Other(compact(raw.get())))]),
    })
}

fn call<'a>(item: &Item<'a>, kind: &str) -> Result<Block<'a>, WireError> {
    let id = text(item.call_id.or(item.id))?;
    let named = text(item.name)?;
    // Tools that the API itself defines have no name but that of their kind.
    let name = if named.is_empty() { Cow::Owned(kind.trim_end_matches("_call").to_owned()) } else { named };
    Ok(Block::ToolUse { id, name, input: arguments(item.arguments)? })
}

/// What a tool said: a string, parts, or some other JSON.
fn output(raw: Option<&RawValue>) -> Result<Vec<ContentBlock<'_>>, WireError> {
    match raw {
        Some(raw) if raw.get().starts_with('{') => Ok(vec![ContentBlock::Text(compact(raw.get()))]),
        raw => content(raw),
    }
}

/// The id of the response that a request goes on from.
pub fn goes_on_from(body: &[u8]) -> Option<String> {
    let fields: Fields<'_> = serde_json::from_slice(body).ok()?;
    lenient::<Text<'_>>(fields.previous_response_id).map(|id| id.0.into_owned()).filter(|id| !id.is_empty())
}

/// The items of a request's input, as they stand in the list.
pub fn input_items(body: &[u8]) -> Option<String> {
    let fields: Fields<'_> = serde_json::from_slice(body).ok()?;
    let input = fields.input?.get();
    match input.trim().strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
        Some(inside) => Some(inside.trim().to_owned()),
        None => Some(format!(r#"{{"role":"user","content":{input}}}"#)),
    }
}

/// The items of an answer, whole or streamed, as they would stand in the list of an input.
pub fn output_items(answer: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        output: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow)]
        item: &'a RawValue,
    }
    if let Ok(whole) = serde_json::from_slice::<Whole<'_>>(answer) {
        return whole.output.iter().map(|item| item.get()).collect::<Vec<_>>().join(",");
    }
    let mut items = Vec::new();
    let mut each = |event: super::Event<'_>| {
        if let Ok(event) = serde_json::from_slice::<Event<'_>>(event.data)
            && event.kind.0 == "response.output_item.done"
        {
            items.push(event.item.get().to_owned());
        }
    };
    let mut sse = Sse::new();
    sse.push(answer, &mut each);
    sse.finish(&mut each);
    items.join(",")
}

/// A request body whose input is `before` and its own.
pub fn continued(body: &[u8], before: &[&str]) -> Option<Vec<u8>> {
    let own = input_items(body)?;
    let items: Vec<&str> = before.iter().copied().chain([&*own]).filter(|items| !items.is_empty()).collect();
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    let mut out = format!("{{\"input\":[{}]", items.join(","));
    for (key, value) in fields.iter().filter(|(key, _)| !["input", "previous_response_id"].contains(&key.as_str())) {
        out.push(',');
        out.push_str(&serde_json::to_string(key).ok()?);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    Some(out.into_bytes())
}

/// An answer, or an event of a stream; members of a wrong type are as if absent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Frame<'a> {
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    output_index: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Whole<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<&'a RawValue>,
}

/// An answer of the Responses API, put together as it comes.
#[derive(Default)]
pub(super) struct Building {
    answer: Answer,
    seen: bool,
    made: BTreeMap<u64, Made>,
}

impl Building {
    /// Takes in an event of a stream, by its kind; false if it is none of this API.
    pub(super) fn event(&mut self, kind: &str, data: &[u8], at_us: Option<u64>) -> bool {
        let Some(kind) = kind.strip_prefix("response.") else { return false };
        let frame: Frame<'_> = serde_json::from_slice(data).unwrap_or_default();
        self.seen = true;
        let index = lenient(frame.output_index).unwrap_or_else(|| u64::try_from(self.made.len()).unwrap_or(u64::MAX));
        match kind {
            "output_item.added" => {
                self.made.extend(frame.item.and_then(|item| made(item, None)).map(|made| (index, made)));
            }
            "output_item.done" => {
                self.answer.first_content_us = self.answer.first_content_us.or(at_us);
                self.made.extend(frame.item.and_then(|item| made(item, at_us)).map(|made| (index, made)));
            }
            "created" | "in_progress" | "completed" | "incomplete" | "failed" | "done" => {
                self.whole(lenient(frame.response).unwrap_or_default(), !["created", "in_progress"].contains(&kind));
            }
            _ if kind.rsplit('.').next() == Some("delta") => {
                self.answer.first_content_us = self.answer.first_content_us.or(at_us);
            }
            _ => {}
        }
        true
    }

    /// Takes in a whole answer; false if it is none of this API.
    pub(super) fn take(&mut self, data: &[u8]) -> bool {
        let frame: Frame<'_> = serde_json::from_slice(data).unwrap_or_default();
        self.seen = lenient::<Text<'_>>(frame.object).is_some_and(|object| object.0 == "response");
        if let (true, Ok(whole)) = (self.seen, serde_json::from_slice(data)) {
            self.whole(whole, true);
        }
        self.seen
    }

    fn whole(&mut self, whole: Whole<'_>, last: bool) {
        let word =
            |raw: Option<&RawValue>| lenient::<Text<'_>>(raw).map(|text| text.0.into_owned()).unwrap_or_default();
        self.answer.id = word(whole.id);
        if !last {
            return;
        }
        if self.made.is_empty() {
            self.made =
                (0..).zip(whole.output.unwrap_or_default().into_iter().filter_map(|item| made(item, None))).collect();
        }
        self.answer.usage = lenient::<Stated>(whole.usage).map(|stated| stated.usage()).unwrap_or_default();
        let status = word(whole.status);
        let reason = word(whole.incomplete_details.unwrap_or_default().reason);
        let calls = self.made.values().any(|made| matches!(made, Made::ToolUse { .. }));
        self.answer.whole = status != "failed" && status != "cancelled";
        self.answer.stop_reason = match (&*status, &*reason) {
            ("incomplete", "max_output_tokens") => "max_tokens".into(),
            ("incomplete", _) => reason,
            ("failed" | "cancelled", _) => String::new(),
            _ if calls => "tool_use".into(),
            _ => "end_turn".into(),
        };
        if status == "failed" || whole.error.is_some_and(|error| error.get() != "null") {
            #[derive(Default, Deserialize)]
            #[serde(default)]
            struct Failure<'a> {
                #[serde(borrow)]
                code: Option<&'a RawValue>,
            }
            let code = word(lenient::<Failure<'_>>(whole.error).unwrap_or_default().code);
            self.answer.error = match &*code {
                "rate_limit_exceeded" => "rate_limit_error".into(),
                "server_is_overloaded" | "slow_down" => "overloaded_error".into(),
                "" => "error".into(),
                _ => code,
            };
        }
    }

    /// The answer; none if nothing of one came.
    pub(super) fn finish(self) -> Option<Answer> {
        let made = self.made.into_values().collect();
        self.seen.then_some(Answer { made, ..self.answer })
    }
}

fn made(raw: &RawValue, at_us: Option<u64>) -> Option<Made> {
    let item: Item<'_> = serde_json::from_str(raw.get()).ok()?;
    let kind = item.kind.as_ref().map_or("message", |kind| &*kind.0);
    Some(match kind {
        "message" => {
            let texts = content(item.content).ok()?.into_iter().filter_map(|block| match block {
                ContentBlock::Text(text) => Some(text.into_owned()),
                ContentBlock::Image(_) | ContentBlock::Document(_) | ContentBlock::Other(_) => None,
            });
            Made::Text(texts.collect())
        }
        "reasoning" => Made::Thinking,
        _ if kind.ends_with("_call") => match call(&item, kind).ok()? {
            Block::ToolUse { id, name, input } => Made::ToolUse {
                id: id.into_owned(),
                name: name.into_owned(),
                input: input.into_owned(),
                whole_at_us: at_us,
            },
            Block::Content(_) | Block::Thinking(_) | Block::ToolResult { .. } => Made::Other,
        },
        _ => Made::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::anthropic::AnswerReader;

    const BODY: &[u8] = br#"{"model":"m","instructions":"be","input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"d"}]},
        {"role":"user","content":"u"},{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}],"encrypted_content":"QUJD"},
        {"type":"function_call","call_id":"c1","name":"shell","arguments":"{\"a\": 1}"},{"type":"local_shell_call","call_id":"c2","action":{"type":"exec"}},
        {"type":"function_call_output","call_id":"c1","output":"x"},{"type":"function_call_output","call_id":"c2","output":"y"}],
        "tools":[{"type":"function","name":"shell","parameters":{}},{"type":"web_search"}],"max_output_tokens":9,"stream":true,"store":false}"#;

    #[test]
    fn a_request_is_seen_as_any_other() {
        let request = parse(BODY).unwrap();
        assert_eq!((request.system.len(), request.messages.len(), request.tools.len()), (2, 3, 2));
        assert_eq!(&*request.tools[1].kind, "web_search");
        assert!(
            matches!(&request.messages[1].blocks[..], [Block::Thinking(thought), Block::ToolUse { input, .. }, Block::ToolUse { name, .. }]
            if thought == "t" && input == r#"{"a":1}"# && name == "local_shell")
        );
        assert_eq!(request.messages[2].blocks.len(), 2);
        let plain = parse(br#"{"input":"hello"}"#).unwrap();
        assert!(matches!(&plain.messages[0].blocks[..], [Block::Content(ContentBlock::Text(text))] if text == "hello"));
    }

    #[test]
    fn a_stream_and_a_whole_answer_say_the_same() {
        let items = r#"[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"ab"}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"k\":1}"}]"#;
        let whole = format!(
            r#"{{"id":"r1","object":"response","status":"completed","error":null,"output":{items},"usage":{{"input_tokens":10,"output_tokens":4,"input_tokens_details":{{"cached_tokens":6}},"output_tokens_details":{{"reasoning_tokens":1}}}}}}"#
        );
        let list: Vec<&RawValue> = serde_json::from_str(items).unwrap();
        let mut stream = String::from(
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\"}}\n\n",
        );
        for (at, item) in list.iter().enumerate() {
            stream +=
                &format!("data: {{\"type\":\"response.output_item.done\",\"output_index\":{at},\"item\":{item}}}\n\n");
        }
        stream += &format!("data: {{\"type\":\"response.completed\",\"response\":{whole}}}\n\n");
        assert_eq!(output_items(stream.as_bytes()), output_items(whole.as_bytes()));
        for text in [&stream, &whole] {
            let mut reader = AnswerReader::new();
            reader.push(text.as_bytes(), Some(3));
            let answer = reader.finish();
            assert!(answer.whole && answer.error.is_empty());
            assert_eq!((&*answer.id, &*answer.stop_reason), ("r1", "tool_use"));
            assert_eq!((answer.usage.input, answer.usage.cache_read, answer.usage.output), (Some(4), Some(6), Some(4)));
            assert!(
                matches!(&answer.made[..], [Made::Thinking, Made::Text(text), Made::ToolUse { id, .. }] if text == "ab" && id == "c1")
            );
        }
    }

    #[test]
    fn a_request_goes_on_from_an_earlier_response() {
        let body = br#"{"previous_response_id":"r1","input":[{"role":"user","content":"next"}],"model":"m"}"#;
        assert_eq!(goes_on_from(body).as_deref(), Some("r1"));
        let whole =
            continued(body, &[r#"{"role":"user","content":"one"}"#, "", r#"{"role":"assistant","content":"two"}"#])
                .unwrap();
        assert_eq!(parse(&whole).unwrap().messages.len(), 3);
        assert_eq!(goes_on_from(&whole), None);
        assert_eq!(goes_on_from(BODY), None);
    }
}
