//! Two traces side by side: equal, or where not.
//!
//! Invariant: rows are compared in their own numbers (sessions by row; within a session requests, agents and tools by row, edges by
//! the requests they join), so that a difference in one session is not counted again in the next.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trace::{Manifest, Session};

use super::columns::{Cell, Rows, rows};

/// How many first differences a report holds.
pub const SHOWN: usize = 20;

/// What a column is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Lengths of prompts and answers.
    Lengths,
    /// Which prompts begin alike.
    Prefix,
    /// What waited for what.
    Edges,
    /// Starts, durations, delays.
    Times,
    /// Everything else.
    Rest,
}

impl Aspect {
    /// Every aspect, in the order of a report.
    pub const ALL: [Self; 5] = [Self::Lengths, Self::Prefix, Self::Edges, Self::Times, Self::Rest];
}

/// A column of a table, as reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ColumnName {
    /// What it is about.
    pub aspect: Aspect,
    /// Its table.
    pub table: &'static str,
    /// Its name; `rows` stands for the presence of the row itself.
    pub column: &'static str,
}

/// How often a column differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Values compared.
    pub compared: u64,
    /// Both are there and differ.
    pub differ: u64,
    /// Only the first trace has one.
    pub only_first: u64,
    /// Only the second trace has one.
    pub only_second: u64,
}

impl Counts {
    /// Whether no value differs.
    pub fn equal(&self) -> bool {
        self.differ + self.only_first + self.only_second == 0
    }
}

/// A place where the traces differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The session, from 0.
    pub session: u64,
    /// The row within the session, from 0; of an edge, the request that waits.
    pub row: u64,
    /// The column.
    #[serde(flatten)]
    pub name: ColumnName,
    /// The value in the first trace, as a number or the place of a word in its vocabulary; null where there is none.
    pub first: Option<i128>,
    /// The value in the second trace.
    pub second: Option<i128>,
}

/// A column with its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnCounts {
    /// The column.
    #[serde(flatten)]
    pub name: ColumnName,
    /// How often it differs.
    #[serde(flatten)]
    pub counts: Counts,
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Whether block sizes are equal; where they are not, prefix columns differ by nature.
    pub same_block_size: bool,
    /// Whether prompts share blocks over the same scope.
    pub same_scope: bool,
    /// Every column that was compared.
    pub columns: Vec<ColumnCounts>,
    /// The first differences, up to [`SHOWN`].
    pub first: Vec<Difference>,
}

impl Comparison {
    /// Whether the traces hold the same.
    pub fn equal(&self) -> bool {
        self.same_block_size && self.same_scope && self.columns.iter().all(|column| column.counts.equal())
    }

    /// Whether they hold the same as far as this aspect goes.
    pub fn equal_in(&self, aspect: Aspect) -> bool {
        self.columns.iter().filter(|column| column.name.aspect == aspect).all(|column| column.counts.equal())
    }
}

/// Compares two traces, session by session; memory for one session of each is enough.
///
/// # Errors
/// The first error of either.
pub fn compare<E>(
    manifests: (&Manifest, &Manifest),
    mut first: impl Iterator<Item = Result<Session, E>>,
    mut second: impl Iterator<Item = Result<Session, E>>,
) -> Result<Comparison, E> {
    let mut report = Report::default();
    let (mut session, mut bases) = (0, (0, 0));
    loop {
        let pair = (first.next().transpose()?, second.next().transpose()?);
        if pair.0.is_none() && pair.1.is_none() {
            break;
        }
        let made = |session: &Option<Session>, base: u64| {
            session.as_ref().map(|session| rows(session, base)).unwrap_or_default()
        };
        let presence = ColumnName { aspect: Aspect::Rest, table: "sessions", column: "rows" };
        let there = |session: &Option<Session>| session.as_ref().map(|_| 1);
        report.value(session, 0, presence, there(&pair.0), there(&pair.1));
        // Rows of a session that only one trace has would say no more.
        if let (Some(one), Some(other)) = (&pair.0, &pair.1) {
            report.tables(session, &made(&pair.0, bases.0), &made(&pair.1, bases.1));
            bases.0 += u64::try_from(one.requests.len()).unwrap_or(u64::MAX);
            bases.1 += u64::try_from(other.requests.len()).unwrap_or(u64::MAX);
        }
        session += 1;
    }
    let columns = report.counts.into_iter().map(|(name, counts)| ColumnCounts { name, counts }).collect();
    Ok(Comparison {
        same_block_size: manifests.0.block_size == manifests.1.block_size,
        same_scope: manifests.0.scope == manifests.1.scope,
        columns,
        first: report.first,
    })
}

