//! A Messages request.
//!
//! Invariant: everything is borrowed from the body.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::WireError;
use crate::wire::json::{Object, Text, compact, lenient, list, text};

/// A request body, in the parts that a trace needs.
pub struct MessagesRequest<'a> {
    /// The model asked for; empty if none.
    pub model: Cow<'a, str>,
    /// Tool definitions.
    pub tools: Vec<ToolDefinition<'a>>,
    /// Blocks of the system prompt.
    pub system: Vec<Block<'a>>,
    /// Messages.
    pub messages: Vec<Message<'a>>,
    /// Offset in the body behind the bracket that opens the messages.
    pub messages_at: usize,
    /// `metadata.user_id`.
    pub user_id: Option<Cow<'a, str>>,
    /// The limit asked for.
    pub max_tokens: Option<u64>,
    /// Whether a stream is asked for.
    pub stream: Option<bool>,
}

/// A tool definition.
pub struct ToolDefinition<'a> {
    /// Its type, for tools that the server runs; empty otherwise.
    pub kind: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its description.
    pub description: Cow<'a, str>,
    /// Its input schema or, where it has none, the whole definition; compact.
    pub schema: Cow<'a, str>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `user`.
    User,
    /// `assistant`.
    Assistant,
    /// `system`, inside the conversation.
    System,
}

/// A message.
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// Its blocks; a string is one text.
    pub blocks: Vec<Block<'a>>,
    /// Its last block with a cache mark.
    pub last_mark: Option<usize>,
    /// Offset in the body of its end.
    pub end: usize,
}

/// A block of a message.
pub enum Block<'a> {
    /// Text, an image or a document, or a block of an unknown type.
    Content(ContentBlock<'a>),
    /// Thinking; its signature is dropped.
    Thinking(Cow<'a, str>),
    /// A tool call.
    ToolUse {
        /// Its id.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// Its input, compact.
        input: Cow<'a, str>,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        id: Cow<'a, str>,
        /// Whether the tool failed.
        is_error: bool,
        /// What it said.
        content: Vec<ContentBlock<'a>>,
    },
}

/// Content that may stand in a message or in a tool result.
pub enum ContentBlock<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// An image; its source, compact.
    Image(Cow<'a, str>),
    /// A document; its source, compact.
    Document(Cow<'a, str>),
    /// A block of another type, without its cache marker, compact.
    Other(Cow<'a, str>),
}

impl<'a> MessagesRequest<'a> {
    /// Reads a request body.
    ///
    /// # Errors
    /// If it is not JSON, or a part of the prompt is not of the form that the API has.
    pub fn parse(body: &'a [u8]) -> Result<Self, WireError> {
        let mut outline = Outline::read(body)?;
        outline.read_head()?;
        let messages = outline.messages.map_or(Ok(Vec::new()), |raw| messages(raw, body))?;
        Ok(Self { messages, ..outline.request })
    }
}

/// A request body whose longest parts were not looked into yet.
pub struct Outline<'a> {
    /// The rest of it.
    pub request: MessagesRequest<'a>,
    /// Its tool definitions.
    pub tools: Option<&'a RawValue>,
    /// Its system prompt.
    pub system: Option<&'a RawValue>,
    /// Its messages.
    pub messages: Option<&'a RawValue>,
}

impl<'a> Outline<'a> {
    /// Reads a body without its tools, system prompt and messages.
    ///
    /// # Errors
    /// If it is not JSON.
    pub fn read(body: &'a [u8]) -> Result<Self, WireError> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(borrow)]
            model: Option<&'a RawValue>,
            #[serde(borrow)]
            tools: Option<&'a RawValue>,
            #[serde(borrow)]
            system: Option<&'a RawValue>,
            #[serde(borrow)]
            messages: &'a RawValue,
            #[serde(borrow)]
            metadata: Option<&'a RawValue>,
            #[serde(borrow)]
            max_tokens: Option<&'a RawValue>,
            #[serde(borrow)]
            stream: Option<&'a RawValue>,
        }
        let fields: Fields<'a> = serde_json::from_slice(body)?;
        let request = MessagesRequest {
            model: lenient::<Text<'_>>(fields.model).map(|text| text.0).unwrap_or_default(),
            tools: Vec::new(),
            system: Vec::new(),
            messages: Vec::new(),
            messages_at: end_of(body, fields.messages.get()) - fields.messages.get().len() + 1,
            user_id: lenient::<Metadata<'_>>(fields.metadata).and_then(|metadata| metadata.user_id).map(|text| text.0),
            max_tokens: lenient(fields.max_tokens),
            stream: lenient(fields.stream),
        };
        Ok(Self { request, tools: fields.tools, system: fields.system, messages: Some(fields.messages) })
    }

    /// A request in which nothing is left to be read.
    pub fn whole(request: MessagesRequest<'a>) -> Self {
        Self { request, tools: None, system: None, messages: None }
    }

    /// Reads the tools and the system prompt.
    ///
    /// # Errors
    /// If they are not of the form that the API has.
    pub fn read_head(&mut self) -> Result<(), WireError> {
        if let Some(tools) = self.tools {
            self.request.tools = list(Some(tools))?.into_iter().map(tool).collect::<Result<_, _>>()?;
        }
        if let Some(system) = self.system {
            self.request.system = blocks(system, 0)?;
        }
        Ok(())
    }
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    user_id: Option<Text<'a>>,
}

/// Of a body only its `metadata.user_id`, or its `user` as chat completions have it.
pub fn user_id(body: &[u8]) -> Option<Cow<'_, str>> {
    let fields = Object::parse(body).ok()?;
    let user_id = lenient::<Metadata<'_>>(fields.get("metadata")).and_then(|metadata| metadata.user_id);
    user_id.or_else(|| lenient(fields.get("user"))).map(|text| text.0)
}

