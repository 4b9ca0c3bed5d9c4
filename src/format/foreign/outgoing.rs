//! Sessions on their way out: block ids as explicit lists, numbered anew, and starts where a trace has none.
//!
//! Invariant: within one numbering, equal new ids mean equal prefixes, as the trace's ids do.

use std::collections::BTreeMap;

use super::error::ForeignError;
use crate::format::FormatError;
use crate::trace::vocab::{Scope, Trigger};
use crate::trace::{PrefixTree, Session};

/// Rebuilds the block ids of a trace, session by session.
#[derive(Debug)]
pub struct Blocks {
    scope: Scope,
    block_size: u32,
    tree: PrefixTree,
    next_request: u64,
}

impl Blocks {
    /// For a trace of this scope and block size.
    pub fn new(scope: Scope, block_size: u32) -> Self {
        Self { scope, block_size, tree: PrefixTree::new(), next_request: 0 }
    }

    /// The ids of each request of the next session, as runs `(first id, how many)`.
    ///
    /// # Errors
    /// If the prefix columns contradict each other; a source has checked them.
    pub fn session(&mut self, session: &Session) -> Result<Vec<Vec<(u64, u32)>>, FormatError> {
        if self.scope == Scope::Session {
            self.tree.begin_session();
        }
        let mut lists = Vec::with_capacity(session.requests.len());
        for request in &session.requests {
            self.tree.push(&request.prefix, request.blocks(self.block_size)).map_err(|fault| FormatError::Value {
                table: crate::trace::vocab::Table::Requests,
                row: self.next_request,
                column: "prefix_request",
                fault: fault.into(),
            })?;
            lists.push(self.tree.block_runs(self.next_request));
            self.next_request += 1;
        }
        Ok(lists)
    }
}

/// Numbers ids anew, by first appearance.
#[derive(Debug)]
pub struct Renumber {
    /// By first old id: the old id after the last, and the first new one.
    known: BTreeMap<u64, (u64, u64)>,
    next: u64,
}

impl Renumber {
    /// Begins at `first`.
    pub fn from(first: u64) -> Self {
        Self { known: BTreeMap::new(), next: first }
    }

    /// An id that stands for nothing known, as that of a partial block.
    pub fn fresh(&mut self) -> u64 {
        let fresh = self.next;
        self.next += 1;
        fresh
    }

    /// The new ids of a list.
    pub fn list(&mut self, runs: &[(u64, u32)]) -> Vec<(u64, u32)> {
        let mut new: Vec<(u64, u32)> = Vec::with_capacity(runs.len());
        for &(first, count) in runs {
            let (mut at, end) = (first, first.saturating_add(count.into()));
            while at < end {
                let (to, id) = self.piece(at, end);
                let length = u32::try_from(to - at).unwrap_or(u32::MAX);
                match new.last_mut() {
                    Some((last, so_far)) if last.saturating_add((*so_far).into()) == id => *so_far += length,
                    _ => new.push((id, length)),
                }
                at = to;
            }
        }
        new
    }

    /// The new id of `at`, and up to which old id the ones after it follow on.
    fn piece(&mut self, at: u64, end: u64) -> (u64, u64) {
        if let Some((start, (known_end, new))) = self.known.range(..=at).next_back()
            && at < *known_end
        {
            return (end.min(*known_end), new + (at - start));
        }
        let to = self.known.range(at..).next().map_or(end, |(start, _)| end.min(*start));
        let new = self.next;
        self.next += to - at;
        match self.known.range_mut(..at).next_back() {
            Some((start, (known_end, first))) if *known_end == at && *first + (at - start) == new => *known_end = to,
            _ => {
                self.known.insert(at, (to, new));
            }
        }
        (to, new)
    }
}

/// How many blocks of a trace make one of the wanted size.
///
/// # Errors
/// If it is not a multiple.
pub fn factor(block_size: u32, wanted: u32) -> Result<u32, ForeignError> {
    match wanted.checked_div(block_size) {
        Some(factor) if factor > 0 && factor * block_size == wanted => Ok(factor),
        _ => Err(ForeignError::Unfit("the block size must be a multiple of the trace's")),
    }
}

/// A list of ids in blocks `factor` times as long: each is known by the last of those that make it up.
pub fn reblock(runs: &[(u64, u32)], factor: u32) -> Vec<(u64, u32)> {
    if factor == 1 {
        return runs.to_vec();
    }
    let step = usize::try_from(factor).unwrap_or(usize::MAX);
    let ids = runs.iter().flat_map(|&(first, count)| (0..u64::from(count)).map(move |at| first + at));
    ids.skip(step - 1).step_by(step).map(|id| (id, 1)).collect()
}

/// Send times in milliseconds since the session's first request; worked out from edges and durations where a trace has none, and
/// whether they were.
pub fn starts(session: &Session) -> (Vec<u64>, bool) {
    let stated: Option<Vec<u64>> = session.requests.iter().map(|request| request.start_ms).collect();
    if let Some(stated) = stated {
        return (stated, false);
    }
    let mut starts: Vec<u64> = Vec::with_capacity(session.requests.len());
    let mut edges = session.edges.iter().peekable();
    for (row, request) in (0_u32..).zip(&session.requests) {
        let mut start = request.start_ms.unwrap_or(0);
        while let Some(edge) = edges.next_if(|edge| edge.to <= row) {
            let from = usize::try_from(edge.from).unwrap_or(usize::MAX);
            let duration = match edge.trigger {
                Trigger::Completion => session.requests.get(from).and_then(|request| request.duration_ms).unwrap_or(0),
                Trigger::Dispatch => 0,
            };
            let sent = starts.get(from).copied().unwrap_or(0);
            let ready = sent.saturating_add(duration.into()).saturating_add(edge.delay_ms);
            start = start.max(ready);
        }
        starts.push(start);
    }
    (starts, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbering_is_by_first_appearance(lists in prop::collection::vec(prop::collection::vec((0_u64..30, 1_u32..6), 0..5), 1..8)) {
            let mut renumber = Renumber::from(1);
            let mut known = std::collections::HashMap::new();
            for runs in &lists {
                let old = runs.iter().flat_map(|&(first, count)| first..first + u64::from(count));
                let mut expected = Vec::new();
                for id in old {
                    let next = known.len() as u64 + 1;
                    expected.push(*known.entry(id).or_insert(next));
                }
                let new: Vec<u64> =
                    renumber.list(runs).iter().flat_map(|&(first, count)| first..first + u64::from(count)).collect();
                prop_assert_eq!(new, expected);
            }
        }
    }
}
