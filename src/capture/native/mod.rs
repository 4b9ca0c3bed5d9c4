//! Our own capture log: one exchange a line, as JSON. `schemas/capture.v1.json` describes it.
//!
//! Invariant: what [`write`] writes, the reader reads back as the same exchange, as far as the format goes: names and values of
//! headers are UTF-8, and times are in microseconds.

mod write;

use std::io::Read;

use serde::Deserialize;
use serde_json::value::RawValue;

pub use self::write::write;
use super::body::{base64, request_body, response_body};
use super::exchange::{Body, Cut, Exchange, Headers, Moment, Piece, Position, Precision, ResponseBody, SkipReason};
use super::json::{self, Part};
use super::lines::LineRecords;
use super::outline::{Outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;

/// The reader of our own capture log.
pub(super) struct Native;

impl LogReader for Native {
    fn name(&self) -> &'static str {
        "tracecloak-capture"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        sniff_lines(head, judge)
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        Box::new(LineRecords::new(source, limits, input, exchange))
    }
}

/// The field that marks a record; its value is the version of the format.
const MARK: &str = "tracecloak_capture";
/// The fields of a record beside the mark.
const FIELDS: [&str; 15] = [
    "method",
    "path",
    "start_us",
    "headers",
    "body",
    "body_base64",
    "body_lost",
    "status",
    "first_byte_us",
    "end_us",
    "response_headers",
    "response",
    "response_base64",
    "response_lost",
    "cut",
];

fn judge(outline: &Outline) -> Sniff {
    let mut top = outline.iter().filter(|(parent, _)| parent.is_empty()).map(|(_, key)| *key).peekable();
    if top.clone().any(|key| key == MARK.as_bytes()) {
        Sniff::Match
    } else if top.peek().is_some() && top.all(|key| FIELDS.iter().any(|field| field.as_bytes() == key)) {
        Sniff::Unsure
    } else {
        Sniff::Mismatch
    }
}

/// A record, its fields not yet looked into.
#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    tracecloak_capture: Part<'a>,
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    path: Part<'a>,
    #[serde(borrow)]
    start_us: Part<'a>,
    #[serde(borrow)]
    headers: Option<Vec<(&'a RawValue, &'a RawValue)>>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    body_base64: Part<'a>,
    #[serde(borrow)]
    body_lost: Part<'a>,
    #[serde(borrow)]
    status: Part<'a>,
    #[serde(borrow)]
    first_byte_us: Part<'a>,
    #[serde(borrow)]
    end_us: Part<'a>,
    #[serde(borrow)]
    response_headers: Option<Vec<(&'a RawValue, &'a RawValue)>>,
    #[serde(borrow)]
    response: Option<Vec<(Part<'a>, &'a RawValue)>>,
    #[serde(borrow)]
    response_base64: Option<Vec<(Part<'a>, &'a RawValue)>>,
    #[serde(borrow)]
    response_lost: Part<'a>,
    #[serde(borrow)]
    cut: Part<'a>,
}

fn exchange(line: &str, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let record: Record = json::parse(line, limits)?;
    if json::get(record.tracecloak_capture, json::number)? != Some(1_u32) {
        return Err(SkipReason::Malformed);
    }
    let headers = headers(record.headers)?;
    let response_headers = self::headers(record.response_headers)?;
    let body = match (json::get(record.body, json::text)?, json::get(record.body_base64, json::text)?) {
        (Some(text), _) if too_large(&text, limits) => return Err(SkipReason::TooLarge),
        (Some(text), _) => Body::Bytes(text),
        (None, Some(text)) => request_body(base64(&text).ok_or(SkipReason::Malformed)?, &headers, limits)?,
        (None, None) if json::get(record.body_lost, json::boolean)? == Some(true) => Body::Lost,
        (None, None) => Body::Empty,
    };
    let cut = json::get(record.cut, json::text)?.as_ref().map(cut).transpose()?;
    let (response, cut) = match (record.response, record.response_base64) {
        (Some(parts), _) => (ResponseBody::Pieces(pieces(parts, Some)?), cut),
        (None, Some(parts)) => response_body(pieces(parts, |text| base64(&text))?, &response_headers, limits, cut),
        (None, None) if json::get(record.response_lost, json::boolean)? == Some(true) => (ResponseBody::Lost, cut),
        (None, None) => (ResponseBody::Empty, cut),
    };
    Ok(Exchange {
        position,
        method: json::get(record.method, json::text)?.unwrap_or_default(),
        path: json::get(record.path, json::text)?.unwrap_or_default(),
        headers,
        body,
        status: json::get(record.status, json::number)?,
        response_headers,
        response,
        cut,
        start: moment(record.start_us)?,
        first_byte: moment(record.first_byte_us)?,
        end: moment(record.end_us)?,
    })
}

fn too_large(text: &Text, limits: Limits) -> bool {
    u64::try_from(text.as_bytes().len()).map_or(true, |length| length > limits.body_bytes)
}

fn headers(pairs: Option<Vec<(&RawValue, &RawValue)>>) -> Result<Headers, SkipReason> {
    let pairs =
        pairs.unwrap_or_default().into_iter().map(|(name, value)| Some((json::text(name)?, json::text(value)?)));
    pairs.collect::<Option<_>>().map(Headers).ok_or(SkipReason::Malformed)
}

fn pieces(parts: Vec<(Part, &RawValue)>, decode: fn(Text) -> Option<Text>) -> Result<Vec<Piece>, SkipReason> {
    let piece = |(at, text): (Part, &RawValue)| {
        let text = json::text(text).and_then(decode).ok_or(SkipReason::Malformed)?;
        Ok(Piece { at_us: json::get(at, json::number)?, text })
    };
    parts.into_iter().map(piece).collect()
}

fn moment(part: Part) -> Result<Option<Moment>, SkipReason> {
    Ok(json::get(part, json::number)?.map(|unix_us| Moment { unix_us, precision: Precision::Micro }))
}

fn cut(word: &Text) -> Result<Cut, SkipReason> {
    match word.as_bytes() {
        b"client" => Ok(Cut::Client),
        b"upstream" => Ok(Cut::Upstream),
        b"unknown" => Ok(Cut::Unknown),
        _ => Err(SkipReason::Malformed),
    }
}
