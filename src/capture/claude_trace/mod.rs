//! claude-trace (`@mariozechner/claude-trace`): a request and its response a line, in order of completion.
//!
//! Invariant: bodies that it stored parsed are handed on as the slice of the log that they are. A response that is null
//! (an orphan), or that has neither `body` nor `body_raw`, was cut.
//!
//! The time of a response is that of its headers; `logged_at` is its end. Redaction of keys in headers does not matter.

mod orphans;

use std::io::Read;

use serde::Deserialize;
use serde_json::value::RawValue;

use self::orphans::Orphans;
use crate::capture::exchange::{
    Body, Cut, Exchange, Headers, Moment, Piece, Position, Precision, Provenance, ResponseBody, SkipReason,
};
use crate::capture::familiar::Record;
use crate::capture::json::{self, Part};
use crate::capture::lines::LineRecords;
use crate::capture::moment::{micros, rfc3339};
use crate::capture::outline::{Outline, sniff_lines};
use crate::capture::reader::{Limits, LogReader, Records, Sniff};
use crate::capture::text::Text;
use crate::capture::url::path_and_query;

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
        Box::new(Orphans::new(LineRecords::new(source, limits, input, b"\"body\"", exchange)))
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
    } else if (has(b"", b"request") || has(b"", b"response")) && outline.iter().all(known) {
        Sniff::Unsure
    } else {
        Sniff::Mismatch
    }
}

#[derive(Deserialize)]
struct Pair<'a> {
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
    headers: Option<json::Fields<'a>>,
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
    headers: Option<json::Fields<'a>>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    body_raw: Part<'a>,
}

fn exchange(line: &Record<'_>, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let Pair { request, response, logged_at } = json::parse(line.json, limits)?;
    let url = json::get(request.url, json::text)?.ok_or(SkipReason::Malformed)?;
    let mut exchange = Exchange {
        position,
        method: json::get(request.method, json::text)?.unwrap_or_default(),
        path: Text::from(path_and_query(url.as_str().unwrap_or_default())),
        headers: json::headers(request.headers)?,
        body: line.stored(request.body, limits)?.map_or(Body::Empty, Body::Bytes),
        status: None,
        response_headers: Headers::default(),
        response: ResponseBody::Lost,
        cut: None,
        start: json::get(request.timestamp, seconds)?,
        first_byte: None,
        end: json::get(logged_at, |raw| rfc3339(json::text(raw)?.as_str()?))?,
        alike: None,
        provenance: Provenance::default(),
    };
    if let Some(response) = response {
        exchange.status = json::get(response.status_code, json::number)?.filter(|status| *status != 0);
        exchange.response_headers = json::headers(response.headers)?;
        exchange.first_byte = json::get(response.timestamp, seconds)?;
        let raw = json::get(response.body_raw, json::text)?.map(|text| limits.check(text)).transpose()?;
        exchange.response = match raw.or(json::stored(response.body, limits)?) {
            Some(text) if text.is_empty() => ResponseBody::Empty,
            Some(text) => ResponseBody::Pieces(vec![Piece { at_us: None, text }]),
            None => ResponseBody::Lost,
        };
    }
    exchange.cut = matches!(exchange.response, ResponseBody::Lost).then_some(Cut::Unknown);
    Ok(exchange)
}

