//! claude-tap: JSONL of its dashboard and of versions up to 0.1.30, compact JSON, lossy JSON, and its SQLite store.
//!
//! Invariant: a value that was moved out into a blob is put back as it was written; a record whose blob is missing is lost alone.
//!
//! The time of a record is its end, and its start is `duration_ms` before. The answer is put together by the tool, with its
//! signatures emptied; streams are kept as events without times on request (always in 0.1.30). A cancelled stream looks like a
//! whole one, but has no stop reason. The lossy form has no headers, so no session, and no identifiers.

mod blobs;
mod store;

use std::io::Read;

use serde::Deserialize;

use self::blobs::Blobs;
use super::database::Database;
use super::exchange::{Body, Cut, Exchange, Piece, Position, Provenance, ResponseBody, SkipReason, Trust};
use super::json::{self, Fields, Part};
use super::moment::{micros, rfc3339};
use super::objects::Objects;
use super::outline::{Outline, outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;
use super::url::path_and_query;

/// The reader of what claude-tap writes.
pub(super) struct ClaudeTap;

/// What marks a compact trace, and a compact record.
const TRACE: &[u8] = b"__claude_tap_compact_trace__";
const RECORD: &[u8] = b"__claude_tap_compact_record__";

impl LogReader for ClaudeTap {
    fn name(&self) -> &'static str {
        "claude-tap"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        let whole = outline(head);
        if is_lossy(&whole) { Sniff::Match } else { sniff_lines(head, judge).max(judge(&whole)) }
    }

    fn read(&self, mut source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let mut head = Vec::new();
        // A compact trace has its blobs at its end, so that it is read whole.
        let failed = source.by_ref().take(64 << 10).read_to_end(&mut head).is_err();
        let compact = !failed && outline(&head).iter().any(|(parent, key)| parent.is_empty() && *key == TRACE);
        let source = Box::new(std::io::Cursor::new(head).chain(source));
        if compact {
            return blobs::read(source, limits, input);
        }
        let parse = Box::new(|text: &str, position, limits| {
            exchange(text, &Blobs::default(), position, limits).map(|exchange| vec![exchange])
        });
        Box::new(Objects::new(source, limits, input, "records", parse))
    }

    fn sniff_database(&self, database: &Database) -> bool {
        database.has("records", &["session_id", "record_index", "payload_json"])
    }

    fn read_database(&self, database: Database, limits: Limits, input: u32) -> Records {
        store::read(database, limits, input)
    }
}

fn judge(outline: &Outline) -> Sniff {
    let has = |parent: &[u8], key: &[u8]| outline.contains(&(parent, key));
    let top = |key: &[u8]| has(b"", key);
    let record = top(b"duration_ms") && top(b"turn") && has(b"request", b"path");
    if top(TRACE) || top(RECORD) || record || top(b"upstream_base_url") && top(b"capture") {
        Sniff::Match
    } else {
        Sniff::Mismatch
    }
}

/// Whether a document, not a line of one, lists turns with messages and a response.
fn is_lossy(outline: &Outline) -> bool {
    let keys: [(&[u8], &[u8]); 4] = [(b"", b"turn"), (b"", b"duration_ms"), (b"", b"messages"), (b"messages", b"role")];
    keys.iter().all(|key| outline.contains(key))
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    timestamp: Part<'a>,
    #[serde(borrow)]
    duration_ms: Part<'a>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    // The lossy form has the request's body spread out.
    #[serde(borrow)]
    model: Part<'a>,
    #[serde(borrow)]
    system: Part<'a>,
    #[serde(borrow)]
    tools: Part<'a>,
    #[serde(borrow)]
    messages: Part<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    path: Part<'a>,
    #[serde(borrow)]
    headers: Option<Fields<'a>>,
    #[serde(borrow)]
    body: Part<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    status: Part<'a>,
    #[serde(borrow)]
    headers: Option<Fields<'a>>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    sse_events: Option<Vec<Event<'a>>>,
    #[serde(borrow)]
    content: Part<'a>,
    #[serde(borrow)]
    usage: Part<'a>,
    #[serde(borrow)]
    stop_reason: Part<'a>,
    #[serde(borrow)]
    error: Part<'a>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    event: Part<'a>,
    #[serde(borrow)]
    data: Part<'a>,
}

