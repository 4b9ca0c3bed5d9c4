//! LiteLLM's StandardLoggingPayload: one a line, in arrays, or in a document.
//!
//! Invariant: the request is rebuilt from what the payload names; it never holds a system prompt, which is said of every exchange.
//!
//! Answers are in the form of OpenAI's chat API whatever was called. Client headers are there if their names begin with `x-`.

use std::io::Read;

use serde::Deserialize;

use super::exchange::{
    Body, Exchange, Headers, Moment, Piece, Position, Precision, Provenance, ResponseBody, SkipReason, Trust,
};
use super::json::{self, Fields, Part};
use super::moment::micros;
use super::objects::Objects;
use super::outline::{Outline, outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;

/// The reader of payloads.
pub(super) struct LiteLlm;

impl LogReader for LiteLlm {
    fn name(&self) -> &'static str {
        "litellm-log"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        judge(&outline(head)).max(sniff_lines(head, judge))
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let parse = Box::new(|text: &str, position, limits| Ok(vec![exchange(text, position, limits)?]));
        Box::new(Objects::new(source, limits, input, "data", parse))
    }
}

fn judge(outline: &Outline) -> Sniff {
    let has = |key: &str| outline.iter().any(|(parent, found)| parent.is_empty() && *found == key.as_bytes());
    if has("call_type") && has("startTime") || has("model_parameters") && has("trace_id") {
        Sniff::Match
    } else {
        Sniff::Mismatch
    }
}

#[derive(Deserialize)]
struct Payload<'a> {
    #[serde(borrow)]
    call_type: Part<'a>,
    #[serde(borrow)]
    trace_id: Part<'a>,
    #[serde(borrow)]
    status: Part<'a>,
    #[serde(borrow, rename = "startTime")]
    start: Part<'a>,
    #[serde(borrow, rename = "endTime")]
    end: Part<'a>,
    #[serde(borrow, rename = "completionStartTime")]
    first: Part<'a>,
    #[serde(borrow)]
    model: Part<'a>,
    #[serde(borrow)]
    messages: Part<'a>,
    #[serde(borrow)]
    model_parameters: Part<'a>,
    #[serde(borrow)]
    stream: Part<'a>,
    #[serde(borrow)]
    response: Part<'a>,
    #[serde(borrow)]
    metadata: Part<'a>,
    #[serde(borrow)]
    error_information: Part<'a>,
    #[serde(borrow)]
    end_user: Part<'a>,
}

fn exchange(text: &str, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let payload: Payload = json::parse(text, limits)?;
    payload.start.or(payload.call_type).ok_or(SkipReason::Malformed)?;
    let call = json::get(payload.call_type, json::text)?.unwrap_or_default();
    let call = call.as_str().unwrap_or_default();
    let messages = payload.messages.filter(|messages| messages.get().starts_with(['[', '"']));
    let parameters = Fields::of(payload.model_parameters);
    let parameter = |name| parameters.as_ref().and_then(|fields| fields.get(name));
    let anthropic = call.contains("anthropic");
    let (path, input) = match call {
        _ if anthropic => ("/v1/messages", "messages"),
        _ if call.contains("responses") => ("/v1/responses", "input"),
        _ if call.contains("completion") => ("/v1/chat/completions", "messages"),
        _ => ("", ""),
    };
    let tools = parameter("tools");
    let body = json::object(&[
        ("model", payload.model),
        ("tools", tools),
        (input, messages),
        ("max_tokens", parameter("max_tokens")),
        ("stream", payload.stream.or(parameter("stream"))),
    ]);
    let moment = |part| {
        Ok(json::get(part, |raw| Some(Moment { unix_us: micros(raw.get(), 1e6)?, precision: Precision::Micro }))?
            .filter(|moment| moment.unix_us > 0))
    };
    let failed = json::get(payload.status, json::text)?.is_some_and(|status| status.as_bytes() == b"failure");
    let code = Fields::of(payload.error_information)
        .and_then(|fields| json::text(fields.get("error_code")?)?.as_str()?.parse().ok());
    let mut exchange = Exchange {
        position,
        method: "POST".into(),
        path: path.into(),
        headers: headers(&payload)?,
        body: if messages.is_some() { Body::Bytes(limits.check(body)?) } else { Body::Lost },
        status: Some(if failed { code.unwrap_or(500) } else { 200 }),
        response: ResponseBody::Lost,
        start: moment(payload.start)?,
        end: moment(payload.end)?,
        provenance: Provenance { trust: Trust::Partial, no_system: anthropic, ..Provenance::default() },
        ..Exchange::default()
    };
    // Where the answer did not stream, its start is said to be its end.
    exchange.first_byte = moment(payload.first)?.filter(|first| exchange.end.is_none_or(|end| *first < end));
    if let Some(answer) = payload.response.filter(|answer| answer.get().starts_with('{') && !failed) {
        let text = limits.check(Text::from(answer.get()))?;
        exchange.response = ResponseBody::Pieces(vec![Piece { at_us: None, text }]);
    }
    Ok(exchange)
}

/// What is known of the client's headers; a session that is known elsewhere only is added as Claude Code would send it.
fn headers(payload: &Payload) -> Result<Headers, SkipReason> {
    let metadata = Fields::of(payload.metadata);
    let custom = metadata.as_ref().and_then(|fields| Fields::of(fields.get("requester_custom_headers")));
    let mut headers = json::headers(custom)?;
    let has_session = headers.get("x-claude-code-session-id").is_some();
    let user = json::get(payload.end_user.filter(|user| user.get() != "null"), json::text)?.unwrap_or_default();
    if let Some(trace) = json::get(payload.trace_id.filter(|id| id.get() != "null"), json::text)?
        .filter(|trace| !has_session && !trace.is_empty())
    {
        let claude = user.as_str().is_some_and(|user| user.contains("session_"));
        headers.0.push((if claude { "x-claude-code-session-id" } else { "x-session-id" }.into(), trace));
    }
    Ok(headers)
}
