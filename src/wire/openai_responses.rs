//! OpenAI's Responses API, as Codex uses it, in the form that all requests and answers are seen in.
//!
//! Invariant: items of one speaker that follow one another are one message; of reasoning only the summary is read, since what is
//! encrypted says nothing; a request that goes on from an earlier response is whole only with that response's items before its own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::anthropic::{Answer, Block, ContentBlock, Made, Message, MessagesRequest, Role};
use super::json::{Object, compact, lenient, list, text};
use super::openai_chat::{Stated, arguments, content, request, role, said};
use super::{Sse, WireError};

/// Reads a request body.
///
/// # Errors
/// If it is not JSON, or a part of the prompt is not of the form that the API has.
pub fn parse(body: &[u8]) -> Result<MessagesRequest<'_>, WireError> {
    let fields = Object::parse(body)?;
    let input = fields.get("input");
    let mut system: Vec<Block<'_>> = content(fields.get("instructions"))?.into_iter().map(Block::Content).collect();
    let mut messages: Vec<Message<'_>> = Vec::new();
    let mut before = Kind::Other;
    if input.is_some_and(|input| input.get().starts_with('"')) {
        messages.push(said(Role::User, content(input)?.into_iter().map(Block::Content).collect()));
    } else {
        for raw in list(input)? {
            let (role, kind, blocks) = item(raw)?;
            match messages.last_mut() {
                None if role == Role::System => system.extend(blocks),
                Some(last) if last.role == role && kind == before && kind != Kind::Other => last.blocks.extend(blocks),
                _ => messages.push(said(role, blocks)),
            }
            before = kind;
        }
    }
    request(&fields, system, messages)
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

/// What an item is; one that does not say is a message.
fn kind_of<'a>(item: &Object<'a>) -> Result<Cow<'a, str>, WireError> {
    item.get("type").map_or(Ok("message".into()), |kind| text(Some(kind)))
}

fn item(raw: &RawValue) -> Result<(Role, Kind, Vec<Block<'_>>), WireError> {
    let item = Object::of(raw)?;
    Ok(match &*kind_of(&item)? {
        "message" => {
            let role = item.get("role").map_or(Ok(None), |word| role(&text(Some(word))?))?.unwrap_or(Role::User);
            let kind = if role == Role::Assistant { Kind::Answer } else { Kind::Other };
            (role, kind, content(item.get("content"))?.into_iter().map(Block::Content).collect())
        }
        "reasoning" => {
            let shown = [item.get("summary"), item.get("content")];
            let shown = shown.into_iter().map(texts).collect::<Result<Vec<_>, _>>()?.concat();
            (Role::Assistant, Kind::Answer, vec![Block::Thinking(Cow::Owned(shown.join("\n")))])
        }
        kind if kind.ends_with("_call_output") => {
            let id = text(item.get("call_id"))?;
            let content = output(item.get("output"))?;
            (Role::User, Kind::Result, vec![Block::ToolResult { id, is_error: false, content }])
        }
        kind if kind.ends_with("_call") => (Role::Assistant, Kind::Answer, vec![call(&item, kind)?]),
        _ => (Role::User, Kind::Other, vec![Block::Content(ContentBlock::Other(compact(raw.get())))]),
    })
}

fn call<'a>(item: &Object<'a>, kind: &str) -> Result<Block<'a>, WireError> {
    let id = text(item.any(&["call_id", "id"]))?;
    let named = text(item.get("name"))?;
    // Tools that the API itself defines have no name but that of their kind.
    let name = if named.is_empty() { Cow::Owned(kind.trim_end_matches("_call").to_owned()) } else { named };
    Ok(Block::ToolUse { id, name, input: arguments(item.any(&["arguments", "input", "action"]))? })
}

/// The texts of content.
fn texts(raw: Option<&RawValue>) -> Result<Vec<String>, WireError> {
    let texts = content(raw)?.into_iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(text.into_owned()),
        ContentBlock::Image(_) | ContentBlock::Document(_) | ContentBlock::Other(_) => None,
    });
    Ok(texts.collect())
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
    let id = Object::parse(body).ok()?.word("previous_response_id").into_owned();
    (!id.is_empty()).then_some(id)
}

