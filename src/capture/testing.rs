//! What the tests of the readers share.
//!
//! Invariant: all records are synthetic; each bears a canary that no error may show.

use std::io::{Cursor, Write};

use serde_json::Value;

use super::exchange::{Body, Exchange, LogError, Piece, ResponseBody, SkipReason};
use super::reader::{Limits, LogReader};

/// Stands where text of a log would.
pub(super) const CANARY: &str = "CANARY-7f3a";

pub(super) fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(plain: &[u8]) -> Vec<u8> {
    zstd::encode_all(plain, 1).unwrap()
}

/// What `reader` makes of `log`; no error shows the canary.
pub(super) fn read(reader: &dyn LogReader, log: &[u8], limits: Limits) -> Vec<Result<Exchange, LogError>> {
    let records: Vec<_> = reader.read(Box::new(Cursor::new(log.to_vec())), limits, 3).collect();
    for error in records.iter().filter_map(|record| record.as_ref().err()) {
        assert!(!format!("{error} {error:?}").contains("CANARY"));
        assert_eq!(error.position.input, 3);
    }
    records
}

/// The only record of `log`.
pub(super) fn read_one(reader: &dyn LogReader, log: &[u8]) -> Exchange {
    let mut records = read(reader, log, Limits::default());
    assert_eq!(records.len(), 1);
    records.pop().unwrap().ok().unwrap()
}

/// The reasons of the records of `log`; none for a good one.
pub(super) fn reasons(reader: &dyn LogReader, log: &[u8], limits: Limits) -> Vec<Option<SkipReason>> {
    read(reader, log, limits).into_iter().map(|record| record.err().map(|error| error.reason)).collect()
}

/// The bytes of a request body.
pub(super) fn body(exchange: &Exchange) -> Option<&str> {
    match &exchange.body {
        Body::Bytes(text) => text.as_str(),
        Body::Lost | Body::Empty => None,
    }
}

/// The bytes of a response body.
pub(super) fn response(exchange: &Exchange) -> Option<String> {
    match &exchange.response {
        ResponseBody::Pieces(pieces) => Some(pieces.iter().filter_map(|Piece { text, .. }| text.as_str()).collect()),
        ResponseBody::Lost | ResponseBody::Empty => None,
    }
}

/// `good` with each of its values, at any depth, replaced by one of each type, and each of its keys removed.
pub(super) fn mutations(good: &Value) -> Vec<Value> {
    let replacements = [
        Value::Null,
        Value::from(-1),
        Value::from(1e300),
        Value::from(CANARY),
        Value::from(true),
        serde_json::json!([]),
        serde_json::json!([CANARY, [CANARY], {"name": CANARY}]),
        serde_json::json!({}),
        serde_json::json!({CANARY: {"text": [CANARY]}}),
    ];
    let mut out = Vec::new();
    for pointer in pointers(good) {
        for replacement in &replacements {
            let mut mutant = good.clone();
            *mutant.pointer_mut(&pointer).unwrap() = replacement.clone();
            out.push(mutant);
        }
        let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
        let mut mutant = good.clone();
        if let Some(object) = mutant.pointer_mut(parent).and_then(Value::as_object_mut) {
            object.remove(key);
            out.push(mutant);
        }
    }
    out
}

fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(array) => array.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    let below = children
        .into_iter()
        .flat_map(|(key, value)| pointers(value).into_iter().map(move |pointer| format!("/{key}{pointer}")));
    std::iter::once(String::new()).chain(below).collect()
}
