//! Requests as the client kept them: the first messages of an earlier request, and messages by hash.
//!
//! Invariant: a message by hash is the one that was kept under it, else that of the rows whose canonical JSON has this hash; one
//! that is not found makes the request unknown, never wrong.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::rows::{Kept, Said, Transcript};
use crate::capture::text::Text;

/// The messages of each kept request, by its id.
pub(super) fn messages(all: &Transcript) -> HashMap<String, Vec<Arc<Text>>> {
    let missing = all.kept.iter().flat_map(|kept| &kept.tail).any(|hash| !all.blobs.contains_key(hash));
    let said = if missing { by_hash(all) } else { HashMap::new() };
    let mut found: HashMap<String, Vec<Arc<Text>>> = HashMap::new();
    for Kept { id, base, keep, tail, .. } in &all.kept {
        let begin = match base {
            Some(base) => found.get(base).and_then(|base| base.get(..*keep)),
            None => Some(&[][..]),
        };
        let tail = tail.iter().map(|hash| all.blobs.get(hash).or_else(|| said.get(hash)).cloned());
        if let (Some(begin), Some(tail)) = (begin, tail.collect::<Option<Vec<_>>>()) {
            let whole = begin.iter().cloned().chain(tail).collect();
            found.insert(id.clone(), whole);
        }
    }
    found
}

/// Every message that rows make up, by the hash of its canonical JSON: each row by itself, runs of rows of a user, and answers.
fn by_hash(all: &Transcript) -> HashMap<String, Arc<Text>> {
    let mut found = HashMap::new();
    let mut add = |role: &str, blocks: &[Arc<Text>]| {
        let whole = message(role, blocks);
        if let Some(value) = whole.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            let whole = Arc::new(whole);
            found.insert(hex(&canonical(&value)), Arc::clone(&whole));
            // One text may have been sent as a string.
            if let Some([Value::Object(block)]) = value.get("content").and_then(Value::as_array).map(Vec::as_slice)
                && let Some(text) = block.get("text").filter(|_| block.len() == 2)
            {
                let plain = serde_json::json!({"role": role, "content": text});
                found.insert(hex(&canonical(&plain)), whole);
            }
        }
    };
    let mut run: Vec<Arc<Text>> = Vec::new();
    let mut answers: HashMap<&str, Vec<Arc<Text>>> = HashMap::new();
    for row in &all.rows {
        match &row.said {
            Said::Sent { role: "user", blocks } => {
                add("user", blocks);
                run.extend(blocks.iter().cloned());
                if run.len() > blocks.len() {
                    add("user", &run);
                }
            }
            Said::Sent { role, blocks } => {
                add(role, blocks);
            }
            Said::Answered { id, blocks } => {
                run.clear();
                let whole = answers.entry(id).or_default();
                whole.extend(blocks.iter().cloned());
                add("assistant", whole);
            }
            Said::Nothing => {}
        }
    }
    found
}

/// A message of blocks.
pub(super) fn message(role: &str, blocks: &[Arc<Text>]) -> Text {
    let mut out = format!("{{\"role\":\"{role}\",\"content\":[").into_bytes();
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(block.as_bytes());
    }
    out.extend_from_slice(b"]}");
    Text::from(out)
}

/// JSON with the keys of each object in order, and no spaces.
pub(super) fn canonical(value: &Value) -> Vec<u8> {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, Vec<u8>> =
                fields.iter().map(|(key, value)| (key, canonical(value))).collect();
            let members =
                sorted.into_iter().map(|(key, value)| [serde_json::to_vec(key).unwrap_or_default(), value].join(&b':'));
            [&b"{"[..], &members.collect::<Vec<_>>().join(&b','), b"}"].concat()
        }
        Value::Array(list) => {
            let list: Vec<Vec<u8>> = list.iter().map(canonical).collect();
            [&b"["[..], &list.join(&b','), b"]"].concat()
        }
        leaf => serde_json::to_vec(leaf).unwrap_or_default(),
    }
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}
