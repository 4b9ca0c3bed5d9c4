//! A log as a tree down to its last string: JSON inside strings and events of streams are opened, so that each can be edited.
//!
//! Invariant: without edits, the tree gives the same exchanges as the log: only spelling and chunking may differ.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// A fixture.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) name: String,
    pub(super) is_native: bool,
    is_har: bool,
    records: Vec<Value>,
}

/// Every fixture whose texts stand in the open; two HAR files hold bodies in base64.
pub(super) fn fixtures() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["jsonl", "har"]
        .iter()
        .flat_map(|ending| {
            glob::glob(&format!("{}/fixtures/capture/*/*.{ending}", env!("CARGO_MANIFEST_DIR"))).unwrap()
        })
        .map(Result::unwrap)
        .filter(|path| !["har/charles.har", "har/proxyman.har"].iter().any(|name| path.ends_with(name)))
        .collect();
    found.sort();
    assert!(found.len() >= 17);
    found
}

/// Takes an edit: the path to a value, list places as `*`, and the value. A parent comes after its children.
pub(super) type Edit<'e> = &'e mut dyn FnMut(&[String], &mut Value);

impl Log {
    pub(super) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let is_har = path.extension().unwrap() == "har";
        let records = if is_har {
            vec![serde_json::from_str(&text).unwrap()]
        } else {
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let is_native = path.parent().unwrap().ends_with("native");
        let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        let mut log = Self { name, is_native, is_har, records };
        log.records.iter_mut().for_each(if is_native { align } else { join });
        log
    }

    /// The log as a recorder would write it.
    pub(super) fn render(&self) -> Vec<u8> {
        let lines: Vec<String> = self.records.iter().map(Value::to_string).collect();
        let end = if self.is_har { "" } else { "\n" };
        (lines.join("\n") + end).into_bytes()
    }

    /// Edits every value of every record.
    pub(super) fn edit(&mut self, edit: Edit<'_>) {
        for record in &mut self.records {
            walk(record, &mut Vec::new(), edit);
        }
    }

    /// Edits the records themselves.
    pub(super) fn records_mut(&mut self) -> &mut Vec<Value> {
        &mut self.records
    }
}

fn walk(value: &mut Value, path: &mut Vec<String>, edit: Edit<'_>) {
    let mut below = |step: &str, value: &mut Value, edit: Edit<'_>| {
        path.push(step.to_owned());
        walk(value, path, edit);
        path.pop();
    };
    match value {
        Value::Object(members) => members.iter_mut().for_each(|(key, value)| below(key, value, edit)),
        Value::Array(items) => items.iter_mut().for_each(|item| below("*", item, edit)),
        Value::String(text) if text.starts_with(['{', '[']) => {
            if let Ok(mut inner) = serde_json::from_str::<Value>(text) {
                below("$json", &mut inner, edit);
                *text = inner.to_string();
                return;
            }
        }
        Value::String(text) if text.contains("data: {") => {
            let lines: Vec<String> = text
                .split('\n')
                .map(|line| match line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok()) {
                    Some(mut data) => {
                        below("$event", &mut data, edit);
                        format!("data: {data}")
                    }
                    None => line.to_owned(),
                })
                .collect();
            *text = lines.join("\n");
            return;
        }
        _ => {}
    }
    edit(path, value);
}

/// Cuts the pieces of a stream at the ends of events, each where its last byte came, and has each block's text come with its
/// first delta.
fn align(record: &mut Value) {
    let Some(pieces) = record["response"].as_array().filter(|pieces| pieces.len() > 1) else { return };
    let texts: Vec<&str> = pieces.iter().map(|piece| piece[1].as_str().unwrap()).collect();
    let whole = texts.concat();
    let mut events: Vec<String> = whole.split_inclusive("\n\n").map(str::to_owned).collect();
    let (mut end, mut ends) = (0, Vec::new());
    for event in &events {
        end += event.len();
        let mut seen = 0;
        let piece = texts.iter().position(|text| {
            seen += text.len();
            seen >= end
        });
        ends.push(piece.unwrap());
    }
    join_deltas(&mut events);
    let mut aligned: Vec<String> = vec![String::new(); texts.len()];
    for (event, piece) in events.iter().zip(ends) {
        aligned[piece].push_str(event);
    }
    for (piece, text) in record["response"].as_array_mut().unwrap().iter_mut().zip(aligned) {
        piece[1] = text.into();
    }
}

/// Has each block's text come with its first delta, in every stream.
fn join(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(join),
        Value::Array(items) => items.iter_mut().for_each(join),
        Value::String(text) if text.contains("data: {") && !text.starts_with('{') => {
            let mut events: Vec<String> = text.split_inclusive("\n\n").map(str::to_owned).collect();
            join_deltas(&mut events);
            *text = events.concat();
        }
        _ => {}
    }
}

fn join_deltas(events: &mut [String]) {
    let data = |event: &str| -> Option<Value> {
        let line = event.lines().find_map(|line| line.strip_prefix("data: "))?;
        serde_json::from_str(line).ok()
    };
    let deltas: Vec<(usize, Value)> = events
        .iter()
        .enumerate()
        .filter_map(|(at, event)| Some((at, data(event)?)))
        .filter(|(_, data)| data["type"] == "content_block_delta")
        .collect();
    let key = |data: &Value| {
        let field = ["text", "thinking", "partial_json"].into_iter().find(|field| data["delta"][field].is_string())?;
        Some((data["index"].as_u64()?, field))
    };
    let mut joined: BTreeMap<(u64, &str), String> = BTreeMap::new();
    for (_, data) in &deltas {
        if let Some(key) = key(data) {
            joined.entry(key).or_default().push_str(data["delta"][key.1].as_str().unwrap());
        }
    }
    for (at, mut data) in deltas {
        let Some(key) = key(&data) else { continue };
        // An empty delta does not count as content, so the text comes with the first that was not.
        if data["delta"][key.1] != "" {
            data["delta"][key.1] = joined.insert(key, String::new()).unwrap().into();
            let name = events[at].lines().find(|line| line.starts_with("event:")).map(|line| format!("{line}\n"));
            events[at] = format!("{}data: {data}\n\n", name.unwrap_or_default());
        }
    }
}
