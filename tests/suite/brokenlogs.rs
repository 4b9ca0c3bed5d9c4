//! Broken logs: of every format, variants that are cut, reordered, half written or of wrong types. None makes the program panic, each loses
//! only the record that is broken (or, where nothing tells records apart, what follows it), and the summary adds up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use serde_json::{Value, json};
use tracecloak::capture::{Inputs, Limits, SkipReason, open};

use super::capture::{convert, fixture};

/// How many records of a log are good, and how many were lost for which reason.
fn read(log: &Path) -> Option<(usize, BTreeMap<SkipReason, usize>)> {
    let inputs = Inputs::expand(&[log]).unwrap();
    let (_, records) = open(&inputs.list()[0], Limits::default()).ok()?;
    let (mut good, mut lost) = (0, BTreeMap::new());
    for record in records {
        match record {
            Ok(_) => good += 1,
            Err(error) => *lost.entry(error.reason).or_default() += 1,
        }
    }
    Some((good, lost))
}

/// A log taken apart: what stands before its records, the records, what stands between and behind them.
struct Log {
    name: &'static str,
    head: Vec<u8>,
    records: Vec<Vec<u8>>,
    between: &'static [u8],
    tail: Vec<u8>,
}

impl Log {
    fn lines(name: &'static str) -> Self {
        let log = fs::read(fixture(name)).unwrap();
        let records = log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
        Self { name, head: Vec::new(), records, between: b"\n", tail: b"\n".to_vec() }
    }

    /// A document whose records stand in the list at a pointer.
    fn list(name: &'static str, pointer: &str) -> Self {
        let mut document: Value = serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap();
        let list = std::mem::replace(document.pointer_mut(pointer).unwrap(), json!(["HERE"]));
        let around = document.to_string();
        let (head, tail) = around.split_once("\"HERE\"").unwrap();
        let records = list.as_array().unwrap().iter().map(|record| record.to_string().into_bytes()).collect();
        Self { name, head: head.into(), records, between: b",\n", tail: tail.into() }
    }

    fn flows(name: &'static str) -> Self {
        let log = fs::read(fixture(name)).unwrap();
        let (mut records, mut rest) = (Vec::new(), &log[..]);
        while let Some(colon) = rest.iter().position(|byte| *byte == b':') {
            let length: usize = std::str::from_utf8(&rest[..colon]).unwrap().parse().unwrap();
            let (record, after) = rest.split_at(colon + 1 + length + 1);
            records.push(record.to_vec());
            rest = after;
        }
        Self { name, head: Vec::new(), records, between: b"", tail: Vec::new() }
    }

    fn with(&self, records: &[Vec<u8>]) -> Vec<u8> {
        [&self.head[..], &records.join(self.between), &self.tail].concat()
    }

    fn is_lines(&self) -> bool {
        self.between == b"\n"
    }

    /// A router's request is several rows; those of others stand alone.
    fn is_rows(&self) -> bool {
        self.name.contains("router") || self.name.contains("transcript")
    }
}

fn logs() -> Vec<Log> {
    let rows = fs::read_dir(fixture("claude-code-transcript/rows")).unwrap().next().unwrap().unwrap().file_name();
    let rows: &'static str =
        Box::leak(format!("claude-code-transcript/rows/{}", rows.to_str().unwrap()).into_boxed_str());
    vec![
        Log::lines("native/linear.jsonl"),
        Log::lines("claude-trace/linear.jsonl"),
        Log::list("har/fanout.har", "/log/entries"),
        Log::list("har/charles.har", "/log/entries"),
        Log::list("har/proxyman.har", "/log/entries"),
        Log::list("har/browser.har", "/log/entries"),
        Log::lines("claude-tap/export.jsonl"),
        Log::lines("claude-tap/old.jsonl"),
        Log::list("claude-tap/compact.json", "/records"),
        Log::list("claude-tap/lossy.json", ""),
        Log::flows("mitmproxy/fanout.flow"),
        Log::list("claude-code-proxy/api.json", "/requests"),
        Log::lines("litellm/linear.jsonl"),
        Log::lines("claude-code-router/linear.log"),
        Log::lines("envoy-tap/linear.json"),
        Log::lines("nginx/linear.log"),
        Log::lines(rows),
    ]
}

/// Every object of a record (in any depth up to 3), with each of its members set to `value`.
fn retyped(record: &[u8], value: &Value) -> Vec<u8> {
    fn set(object: &mut Value, value: &Value, depth: u8) {
        match object {
            Value::Object(members) if depth == 0 => members.values_mut().for_each(|member| *member = value.clone()),
            Value::Object(members) => members.values_mut().for_each(|member| set(member, value, depth - 1)),
            Value::Array(items) => items.iter_mut().for_each(|item| set(item, value, depth)),
            _ => {}
        }
    }
    let mut whole: Value = serde_json::from_slice(record).unwrap();
    set(&mut whole, value, u8::from(record.len().is_multiple_of(2)));
    whole.to_string().into_bytes()
}

