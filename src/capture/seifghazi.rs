//! claude-code-proxy of seifghazi: its SQLite table `requests`, or the JSON of its API.
//!
//! Invariant: a stream is rebuilt from its `data:` lines; what is put together beside them holds text only and is not used for one.
//!
//! Times are whole seconds; how long the answer took is in milliseconds. Bodies were written anew from what the proxy knows of the
//! API, so that metadata, thinking and much else is gone. A client hears no events through it and sends every turn again without
//! streaming: both are kept, as attempts, and the one whose calls are answered counts.

use std::io::Read;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::database::Database;
use super::exchange::{Body, Cut, Exchange, Piece, Position, Provenance, ResponseBody, SkipReason, Trust};
use super::json::{self, Fields, Part};
use super::moment::{micros, rfc3339};
use super::objects::Objects;
use super::outline::{Outline, outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;
use super::url::path_and_query;

/// The reader of its table and of its API's answers.
pub(super) struct Seifghazi;

impl LogReader for Seifghazi {
    fn name(&self) -> &'static str {
        "claude-code-proxy"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        judge(&outline(head)).max(sniff_lines(head, judge))
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let parse =
            Box::new(|text: &str, position, limits| Ok(vec![exchange(&json::parse(text, limits)?, position, limits)?]));
        Box::new(Objects::new(source, limits, input, "requests", parse))
    }

    fn sniff_database(&self, database: &Database) -> bool {
        database.has("requests", &["id", "timestamp", "method", "endpoint", "headers", "body", "response"])
    }

    fn read_database(&self, database: Database, limits: Limits, input: u32) -> Records {
        database.records("requests", input, read_row, limits)
    }
}

fn judge(outline: &Outline) -> Sniff {
    let has = |key: &str| {
        outline.iter().any(|(parent, found)| (parent.is_empty() || *parent == b"requests") && *found == key.as_bytes())
    };
    let listed = outline.contains(&(b"", b"requests")) && outline.contains(&(b"requests", b"endpoint"));
    if listed || has("endpoint") && has("headers") && (has("requestId") || has("userAgent") || has("promptGrade")) {
        Sniff::Match
    } else {
        Sniff::Mismatch
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    timestamp: Part<'a>,
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    endpoint: Part<'a>,
    #[serde(borrow)]
    headers: Part<'a>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    response: Part<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Response<'a> {
    #[serde(borrow)]
    status_code: Part<'a>,
    #[serde(borrow)]
    headers: Part<'a>,
    #[serde(borrow)]
    body: Part<'a>,
    #[serde(borrow)]
    body_text: Part<'a>,
    #[serde(borrow, rename = "responseTime")]
    took: Part<'a>,
    #[serde(borrow)]
    streaming_chunks: Part<'a>,
    #[serde(borrow)]
    completed_at: Part<'a>,
}

fn read_row(database: &Database, row: i64, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let query = "SELECT timestamp, method, endpoint, headers, body, response FROM requests WHERE rowid = ?1";
    let columns: Vec<Option<String>> =
        database.one(query, &[&row], |row| (0..6).map(|column| row.get(column)).collect())?;
    // Times and words are strings in JSON; the others are JSON already, or broken.
    let quoted = |at: usize| {
        let text = columns.get(at).cloned().flatten();
        text.and_then(|text| serde_json::value::to_raw_value(&text).ok())
    };
    let stored = |at: usize| {
        let text = columns.get(at).cloned().flatten().filter(|text| !text.is_empty());
        text.map(|text| serde_json::from_str::<Box<RawValue>>(&text).map_err(|_| SkipReason::Malformed)).transpose()
    };
    let (timestamp, method, endpoint) = (quoted(0), quoted(1), quoted(2));
    let (headers, body, response) = (stored(3)?, stored(4)?, stored(5)?);
    let record = Record {
        timestamp: timestamp.as_deref(),
        method: method.as_deref(),
        endpoint: endpoint.as_deref(),
        headers: headers.as_deref(),
        body: body.as_deref(),
        response: response.as_deref(),
    };
    exchange(&record, position, limits)
}

fn exchange(record: &Record, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let path = json::get(record.endpoint, json::text)?.ok_or(SkipReason::Malformed)?;
    let fields = |part: Part| -> Result<_, SkipReason> {
        json::headers(
            part.filter(|part| part.get() != "null")
                .map(|part| serde_json::from_str(part.get()))
                .transpose()
                .map_err(|_| SkipReason::Malformed)?,
        )
    };
    let start = json::get(record.timestamp, |raw| rfc3339(json::text(raw)?.as_str()?))?;
    let mut exchange = Exchange {
        position,
        method: json::get(record.method, json::text)?.unwrap_or_default(),
        path: Text::from(path_and_query(path.as_str().unwrap_or_default())),
        headers: fields(record.headers)?,
        body: json::stored(record.body.filter(|body| body.get() != "null"), limits)?.map_or(Body::Empty, Body::Bytes),
        response: ResponseBody::Lost,
        start,
        alike: None,
        provenance: Provenance { trust: Trust::Reworded, ..Provenance::default() },
        ..Exchange::default()
    };
    let Some(response) = record.response.filter(|response| response.get() != "null") else {
        exchange.cut = Some(Cut::Unknown);
        return Ok(exchange);
    };
    let response: Response = serde_json::from_str(response.get()).map_err(|_| SkipReason::Malformed)?;
    exchange.status = json::get(response.status_code, json::number)?.filter(|status| *status != 0);
    exchange.response_headers = fields(response.headers)?;
    let took = json::get(response.took, |raw| micros(raw.get(), 1e3))?;
    let completed = json::get(response.completed_at, |raw| rfc3339(json::text(raw)?.as_str()?))?;
    exchange.end = start.zip(took).and_then(|(start, took)| start.plus(took)).or(completed);
    let chunks: Vec<&RawValue> = response
        .streaming_chunks
        .map(|raw| serde_json::from_str::<Option<_>>(raw.get()))
        .transpose()
        .map_err(|_| SkipReason::Malformed)?
        .flatten()
        .unwrap_or_default();
    let text = if chunks.is_empty() {
        let text = json::get(response.body_text.filter(|text| text.get() != "null"), json::text)?
            .filter(|text| !text.is_empty());
        let body = response.body.filter(|body| body.get() != "null" && Fields::of(Some(body)).is_some());
        text.filter(|_| body.is_none()).or(json::stored(body, limits)?)
    } else {
        let mut out = Vec::new();
        for chunk in chunks {
            out.extend_from_slice(json::text(chunk).ok_or(SkipReason::Malformed)?.as_bytes().trim_ascii_end());
            out.extend_from_slice(b"\n\n");
        }
        Some(Text::from(out))
    };
    if let Some(text) = text {
        exchange.response = ResponseBody::Pieces(vec![Piece { at_us: None, text: limits.check(text)? }]);
    }
    Ok(exchange)
}