/// Reads the messages of a body as [`Outline`] gives them.
///
/// # Errors
/// If they are not of the form that the API has.
pub fn messages<'a>(raw: &'a RawValue, body: &[u8]) -> Result<Vec<Message<'a>>, WireError> {
    list(Some(raw))?
        .into_iter()
        .map(|raw| message(&serde_json::from_str(raw.get())?, end_of(body, raw.get())))
        .collect()
}

/// Reads messages from `at`, an offset behind the bracket that opens them or behind a message. Gives them, and the offset of the
/// bracket that closes them.
///
/// # Errors
/// If that is not where messages go on.
pub fn messages_from(body: &str, mut at: usize) -> Result<(Vec<Message<'_>>, usize), WireError> {
    let broken = WireError { line: 0, column: at, too_deep: false };
    let mut messages = Vec::new();
    let is_space = |byte: &u8| b" \t\r\n".contains(byte);
    // Which byte came before: a bracket, the end of a message, or a comma.
    let mut before = body.get(..at).and_then(|before| before.bytes().rfind(|byte| !is_space(byte)));
    loop {
        at += body.bytes().skip(at).take_while(is_space).count();
        let rest = body.get(at..).unwrap_or_default();
        match (rest.as_bytes().first(), before) {
            (Some(b']'), Some(b'[' | b'}')) => return Ok((messages, at)),
            (Some(b','), Some(b'}')) => {
                before = Some(b',');
                at += 1;
            }
            (Some(b'{'), Some(b'[' | b',')) => {
                before = Some(b'}');
                let mut rest = serde_json::Deserializer::from_str(rest).into_iter();
                let fields = rest.next().ok_or(broken)??;
                at += rest.byte_offset();
                messages.push(message(&fields, at)?);
            }
            _ => return Err(broken),
        }
    }
}

/// The offset in `body` of the end of a part of it.
fn end_of(body: &[u8], part: &str) -> usize {
    part.as_ptr().addr().saturating_sub(body.as_ptr().addr()) + part.len()
}

fn tool(raw: &RawValue) -> Result<ToolDefinition<'_>, WireError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<&'a RawValue>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        description: Option<&'a RawValue>,
        #[serde(borrow)]
        input_schema: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_str(raw.get())?;
    Ok(ToolDefinition {
        kind: text(fields.kind)?,
        name: text(fields.name)?,
        description: text(fields.description)?,
        schema: match fields.input_schema {
            Some(schema) => compact(schema.get()),
            None => without_cache_control(raw)?,
        },
    })
}

#[derive(Deserialize)]
struct MessageFields<'a> {
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

fn message<'a>(fields: &MessageFields<'a>, end: usize) -> Result<Message<'a>, WireError> {
    let role = match &*fields.role.0 {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" | "developer" => Role::System,
        _ => return Err(WireError { line: 0, column: 0, too_deep: false }),
    };
    let Some(content) = fields.content else { return Ok(Message { role, blocks: Vec::new(), end, last_mark: None }) };
    if content.get().starts_with('"') {
        return Ok(Message { role, blocks: blocks(content, 0)?, end, last_mark: None });
    }
    let raw = list(Some(content))?;
    let marks = |raw: &RawValue| memchr::memmem::find(raw.get().as_bytes(), b"\"cache_control\"").is_some();
    let last_mark = raw.iter().rposition(|block| marks(block));
    let blocks = raw.into_iter().map(|raw| block(raw, 0)).collect::<Result<_, _>>()?;
    Ok(Message { role, blocks, last_mark, end })
}

/// Blocks of a message or a system prompt, or the content of a tool result (`depth` 1): a string, a list of blocks, or null.
fn blocks(raw: &RawValue, depth: u8) -> Result<Vec<Block<'_>>, WireError> {
    if raw.get().starts_with('"') {
        return Ok(vec![Block::Content(ContentBlock::Text(text(Some(raw))?))]);
    }
    list(Some(raw))?.into_iter().map(|raw| block(raw, depth)).collect()
}

