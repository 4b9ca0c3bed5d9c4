//! Collects findings, the first place of each and a count of the rest.
//!
//! Invariant: what is added to it are ids, places and sentences of this program, so that nothing of a file's values is kept.

use std::collections::BTreeMap;

use super::check::Meta;
use super::finding::{Finding, Place, Severity};
use super::view::{FileView, Kind};

/// Findings so far.
#[derive(Debug, Default)]
pub struct Report {
    file: String,
    found: BTreeMap<Key, Finding>,
    /// Whether something could not be decoded, so that nothing can be said about it.
    pub undecodable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(String, &'static str, &'static str, Option<String>);

impl Report {
    /// Findings from here on are about this file.
    pub fn begin(&mut self, file: &str) {
        file.clone_into(&mut self.file);
    }

    /// The file that findings are about.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Adds a finding, or counts it with an equal one of the same column.
    pub fn add(
        &mut self,
        meta: &'static Meta,
        severity: Severity,
        place: Place,
        message: &'static str,
        length: Option<u64>,
    ) {
        let key = Key(self.file.clone(), meta.id, message, place.column.clone());
        let file = self.file.clone();
        let found = self.found.entry(key).or_insert_with(|| Finding {
            id: meta.id,
            severity,
            file,
            place,
            message,
            length,
            count: 0,
            remedy: meta.remedy,
        });
        found.count += 1;
        found.severity = found.severity.max(severity);
    }

    /// Adds a finding for each fact of one kind.
    pub fn facts(&mut self, meta: &'static Meta, severity: Severity, view: &FileView, kind: Kind) {
        for (message, fact) in view.facts.of(kind) {
            self.add(meta, severity, fact.place.clone(), message, fact.length);
            let key = Key(self.file.clone(), meta.id, message, fact.place.column.clone());
            self.found.entry(key).and_modify(|found| found.count += fact.count - 1);
        }
        self.undecodable |= kind == Kind::Undecodable && view.facts.any(kind);
    }

    /// All findings, by file, worst first.
    pub fn into_findings(self) -> Vec<Finding> {
        let mut findings: Vec<_> = self.found.into_values().collect();
        findings.sort_by(|one, other| {
            (&one.file, std::cmp::Reverse(one.severity), one.id, &one.place).cmp(&(
                &other.file,
                std::cmp::Reverse(other.severity),
                other.id,
                &other.place,
            ))
        });
        findings
    }
}
