//! OpenAI text completions: text, or token ids, as the prompt.
//!
//! Invariant: token ids are taken as they are.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::chat::StreamOptions;
use super::openai::{self, NOT_JSON};
use super::{Api, Call, Refused, Said, data};
use crate::mock::options::Imitate;
use crate::mock::tokens::Counter;
use crate::tokenize::Token;

pub(super) struct Completions;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    prompt: &'a RawValue,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
    #[serde(default)]
    max_tokens: Option<u32>,
    #[serde(default)]
    min_tokens: Option<u32>,
    #[serde(default)]
    ignore_eos: Option<bool>,
}

/// A prompt is a text, a list of token ids, or a list of one of these.
fn tokens(raw: &RawValue, counter: &Counter) -> Result<Vec<Token>, Refused> {
    if let Some(text) = openai::text(raw) {
        return Ok(counter.plain(&text));
    }
    if let Ok(tokens) = serde_json::from_str(raw.get()) {
        return Ok(tokens);
    }
    match serde_json::from_str::<Vec<&RawValue>>(raw.get()).map_err(|_| NOT_JSON)?[..] {
        // A list in a list in a list ends here: its inner one is no list of ids.
        [one] if !one.get().starts_with("[[") => tokens(one, counter),
        _ => Err(Refused("prompt must be one text or one list of token ids")),
    }
}

impl Api for Completions {
    fn name(&self) -> &'static str {
        "completions"
    }

    fn read(&self, body: &[u8], counter: &Counter, _: Imitate) -> Result<Call, Refused> {
        let body: Body<'_> = serde_json::from_slice(body).map_err(|_| NOT_JSON)?;
        Ok(Call {
            tokens: tokens(body.prompt, counter)?,
            stream: body.stream.unwrap_or(false),
            include_usage: body.stream_options.is_some_and(|options| options.include_usage),
            // OpenAI's own default.
            max_tokens: body.max_tokens.or(Some(16)),
            min_tokens: body.min_tokens.unwrap_or(0),
            ignore_eos: body.ignore_eos.unwrap_or(false),
            model: openai::model(body.model),
        })
    }

    fn whole(&self, said: &Said, text: &str) -> String {
        format!(
            r#"{{"id":"cmpl-{}","object":"text_completion","created":0,"model":{},"choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":"{}"}}],"usage":{}{}}}"#,
            said.number,
            said.model,
            openai::finish_reason(said),
            openai::usage(said),
            openai::timings(said),
        )
    }

    fn open(&self, _: &Said, _: &mut String) {}

    fn piece(&self, said: &Said, text: &str, _: bool, out: &mut String) {
        chunk(said, text, "null", "", out);
    }

    fn close(&self, said: &Said, _: &str, out: &mut String) {
        let usage = format!(r#","usage":{}"#, openai::usage(said));
        let always = said.imitate == Imitate::Dynamo;
        chunk(said, "", &format!(r#""{}""#, openai::finish_reason(said)), if always { &usage } else { "" }, out);
        if said.include_usage && !always {
            data(
                &format!(
                    r#"{{"id":"cmpl-{}","object":"text_completion","created":0,"model":{},"choices":[]{usage}{}}}"#,
                    said.number,
                    said.model,
                    openai::timings(said),
                ),
                out,
            );
        }
        data("[DONE]", out);
    }
}

fn chunk(said: &Said, text: &str, finish: &str, rest: &str, out: &mut String) {
    let chunk = format!(
        r#"{{"id":"cmpl-{}","object":"text_completion","created":0,"model":{},"choices":[{{"index":0,"text":"{text}","logprobs":null,"finish_reason":{finish}}}]{rest}}}"#,
        said.number, said.model,
    );
    data(&chunk, out);
}
