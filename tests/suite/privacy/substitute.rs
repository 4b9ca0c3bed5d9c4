//! A log that says something else with the same structure.
//!
//! Invariant: the map of words is one to one and keeps the number of tokens of every text: it exchanges words that are one token
//! with the space before them, and such a word is a token of its own wherever it stands (before anything but a letter).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tracecloak::tokenize::{Encoder, Tokenizer};

use super::log::Log;
use super::planted;

/// Words of the marks that recognisers look for; they stay.
const MARKS: &str = "is being continued from a previous conversation task to create detailed summary of respond with text only \
    helpful assistant tasked summarizing conversations user stepped away request interrupted by doesn want proceed agent \
    launched successfully workflow background in started fork directive harness computed follows loaded notification system \
    your this session the you are session subagent spawned by orchestration script";

/// Headers that recognisers read, and those that say how a body is spelled.
const HEADERS: [&str; 6] = [
    "user-agent",
    "x-claude-code-request-class",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "content-encoding",
    "content-type",
];

pub(super) struct Words {
    tokenizer: Tokenizer,
    other: BTreeMap<String, String>,
}

impl Words {
    pub(super) fn new(seed: u64) -> Self {
        let tokenizer = Tokenizer::builtin().unwrap();
        let marks: BTreeSet<&str> = MARKS.split_whitespace().collect();
        let mut words: Vec<String> = (0..tokenizer.vocab_size())
            .filter_map(|id| {
                let text = tokenizer.decode(&[id]);
                let word = text.strip_prefix(' ')?;
                let plain = word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
                (plain && !marks.contains(word) && encode(&tokenizer, &text) == [id]).then(|| word.to_owned())
            })
            .collect();
        assert!(words.len() > 10_000);
        words.sort();
        let from = words.clone();
        words.sort_by_key(|word| *blake3::hash(format!("{seed} {word}").as_bytes()).as_bytes());
        Self { tokenizer, other: from.into_iter().zip(words).collect() }
    }

    /// The text with other words, and how many.
    fn text(&self, text: &str) -> (String, usize) {
        let (mut out, mut rest, mut changed) = (String::new(), text, 0);
        while let Some(at) = rest.find(' ') {
            let (before, word) = rest.split_at(at + 1);
            out.push_str(before);
            let end = word.find(|char: char| !char.is_ascii_lowercase()).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            let joined = after.starts_with(|char: char| char.is_alphanumeric() || char == '_');
            let other = self.other.get(word).filter(|_| !joined);
            changed += usize::from(other.is_some());
            out.push_str(other.map_or(word, |other| other));
            rest = after;
        }
        out.push_str(rest);
        assert_eq!(encode(&self.tokenizer, &out).len(), encode(&self.tokenizer, text).len());
        (out, changed)
    }
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &mut ids);
    ids
}

/// An identifier with another one's place: equal for equal ones, of another length.
fn renamed(id: &str) -> String {
    let head = &id[..id.find('_').map_or(0, |at| at + 1)];
    let hash = blake3::hash(id.as_bytes());
    format!("{head}{}", &hash.to_hex()[..20 + usize::from(hash.as_bytes()[0] % 30)])
}

/// Another log with the same structure: other words of other lengths, other ids, other headers, fields that nobody knows, and
/// another day.
pub(super) fn substitute(log: &Log, words: &Words) -> Log {
    let mut other = log.clone();
    // Identifiers that stand in a text count as tokens there; they stay.
    let mut texts = String::new();
    other.edit(&mut |path, value| {
        if let Some(text) = value.as_str().filter(|_| !is_id(path)) {
            texts += text;
        }
    });
    let (mut changed, mut fields) = (0, 0);
    other.edit(&mut |path, value| {
        let last = path.last().map_or("", String::as_str);
        match value {
            Value::String(text) if is_id(path) && !texts.contains(&*text) => {
                *text = renamed(text);
            }
            Value::String(text) if last == "signature" => *text = planted(&mut fields).repeat(1 + text.len() % 7),
            Value::String(text) if !path.iter().any(|step| step.contains("eaders")) => {
                let (new, count) = words.text(text);
                *text = new;
                changed += count;
            }
            Value::Object(members) if log.is_native && takes_fields(path, members) => {
                let word = planted(&mut fields);
                members.insert(word.clone(), json!({ "of": [word, 7, null] }));
            }
            _ => {}
        }
    });
    if log.is_native {
        other.records_mut().iter_mut().for_each(redate);
    }
    assert!(changed > 300, "{}: only {changed} words", log.name);
    other
}

fn is_id(path: &[String]) -> bool {
    matches!(path.last().map(String::as_str), Some("id" | "tool_use_id" | "session_id" | "device_id" | "account_uuid"))
}

/// Whether the API may add fields here without a change of the prompt.
fn takes_fields(path: &[String], members: &serde_json::Map<String, Value>) -> bool {
    let known = members
        .get("type")
        .is_none_or(|kind| matches!(kind.as_str(), Some("text" | "tool_use" | "tool_result" | "thinking")));
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    match path[..] {
        ["body", "$json"] | [.., "$event"] | ["body", "$json", "messages", "*"] => true,
        ["body", "$json", "tools", "*"] => members.contains_key("input_schema"),
        ["body", "$json", "system", "*"] | ["body", "$json", "messages", "*", "content", "*"] => known,
        _ => false,
    }
}

/// Moves a record by three days and a bit, and gives it other headers.
fn redate(record: &mut Value) {
    const SHIFT: u64 = 3 * 86_400_000_000 + 123_456_789;
    for time in ["start_us", "first_byte_us", "end_us"] {
        if let Some(us) = record[time].as_u64() {
            record[time] = (us + SHIFT).into();
        }
    }
    for list in ["headers", "response_headers"] {
        for header in record.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name = header[0].as_str().unwrap().to_ascii_lowercase();
            if !HEADERS.contains(&&*name) {
                header[1] = renamed(header[1].as_str().unwrap()).into();
            }
        }
    }
}
