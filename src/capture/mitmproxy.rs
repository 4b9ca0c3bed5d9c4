//! mitmproxy flow files: one tnetstring a flow, as `mitmdump -w` writes them.
//!
//! Invariant: flows are cut from the stream by their lengths, one at a time; one that does not parse loses only itself.
//!
//! A body that was streamed is null and counts as lost. What was cut has an error, whose words tell on which side.

use std::io::Read;

use super::body::{request_body, response_body};
use super::buffer::Buffer;
use super::exchange::{
    Body, Cut, Exchange, Headers, LogError, Moment, Piece, Position, Precision, ResponseBody, SkipReason,
};
use super::held::Held;
use super::moment::micros;
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;
use super::url::path_and_query;

/// The reader of flow files.
pub(super) struct Mitmproxy;

impl LogReader for Mitmproxy {
    fn name(&self) -> &'static str {
        "mitmproxy"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        let digits = head.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let inside = head.get(digits..).and_then(|rest| rest.strip_prefix(b":")).unwrap_or_default();
        if (1..=12).contains(&digits) && is_flow(inside) { Sniff::Match } else { Sniff::Mismatch }
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let (held, flow) = (Held::new(source), Buffer::default());
        Box::new(Flows { held, flow, limits, input, record: 0, done: false })
    }
}

/// Whether a dictionary begins as that of a flow: with a key of its own, in whatever order they stand.
fn is_flow(inside: &[u8]) -> bool {
    const KEYS: [&[u8]; 17] = [
        b"version",
        b"type",
        b"id",
        b"error",
        b"client_conn",
        b"server_conn",
        b"request",
        b"response",
        b"websocket",
        b"intercepted",
        b"is_replay",
        b"backup",
        b"marked",
        b"metadata",
        b"comment",
        b"timestamp_created",
        b"mode",
    ];
    let key = value(inside.get(..32).unwrap_or(inside));
    matches!(key, Some((Value::Bytes(key), _)) if KEYS.contains(&key))
}

/// The flows of a file.
struct Flows {
    held: Held,
    flow: Buffer,
    limits: Limits,
    input: u32,
    record: u64,
    done: bool,
}

impl Flows {
    /// Reads the bytes of the next flow; false at the end of the input.
    fn take(&mut self) -> Result<bool, SkipReason> {
        self.flow.clear();
        let (mut length, mut begun) = (0_u64, false);
        let mut left = loop {
            self.held.hold(1)?;
            let Some(byte) = self.held.ahead().first().copied() else {
                return if begun { Err(SkipReason::Truncated) } else { Ok(false) };
            };
            self.held.pass(1);
            match byte {
                b'0'..=b'9' if length < 1 << 40 => length = length * 10 + u64::from(byte - b'0'),
                b':' if begun => break length.saturating_add(1),
                b'\n' | b'\r' if !begun => continue,
                // Nothing tells where the next flow begins.
                _ => return Err(SkipReason::Malformed),
            }
            begun = true;
        };
        let too_large = length > self.limits.record_bytes;
        while left > 0 {
            if !self.held.hold(1)? {
                return Err(SkipReason::Truncated);
            }
            let ahead = self.held.ahead();
            let part = ahead.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(ahead);
            if !too_large {
                self.flow.push(part);
            }
            let taken = part.len();
            left -= u64::try_from(taken).unwrap_or(left);
            self.held.pass(taken);
        }
        if too_large {
            self.flow.clear();
        }
        Ok(true)
    }
}

impl Iterator for Flows {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.done {
                return None;
            }
            let position = Position { input: self.input, record: self.record + 1, offset: self.held.offset() };
            let parsed = match self.take() {
                Ok(false) => return None,
                Ok(true) if self.flow.as_slice().is_empty() => Err(SkipReason::TooLarge),
                Ok(true) => parse(self.flow.as_slice(), position, self.limits),
                Err(reason) => {
                    self.done = true;
                    Err(reason)
                }
            };
            match parsed {
                // A flow of another kind: TCP, DNS.
                Ok(None) => {}
                Ok(Some(exchange)) => {
                    self.record += 1;
                    return Some(Ok(exchange));
                }
                Err(reason) => {
                    self.record += 1;
                    return Some(Err(LogError { position, reason }));
                }
            }
        }
    }
}

