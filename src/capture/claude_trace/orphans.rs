//! Orphans: requests that claude-trace writes without a response when it is stopped.
//!
//! Invariant: every record gives one item. Where the response to an orphan follows after all, as it does for a cancelled stream,
//! the orphan is the duplicate, since the other knows more.

use std::collections::VecDeque;

use crate::capture::exchange::{Body, Exchange, LogError, Position, SkipReason};
use crate::capture::lines::LineRecords;

/// Orphans held back at most; far more than one client has in flight.
const HELD: usize = 256;

/// The records of a log, its orphans held back until what follows is seen.
pub(super) struct Orphans {
    records: LineRecords,
    held: VecDeque<Exchange>,
    duplicate: Option<Position>,
}

impl Orphans {
    /// Holds back the orphans of `records`.
    pub(super) fn new(records: LineRecords) -> Self {
        Self { records, held: VecDeque::new(), duplicate: None }
    }
}

impl Iterator for Orphans {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(position) = self.duplicate.take() {
            return Some(Err(LogError { position, reason: SkipReason::Duplicate }));
        }
        while self.held.len() <= HELD {
            match self.records.next() {
                Some(Ok(exchange)) if exchange.status.is_none() => self.held.push_back(exchange),
                Some(Ok(mut exchange)) => {
                    let at = self.held.iter().position(|orphan| is_same(orphan, &exchange));
                    let orphan = at.and_then(|at| self.held.remove(at));
                    // What began only the orphan's body is new with this one.
                    exchange.alike = orphan.as_ref().map_or(exchange.alike, |orphan| orphan.alike.clone());
                    self.duplicate = orphan.map(|orphan| orphan.position);
                    return Some(Ok(exchange));
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        self.held.pop_front().map(Ok)
    }
}

/// Whether both are the same request.
fn is_same(a: &Exchange, b: &Exchange) -> bool {
    let bodies = || match (&a.body, &b.body) {
        (Body::Bytes(a), Body::Bytes(b)) => a == b,
        (Body::Empty, Body::Empty) => true,
        _ => false,
    };
    a.start == b.start && a.method == b.method && a.path == b.path && bodies()
}
