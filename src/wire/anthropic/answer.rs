//! An answer: JSON, or a stream of events, put together as it comes. Which API gave it is told by content, since some recorders
//! (LiteLLM) keep the answer of one API in the form of another.
//!
//! Invariant: usage is merged over events, each field at its last stated value; what the stream did not finish is not made up.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;

use crate::wire::{Sse, compact, openai_chat, openai_responses};

/// Token counts as stated; the last statement of each wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// `input_tokens`.
    pub input: Option<u64>,
    /// `cache_read_input_tokens`.
    pub cache_read: Option<u64>,
    /// Cache writes for 5 minutes; all of `cache_creation_input_tokens` where it is not split.
    pub cache_write_5m: Option<u64>,
    /// Cache writes for 1 hour.
    pub cache_write_1h: Option<u64>,
    /// `output_tokens`, once the answer is whole.
    pub output: Option<u64>,
    /// Of those, what was thought, where it is stated.
    pub reasoning: Option<u64>,
}

/// What an answer said or did, in order.
pub enum Made {
    /// Text.
    Text(String),
    /// Thinking, shown or redacted.
    Thinking,
    /// A tool call.
    ToolUse {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// Its input as JSON, compact, as far as it came.
        input: String,
        /// When it was whole, in microseconds since the request was sent.
        whole_at_us: Option<u64>,
    },
    /// A block of another type.
    Other,
}

/// An answer.
#[derive(Default)]
pub struct Answer {
    /// Its id; empty if none came.
    pub id: String,
    /// Its blocks.
    pub made: Vec<Made>,
    /// Why the model stopped; empty if it did not say.
    pub stop_reason: String,
    /// What the provider counted.
    pub usage: Usage,
    /// The type of an error event or error body; empty if there was none.
    pub error: String,
    /// When the first content came, in microseconds since the request was sent.
    pub first_content_us: Option<u64>,
    /// Whether it came to its end.
    pub whole: bool,
}

/// Reads an answer piece by piece.
#[derive(Default)]
pub struct AnswerReader {
    sse: Sse,
    building: Building,
    /// The bytes, until it is clear whether they are JSON; then only those of JSON.
    head: Vec<u8>,
    streamed: Option<bool>,
}

#[derive(Default)]
struct Building {
    answer: Answer,
    blocks: BTreeMap<u64, Made>,
    chat: openai_chat::Building,
    responses: openai_responses::Building,
}

impl AnswerReader {
    /// A reader at the start of an answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes, which came `at_us` microseconds after the request was sent.
    pub fn push(&mut self, bytes: &[u8], at_us: Option<u64>) {
        if self.streamed.is_none() {
            self.head.extend_from_slice(bytes);
            let first = self.head.iter().find(|byte| !byte.is_ascii_whitespace() && !b"\xEF\xBB\xBF".contains(byte));
            self.streamed = first.map(|first| *first != b'{');
            if self.streamed == Some(true) {
                let head = std::mem::take(&mut self.head);
                self.sse.push(&head, |event| self.building.event(event.name, event.data, at_us));
            }
        } else if self.streamed == Some(true) {
            self.sse.push(bytes, |event| self.building.event(event.name, event.data, at_us));
        } else {
            self.head.extend_from_slice(bytes);
        }
    }

    /// The answer, as far as it came.
    pub fn finish(mut self) -> Answer {
        if self.streamed == Some(true) {
            self.sse.finish(|event| self.building.event(event.name, event.data, None));
        } else if !self.building.chat.take(&self.head, None)
            && !self.building.responses.take(&self.head)
            && let Ok(body) = serde_json::from_slice::<Frame>(&self.head)
        {
            self.building.body(body);
        }
        let Building { mut answer, blocks, chat, responses } = self.building;
        if let Some(found) = chat.finish().or_else(|| responses.finish()) {
            // An error in the stream is in the same form everywhere.
            let error = if found.error.is_empty() { answer.error } else { found.error };
            return Answer { error, ..found };
        }
        if answer.made.is_empty() {
            answer.made = blocks.into_values().collect();
        }
        for made in &mut answer.made {
            // Some recorders space JSON.
            if let Made::ToolUse { input, .. } = made
                && let Cow::Owned(compact) = compact(input)
            {
                *input = compact;
            }
        }
        answer
    }
}

