//! One entry of a HAR as an exchange, with the faults of those who write them.
//!
//! Invariant: a body that the recorder left out is `Lost`, never `Empty`.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::capture::body::{base64, request_body, response_body};
use crate::capture::exchange::{Body, Cut, Exchange, Headers, Piece, Position, Provenance, ResponseBody, SkipReason};
use crate::capture::familiar::Record;
use crate::capture::json::{self, Part};
use crate::capture::moment::{micros, rfc3339};
use crate::capture::reader::Limits;
use crate::capture::text::Text;
use crate::capture::url::path_and_query;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    #[serde(borrow)]
    started_date_time: Part<'a>,
    #[serde(borrow)]
    time: Part<'a>,
    #[serde(borrow)]
    request: Request<'a>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    timings: Option<Timings<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    method: Part<'a>,
    #[serde(borrow)]
    url: Part<'a>,
    #[serde(borrow)]
    headers: Option<Vec<Header<'a>>>,
    #[serde(borrow)]
    post_data: Option<Content<'a>>,
    #[serde(borrow)]
    body_size: Part<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow)]
    status: Part<'a>,
    #[serde(borrow)]
    headers: Option<Vec<Header<'a>>>,
    #[serde(borrow)]
    content: Option<Content<'a>>,
    #[serde(borrow)]
    body_size: Part<'a>,
    #[serde(borrow, rename = "_error")]
    error: Part<'a>,
}

#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow)]
    value: Part<'a>,
}

/// `postData` or `content`.
#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow)]
    text: Part<'a>,
    #[serde(borrow)]
    encoding: Part<'a>,
    #[serde(borrow)]
    size: Part<'a>,
}

/// In milliseconds; −1 is unknown.
#[derive(Deserialize)]
struct Timings<'a> {
    #[serde(borrow)]
    blocked: Part<'a>,
    #[serde(borrow)]
    dns: Part<'a>,
    #[serde(borrow)]
    connect: Part<'a>,
    #[serde(borrow)]
    send: Part<'a>,
    #[serde(borrow)]
    wait: Part<'a>,
    #[serde(borrow)]
    receive: Part<'a>,
}

/// An entry as an exchange. A reason of `Truncated` means: not whole JSON.
pub(super) fn exchange(record: &Record<'_>, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let Entry { started_date_time, time, request, response, timings } = json::parse(record.json, limits)?;
    let url = json::get(request.url, json::text)?.ok_or(SkipReason::Malformed)?;
    let request_headers = headers(request.headers)?;
    let size = json::get(request.body_size, milliseconds)?.unwrap_or(0);
    let sent_some = size > 0 || request_headers.get("content-length").is_some_and(|length| length != "0");
    let body = match (content(request.post_data.as_ref(), |raw| record.text(raw), limits)?, request.post_data) {
        (Some(text), _) => request_body(text, &request_headers, limits)?,
        (None, Some(Content { text: None, .. })) => Body::Lost,
        (None, _) if sent_some => Body::Lost,
        (None, _) => Body::Empty,
    };
    let mut exchange = Exchange {
        position,
        method: json::get(request.method, json::text)?.unwrap_or_default(),
        path: Text::from(path_and_query(url.as_str().unwrap_or_default())),
        headers: request_headers,
        body,
        status: None,
        response_headers: Headers::default(),
        response: ResponseBody::Empty,
        cut: None,
        start: json::get(started_date_time, |raw| rfc3339(json::text(raw)?.as_str()?))?,
        first_byte: None,
        end: None,
        alike: None,
        provenance: Provenance::default(),
    };
    times(&mut exchange, time, timings)?;
    match response {
        Some(response) => self::response(&mut exchange, response, limits)?,
        None => exchange.cut = Some(Cut::Unknown),
    }
    Ok(exchange)
}