/// A time in seconds, as JavaScript writes milliseconds.
fn seconds(raw: &RawValue) -> Option<Moment> {
    let fraction = raw.get().split_once('.').map_or(0, |(_, digits)| digits.len());
    let precision = if fraction > 3 { Precision::Micro } else { Precision::Milli };
    Some(Moment { unix_us: micros(raw.get(), 1e6)?, precision })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::testing::{CANARY, body, mutations, read, read_one, reasons, response};

    fn good() -> Value {
        json!({
            "request": {
                "timestamp": 1_700_000_000.123,
                "method": "POST",
                "url": "https://host.invalid/v1/messages?beta=true#top",
                "headers": {"x-app": "cli", "x-api-key": "sk-a...z"},
                "body": {"model": CANARY, "messages": [{"role": "user", "content": "a\"b\\u00e9"}]},
            },
            "response": {
                "timestamp": 1_700_000_000.5,
                "status_code": 200,
                "headers": {"content-type": "text/event-stream"},
                "body_raw": "event: ping\ndata: {}\n\n",
            },
            "logged_at": "2023-11-14T22:13:21.750Z",
        })
    }

    fn log(records: &[Value]) -> Vec<u8> {
        records.iter().flat_map(|record| format!("{record}\n").into_bytes()).collect()
    }

    #[test]
    fn a_record_is_read_whole() {
        let exchange = read_one(&ClaudeTrace, &log(&[good()]));
        assert_eq!(exchange.path.as_str(), Some("/v1/messages?beta=true"));
        assert_eq!(body(&exchange), Some(good()["request"]["body"].to_string().as_str()), "as the log holds it");
        assert_eq!(response(&exchange).as_deref(), Some("event: ping\ndata: {}\n\n"));
        assert_eq!(exchange.headers.get("x-app"), Some("cli"));
        assert_eq!(exchange.response_headers.get("content-type"), Some("text/event-stream"));
        assert_eq!((exchange.status, exchange.cut), (Some(200), None));
        let at = |unix_us| Some(Moment { unix_us, precision: Precision::Milli });
        assert_eq!(exchange.start, at(1_700_000_000_123_000));
        assert_eq!(exchange.first_byte, at(1_700_000_000_500_000));
        assert_eq!(exchange.end, at(1_700_000_001_750_000));
    }

    #[test]
    fn responses_come_as_json_as_text_as_nothing_or_not_at_all() {
        let with = |response: Value| {
            let mut record = good();
            record["response"] = response;
            read_one(&ClaudeTrace, &log(&[record]))
        };
        assert_eq!(
            response(&with(json!({"status_code": 529, "body": {"type": "error"}}))).unwrap(),
            r#"{"type":"error"}"#
        );
        assert_eq!(response(&with(json!({"status_code": 200, "body": "plain"}))).unwrap(), "plain");
        let empty = with(json!({"status_code": 200, "body_raw": ""}));
        assert!(matches!((empty.response, empty.cut), (ResponseBody::Empty, None)));
        let cut = with(json!({"status_code": 200, "headers": {}}));
        assert!(matches!((cut.response, cut.cut, cut.status), (ResponseBody::Lost, Some(Cut::Unknown), Some(200))));
        let orphan = with(Value::Null);
        assert!(matches!((orphan.response, orphan.cut, orphan.status), (ResponseBody::Lost, Some(Cut::Unknown), None)));
    }

    #[test]
    fn an_orphan_yields_to_its_response() {
        let (mut orphan, mut other) = (good(), good());
        orphan["response"] = Value::Null;
        orphan["note"] = json!("ORPHANED_REQUEST");
        other["request"]["body"] = json!({"other": 1});
        let mut lone = orphan.clone();
        lone["request"]["timestamp"] = json!(1.5);
        let records = read(&ClaudeTrace, &log(&[orphan, lone, other, good()]), Limits::default());
        let seen: Vec<_> = records
            .iter()
            .map(|record| {
                record.as_ref().map_or_else(|e| (e.position.record, Some(e.reason)), |x| (x.position.record, None))
            })
            .collect();
        assert_eq!(seen, [(3, None), (4, None), (1, Some(SkipReason::Duplicate)), (2, None)]);
    }

    #[test]
    fn a_wrong_type_anywhere_loses_only_its_record() {
        for mutant in mutations(&good()) {
            let first: Vec<_> = read(&ClaudeTrace, &log(&[good(), mutant, good()]), Limits::default());
            assert!(first.len() == 3 && first.iter().filter(|record| record.is_ok()).count() >= 2);
        }
    }

    #[test]
    fn broken_lines_are_told_apart() {
        let whole = log(&[good()]);
        let text = String::from_utf8(whole.clone()).unwrap();
        let latin = [text.split_once(CANARY).unwrap().0.as_bytes(), b"\xe9\xff\"}\n"].concat();
        let mut deep = good();
        deep["request"]["body"] = json!("DEEP");
        let deep = deep.to_string().replace("\"DEEP\"", &format!("{}{}", "[".repeat(200), "]".repeat(200))) + "\n";
        let log =
            [&whole[..], b"{\"request\":\n\n", &latin, &deep.into_bytes(), &whole, &whole[..whole.len() / 2]].concat();
        assert_eq!(
            reasons(&ClaudeTrace, &log, Limits::default()),
            [
                None,
                Some(SkipReason::Malformed),
                Some(SkipReason::NotUtf8),
                Some(SkipReason::TooDeep),
                None,
                Some(SkipReason::Truncated)
            ]
        );
    }
}