/// The items of a request's input, as they stand in the list.
pub fn input_items(body: &[u8]) -> Option<String> {
    let input = Object::parse(body).ok()?.get("input")?.get();
    match input.trim().strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) {
        Some(inside) => Some(inside.trim().to_owned()),
        None => Some(format!(r#"{{"role":"user","content":{input}}}"#)),
    }
}

/// The items of an answer, whole or streamed, as they would stand in the list of an input.
pub fn output_items(answer: &[u8]) -> String {
    let whole = Object::parse(answer).unwrap_or_default();
    if let Ok(items) = list(whole.get("output"))
        && whole.get("output").is_some()
    {
        return items.iter().map(|item| item.get()).collect::<Vec<_>>().join(",");
    }
    let mut items = Vec::new();
    let mut each = |event: super::Event<'_>| {
        let event = Object::parse(event.data).unwrap_or_default();
        if let (Some(item), "response.output_item.done") = (event.get("item"), &*event.word("type")) {
            items.push(item.get().to_owned());
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
    let fields = Object::parse(body).ok()?;
    let mut out = format!("{{\"input\":[{}]", items.join(","));
    for (key, value) in fields.0.iter().filter(|(key, _)| !["input", "previous_response_id"].contains(&&**key)) {
        out.push(',');
        out.push_str(&serde_json::to_string(key).ok()?);
        out.push(':');
        out.push_str(value.get());
    }
    out.push('}');
    Some(out.into_bytes())
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
        let frame = Object::parse(data).unwrap_or_default();
        self.seen = true;
        let index =
            lenient(frame.get("output_index")).unwrap_or_else(|| u64::try_from(self.made.len()).unwrap_or(u64::MAX));
        match kind {
            "output_item.added" => {
                self.made.extend(frame.get("item").and_then(|item| made(item, None)).map(|made| (index, made)));
            }
            "output_item.done" => {
                self.answer.first_content_us = self.answer.first_content_us.or(at_us);
                self.made.extend(frame.get("item").and_then(|item| made(item, at_us)).map(|made| (index, made)));
            }
            "created" | "in_progress" | "completed" | "incomplete" | "failed" | "done" => {
                self.whole(&frame.inside(&["response"]), !["created", "in_progress"].contains(&kind));
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
        let whole = Object::parse(data).unwrap_or_default();
        self.seen = whole.word("object") == "response";
        if self.seen {
            self.whole(&whole, true);
        }
        self.seen
    }

    fn whole(&mut self, whole: &Object<'_>, last: bool) {
        self.answer.id = whole.word("id").into_owned();
        if !last {
            return;
        }
        if self.made.is_empty() {
            let items = lenient::<Vec<&RawValue>>(whole.get("output")).unwrap_or_default();
            self.made = (0..).zip(items.into_iter().filter_map(|item| made(item, None))).collect();
        }
        self.answer.usage = lenient::<Stated>(whole.get("usage")).map(|stated| stated.usage()).unwrap_or_default();
        let status = whole.word("status");
        let reason = whole.inside(&["incomplete_details"]).word("reason");
        let calls = self.made.values().any(|made| matches!(made, Made::ToolUse { .. }));
        self.answer.whole = status != "failed" && status != "cancelled";
        self.answer.stop_reason = match (&*status, &*reason) {
            ("incomplete", "max_output_tokens") => "max_tokens".into(),
            ("incomplete", _) => reason.into_owned(),
            ("failed" | "cancelled", _) => String::new(),
            _ if calls => "tool_use".into(),
            _ => "end_turn".into(),
        };
        if status == "failed" || whole.get("error").is_some() {
            self.answer.error = match &*whole.inside(&["error"]).word("code") {
                "rate_limit_exceeded" => "rate_limit_error".into(),
                "server_is_overloaded" | "slow_down" => "overloaded_error".into(),
                "" => "error".into(),
                code => code.into(),
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
    let item = Object::of(raw).ok()?;
    Some(match &*kind_of(&item).ok()? {
        "message" => Made::Text(texts(item.get("content")).ok()?.concat()),
        "reasoning" => Made::Thinking,
        kind if kind.ends_with("_call") => match call(&item, kind).ok()? {
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
