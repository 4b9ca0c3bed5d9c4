//! Anthropic Messages.
//!
//! Invariant: `input_tokens` counts what was neither read from the cache nor, on vLLM, written to it; where in a stream the
//! numbers stand is the imitated engine's habit.

use super::{Api, Call, Refused, Said, data, event, openai};
use crate::mock::options::Imitate;
use crate::mock::tokens::Counter;
use crate::tokenize::{self, Content, Token};
use crate::wire::anthropic::{Block, ContentBlock, MessagesRequest, Role};

pub(super) struct Messages;

/// What an image or a document is taken for.
const MEDIA_TOKENS: u32 = 1_500;

fn content<'a>(block: &'a ContentBlock<'a>) -> Content<'a> {
    match block {
        ContentBlock::Text(text) | ContentBlock::Other(text) => Content::Text(text.as_ref().into()),
        ContentBlock::Image(source) | ContentBlock::Document(source) => {
            Content::Media { key: xxhash_rust::xxh3::xxh3_128(source.as_bytes()).to_le_bytes(), tokens: MEDIA_TOKENS }
        }
    }
}

fn block<'a>(block: &'a Block<'a>) -> tokenize::Block<'a> {
    match block {
        Block::Content(ContentBlock::Other(raw)) => tokenize::Block::Other(raw),
        Block::Content(block) => tokenize::Block::Content(content(block)),
        Block::Thinking(text) => tokenize::Block::Thinking(text),
        Block::ToolUse { name, input, .. } => tokenize::Block::ToolUse { name, input },
        Block::ToolResult { content: blocks, .. } => tokenize::Block::ToolResult(blocks.iter().map(content).collect()),
    }
}

fn lay(request: &MessagesRequest<'_>, counter: &Counter) -> Result<Vec<Token>, Refused> {
    let tools = request.tools.iter();
    let system = request.system.iter().filter_map(|block| match block {
        Block::Content(block) => Some(content(block)),
        _ => None,
    });
    let messages = request.messages.iter().map(|message| tokenize::Message {
        role: match message.role {
            Role::User => tokenize::Role::User,
            Role::Assistant => tokenize::Role::Assistant,
            Role::System => tokenize::Role::System,
        },
        blocks: message.blocks.iter().map(block).collect(),
    });
    let prompt = tokenize::Prompt {
        tools: tools
            .map(|tool| tokenize::Tool { name: &tool.name, description: &tool.description, schema: &tool.schema })
            .collect(),
        system: system.collect(),
        messages: messages.collect(),
    };
    openai::lay(&prompt, counter)
}

fn parse(body: &[u8]) -> Result<MessagesRequest<'_>, Refused> {
    MessagesRequest::parse(body).map_err(|_| openai::NOT_JSON)
}

pub(super) fn tokens(body: &[u8], counter: &Counter) -> Result<Vec<Token>, Refused> {
    lay(&parse(body)?, counter)
}

impl Api for Messages {
    fn name(&self) -> &'static str {
        "messages"
    }

    fn read(&self, body: &[u8], counter: &Counter, _: Imitate) -> Result<Call, Refused> {
        let request = parse(body)?;
        let Some(max_tokens) = request.max_tokens else { return Err(Refused("max_tokens: Field required")) };
        Ok(Call {
            tokens: lay(&request, counter)?,
            stream: request.stream.unwrap_or(false),
            include_usage: true,
            max_tokens: Some(u32::try_from(max_tokens).unwrap_or(u32::MAX)),
            // No engine takes `ignore_eos` or `min_tokens` here.
            min_tokens: 0,
            ignore_eos: false,
            model: serde_json::to_string(&request.model).unwrap_or_default(),
        })
    }

    fn whole(&self, said: &Said, text: &str) -> String {
        format!(
            r#"{{"id":"msg_{}","type":"message","role":"assistant","model":{},"content":[{{"type":"text","text":"{text}"}}],"stop_reason":"{}","stop_sequence":null,"usage":{}}}"#,
            said.number,
            said.model,
            stop_reason(said),
            usage(said, true, true),
        )
    }

    fn open(&self, said: &Said, out: &mut String) {
        let usage = match said.imitate {
            Imitate::LlamaCpp => usage(said, true, false),
            // The whole prompt (vLLM), or an estimate of it (Dynamo): wrong until the end either way.
            Imitate::Vllm | Imitate::Dynamo => {
                format!(r#"{{"input_tokens":{},"output_tokens":0}}"#, said.prompt_tokens)
            }
        };
        let start = format!(
            r#"{{"type":"message_start","message":{{"id":"msg_{}","type":"message","role":"assistant","model":{},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{usage}}}}}"#,
            said.number, said.model,
        );
        event("message_start", &start, out);
        let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        event("content_block_start", block, out);
    }

    fn piece(&self, _: &Said, text: &str, _: bool, out: &mut String) {
        let delta =
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#);
        event("content_block_delta", &delta, out);
    }

    fn close(&self, said: &Said, _: &str, out: &mut String) {
        event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#, out);
        let delta = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{}}}"#,
            stop_reason(said),
            usage(said, said.imitate != Imitate::LlamaCpp, true),
        );
        event("message_delta", &delta, out);
        event("message_stop", r#"{"type":"message_stop"}"#, out);
        if said.imitate == Imitate::Dynamo {
            data("[DONE]", out);
        }
    }

    fn error(&self, status: u16, message: &str) -> String {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}}}}"#)
    }
}

fn stop_reason(said: &Said) -> &'static str {
    if said.by_length { "max_tokens" } else { "end_turn" }
}

/// `usage`, with what is known of the input, of the output, or of both.
fn usage(said: &Said, input: bool, output: bool) -> String {
    let read = said.cached_tokens.unwrap_or(0).min(said.prompt_tokens);
    let written = if said.imitate == Imitate::Vllm { said.cacheable_tokens.saturating_sub(read) } else { 0 };
    let mut fields = Vec::new();
    if input {
        fields.push(format!(r#""input_tokens":{}"#, said.prompt_tokens.saturating_sub(read).saturating_sub(written)));
        if said.imitate == Imitate::Vllm {
            fields.push(format!(r#""cache_creation_input_tokens":{written}"#));
        }
        if read > 0 || said.imitate != Imitate::Dynamo {
            fields.push(format!(r#""cache_read_input_tokens":{read}"#));
        }
    }
    fields.push(format!(r#""output_tokens":{}"#, if output { said.output_tokens } else { 0 }));
    format!("{{{}}}", fields.join(","))
}
