//! claude-code-router: its pino log, one row a line; the rows of a request are joined by their request id.
//!
//! Invariant: the request is what the client sent (`request body`), not what the router made of it; answers are not logged, so each
//! is `Lost`. Request ids begin again with each process: a second `request body` of one id ends the first.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;

use super::exchange::{
    Body, Exchange, LogError, Moment, Position, Precision, Provenance, ResponseBody, SkipReason, Trust,
};
use super::json::{self, Fields, Part};
use super::lines::Lines;
use super::moment::micros;
use super::outline::{Outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;
use super::url::path_and_query;

/// The reader of router logs.
pub(super) struct Router;

impl LogReader for Router {
    fn name(&self) -> &'static str {
        "claude-code-router"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        sniff_lines(head, judge)
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let lines = Lines::new(source, limits.record_bytes, input);
        Box::new(Rows { lines, limits, open: BTreeMap::new(), ended: false })
    }
}

/// Other programs write pino rows with request ids too, but not with a body of this API in them.
fn judge(outline: &Outline) -> Sniff {
    let has = |parent: &str, key: &str| outline.contains(&(parent.as_bytes(), key.as_bytes()));
    let row = has("", "level") && has("", "time") && has("", "reqId");
    if row && (has("data", "model") || has("data", "messages") || has("", "requestUrl")) {
        Sniff::Match
    } else {
        Sniff::Mismatch
    }
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    time: Part<'a>,
    #[serde(borrow, rename = "reqId")]
    id: Part<'a>,
    #[serde(borrow, rename = "type")]
    kind: Part<'a>,
    #[serde(borrow)]
    msg: Part<'a>,
    #[serde(borrow)]
    data: Part<'a>,
    #[serde(borrow)]
    headers: Part<'a>,
    #[serde(borrow)]
    req: Part<'a>,
    #[serde(borrow)]
    res: Part<'a>,
    #[serde(borrow, rename = "responseTime")]
    took: Part<'a>,
}

/// The rows of a log, put together.
struct Rows {
    lines: Lines,
    limits: Limits,
    /// Requests whose end has not come, by id.
    open: BTreeMap<Vec<u8>, Exchange>,
    ended: bool,
}

impl Rows {
    /// Takes in a row; gives the exchange that it ends.
    fn row(&mut self, text: &str, position: Position) -> Result<Option<Exchange>, SkipReason> {
        let row: Row = json::parse(text, self.limits)?;
        let Some(id) = row.id.map(|id| id.get().as_bytes().to_vec()) else { return Ok(None) };
        let time = json::get(row.time, |raw| micros(raw.get(), 1e3))?;
        let time = time.map(|unix_us| Moment { unix_us, precision: Precision::Milli });
        let word = |part: Part| part.and_then(json::text).unwrap_or_default();
        let (kind, said) = (word(row.kind), word(row.msg));
        let is = |word: &[u8]| kind.as_bytes() == word || said.as_bytes() == word;
        if is(b"incoming request") {
            let mut exchange = Exchange { position, method: "POST".into(), start: time, ..Self::exchange(position) };
            let request = Fields::of(row.req);
            let field = |name| request.as_ref().and_then(|fields| json::text(fields.get(name)?));
            if let Some(url) = field("url") {
                exchange.path = Text::from(path_and_query(url.as_str().unwrap_or_default()));
            }
            exchange.method = field("method").unwrap_or(exchange.method);
            return Ok(self.open.insert(id, exchange).filter(has_body));
        }
        if is(b"request body") {
            let body = json::stored(row.data, self.limits)?.map_or(Body::Lost, Body::Bytes);
            let before = self.open.remove(&id);
            let (before, ended) = match before {
                Some(before) if has_body(&before) => (None, Some(before)),
                before => (before, None),
            };
            let mut exchange = before.unwrap_or_else(|| Self::exchange(position));
            (exchange.body, exchange.position) = (body, position);
            exchange.start = exchange.start.or(time);
            self.open.insert(id, exchange);
            return Ok(ended);
        }
        let Some(exchange) = self.open.get_mut(&id) else { return Ok(None) };
        if is(b"final request") {
            // The client's own headers, where they were handed on.
            exchange.headers = json::headers(Fields::of(row.headers)).unwrap_or_default();
            return Ok(None);
        }
        if !is(b"request completed") {
            return Ok(None);
        }
        exchange.status = Fields::of(row.res).and_then(|fields| json::number(fields.get("statusCode")?));
        let took = json::get(row.took, |raw| micros(raw.get(), 1e3))?;
        exchange.end = time.or(exchange.start.zip(took).and_then(|(start, took)| start.plus(took)));
        Ok(self.open.remove(&id).filter(has_body))
    }

    fn exchange(position: Position) -> Exchange {
        Exchange {
            position,
            method: "POST".into(),
            path: "/v1/messages".into(),
            response: ResponseBody::Lost,
            alike: None,
            provenance: Provenance { trust: Trust::Reworded, ..Provenance::default() },
            ..Exchange::default()
        }
    }
}

fn has_body(exchange: &Exchange) -> bool {
    !matches!(exchange.body, Body::Empty)
}

impl Iterator for Rows {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let (text, position, unended) = match self.lines.next() {
                Some(Ok(line)) => (Text::from(line.bytes.to_vec()), line.position, line.unended),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.ended = true;
                    break;
                }
            };
            let found = text.as_str().map_or(Err(SkipReason::NotUtf8), |text| self.row(text, position));
            match found {
                Ok(Some(exchange)) => return Some(Ok(exchange)),
                Ok(None) => {}
                Err(SkipReason::Truncated) if !unended => {
                    return Some(Err(LogError { position, reason: SkipReason::Malformed }));
                }
                Err(reason) => return Some(Err(LogError { position, reason })),
            }
        }
        // The log ended before these did.
        loop {
            let (_, exchange) = self.open.pop_first()?;
            if has_body(&exchange) {
                return Some(Ok(exchange));
            }
        }
    }
}
