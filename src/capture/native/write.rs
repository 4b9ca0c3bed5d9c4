//! Writing our own capture log.
//!
//! Invariant: text goes straight from the exchange to the output; no copy of it is made on the way. A body that is not UTF-8 is
//! written as base64.

use std::borrow::Cow;
use std::io::{self, Write};

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};

use crate::capture::exchange::{Body, Cut, Exchange, Headers, Moment, Piece, ResponseBody};
use crate::capture::text::Text;

/// Writes an exchange as one line. Bytes of method, path and headers that are not UTF-8 become U+FFFD.
pub fn write(exchange: &Exchange, out: &mut impl Write) -> io::Result<()> {
    let (body, body_base64) = match &exchange.body {
        Body::Bytes(text) => text.as_str().map_or((None, Some(Base64(text))), |text| (Some(text), None)),
        Body::Lost | Body::Empty => (None, None),
    };
    let pieces = match &exchange.response {
        ResponseBody::Pieces(pieces) => Some(pieces),
        ResponseBody::Lost | ResponseBody::Empty => None,
    };
    let as_text = pieces.and_then(|pieces| {
        pieces.iter().map(|piece| Some((piece.at_us, piece.text.as_str()?))).collect::<Option<Vec<_>>>()
    });
    let line = Line {
        tracecloak_capture: 1,
        method: utf8(&exchange.method),
        path: utf8(&exchange.path),
        start_us: us(exchange.start),
        headers: pairs(&exchange.headers),
        body,
        body_base64,
        body_lost: matches!(exchange.body, Body::Lost),
        status: exchange.status,
        first_byte_us: us(exchange.first_byte),
        end_us: us(exchange.end),
        response_headers: pairs(&exchange.response_headers),
        response_base64: pieces.filter(|_| as_text.is_none()).map(|pieces| as_base64(pieces)),
        response: as_text,
        response_lost: matches!(exchange.response, ResponseBody::Lost),
        cut: exchange.cut.map(|cut| match cut {
            Cut::Client => "client",
            Cut::Upstream => "upstream",
            Cut::Unknown => "unknown",
        }),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

/// A line of the log, borrowed from an exchange.
#[derive(Serialize)]
struct Line<'a> {
    tracecloak_capture: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    method: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_us: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<Base64<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_lost: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_byte_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_us: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Vec<(Option<u64>, &'a str)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_base64: Option<Vec<(Option<u64>, Base64<'a>)>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    response_lost: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cut: Option<&'static str>,
}

/// Bytes that are written as base64.
struct Base64<'a>(&'a Text);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0.as_bytes(), &STANDARD))
    }
}

fn as_base64(pieces: &[Piece]) -> Vec<(Option<u64>, Base64<'_>)> {
    pieces.iter().map(|piece| (piece.at_us, Base64(&piece.text))).collect()
}

fn utf8(text: &Text) -> Cow<'_, str> {
    String::from_utf8_lossy(text.as_bytes())
}

fn pairs(headers: &Headers) -> Vec<(Cow<'_, str>, Cow<'_, str>)> {
    headers.0.iter().map(|(name, value)| (utf8(name), utf8(value))).collect()
}

fn us(moment: Option<Moment>) -> Option<i64> {
    moment.map(|moment| moment.unix_us)
}
