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
pub(super) const LEVELS: usize = 3;

/// Keys whose strings are joined over the events of a stream.
const KEYS: usize = 64;

/// More than a window of `k` bytes takes if each of its bytes is an escape of an escape, at all levels. So pieces overlap.
pub(super) fn overlap(k: usize) -> usize {
    (k + 8) * (0..LEVELS).fold(1, |length, _| length * ESCAPE)
}

/// Shows a text.
pub(super) type Visit<'v> = &'v dyn Fn(&[u8]);

/// Escapes that are taken for one piece, at most.
const PIECE: usize = 64 << 10;

/// How long an escape is, at most.
const ESCAPE: usize = 6;

/// Shows all of an exchange that may hold a window of `k` bytes: with `scan` what has windows that were not shown before, each string
/// with `string`. What an earlier exchange began with is left out.
pub(super) fn each(exchange: &Exchange, k: usize, scan: Visit<'_>, string: Option<Visit<'_>>) {
    let text = |text: &[u8]| {
        scan(text);
        string.iter().for_each(|string| string(text));
    };
    if let Body::Bytes(body) = &exchange.body {
        let known = exchange.alike.as_ref().map_or(0, |alike| alike.length);
        let end = body.len() - exchange.alike.as_ref().map_or(0, |alike| alike.behind.min(body.len()));
        // No string spans the end of an element, but windows do.
        let overlap = overlap(k);
        let mut start = known.saturating_sub(overlap);
        // An escape does not begin within a run of backslashes.
        while start > 0 && *body.part(start..start + 1) == *b"\\" {
            start = start.saturating_sub(overlap);
        }
        let part = body.part(start..end.max(known) + overlap);
        scan(part.get((known - start).saturating_sub(k - 1)..).unwrap_or_default());
        unescaped(&part, LEVELS, k, scan);
        if let Some(string) = string {
            string(body.as_bytes());
            json(&body.part(known..end), LEVELS, string);
        }
    }
    text(exchange.method.as_bytes());
    text(exchange.path.as_bytes());
    for (name, value) in exchange.headers.0.iter().chain(&exchange.response_headers.0) {
        text(name.as_bytes());
        text(value.as_bytes());
    }
    if let ResponseBody::Pieces(pieces) = &exchange.response {
        let mut whole =
            Zeroizing::new(Vec::with_capacity(pieces.iter().map(|piece| piece.text.as_bytes().len()).sum()));
        for piece in pieces {
            whole.extend_from_slice(piece.text.as_bytes());
        }
        text(&whole);
        unescaped(&whole, LEVELS, k, scan);
        string.iter().for_each(|string| json(&whole, LEVELS, string));
        let visit = &|assembled: &[u8]| {
            text(assembled);
            unescaped(assembled, LEVELS - 1, k, scan);
            string.iter().for_each(|string| nested(assembled, LEVELS - 1, string));
        };
        joined(&whole, visit);
        answer(&whole, visit);
    }
}

/// Shows `bytes` without their escapes, and without those that are then left: of all that, what is near an escape, since the rest
/// stands in `bytes` as it is. Where strings end does not matter: what spans two of them stands there as well.
pub(super) fn unescaped(bytes: &[u8], levels: usize, k: usize, scan: Visit<'_>) {
    let Some(mut at) = memchr::memchr(b'\\', bytes).filter(|_| levels > 0) else { return };
    // A window, and the digits of an escape that is seen only when the one here is undone.
    let near = k + 8;
    let overlap = overlap(k);
    let piece = PIECE.max(4 * overlap);
    let mut out = Zeroizing::new(Vec::new());
    let mut start = at.saturating_sub(near);
    // The last escape of the piece from which the next one may begin.
    let mut again = None;
    loop {
        let past = (at + 2).min(bytes.len());
        let next = memchr::memchr(b'\\', bytes.get(past..).unwrap_or_default()).map(|next| past + next);
        if again.is_none() && at - start >= piece - overlap {
            again = Some(at);
        }
        let follows = next.filter(|next| next - past <= 2 * near);
        if follows.is_none() || at - start >= piece {
            let end = follows.map_or(bytes.len().min(past + 2 * near), |next| next);
            out.clear();
            out.reserve(end - start);
            closure::unescape(bytes.get(start..end).unwrap_or_default(), &mut out);
            scan(&out);
            unescaped(&out, levels - 1, k, scan);
            start = match (follows, again.take()) {
                (Some(_), Some(again)) => again,
                _ => next.unwrap_or(bytes.len()).saturating_sub(near),
            };
        }
        let Some(next) = next else { return };
        at = next;
    }
}

/// Every string of JSON, or of anything that quotes strings as JSON does.
fn json(bytes: &[u8], levels: usize, visit: Visit<'_>) {
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'"', rest) {
        let (string, after) = closure::string(rest.get(at + 1..).unwrap_or_default());
        rest = after;
        if memchr::memchr(b'\\', string).is_none() || levels == 0 {
            visit(string);
            continue;
        }
        let mut text = Zeroizing::new(Vec::with_capacity(string.len()));
        closure::unescape(string, &mut text);
        visit(&text);
        nested(&text, levels - 1, visit);
    }
}

/// What is in a string: it without the escapes that are left, and its own strings.
fn nested(text: &[u8], levels: usize, visit: Visit<'_>) {
    let escaped = memchr::memchr(b'\\', text).is_some();
    if levels > 0 && escaped {
        let mut again = Zeroizing::new(Vec::with_capacity(text.len()));
        closure::unescape(text, &mut again);
        visit(&again);
        nested(&again, levels - 1, visit);
    }
    if escaped || text.trim_ascii_start().first().is_some_and(|first| b"{[\"".contains(first)) {
        json(text, levels, visit);
    }
}