/// Adds the response and what cut it.
fn response(exchange: &mut Exchange, response: Response, limits: Limits) -> Result<(), SkipReason> {
    exchange.status = json::get(response.status, json::number)?.filter(|status| *status != 0);
    exchange.response_headers = headers(response.headers)?;
    exchange.cut = response.error.map(|raw| cut(&json::text(raw).unwrap_or_default()));
    let size = json::get(response.content.as_ref().and_then(|content| content.size), milliseconds)?.unwrap_or(0);
    let size = size.max(json::get(response.body_size, milliseconds)?.unwrap_or(0));
    if let Some(text) = content(response.content.as_ref(), json::text, limits)? {
        let pieces = vec![Piece { at_us: None, text }];
        (exchange.response, exchange.cut) = response_body(pieces, &exchange.response_headers, limits, exchange.cut);
        return Ok(());
    }
    let none_meant = exchange.response_headers.get("content-length") == Some("0");
    let expected = exchange.status == Some(200) && exchange.method.as_bytes() == b"POST" && !none_meant;
    if size > 0 || expected {
        exchange.response = ResponseBody::Lost;
    }
    // mitmproxy leaves out what was cut or cancelled, and what it streamed; then it has no request body either. Others write no
    // text, or null, where they kept none.
    let streamed = matches!(exchange.body, Body::Lost);
    let empty = response.content.as_ref().is_some_and(|content| content.text.is_some());
    if exchange.status.is_none() || expected && empty && size == 0 && !streamed {
        exchange.cut = exchange.cut.or(Some(Cut::Unknown));
    }
    Ok(())
}

/// Adds the times of the response.
fn times(exchange: &mut Exchange, time: Part, timings: Option<Timings>) -> Result<(), SkipReason> {
    let known = |part| Ok(json::get(part, milliseconds)?.filter(|us| *us >= 0));
    let total = known(time)?;
    let Some(start) = exchange.start else { return Ok(()) };
    let mut receive = None;
    if let Some(timings) = timings {
        let (blocked, dns, connect) = (known(timings.blocked)?, known(timings.dns)?, known(timings.connect)?);
        let (send, wait) = (known(timings.send)?, known(timings.wait)?);
        receive = known(timings.receive)?;
        // A client starts its clock before it connects, a proxy (mitmproxy tells neither `blocked` nor `dns`) while it does.
        let is_client = timings.blocked.is_some() || timings.dns.is_some();
        let before = [blocked, dns, connect].into_iter().flatten().filter(|_| is_client).fold(0, i64::saturating_add);
        exchange.first_byte =
            wait.and_then(|wait| start.plus(before.saturating_add(send.unwrap_or(0)).saturating_add(wait)));
    }
    let received = exchange.first_byte.zip(receive).and_then(|(first, receive)| first.plus(receive));
    exchange.end = received.or_else(|| start.plus(total?).max(exchange.first_byte));
    Ok(())
}

/// The text of `postData` or `content`, with base64 undone; none if it is missing or empty.
fn content(
    content: Option<&Content>,
    read: impl FnOnce(&RawValue) -> Option<Text>,
    limits: Limits,
) -> Result<Option<Text>, SkipReason> {
    let Some(content) = content else { return Ok(None) };
    let encoding = json::get(content.encoding, json::text)?.unwrap_or_default();
    let text = match json::get(content.text, read)? {
        Some(text) if encoding.as_bytes().eq_ignore_ascii_case(b"base64") => {
            Some(base64(&text).ok_or(SkipReason::Malformed)?)
        }
        text => text,
    };
    text.filter(|text| !text.is_empty()).map(|text| limits.check(text)).transpose()
}

/// Headers without the pseudo headers of HTTP/2.
fn headers(list: Option<Vec<Header>>) -> Result<Headers, SkipReason> {
    let mut headers = Vec::new();
    for header in list.unwrap_or_default() {
        let name = json::text(header.name).ok_or(SkipReason::Malformed)?;
        let value = json::get(header.value, json::text)?.unwrap_or_default();
        if !name.as_bytes().starts_with(b":") {
            headers.push((name, value));
        }
    }
    Ok(Headers(headers))
}

/// Milliseconds as microseconds; of a size, only the sign is looked at.
fn milliseconds(raw: &RawValue) -> Option<i64> {
    micros(raw.get(), 1e3)
}

/// Who ended an exchange, by the words of the recorder.
fn cut(error: &Text) -> Cut {
    let error = error.as_str().unwrap_or_default().to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if says(&["client", "abort", "cancel"]) {
        Cut::Client
    } else if says(&["server", "upstream", "connection"]) {
        Cut::Upstream
    } else {
        Cut::Unknown
    }
}