/// Ten ways to break the record in the middle that leave the borders of records where they are.
fn inside(log: &Log) -> Vec<(&'static str, Vec<u8>)> {
    let record = &log.records[log.records.len() / 2];
    if log.name.contains("mitmproxy") {
        // The length stays true; what it holds does not.
        let body = |edit: &dyn Fn(&mut [u8])| {
            let mut record = record.clone();
            let colon = record.iter().position(|byte| *byte == b':').unwrap();
            edit(&mut record[colon + 1..]);
            record
        };
        return vec![
            ("zeroed", body(&|bytes| bytes.fill(0))),
            ("digits", body(&|bytes| bytes.fill(b'9'))),
            ("colons", body(&|bytes| bytes.fill(b':'))),
            ("a list", body(&|bytes| *bytes.last_mut().unwrap() = b']')),
            ("null", body(&|bytes| *bytes.last_mut().unwrap() = b'~')),
            ("a number", body(&|bytes| *bytes.last_mut().unwrap() = b'#')),
            ("first key broken", body(&|bytes| bytes[0] = b'x')),
            ("an endless length inside", body(&|bytes| bytes[..9].fill(b'9'))),
            ("reversed", body(&|bytes| bytes.reverse())),
            ("second half zeroed", body(&|bytes| bytes.iter_mut().skip(99).for_each(|byte| *byte = 0))),
        ];
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(500), "]".repeat(500));
    let not_utf8 = {
        let mut bytes = record.clone();
        let at = bytes.iter().rposition(u8::is_ascii_alphabetic).unwrap();
        bytes[at] = 0xff;
        bytes
    };
    vec![
        ("an empty object", b"{}".to_vec()),
        ("a list", b"[]".to_vec()),
        ("a word", b"nul".to_vec()),
        ("too deep", deep.into_bytes()),
        ("not UTF-8", not_utf8),
        ("members null", retyped(record, &Value::Null)),
        ("members numbers", retyped(record, &json!(-1e300))),
        ("members texts", retyped(record, &json!("\u{0}nobody"))),
        ("members lists", retyped(record, &json!([[1], "x"]))),
        ("members objects", retyped(record, &json!({"x": {"type": 1}}))),
    ]
}

/// Ways to break a log that move the borders of records.
fn across(log: &Log) -> Vec<(&'static str, Vec<u8>)> {
    let (records, middle) = (&log.records, log.records.len() / 2);
    let whole = log.with(records);
    let mut reversed = records.clone();
    reversed.reverse();
    let mut half = records.clone();
    half[middle].truncate(records[middle].len() / 2);
    let mut glued = records.clone();
    let second = glued.remove(middle);
    glued[middle - 1].extend(second);
    let byte = |byte: u8| {
        let mut bytes = whole.clone();
        bytes[whole.len() / 2] = byte;
        bytes
    };
    vec![
        ("cut at a third", whole[..whole.len() / 3].to_vec()),
        ("cut before its end", whole[..whole.len() - records.last().unwrap().len() / 2].to_vec()),
        ("reordered", log.with(&reversed)),
        ("half a record inside", log.with(&half)),
        ("two records without a border", log.with(&glued)),
        ("a quote", byte(b'"')),
        ("a brace", byte(b'}')),
        ("a nul", byte(0)),
        ("a byte of no letter", byte(0xff)),
        ("begun anew", [&whole[..whole.len() / 2], &whole].concat()),
    ]
}

#[test]
fn of_every_format_a_broken_record_is_lost_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for log in logs() {
        let read_bytes = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path)
        };
        let (all, lost) = read_bytes(&log.with(&log.records)).unwrap();
        assert!(all > 3 && lost.is_empty(), "{}: {lost:?}", log.name);
        let middle = log.records.len() / 2;
        for (what, broken) in inside(&log) {
            let mut records = log.records.clone();
            records[middle] = broken;
            let (good, lost) = read_bytes(&log.with(&records)).unwrap_or_default();
            let lost: usize = lost.values().sum();
            assert!(good + 1 >= all && lost <= 1, "{}, {what}: {good} of {all}, {lost} lost", log.name);
        }
        for (what, broken) in across(&log) {
            let (good, _) = read_bytes(&broken).unwrap_or_default();
            let least = match what {
                // Large values stand apart from the records that need them.
                _ if log.name.contains("compact") && what != "reordered" => 0,
                "cut at a third" | "reordered" if log.is_rows() => 0,
                "cut at a third" => all / 3 - 1,
                // Lines tell records apart, whatever is in them; two on one line are lost together.
                "two records without a border" if log.is_lines() => all - 2,
                "reordered" => all,
                _ if log.is_lines() => all - 1,
                // Elsewhere what came before is kept.
                _ => all / 2 - 1,
            };
            assert!(good >= least, "{}, {what}: {good} of {all}, at least {least}", log.name);
        }
    }
}