/// Every object that an answer is made of, with the members of all of them; those of a wrong type are as if absent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Frame {
    #[serde(rename = "type", deserialize_with = "lenient")]
    kind: String,
    #[serde(deserialize_with = "lenient")]
    id: String,
    #[serde(deserialize_with = "lenient")]
    index: u64,
    #[serde(deserialize_with = "lenient")]
    content: Vec<BlockFrame>,
    #[serde(deserialize_with = "lenient")]
    content_block: BlockFrame,
    #[serde(deserialize_with = "lenient")]
    delta: Delta,
    #[serde(deserialize_with = "lenient")]
    message: Message,
    #[serde(deserialize_with = "lenient")]
    usage: UsageFrame,
    #[serde(deserialize_with = "lenient")]
    stop_reason: String,
    #[serde(deserialize_with = "lenient")]
    error: ErrorFrame,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    #[serde(deserialize_with = "lenient")]
    id: String,
    #[serde(deserialize_with = "lenient")]
    usage: UsageFrame,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorFrame {
    #[serde(rename = "type", deserialize_with = "lenient")]
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BlockFrame {
    #[serde(rename = "type", deserialize_with = "lenient")]
    kind: String,
    #[serde(deserialize_with = "lenient")]
    text: String,
    #[serde(deserialize_with = "lenient")]
    id: String,
    #[serde(deserialize_with = "lenient")]
    name: String,
    input: Option<Box<serde_json::value::RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Delta {
    #[serde(deserialize_with = "lenient")]
    text: String,
    #[serde(deserialize_with = "lenient")]
    partial_json: String,
    #[serde(deserialize_with = "lenient")]
    stop_reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct UsageFrame {
    #[serde(deserialize_with = "lenient")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    cache_creation: CacheCreation,
    #[serde(deserialize_with = "lenient")]
    output_tokens: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CacheCreation {
    #[serde(deserialize_with = "lenient")]
    ephemeral_5m_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    ephemeral_1h_input_tokens: Option<u64>,
}

/// The value, or its default where the type is wrong.
fn lenient<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

impl Building {
    /// A whole JSON body.
    fn body(&mut self, body: Frame) {
        self.answer.id = body.id;
        self.answer.made = body.content.into_iter().map(made).collect();
        self.answer.stop_reason = body.stop_reason;
        self.answer.error = body.error.kind;
        self.answer.usage.merge(&body.usage, true);
        self.answer.whole = self.answer.error.is_empty() && body.kind != "error";
    }

    /// An event of a stream. Its type is in the data; some recorders drop the `event:` lines.
    fn event(&mut self, name: &[u8], data: &[u8], at_us: Option<u64>) {
        let Ok(frame) = serde_json::from_slice::<Frame>(data) else {
            self.chat.take(data, at_us);
            return;
        };
        let answer = &mut self.answer;
        let kind = if frame.kind.is_empty() { std::str::from_utf8(name).unwrap_or_default() } else { &frame.kind };
        if kind.is_empty() && self.chat.take(data, at_us) || self.responses.event(kind, data, at_us) {
            return;
        }
        match kind {
            "message_start" => {
                answer.id = frame.message.id;
                answer.usage.merge(&frame.message.usage, false);
            }
            "content_block_start" => {
                answer.first_content_us = answer.first_content_us.or(at_us);
                self.blocks.insert(frame.index, made(frame.content_block));
            }
            "content_block_delta" => {
                let delta = frame.delta;
                answer.first_content_us = answer.first_content_us.or(at_us);
                match self.blocks.entry(frame.index).or_insert(Made::Other) {
                    Made::Text(text) => text.push_str(&delta.text),
                    Made::ToolUse { input, .. } => input.push_str(&delta.partial_json),
                    Made::Thinking | Made::Other => {}
                }
            }
            "content_block_stop" => {
                if let Some(Made::ToolUse { whole_at_us, .. }) = self.blocks.get_mut(&frame.index) {
                    *whole_at_us = at_us;
                }
            }
            "message_delta" => {
                if !frame.delta.stop_reason.is_empty() {
                    answer.stop_reason = frame.delta.stop_reason;
                }
                answer.usage.merge(&frame.usage, true);
            }
            "message_stop" => answer.whole = true,
            "error" => answer.error = if frame.error.kind.is_empty() { "error".into() } else { frame.error.kind },
            _ => {}
        }
    }
}

impl Usage {
    /// Takes over what is stated. `last`: whether `output_tokens` is the final count and not the placeholder of the start.
    fn merge(&mut self, stated: &UsageFrame, last: bool) {
        self.input = stated.input_tokens.or(self.input);
        self.cache_read = stated.cache_read_input_tokens.or(self.cache_read);
        let split = &stated.cache_creation;
        self.cache_write_1h = split.ephemeral_1h_input_tokens.or(self.cache_write_1h);
        let rest = stated.cache_creation_input_tokens.map(|all| all.saturating_sub(self.cache_write_1h.unwrap_or(0)));
        self.cache_write_5m = split.ephemeral_5m_input_tokens.or(rest).or(self.cache_write_5m);
        if last {
            self.output = stated.output_tokens.or(self.output);
        }
    }
}

fn made(block: BlockFrame) -> Made {
    match &*block.kind {
        "text" => Made::Text(block.text),
        "thinking" | "redacted_thinking" => Made::Thinking,
        "tool_use" => {
            // A stream opens a call with an empty object and sends the input in pieces.
            let input = block.input.map(|raw| raw.get().to_owned()).filter(|raw| raw != "{}").unwrap_or_default();
            Made::ToolUse { id: block.id, name: block.name, input, whole_at_us: None }
        }
        _ => Made::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":10,\"cache_creation_input_tokens\":7,\"cache_creation\":{\"ephemeral_1h_input_tokens\":2,\"ephemeral_5m_input_tokens\":5},\"output_tokens\":1}}}\n\n\
        data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"one \"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"two\"}}\n\n\
        data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"Read\",\"input\":{}}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":1}\"}}\n\n\
        data: {\"type\":\"content_block_stop\",\"index\":1}\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":42}}\n\n\
        data: {\"type\":\"message_stop\"}\n\n";

    fn read(text: &str) -> Answer {
        let mut reader = AnswerReader::new();
        for (at, line) in text.split_inclusive("\n\n").enumerate() {
            reader.push(line.as_bytes(), Some(at as u64));
        }
        reader.finish()
    }

    #[test]
    fn a_stream_is_put_together_and_its_usage_merged() {
        let answer = read(STREAM);
        assert!(answer.whole);
        assert_eq!(answer.stop_reason, "tool_use");
        assert_eq!(answer.first_content_us, Some(1));
        assert_eq!(
            answer.usage,
            Usage {
                input: Some(3),
                cache_read: Some(10),
                cache_write_5m: Some(5),
                cache_write_1h: Some(2),
                output: Some(42),
                reasoning: None,
            }
        );
        assert!(matches!(&answer.made[0], Made::Text(text) if text == "one two"));
        assert!(
            matches!(&answer.made[1], Made::ToolUse { name, input, whole_at_us: Some(6), .. } if name == "Read" && input == "{\"a\":1}")
        );
    }

    #[test]
    fn a_cut_stream_states_no_output_count() {
        let answer = read(&STREAM[..STREAM.find("message_delta").unwrap()]);
        assert!(!answer.whole);
        assert_eq!(answer.usage.output, None);
    }

    #[test]
    fn a_json_body_and_an_error_body_are_told_from_a_stream() {
        let answer = read(
            "\n{\"id\":\"msg_1\",\"content\":[{\"type\":\"text\",\"text\":\"x\"},{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"B\",\"input\":{\"c\":2}}],\"stop_reason\":\"end_turn\",\"usage\":{\"output_tokens\":5}}",
        );
        assert!(answer.whole && answer.usage.output == Some(5) && answer.made.len() == 2);
        let answer = read("{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}");
        assert!(!answer.whole && answer.error == "overloaded_error");
    }

    #[test]
    fn members_of_a_wrong_type_are_as_if_absent() {
        let answer =
            read("{\"id\":7,\"content\":[{\"type\":[]},3],\"stop_reason\":{},\"usage\":\"x\",\"error\":false}");
        assert!(answer.whole && answer.id.is_empty() && answer.usage == Usage::default());
    }
}
