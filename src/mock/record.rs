//! [`Recording`]: what arrived, one JSON object a line, so that a replay is judged by what it sent.
//!
//! Invariant: prompts are lengths and block ids. Ids are numbered by first appearance, so equal ids mean equal prefixes and nothing
//! else; no hash and no text is written. The only values taken as they are come from headers that name sessions and agents.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::options::MockError;
use super::pool::BlockHash;

/// Headers that name sessions, agents and requests.
pub(super) const HEADERS: &[&str] = &[
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
    "x-claude-code-parent-agent-id",
    "x-dynamo-session-id",
    "x-dynamo-parent-session-id",
    "x-session-id",
    "x-parent-session-id",
    "x-request-id",
];

/// A request that arrived.
pub(super) struct Arrival<'a> {
    pub(super) number: u64,
    pub(super) at: Duration,
    pub(super) api: &'static str,
    pub(super) stream: bool,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    /// Full blocks of the prompt.
    pub(super) blocks: &'a [BlockHash],
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) fault: Option<String>,
}

/// A file being written.
pub(super) struct Recording {
    file: BufWriter<File>,
    ids: HashMap<BlockHash, u64>,
    /// Set when a line could not be written; nothing is written after it.
    broken: bool,
}

impl Recording {
    pub(super) fn create(path: &Path) -> Result<Self, MockError> {
        let file = File::create(path).map_err(|error| MockError::Record(error.kind()))?;
        Ok(Self { file: BufWriter::new(file), ids: HashMap::new(), broken: false })
    }

    pub(super) fn add(&mut self, arrival: &Arrival<'_>) {
        let line = json!({
            "request": arrival.number,
            "arrival_us": u64::try_from(arrival.at.as_micros()).unwrap_or(u64::MAX),
            "api": arrival.api,
            "stream": arrival.stream,
            "input_tokens": arrival.input_tokens,
            "output_tokens": arrival.output_tokens,
            "blocks": self.runs(arrival.blocks),
            "headers": arrival.headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>(),
            "fault": arrival.fault,
        });
        self.broken = self.broken || writeln!(self.file, "{line}").is_err();
    }

    /// Block ids as runs `[first id, how many]`.
    fn runs(&mut self, hashes: &[BlockHash]) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for hash in hashes {
            let next = u64::try_from(self.ids.len()).unwrap_or(u64::MAX);
            let id = *self.ids.entry(*hash).or_insert(next);
            match runs.last_mut() {
                Some((first, count)) if *first + *count == id => *count += 1,
                _ => runs.push((id, 1)),
            }
        }
        runs
    }

    /// Writes out what is held back. Whether every line is in the file.
    pub(super) fn flush(&mut self) -> bool {
        self.broken = self.broken || self.file.flush().is_err();
        !self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbered_by_first_appearance() {
        let folder = tempfile::tempdir().unwrap();
        let mut recording = Recording::create(&folder.path().join("r")).unwrap();
        assert_eq!(recording.runs(&[70, 60, 50]), [(0, 3)]);
        assert_eq!(recording.runs(&[70, 60, 40, 30]), [(0, 2), (3, 2)]);
        assert_eq!(recording.runs(&[]), []);
    }
}