#[derive(Default)]
struct Report {
    counts: BTreeMap<ColumnName, Counts>,
    first: Vec<Difference>,
}

impl Report {
    fn value(&mut self, session: u64, row: u64, name: ColumnName, first: Option<i128>, second: Option<i128>) {
        let counts = self.counts.entry(name).or_default();
        counts.compared += 1;
        match (first, second) {
            _ if first == second => return,
            (Some(_), Some(_)) => counts.differ += 1,
            (Some(_), None) => counts.only_first += 1,
            (None, _) => counts.only_second += 1,
        }
        if self.first.len() < SHOWN {
            self.first.push(Difference { session, row, name, first, second });
        }
    }

    /// Merges the keyed rows of both sessions.
    fn tables(&mut self, session: u64, first: &Rows, second: &Rows) {
        let keys: std::collections::BTreeSet<_> = first.keys().chain(second.keys()).collect();
        for key in keys {
            let (one, other) = (first.get(key), second.get(key));
            let row = key.place;
            let presence = ColumnName { aspect: key.table.aspect(), table: key.table.name(), column: "rows" };
            self.value(session, row, presence, one.map(|_| 1), other.map(|_| 1));
            for (one, other) in one.into_iter().flatten().zip(other.into_iter().flatten()) {
                let Cell { aspect, column, value } = *one;
                self.value(session, row, ColumnName { aspect, table: key.table.name(), column }, value, other.value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::testing::{manifest, session};
    use super::*;

    fn compared(first: &[Session], second: &[Session]) -> Comparison {
        let (first, second) = (first.iter().cloned().map(Ok::<_, ()>), second.iter().cloned().map(Ok));
        compare((&manifest(), &manifest()), first, second).unwrap()
    }

    #[test]
    fn a_trace_equals_itself_wherever_its_rows_begin() {
        let (one, mut two) = (session(0), session(3));
        two.requests[1].prefix.first_block += 100;
        let comparison = compared(&[one.clone(), two.clone()], &[one, two]);
        assert!(comparison.equal() && comparison.first.is_empty());
        assert!(Aspect::ALL.iter().all(|aspect| comparison.equal_in(*aspect)));
    }

    #[test]
    fn each_difference_is_counted_in_its_aspect_and_shown_by_place() {
        let one = session(0);
        let mut other = session(0);
        other.requests[1].input_tokens += 1;
        other.requests[2].start_ms = None;
        other.requests[2].prefix.shared_blocks -= 1;
        other.edges.remove(0);
        other.edges[0].delay_ms += 5;
        let comparison = compared(&[one], &[other]);
        let differing: Vec<_> = comparison
            .first
            .iter()
            .map(|difference| {
                (difference.row, difference.name.column, difference.first.is_some(), difference.second.is_some())
            })
            .collect();
        assert_eq!(
            differing,
            [
                (1, "input_tokens", true, true),
                (2, "shared_blocks", true, true),
                (2, "start_ms", true, false),
                (1, "rows", true, false),
                (2, "delay_ms", true, true),
            ]
        );
        for aspect in [Aspect::Lengths, Aspect::Prefix, Aspect::Times, Aspect::Edges] {
            assert!(!comparison.equal_in(aspect), "{aspect:?}");
        }
        assert!(comparison.equal_in(Aspect::Rest));
    }

    #[test]
    fn a_session_that_one_trace_lacks_is_one_difference() {
        let comparison = compared(&[session(0)], &[session(0), session(3)]);
        assert_eq!(comparison.first.len(), 1);
        assert_eq!((comparison.first[0].session, comparison.first[0].name.table), (1, "sessions"));
        assert!(!comparison.equal());
    }
}