/// A database of a fixture with one of its rows changed.
fn changed(name: &str, into: &Path, change: &str) {
    fs::copy(fixture(name), into).unwrap();
    Connection::open(into).unwrap().execute_batch(change).unwrap();
}

#[test]
fn of_every_database_a_broken_row_is_lost_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let payloads = ["1e300", "7", "x'ff00ff'", "''", "'{'", "'[]'", "'nul'", "'{\"record\":5}'", "'{\"request\":7}'"];
    let responses = [
        "7",
        "x'ff00ff'",
        "'{'",
        "'nul'",
        "'{\"statusCode\":\"x\"}'",
        "'{\"headers\":5}'",
        "'{\"streamingChunks\":{}}'",
    ];
    let set = |table: &str, column: &str, value: &str| format!("UPDATE {table} SET {column} = {value} WHERE rowid = 3");
    let mut cases: Vec<(&str, String)> = Vec::new();
    cases.extend(payloads.map(|value| ("claude-tap/store.sqlite3", set("records", "payload_json", value))));
    cases.push((
        "claude-tap/store.sqlite3",
        "DELETE FROM record_blobs WHERE rowid = (SELECT max(rowid) FROM record_blobs)".into(),
    ));
    cases.extend(responses.map(|value| ("claude-code-proxy/store.sqlite3", set("requests", "response", value))));
    cases.extend(["body", "headers"].map(|column| ("claude-code-proxy/store.sqlite3", set("requests", column, "'{'"))));
    cases.push(("claude-code-proxy/store.sqlite3", set("requests", "endpoint", "NULL")));
    for (name, change) in cases {
        let (all, _) = read(&fixture(name)).unwrap();
        changed(name, &path, &change);
        let (good, lost) = read(&path).unwrap();
        assert_eq!((good, lost.values().sum::<usize>()), (all - 1, 1), "{name}: {change}");
    }
}

#[test]
fn a_database_that_is_cut_or_half_written_gives_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["claude-tap/store.sqlite3", "claude-code-proxy/store.sqlite3"] {
        let path = folder.path().join(format!("{}.db", name.split('/').next().unwrap()));
        let whole = fs::read(fixture(name)).unwrap();
        let (all, _) = read(&fixture(name)).unwrap();
        for tenth in 1..10 {
            fs::write(&path, &whole[..whole.len() * tenth / 10]).unwrap();
            assert!(read(&path).is_none_or(|(good, _)| good < all), "{name} cut at {tenth} tenths");
            let mut zeroed = whole.clone();
            let page = whole.len() / 4096 * tenth / 10;
            zeroed[page * 4096..][..4096].fill(0);
            fs::write(&path, &zeroed).unwrap();
            assert!(read(&path).is_none_or(|(good, _)| good <= all), "{name}, page {page} zeroed");
        }
        fs::write(&path, &whole).unwrap();
        // A log that was not written back: half of it is as good as nothing, and the database counts as it was.
        let wal = folder.path().join(format!("{}-wal", path.file_name().unwrap().to_str().unwrap()));
        for bytes in [&b""[..], b"\x37\x7f\x06\x82", &[0; 5000], &whole[..7000.min(whole.len())]] {
            fs::write(&wal, bytes).unwrap();
            assert_eq!(read(&path).unwrap().0, all, "{name}");
        }
    }
}

#[test]
fn a_folder_of_all_broken_logs_converts_and_the_summary_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for log in logs() {
        let middle = log.records.len() / 2;
        let variants = inside(&log).into_iter().map(|(_, broken)| {
            let mut records = log.records.clone();
            records[middle] = broken;
            log.with(&records)
        });
        for bytes in variants.chain(across(&log).into_iter().map(|(_, bytes)| bytes)) {
            count += 1;
            fs::write(folder.path().join(format!("{count}.log")), bytes).unwrap();
        }
    }
    let (summary, _) = convert(&[folder.path().to_owned()], &["--drop-aux"]);
    let (records, inputs) = (&summary["records"], &summary["inputs"]);
    let skipped: u64 = records["skipped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(records["read"].as_u64().unwrap(), records["kept"].as_u64().unwrap() + skipped);
    let seen =
        ["read", "empty", "unknown", "unreadable"].map(|what| inputs[what].as_u64().unwrap()).iter().sum::<u64>();
    assert_eq!(seen, count, "{inputs}");
    assert!(skipped > count / 4 && inputs["read"].as_u64() > Some(count * 9 / 10), "{summary}");
}
