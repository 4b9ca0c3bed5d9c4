//! claude-trace (`@mariozechner/claude-trace`): a request and its response a line, in order of completion.
//!
//! Invariant: bodies that it stored parsed are handed on as the slice of the log that they are. A response that it marks as
//! orphaned, or that has neither `body` nor `body_raw`, was cut.
//!
//! The time of a response is that of its headers; `logged_at` is its end. Redaction of keys in headers does not matter.

use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::exchange::{Body, Cut, Exchange, Headers, Moment, Piece, Position, Precision, ResponseBody, SkipReason};
use super::har::path_and_query;
use super::json::{self, Part};
use super::lines::LineRecords;
use super::moment::{micros, rfc3339};
use super::outline::{Outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;

/// The reader of claude-trace logs.
pub(super) struct ClaudeTrace;

impl LogReader for ClaudeTrace {
    fn name(&self) -> &'static str {
        "claude-trace"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        sniff_lines(head, judge)
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        Box::new(LineRecords::new(source, limits, input, exchange))
    }
}

fn judge(outline: &Outline) -> Sniff {
    let has = |parent: &[u8], key: &[u8]| outline.contains(&(parent, key));
    let known = |(parent, key): &(&[u8], &[u8])| match *parent {
        b"" => [&b"request"[..], b"response", b"logged_at", b"note"].contains(key),
        b"request" => [&b"timestamp"[..], b"method", b"url", b"headers", b"body"].contains(key),
        _ => true,
    };
    let timed = has(b"", b"logged_at") || has(b"request", b"timestamp") || has(b"response", b"status_code");
    if has(b"", b"request") && timed && outline.iter().all(known) {
        Sniff::Match
    } else if !outline.is_empty() && outline.iter().all(known) {
        Sniff::Unsure
    } else {
        Sniff::Mismatch
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    request: Request<'a>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    logged_at: Part<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    timestamp: Part<'a>,
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    url: Part<'a>,
    #[serde(borrow)]
    headers: Option<Fields<'a>>,
    #[serde(borrow)]
    body: Part<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    timestamp: Part<'a>,
    #[serde(borrow)]
    status_code: Part<'a>,
    #[serde(borrow)]
    headers: Option<Fields<'a>>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    body_raw: Part<'a>,
}

fn exchange(line: &str, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let Record { request, response, logged_at } = json::parse(line, limits)?;
    let url = json::get(request.url, json::text)?.ok_or(SkipReason::Malformed)?;
    let mut exchange = Exchange {
        position,
        method: json::get(request.method, json::text)?.unwrap_or_default(),
        path: Text::from(path_and_query(url.as_str().unwrap_or_default())),
        headers: headers(request.headers)?,
        body: stored(request.body, limits)?.map_or(Body::Empty, Body::Bytes),
        status: None,
        response_headers: Headers::default(),
        response: ResponseBody::Lost,
        cut: None,
        start: json::get(request.timestamp, seconds)?,
        first_byte: None,
        end: json::get(logged_at, |raw| rfc3339(json::text(raw)?.as_str()?))?,
    };
    if let Some(response) = response {
        exchange.status = json::get(response.status_code, json::number)?.filter(|status| *status != 0);
        exchange.response_headers = headers(response.headers)?;
        exchange.first_byte = json::get(response.timestamp, seconds)?;
        let raw = json::get(response.body_raw, json::text)?.filter(|text| !text.is_empty());
        let body = stored(response.body, limits)?;
        if let Some(text) = raw.or(body) {
            exchange.response = ResponseBody::Pieces(vec![Piece { at_us: None, text }]);
        }
    }
    exchange.cut = matches!(exchange.response, ResponseBody::Lost).then_some(Cut::Unknown);
    Ok(exchange)
}

/// A body that was stored parsed if it was JSON, and as a string otherwise.
fn stored(part: Part, limits: Limits) -> Result<Option<Text>, SkipReason> {
    let Some(raw) = part else { return Ok(None) };
    if u64::try_from(raw.get().len()).map_or(true, |length| length > limits.body_bytes) {
        return Err(SkipReason::TooLarge);
    }
    if json::deeper_than(raw.get(), limits.depth) {
        return Err(SkipReason::TooDeep);
    }
    Ok(Some(json::text(raw).unwrap_or_else(|| Text::from(raw.get()))))
}

/// A time in seconds, as JavaScript writes milliseconds.
fn seconds(raw: &RawValue) -> Option<Moment> {
    let fraction = raw.get().split_once('.').map_or(0, |(_, digits)| digits.len());
    let precision = if fraction > 3 { Precision::Micro } else { Precision::Milli };
    Some(Moment { unix_us: micros(raw.get(), 1e6)?, precision })
}

fn headers(fields: Option<Fields>) -> Result<Headers, SkipReason> {
    let fields = fields.map(|Fields(fields)| fields).unwrap_or_default();
    let pairs = fields.into_iter().map(|(name, value)| Some((name, json::text(value)?)));
    pairs.collect::<Option<_>>().map(Headers).ok_or(SkipReason::Malformed)
}

/// The fields of an object, in order.
struct Fields<'a>(Vec<(Text, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    fields.push((Text::from(name), value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