fn block(raw: &RawValue, depth: u8) -> Result<Block<'_>, WireError> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        thinking: Option<&'a RawValue>,
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        #[serde(borrow)]
        tool_use_id: Option<&'a RawValue>,
        #[serde(borrow)]
        name: Option<&'a RawValue>,
        #[serde(borrow)]
        input: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        is_error: Option<&'a RawValue>,
        #[serde(borrow)]
        source: Option<&'a RawValue>,
    }
    let fields: Fields<'_> = serde_json::from_str(raw.get())?;
    let source = || fields.source.map_or(Cow::Borrowed(""), |source| compact(source.get()));
    Ok(match fields.kind.as_ref().map(|kind| &*kind.0) {
        Some("text") => Block::Content(ContentBlock::Text(text(fields.text)?)),
        Some("thinking") => Block::Thinking(text(fields.thinking)?),
        Some("image") => Block::Content(ContentBlock::Image(source())),
        Some("document") => Block::Content(ContentBlock::Document(source())),
        Some("tool_use") => Block::ToolUse {
            id: text(fields.id)?,
            name: text(fields.name)?,
            input: fields.input.map_or(Cow::Borrowed("{}"), |input| compact(input.get())),
        },
        Some("tool_result") if depth == 0 => {
            let content = fields.content.map_or(Ok(Vec::new()), |raw| blocks(raw, 1))?;
            let content = content.into_iter().filter_map(|block| match block {
                Block::Content(content) => Some(content),
                Block::Thinking(_) | Block::ToolUse { .. } | Block::ToolResult { .. } => None,
            });
            Block::ToolResult {
                id: text(fields.tool_use_id)?,
                is_error: lenient(fields.is_error).unwrap_or(false),
                content: content.collect(),
            }
        }
        _ => Block::Content(ContentBlock::Other(without_cache_control(raw)?)),
    })
}

/// An object as sent, but for its `cache_control`, which moves every turn.
fn without_cache_control(raw: &RawValue) -> Result<Cow<'_, str>, WireError> {
    if memchr::memmem::find(raw.get().as_bytes(), b"\"cache_control\"").is_none() {
        return Ok(compact(raw.get()));
    }
    let mut out = String::from("{");
    for (key, value) in Object::of(raw)?.0 {
        if key != "cache_control" {
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&serde_json::to_string(&key)?);
            out.push(':');
            out.push_str(&compact(value.get()));
        }
    }
    out.push('}');
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_and_list_forms_are_read_alike_and_markers_dropped() {
        let body = br#"{"model":"m","system":"s","tools":[{"name":"t","description":"d","input_schema":{ "a": 1 }},{"type":"web_search_20250305","name":"w","cache_control":{"type":"ephemeral"}}],
            "messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"gone"},{"type":"tool_use","id":"1","name":"t","input":{"k": [1, 2]}}]},
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true,"content":[{"type":"text","text":"r"},{"type":"tool_reference","tool_name":"q","cache_control":null}]}]}],
            "metadata":{"user_id":"u"},"max_tokens":5,"stream":true,"output_config":{"format":{}},"unknown":[{}]}"#;
        let request = MessagesRequest::parse(body).unwrap();
        assert!(matches!(&request.system[..], [Block::Content(ContentBlock::Text(text))] if text == "s"));
        assert_eq!(request.tools[0].schema, r#"{"a":1}"#);
        assert_eq!(request.tools[1].schema, r#"{"type":"web_search_20250305","name":"w"}"#);
        assert!(matches!(&request.messages[1].blocks[1], Block::ToolUse { input, .. } if input == r#"{"k":[1,2]}"#));
        let Block::ToolResult { is_error: true, content, .. } = &request.messages[2].blocks[0] else { panic!() };
        assert!(
            matches!(&content[1], ContentBlock::Other(raw) if raw == r#"{"type":"tool_reference","tool_name":"q"}"#)
        );
        assert_eq!((request.max_tokens, request.stream), (Some(5), Some(true)));
    }

    #[test]
    fn half_surrogate_pairs_and_wrong_types_of_side_fields_do_not_lose_the_body() {
        let body = br#"{"messages":[{"role":"user","content":"a\ud83d b"}],"max_tokens":"x","stream":3,"metadata":[],"model":{}}"#;
        let request = MessagesRequest::parse(body).unwrap();
        let Block::Content(ContentBlock::Text(text)) = &request.messages[0].blocks[0] else { panic!() };
        assert!(text.starts_with('a') && text.ends_with(" b"));
        assert_eq!((request.max_tokens, request.stream, request.user_id.is_none()), (None, None, true));
    }

    #[test]
    fn a_prompt_of_the_wrong_form_is_an_error_without_its_content() {
        for body in [
            &br#"{"messages":[{"role":"SECRET","content":"x"}]}"#[..],
            br#"{"messages":"SECRET"}"#,
            br#"{"messages":[{"role":"user","content":[{"type":"text","text":["SECRET"]}]}]}"#,
            b"SECRET",
            b"{}",
        ] {
            let error = MessagesRequest::parse(body).err().unwrap();
            assert!(!error.to_string().contains("SECRET"));
        }
    }
}