/// A value of a tnetstring.
#[derive(Clone, Copy)]
enum Value<'a> {
    Bytes(&'a [u8]),
    Number(&'a [u8]),
    List(&'a [u8]),
    Map(&'a [u8]),
    Other,
}

/// The value at the start of `bytes`, and what follows it.
fn value(bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let colon = bytes.iter().take(14).position(|byte| *byte == b':')?;
    let length: usize = std::str::from_utf8(bytes.get(..colon)?).ok()?.parse().ok()?;
    let (content, rest) = bytes.get(colon + 1..)?.split_at_checked(length)?;
    let (kind, rest) = rest.split_first()?;
    let value = match kind {
        b',' | b';' => Value::Bytes(content),
        b'#' | b'^' => Value::Number(content),
        b']' => Value::List(content),
        b'}' => Value::Map(content),
        b'~' | b'!' => Value::Other,
        _ => return None,
    };
    Some((value, rest))
}

impl<'a> Value<'a> {
    /// The value under a key; none if there is none, or null.
    fn get(self, key: &str) -> Option<Self> {
        let Value::Map(mut rest) = self else { return None };
        while !rest.is_empty() {
            let (name, after) = value(rest)?;
            let (found, after) = value(after)?;
            if matches!(name, Value::Bytes(name) if name == key.as_bytes()) {
                return Some(found).filter(|found| !matches!(found, Value::Other));
            }
            rest = after;
        }
        None
    }

    fn bytes(self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    fn number(self) -> Option<&'a str> {
        if let Value::Number(number) = self { std::str::from_utf8(number).ok() } else { None }
    }

    /// A time in seconds.
    fn moment(self, key: &str) -> Option<Moment> {
        Some(Moment { unix_us: micros(self.get(key)?.number()?, 1e6)?, precision: Precision::Micro })
    }

    fn headers(self) -> Option<Headers> {
        let mut headers = Vec::new();
        let Some(Value::List(mut rest)) = self.get("headers") else { return Some(Headers::default()) };
        while !rest.is_empty() {
            let (Value::List(pair), after) = value(rest)? else { return None };
            let (name, pair) = value(pair)?;
            let (field, _) = value(pair)?;
            headers.push((Text::from(name.bytes()?.to_vec()), Text::from(field.bytes()?.to_vec())));
            rest = after;
        }
        headers.retain(|(name, _)| !name.as_bytes().starts_with(b":"));
        Some(Headers(headers))
    }
}

/// A flow as an exchange; none for one that is not HTTP.
fn parse(flow: &[u8], position: Position, limits: Limits) -> Result<Option<Exchange>, SkipReason> {
    let (body, kind) = flow.split_at_checked(flow.len().saturating_sub(1)).unwrap_or_default();
    if kind != b"}" {
        return Err(SkipReason::Malformed);
    }
    let flow = Value::Map(body);
    if flow.get("type").and_then(Value::bytes).is_some_and(|kind| kind != b"http") {
        return Ok(None);
    }
    let request = flow.get("request").ok_or(SkipReason::Malformed)?;
    let text = |key| request.get(key).and_then(Value::bytes).map(|bytes| Text::from(bytes.to_vec()));
    let path = text("path").ok_or(SkipReason::Malformed)?;
    let headers = request.headers().ok_or(SkipReason::Malformed)?;
    let mut exchange = Exchange {
        position,
        method: text("method").unwrap_or_default(),
        path: Text::from(path_and_query(path.as_str().unwrap_or_default())),
        body: match text("content") {
            Some(content) if content.is_empty() => Body::Empty,
            Some(content) => request_body(limits.check(content)?, &headers, limits)?,
            None => Body::Lost,
        },
        headers,
        start: request.moment("timestamp_start"),
        ..Exchange::default()
    };
    let error = flow.get("error").and_then(|error| error.get("msg")).and_then(Value::bytes);
    exchange.cut = error.map(cut);
    let Some(response) = flow.get("response") else { return Ok(Some(exchange)) };
    exchange.status = response.get("status_code").and_then(Value::number).and_then(|status| status.parse().ok());
    exchange.response_headers = response.headers().ok_or(SkipReason::Malformed)?;
    exchange.first_byte = response.moment("timestamp_start");
    let ended = flow.get("error").and_then(|error| error.moment("timestamp"));
    exchange.end = response.moment("timestamp_end").or(ended);
    match response.get("content").and_then(Value::bytes) {
        Some([]) => exchange.response = if error.is_some() { ResponseBody::Lost } else { ResponseBody::Empty },
        Some(content) => {
            let piece = Piece { at_us: None, text: limits.check(Text::from(content.to_vec()))? };
            (exchange.response, exchange.cut) =
                response_body(vec![piece], &exchange.response_headers, limits, exchange.cut);
        }
        None => exchange.response = ResponseBody::Lost,
    }
    Ok(Some(exchange))
}

/// Who ended a flow, by the words of its error.
fn cut(error: &[u8]) -> Cut {
    let says = |word: &[u8]| memchr::memmem::find(error, word).is_some();
    if says(b"Client disconnected") || says(b"client") {
        Cut::Client
    } else if says(b"peer closed") || says(b"erver") || says(b"onnection") {
        Cut::Upstream
    } else {
        Cut::Unknown
    }
}
