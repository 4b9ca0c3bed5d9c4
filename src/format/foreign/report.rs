//! What an import or an export has to say beside its result.
//!
//! Invariant: counts by words of closed lists, nothing else.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;

use crate::trace::vocab::{Anomaly, Inferred, Loss, Vocabulary};

/// How often each word applies; words that never do are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally<V>(BTreeMap<V, u64>);

impl<V> Default for Tally<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: Vocabulary + Ord> Tally<V> {
    /// Counts `times` more of a word.
    pub fn add(&mut self, word: V, times: u64) {
        if times > 0 {
            let count = self.0.entry(word).or_default();
            *count = count.saturating_add(times);
        }
    }

    /// Counts one more of a word, if it applies.
    pub fn note(&mut self, word: V, applies: bool) {
        self.add(word, applies.into());
    }

    /// How often a word applies.
    pub fn count(&self, word: V) -> u64 {
        self.0.get(&word).copied().unwrap_or(0)
    }

    /// Every word that applies, in vocabulary order.
    pub fn iter(&self) -> impl Iterator<Item = (V, u64)> {
        self.0.iter().map(|(word, count)| (*word, *count))
    }
}

impl<V: Vocabulary> serde::Serialize for Tally<V> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (word, count) in &self.0 {
            map.serialize_entry(word.word(), count)?;
        }
        map.end()
    }
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ImportReport {
    /// Rows read, in all files.
    pub rows: u64,
    /// Files of a folder that no format knows, left out.
    pub skipped_files: u64,
    /// What had to be worked out: requests, edges or agents each.
    pub inferred: Tally<Inferred>,
    /// What was odd.
    pub anomalies: Tally<Anomaly>,
    /// What the source states and the trace does not hold.
    pub lost: Tally<Loss>,
}

/// What an export did.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ExportReport {
    /// Sessions written.
    pub sessions: u64,
    /// Requests written.
    pub requests: u64,
    /// Sessions and requests left out by `--select` or since the format has no place for them.
    pub left_out: u64,
    /// What the trace holds and the file does not: requests, edges, agents or tool calls each.
    pub lost: Tally<Loss>,
}
