//! nginx access logs written as JSON (`log_format … escape=json`): one request a line, fields named after nginx's variables.
//!
//! Invariant: a body that nginx did not have in memory (empty or `-`) is `Lost`; a field that is `-` or empty is absent.
//!
//! `$msec` is the end of a request and `$request_time` what it took. Headers are fields `http_…`; answers are there only where a
//! module kept them (`resp_body`, `response_body`).

use std::io::Read;

use super::exchange::{Body, Exchange, Headers, Moment, Piece, Position, Precision, ResponseBody, SkipReason};
use super::familiar::Record;
use super::json::{self, Fields};
use super::lines::LineRecords;
use super::moment::{micros, rfc3339};
use super::outline::{Outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;
use super::url::path_and_query;

/// The reader of such logs.
pub(super) struct Nginx;

impl LogReader for Nginx {
    fn name(&self) -> &'static str {
        "nginx"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        sniff_lines(head, judge)
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        Box::new(LineRecords::new(source, limits, input, b"", exchange))
    }
}

/// Variables that only nginx has.
const TIMES: [&str; 5] = ["msec", "request_time", "time_iso8601", "time_local", "upstream_response_time"];

fn judge(outline: &Outline) -> Sniff {
    let has = |key: &str| outline.iter().any(|(parent, found)| parent.is_empty() && *found == key.as_bytes());
    let request = has("request_uri") || has("uri") || has("request") || has("request_body");
    if request && has("status") && TIMES.iter().any(|key| has(key)) { Sniff::Match } else { Sniff::Mismatch }
}

fn exchange(line: &Record<'_>, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let fields: Fields = json::parse(line.json, limits)?;
    let value = |names: &[&str]| {
        let found = names.iter().find_map(|name| fields.get(name));
        let text = found.map(|raw| json::text(raw).unwrap_or_else(|| Text::from(raw.get())));
        text.filter(|text| !text.is_empty() && text.as_bytes() != b"-" && text.as_bytes() != b"null")
    };
    let line = value(&["request"]);
    let mut words = line.as_ref().and_then(Text::as_str).unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let method = value(&["request_method", "method"]).unwrap_or_else(|| method.into());
    let path = value(&["request_uri", "uri", "path"]).unwrap_or_else(|| target.into());
    if path.is_empty() {
        return Err(SkipReason::Malformed);
    }
    let decimal = |text: &Text| micros(text.as_str()?, 1e6);
    let end = value(&["msec"]).as_ref().and_then(decimal);
    let end = end.map(|unix_us| Moment { unix_us, precision: Precision::Milli });
    let end = end.or_else(|| rfc3339(value(&["time_iso8601"])?.as_str()?));
    let took = value(&["request_time"]).as_ref().and_then(decimal).filter(|took| *took >= 0);
    let mut headers = Vec::new();
    for (name, _) in &fields.0 {
        let header = name.as_str().and_then(|name| name.strip_prefix("http_")).map(|name| name.replace('_', "-"));
        if let (Some(header), Some(field)) = (header, name.as_str().and_then(|name| value(&[name]))) {
            headers.push((Text::from(header), field));
        }
    }
    let posted = method.as_bytes() == b"POST";
    let answer = value(&["response_body", "resp_body"]);
    Ok(Exchange {
        position,
        method,
        path: path_and_query(path.as_str().unwrap_or_default()).into(),
        headers: Headers(headers),
        body: match value(&["request_body", "body"]) {
            Some(body) => Body::Bytes(limits.check(body)?),
            None if posted => Body::Lost,
            None => Body::Empty,
        },
        status: value(&["status"]).and_then(|status| status.as_str()?.parse().ok()).filter(|status| *status != 0),
        response: match answer {
            Some(text) => ResponseBody::Pieces(vec![Piece { at_us: None, text: limits.check(text)? }]),
            None => ResponseBody::Lost,
        },
        start: end.zip(took).and_then(|(end, took)| end.plus(-took)).or(end),
        end,
        ..Exchange::default()
    })
}
