//! Envoy's HTTP tap: a buffered trace of a request and its response, as JSON, one a line or in a document.
//!
//! Invariant: a body that Envoy truncated (at 1 KB unless told otherwise) is `Lost` on the request's side and cut on the other.
//!
//! Older versions keep no times: then the response's `date` is taken, in whole seconds, as its start.

use std::io::Read;

use serde::Deserialize;

use super::body::{base64, request_body, response_body};
use super::exchange::{Body, Cut, Exchange, Headers, Moment, Piece, Position, Precision, ResponseBody, SkipReason};
use super::json::{self, Part};
use super::moment::rfc3339;
use super::objects::Objects;
use super::outline::{Outline, outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;
use super::url::path_and_query;

/// The reader of taps.
pub(super) struct Envoy;

impl LogReader for Envoy {
    fn name(&self) -> &'static str {
        "envoy-tap"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        judge(&outline(head)).max(sniff_lines(head, judge))
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let parse = Box::new(|text: &str, position, limits| Ok(vec![exchange(text, position, limits)?]));
        Box::new(Objects::new(source, limits, input, "traces", parse))
    }
}

fn judge(outline: &Outline) -> Sniff {
    let found = outline.iter().any(|(_, key)| *key == b"http_buffered_trace" || *key == b"httpBufferedTrace");
    if found { Sniff::Match } else { Sniff::Mismatch }
}

#[derive(Deserialize)]
struct Wrapper<'a> {
    #[serde(borrow, alias = "httpBufferedTrace")]
    http_buffered_trace: Trace<'a>,
}

#[derive(Deserialize)]
struct Trace<'a> {
    #[serde(borrow)]
    request: Message<'a>,
    #[serde(borrow)]
    response: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    headers: Option<Vec<Header<'a>>>,
    #[serde(borrow)]
    body: Option<Data<'a>>,
    #[serde(borrow, alias = "headersReceivedTime")]
    headers_received_time: Part<'a>,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    key: Part<'a>,
    #[serde(borrow)]
    value: Part<'a>,
    #[serde(borrow, alias = "rawValue")]
    raw_value: Part<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow, alias = "asBytes")]
    as_bytes: Part<'a>,
    #[serde(borrow, alias = "asString")]
    as_string: Part<'a>,
    #[serde(borrow)]
    truncated: Part<'a>,
}

fn exchange(text: &str, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let Trace { request, response } = json::parse::<Wrapper>(text, limits)?.http_buffered_trace;
    let (headers, pseudo) = headers(request.headers)?;
    let path = pseudo.get(":path").ok_or(SkipReason::Malformed)?;
    let body = match content(request.body.as_ref(), limits)? {
        (_, true) => Body::Lost,
        (Some(content), false) => request_body(content, &headers, limits)?,
        (None, false) => Body::Empty,
    };
    let mut exchange = Exchange {
        position,
        method: pseudo.get(":method").unwrap_or_default().into(),
        path: path_and_query(path).into(),
        headers,
        body,
        start: time(request.headers_received_time)?,
        ..Exchange::default()
    };
    let Some(response) = response else {
        exchange.cut = Some(Cut::Unknown);
        return Ok(exchange);
    };
    let (response_headers, pseudo) = self::headers(response.headers)?;
    exchange.status = pseudo.get(":status").and_then(|status| status.parse().ok());
    exchange.first_byte = time(response.headers_received_time)?;
    if exchange.start.is_none() {
        exchange.start = response_headers.get("date").and_then(date);
    }
    let (content, truncated) = content(response.body.as_ref(), limits)?;
    if let Some(text) = content {
        let cut = truncated.then_some(Cut::Unknown);
        (exchange.response, exchange.cut) =
            response_body(vec![Piece { at_us: None, text }], &response_headers, limits, cut);
        // What the tap left out was not cut on its way.
        exchange.cut = exchange.cut.filter(|_| !truncated);
        if truncated {
            exchange.response = ResponseBody::Lost;
        }
    }
    exchange.response_headers = response_headers;
    Ok(exchange)
}

/// Headers, and the pseudo headers among them.
fn headers(list: Option<Vec<Header>>) -> Result<(Headers, Headers), SkipReason> {
    let mut all = Vec::new();
    for header in list.unwrap_or_default() {
        let name = json::get(header.key, json::text)?.ok_or(SkipReason::Malformed)?;
        let raw = json::get(header.raw_value, json::text)?.and_then(|raw| base64(&raw));
        all.push((name, json::get(header.value, json::text)?.or(raw).unwrap_or_default()));
    }
    let (pseudo, headers) = all.into_iter().partition(|(name, _)| name.as_bytes().starts_with(b":"));
    Ok((Headers(headers), Headers(pseudo)))
}

/// A body, and whether it was truncated.
fn content(data: Option<&Data>, limits: Limits) -> Result<(Option<Text>, bool), SkipReason> {
    let Some(data) = data else { return Ok((None, false)) };
    let text = match (json::get(data.as_string, json::text)?, json::get(data.as_bytes, json::text)?) {
        (Some(text), _) => Some(text),
        (None, Some(bytes)) => Some(base64(&bytes).ok_or(SkipReason::Malformed)?),
        (None, None) => None,
    };
    let truncated = json::get(data.truncated, json::boolean)?.unwrap_or(false);
    Ok((text.filter(|text| !text.is_empty()).map(|text| limits.check(text)).transpose()?, truncated))
}

fn time(part: Part) -> Result<Option<Moment>, SkipReason> {
    json::get(part, |raw| rfc3339(json::text(raw)?.as_str()?))
}

/// An HTTP date.
fn date(text: &str) -> Option<Moment> {
    let time = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Moment { unix_us: time.timestamp().as_microsecond(), precision: Precision::Second })
}
