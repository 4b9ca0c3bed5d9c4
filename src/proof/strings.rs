//! The strings that the parsers of a log assemble: a text that was escaped, split into events or cut into pieces is whole here.
//!
//! Invariant: what is copied is erased; every string of a body comes out at every level of escaping that it has.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use super::closure;
use crate::capture::{Body, Exchange, ResponseBody};
use crate::wire::Sse;
use crate::wire::anthropic::{AnswerReader, Made};

/// Escapes within escapes: a body inside a record, a tool's JSON inside the body, a file's JSON inside that.
const LEVELS: usize = 3;

/// Keys whose strings are joined over the events of a stream.
const KEYS: usize = 64;

/// Calls `visit` for every string of an exchange, with how much of it an earlier exchange was visited with; strings that lie in that
/// are left out.
pub(super) fn each(exchange: &Exchange, visit: &mut dyn FnMut(&[u8], usize)) {
    if let Body::Bytes(body) = &exchange.body {
        let known = exchange.alike.as_ref().map_or(0, |alike| alike.length);
        visit(body.as_bytes(), known);
        // No string spans the end of an element.
        let new = body.as_bytes().get(known..).unwrap_or_default();
        json(new, LEVELS, &mut |text| visit(text, 0));
    }
    let visit: &mut dyn FnMut(&[u8]) = &mut |text| visit(text, 0);
    visit(exchange.method.as_bytes());
    visit(exchange.path.as_bytes());
    for (name, value) in exchange.headers.0.iter().chain(&exchange.response_headers.0) {
        visit(name.as_bytes());
        visit(value.as_bytes());
    }
    if let ResponseBody::Pieces(pieces) = &exchange.response {
        let mut whole =
            Zeroizing::new(Vec::with_capacity(pieces.iter().map(|piece| piece.text.as_bytes().len()).sum()));
        for piece in pieces {
            whole.extend_from_slice(piece.text.as_bytes());
        }
        visit(&whole);
        json(&whole, LEVELS, visit);
        joined(&whole, visit);
        answer(&whole, visit);
    }
}

/// Every string of JSON, or of anything that quotes strings as JSON does.
fn json(bytes: &[u8], levels: usize, visit: &mut dyn FnMut(&[u8])) {
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'"', rest) {
        let (string, after) = closure::string(rest.get(at + 1..).unwrap_or_default());
        rest = after;
        unescaped(string, levels, visit);
    }
}

/// A string without its escapes, and without those that are then left.
fn unescaped(string: &[u8], levels: usize, visit: &mut dyn FnMut(&[u8])) {
    if memchr::memchr(b'\\', string).is_none() || levels == 0 {
        return visit(string);
    }
    let mut text = Zeroizing::new(Vec::with_capacity(string.len()));
    closure::unescape(string, &mut text);
    visit(&text);
    if memchr::memchr(b'\\', &text).is_some() {
        unescaped(&text, levels - 1, visit);
    }
    if text.first().is_some_and(|first| b"{[\"".contains(first)) {
        json(&text, levels - 1, visit);
    }
}

/// The strings of each key of a stream's events, joined: deltas cut sentences.
fn joined(stream: &[u8], visit: &mut dyn FnMut(&[u8])) {
    let mut keys: BTreeMap<Vec<u8>, Zeroizing<Vec<u8>>> = BTreeMap::new();
    let mut event = |data: &[u8]| {
        let (mut rest, mut key): (&[u8], &[u8]) = (data, b"");
        while let Some(at) = memchr::memchr(b'"', rest) {
            let (string, after) = closure::string(rest.get(at + 1..).unwrap_or_default());
            rest = after;
            if after.trim_ascii_start().first() == Some(&b':') {
                key = string;
            } else if keys.len() < KEYS || keys.contains_key(key) {
                closure::unescape(string, keys.entry(key.to_vec()).or_default());
            }
        }
    };
    let mut sse = Sse::new();
    sse.push(stream, |each| event(each.data));
    sse.finish(|each| event(each.data));
    for text in keys.values() {
        visit(text);
        unescaped(text, LEVELS - 1, visit);
    }
}

/// The texts and tool inputs of the answer, as the converter reads them.
fn answer(stream: &[u8], visit: &mut dyn FnMut(&[u8])) {
    let mut reader = AnswerReader::new();
    reader.push(stream, None);
    for made in reader.finish().made {
        match made {
            Made::Text(text) => visit(Zeroizing::new(text).as_bytes()),
            Made::ToolUse { input, .. } => {
                let input = Zeroizing::new(input);
                visit(input.as_bytes());
                json(input.as_bytes(), LEVELS - 1, visit);
            }
            Made::Thinking | Made::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Limits, open_stream};

    fn strings(record: &str) -> Vec<String> {
        let source = std::io::Cursor::new(record.as_bytes().to_vec());
        let (_, mut records) = open_stream(Box::new(source), 0, Limits::default()).unwrap();
        let mut all = Vec::new();
        let exchange = records.next().unwrap().ok().unwrap();
        each(&exchange, &mut |text, _| all.push(String::from_utf8_lossy(text).into_owned()));
        all
    }

    #[test]
    fn sentences_that_deltas_cut_are_whole() {
        let event =
            |delta: &str| format!("data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{delta}}}\n\n");
        let stream = [
            event(r#"{"type":"thinking_delta","thinking":"do not te"}"#),
            event(r#"{"type":"thinking_delta","thinking":"ll them"}"#),
            event(r#"{"type":"input_json_delta","partial_json":"{\"path\":\"/home/no"}"#),
            event(r#"{"type":"input_json_delta","partial_json":"ra\\nx\"}"}"#),
        ]
        .concat();
        let record = serde_json::json!({
            "tracecloak_capture": 1, "method": "POST", "path": "/v1/messages?x=1", "start_us": 1, "status": 200,
            "headers": [["X-Team", "night shift"]],
            "body": r#"{"messages":[{"content":"say \"a\\nb\" and {\"deep\":\"er \\\\u0041\"}"}]}"#,
            "response": [[0, stream]],
        });
        let strings = strings(&record.to_string());
        for text in
            ["POST", "/v1/messages?x=1", "X-Team", "night shift", "messages", "do not tell them", "/home/nora\nx"]
        {
            assert!(strings.iter().any(|string| string.contains(text)), "{text}");
        }
    }
}