/// The strings of each key of a stream's events, joined: deltas cut sentences.
fn joined(stream: &[u8], visit: Visit<'_>) {
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
    }
}

/// The texts and tool inputs of the answer, as the converter reads them.
fn answer(stream: &[u8], visit: Visit<'_>) {
    let mut reader = AnswerReader::new();
    reader.push(stream, None);
    for made in reader.finish().made {
        match made {
            Made::Text(text) => visit(Zeroizing::new(text).as_bytes()),
            Made::ToolUse { input, .. } => {
                visit(Zeroizing::new(input).as_bytes());
            }
            Made::Thinking | Made::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::capture::{Limits, open_stream};

    fn strings(record: &str) -> Vec<String> {
        let source = std::io::Cursor::new(record.as_bytes().to_vec());
        let (_, mut records) = open_stream(Box::new(source), 0, Limits::default()).unwrap();
        let all = RefCell::new(Vec::new());
        let exchange = records.next().unwrap().ok().unwrap();
        let note = |text: &[u8]| all.borrow_mut().push(String::from_utf8_lossy(text).into_owned());
        each(&exchange, 12, &note, None);
        let scanned = all.take();
        each(&exchange, 12, &|_| {}, Some(&note));
        // What is hashed is there as well.
        for string in all.take() {
            let found = |part: &str| scanned.iter().any(|text| text.contains(part));
            let chars: Vec<char> = string.chars().collect();
            assert!(chars.windows(12).all(|window| found(&window.iter().collect::<String>())));
        }
        scanned
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

    /// Windows of 12 bytes that are shown of a log, and what is hashed.
    fn shown(log: &[u8], kept_bytes: usize) -> BTreeSet<Vec<u8>> {
        let limits = Limits { kept_bytes, ..Limits::default() };
        let (_, records) = open_stream(Box::new(std::io::Cursor::new(log.to_vec())), 0, limits).unwrap();
        let shown = RefCell::new(BTreeSet::new());
        let scan = |text: &[u8]| shown.borrow_mut().extend(text.windows(12).map(<[u8]>::to_vec));
        let string = |text: &[u8]| {
            // Of whole bodies every window is shown, and they are many.
            let length = text.len().min(300);
            shown.borrow_mut().insert([b"hashed ", &text[..length], &text[text.len() - length..]].concat());
        };
        records.map(|record| record.ok().unwrap()).for_each(|exchange| each(&exchange, 12, &scan, Some(&string)));
        shown.into_inner()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn of_a_body_that_grows_as_much_is_shown_as_of_whole_ones(
            texts in prop::collection::vec("([a-c \"\n\u{1f600}]|\\\\n|\\\\{1,9}){0,300}", 5..9),
            backslashes in prop_oneof![Just(0_usize), 2500..2600_usize],
            is_string: bool,
        ) {
            let tools: Vec<_> = (0..3).map(|at| json!({"name": at, "about": "uses \"\\n\n".repeat(200)})).collect();
            let long = "\\".repeat(backslashes) + "\n" + &"x".repeat(backslashes % 2);
            // What a message ends in is new with each.
            let message = |(at, text): (usize, &String)| json!({"role": "user", "said": text, "so": format!("{long}{at}")});
            let log: Vec<String> = (2..=texts.len())
                .map(|count| {
                    let messages: Vec<_> = texts[..count].iter().enumerate().map(message).collect();
                    let body = json!({"head": "h ".repeat(2500), "messages": messages, "tools": tools});
                    let body = if is_string { json!(body.to_string()) } else { body };
                    let record = json!({"tracecloak_capture": 1, "method": "POST", "path": "/v1/messages", "start_us": 1, "body": body});
                    let claude = json!({"request": {"timestamp": 1.5, "method": "POST", "url": "http://h/v1/messages", "headers": {}, "body": body}, "response": null});
                    if is_string { record.to_string() } else { claude.to_string() }
                })
                .collect();
            let log = log.join("\n").into_bytes();
            let (whole, grown) = (shown(&log, 0), shown(&log, 1 << 20));
            prop_assert!(whole.is_subset(&grown));
        }
    }

    proptest! {
        #[test]
        fn every_window_of_what_is_unescaped_is_shown(
            parts in prop::collection::vec(prop_oneof![
                4 => "[a-z ]{1,40}",
                3 => Just("\\".to_owned()),
                2 => "(n|\"|u0041|\\\\n|\\\\u00e9|\\\\\\\\u0042)",
                1 => "[a-z]{100,200}",
            ], 0..40),
            repeat in 1_usize..400,
        ) {
            let text = parts.concat().repeat(repeat);
            let shown = RefCell::new(std::collections::HashSet::new());
            unescaped(text.as_bytes(), LEVELS, 12, &|text| {
                shown.borrow_mut().extend(text.windows(12).map(<[u8]>::to_vec));
            });
            let mut level = text.into_bytes();
            shown.borrow_mut().extend(level.windows(12).map(<[u8]>::to_vec));
            for _ in 0..LEVELS {
                let mut out = Vec::new();
                closure::unescape(&level, &mut out);
                for window in out.windows(12) {
                    prop_assert!(shown.borrow().contains(window));
                }
                level = out;
            }
        }
    }
}
