//! What OpenAI's APIs have in common: contents, tools, usage, errors.
//!
//! Invariant: contents are borrowed from the body; an unknown part is counted as the JSON it is.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Refused, Said};
use crate::mock::options::Imitate;
use crate::mock::tokens::Counter;
use crate::tokenize::{Block, Content, Prompt, Token, Tool};

/// What an image is taken for.
const IMAGE_TOKENS: u32 = 1_000;

pub(super) const NOT_JSON: Refused = Refused("the body is not the JSON of this API");

/// Text that a JSON string holds.
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

/// Contents: a string, a list of parts, or nothing.
pub(super) fn contents(raw: Option<&RawValue>) -> Result<Vec<Content<'_>>, Refused> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    if let Some(text) = text(raw) {
        return Ok(vec![Content::Text(text)]);
    }
    let parts: Vec<&RawValue> = serde_json::from_str(raw.get()).map_err(|_| NOT_JSON)?;
    Ok(parts.into_iter().map(|raw| part(raw).unwrap_or_else(|| Content::Text(Cow::Borrowed(raw.get())))).collect())
}

/// A part of contents, if it is text or an image.
fn part(raw: &RawValue) -> Option<Content<'_>> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
        #[serde(borrow, default)]
        image_url: Option<&'a RawValue>,
    }
    let part: Part<'_> = serde_json::from_str(raw.get()).ok()?;
    if let Some(image) = part.image_url {
        let key = xxhash_rust::xxh3::xxh3_128(image.get().as_bytes()).to_le_bytes();
        return Some(Content::Media { key, tokens: IMAGE_TOKENS });
    }
    text(part.text?).map(Content::Text)
}

/// Contents as blocks of a message.
pub(super) fn blocks(raw: Option<&RawValue>) -> Result<Vec<Block<'_>>, Refused> {
    Ok(contents(raw)?.into_iter().map(Block::Content).collect())
}

/// A function as a tool definition has it.
#[derive(Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) description: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) parameters: Option<&'a RawValue>,
}

impl Function<'_> {
    pub(super) fn tool(&self) -> Tool<'_> {
        Tool { name: &self.name, description: &self.description, schema: self.parameters.map_or("{}", RawValue::get) }
    }
}

/// Lays a prompt out.
pub(super) fn lay(prompt: &Prompt<'_>, counter: &Counter) -> Result<Vec<Token>, Refused> {
    counter.lay(prompt).map_err(|_| Refused("the chat template refuses this conversation"))
}

/// The model of a body, as a JSON string.
pub(super) fn model(raw: Option<&RawValue>) -> String {
    raw.filter(|raw| raw.get().starts_with('"')).map_or_else(|| "\"\"".to_owned(), |raw| raw.get().to_owned())
}

/// `usage` of chat and text completions.
pub(super) fn usage(said: &Said) -> String {
    let details =
        said.cached_tokens.map_or_else(|| "null".to_owned(), |cached| format!(r#"{{"cached_tokens":{cached}}}"#));
    format!(
        r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{details}}}"#,
        said.prompt_tokens,
        said.output_tokens,
        u64::from(said.prompt_tokens) + u64::from(said.output_tokens),
    )
}

/// What llama.cpp adds to an answer, with a comma before it.
pub(super) fn timings(said: &Said) -> String {
    if said.imitate != Imitate::LlamaCpp {
        return String::new();
    }
    let cached = said.cached_tokens.unwrap_or(0);
    format!(
        r#","timings":{{"cache_n":{cached},"prompt_n":{},"prompt_ms":{}}}"#,
        said.prompt_tokens - cached.min(said.prompt_tokens),
        said.prefill.as_millis(),
    )
}

pub(super) fn finish_reason(said: &Said) -> &'static str {
    if said.by_length { "length" } else { "stop" }
}

pub(super) fn error(status: u16, message: &str) -> String {
    let kind = match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    };
    format!(r#"{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":{status}}}}}"#)
}

pub(super) fn tokenize(body: &[u8], counter: &Counter) -> Result<Vec<Token>, Refused> {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow, alias = "content")]
        prompt: Option<&'a RawValue>,
    }
    let parsed: Body<'_> = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
    match parsed.prompt.map(text) {
        Some(Some(text)) => Ok(counter.plain(&text)),
        Some(None) => Err(Refused("the text to tokenize is no string")),
        None => super::chat::tokens(body, counter),
    }
}