/// A record, its blobs put back, as an exchange. A reason of `Truncated` means: not whole JSON.
fn exchange(text: &str, blobs: &Blobs, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let whole = blobs.put_back(text, limits)?;
    let text = whole.as_str().ok_or(SkipReason::NotUtf8)?;
    let record: Record = json::parse(text, limits)?;
    let end = json::get(record.timestamp, |raw| rfc3339(json::text(raw)?.as_str()?))?;
    let spent = json::get(record.duration_ms, |raw| micros(raw.get(), 1e3))?.filter(|spent| *spent >= 0).unwrap_or(0);
    let mut exchange = Exchange {
        position,
        response: ResponseBody::Lost,
        // The start is a difference of a time and a whole number of milliseconds.
        start: end.and_then(|end| end.plus(-spent)),
        end,
        ..Exchange::default()
    };
    if let Some(request) = record.request {
        let path = json::get(request.path, json::text)?.ok_or(SkipReason::Malformed)?;
        exchange.path = Text::from(path_and_query(path.as_str().unwrap_or_default()));
        exchange.method = json::get(request.method, json::text)?.unwrap_or_default();
        exchange.headers = json::headers(request.headers)?;
        exchange.body = json::stored(request.body, limits)?.map_or(Body::Empty, Body::Bytes);
    } else {
        record.messages.ok_or(SkipReason::Malformed)?;
        let parts = [
            ("model", record.model),
            ("system", record.system),
            ("tools", record.tools),
            ("messages", record.messages),
        ];
        exchange.path = "/v1/messages".into();
        exchange.method = "POST".into();
        exchange.body = Body::Bytes(limits.check(json::object(&parts))?);
        exchange.status = Some(200);
        exchange.provenance = Provenance { trust: Trust::Reworded, ..Provenance::default() };
    }
    if let Some(response) = record.response {
        answer(&mut exchange, &response, limits)?;
    }
    Ok(exchange)
}

fn answer(exchange: &mut Exchange, response: &Response, limits: Limits) -> Result<(), SkipReason> {
    let lossy = exchange.provenance.trust == Trust::Reworded;
    exchange.status = json::get(response.status, json::number)?.filter(|status| *status != 0).or(exchange.status);
    exchange.response_headers = match response.headers.as_ref() {
        Some(fields) => json::headers(Some(fields.clone()))?,
        None => exchange.response_headers.clone(),
    };
    let events = response.sse_events.as_ref().filter(|events| !events.is_empty());
    let text = match events {
        Some(events) => Some(stream(events)),
        None if lossy => {
            let parts = [
                ("content", response.content),
                ("usage", response.usage),
                ("stop_reason", response.stop_reason),
                ("error", response.error),
            ];
            Some(json::object(&parts))
        }
        None => json::stored(response.body, limits)?,
    };
    // What was put together of a stream that was cut has no stop reason; an error body has none either, and says so.
    let stopped = Fields::of(response.body).is_none_or(|body| {
        body.get("stop_reason").is_some_and(|reason| reason.get() != "null") || body.get("role").is_none()
    });
    let stopped = if lossy { response.stop_reason.is_some() } else { stopped };
    exchange.cut = (events.is_none() && exchange.status == Some(200) && !stopped).then_some(Cut::Unknown);
    exchange.response = match text {
        Some(text) if text.is_empty() => ResponseBody::Empty,
        Some(text) => ResponseBody::Pieces(vec![Piece { at_us: None, text: limits.check(text)? }]),
        None => ResponseBody::Lost,
    };
    Ok(())
}

/// The events of a stream, as text again.
fn stream(events: &[Event]) -> Text {
    let mut out = Vec::new();
    for event in events {
        for (field, part) in [("event: ", event.event), ("data: ", event.data)] {
            if let Some(part) = part {
                out.extend_from_slice(field.as_bytes());
                match json::text(part) {
                    Some(text) => out.extend_from_slice(text.as_bytes()),
                    None => out.extend_from_slice(part.get().as_bytes()),
                }
                out.push(b'\n');
            }
        }
        out.push(b'\n');
    }
    Text::from(out)
}
