//! [`Accesses`]: from the sessions of a trace to the block accesses of its requests, in the order in which they go out.
//!
//! Invariant: only requests that an engine prefills are counted: no token counts, and none that was refused.

use super::cache_curve::{CacheCurve, CurveBuilder};
use super::concurrency::{start_order, times};
use crate::trace::vocab::{RequestKind, Scope, Status};
use crate::trace::{PrefixTree, Request, Session};

/// A prompt: its block ids as runs, and its length in tokens.
type Prompt = (Vec<(u64, u32)>, u32);

/// Takes sessions in row order.
pub struct Accesses {
    scope: Scope,
    block_size: u32,
    lanes: usize,
    tree: PrefixTree,
    requests: u64,
    sessions: u32,
    builder: CurveBuilder,
    /// What waits until all sessions are known; nothing if sessions run one after another.
    times: Vec<(Vec<u64>, u64)>,
    prompts: Vec<Vec<Option<Prompt>>>,
}

impl Accesses {
    /// For a trace of this scope and block size whose sessions run `lanes` at a time, each next one where the first has ended. With one,
    /// nothing is kept but the state of the cache.
    pub fn new(scope: Scope, block_size: u32, lanes: usize) -> Self {
        Self {
            scope,
            block_size,
            lanes,
            tree: PrefixTree::new(),
            requests: 0,
            sessions: 0,
            builder: CurveBuilder::new(block_size),
            times: Vec::new(),
            prompts: Vec::new(),
        }
    }

    /// Adds the next session of the trace. A session whose prefixes contradict the format counts up to there.
    pub fn add(&mut self, session: &Session) {
        self.add_only(session, |row| session.requests.get(row).is_some_and(prefills));
    }

    /// The same, with only the requests, by row, for which `sent` says so.
    pub fn add_only(&mut self, session: &Session, sent: impl Fn(usize) -> bool) {
        if self.scope == Scope::Session {
            self.tree.begin_session();
        }
        let mut prompts = Vec::new();
        for (row, request) in session.requests.iter().enumerate() {
            if self.tree.push(&request.prefix, request.blocks(self.block_size)).is_err() {
                break;
            }
            let prompt = sent(row).then(|| (self.tree.block_runs(self.requests), request.input_tokens));
            self.requests += 1;
            match prompt {
                Some((runs, tokens)) if self.lanes <= 1 => self.builder.take(self.sessions, &runs, tokens),
                prompt => prompts.push(prompt),
            }
        }
        self.sessions += 1;
        if self.lanes > 1 {
            self.times.push(times(session));
            self.prompts.push(prompts);
        }
    }

    /// The curve over all sessions.
    pub fn finish(mut self) -> CacheCurve {
        for (session, request) in start_order(&self.times, self.lanes) {
            let at = |row: u32| usize::try_from(row).unwrap_or(usize::MAX);
            let prompt = self.prompts.get(at(session)).and_then(|prompts| prompts.get(at(request)));
            if let Some(Some((runs, tokens))) = prompt {
                self.builder.take(session, runs, *tokens);
            }
        }
        self.builder.finish()
    }
}

/// Whether an engine computes the prompt of a request.
fn prefills(request: &Request) -> bool {
    request.kind != RequestKind::CountTokens && matches!(request.status, Status::Ok | Status::ClientCancelled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;

    #[test]
    fn side_by_side_the_same_blocks_are_asked_for() {
        let sessions = sample::dataset(1, 8, Scope::Session);
        let curve = |lanes| {
            let mut accesses = Accesses::new(Scope::Session, sample::head(Scope::Session).block_size, lanes);
            for session in &sessions {
                accesses.add(session);
            }
            accesses.finish()
        };
        let (one, two) = (curve(1), curve(2));
        assert!(one.blocks > 0);
        assert_eq!((one.blocks, one.distinct, one.most()), (two.blocks, two.distinct, two.most()));
    }
}
