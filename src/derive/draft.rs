//! A session with its prompts spelled out, so that they can be cut and joined; and the way back into prefix columns.
//!
//! Invariant: equal token ids stand for equal prefixes (as block ids do, at blocks of one token), so planting what was loaded
//! gives the same columns; what is planted has canonical columns, whatever was done to it before.

use std::collections::BTreeMap;

use crate::trace::vocab::Scope;
use crate::trace::{Manifest, PrefixTree, Session};

use super::scale::Scale;

/// Token ids `first`, `first + 1` … of one prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) tokens: u32,
}

/// A prompt, from its front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt(pub(super) Vec<Run>);

impl Prompt {
    /// Its length in tokens.
    pub(super) fn tokens(&self) -> u32 {
        self.0.iter().fold(0, |sum, run| sum.saturating_add(run.tokens))
    }

    /// Its first `tokens` tokens.
    pub(super) fn head(&self, tokens: u32) -> Self {
        let mut left = tokens;
        let cut = self.0.iter().map_while(|run| {
            let taken = run.tokens.min(left);
            left -= taken;
            (taken > 0).then_some(Run { tokens: taken, ..*run })
        });
        Self(cut.collect())
    }

    /// This prompt, followed by tokens that stand nowhere else.
    pub(super) fn followed_by(mut self, tokens: u32, fresh: &mut Fresh) -> Self {
        let tokens = tokens.min(u32::MAX - self.tokens());
        if tokens > 0 {
            self.0.push(Run { first: fresh.0, tokens });
            fresh.0 += u64::from(tokens);
        }
        self
    }
}

/// The next token id that no prompt of the source has.
#[derive(Debug)]
pub(super) struct Fresh(u64);

impl Default for Fresh {
    fn default() -> Self {
        Self(1 << 63)
    }
}

/// A session and the prompts of its requests, row by row. Prefix columns and `input_tokens` are those of the source until it is
/// planted.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) session: Session,
    pub(super) prompts: Vec<Prompt>,
}

/// Spells out the prompts of a trace, session by session.
#[derive(Debug)]
pub(super) struct Loader {
    scope: Scope,
    block_size: u32,
    scale: Scale,
    /// At blocks of one token.
    tree: PrefixTree,
    requests: u64,
}

impl Loader {
    /// For a trace with this manifest, none of whose sessions were loaded yet.
    pub(super) fn new(manifest: &Manifest, scale: Scale) -> Self {
        Self { scope: manifest.scope, block_size: manifest.block_size, scale, tree: PrefixTree::new(), requests: 0 }
    }

    /// The next session of the trace. All have to come by, since prompts may share tokens with earlier sessions.
    pub(super) fn load(&mut self, session: Session) -> Draft {
        if self.scope == Scope::Session {
            self.tree.begin_session();
        }
        let mut prompts = Vec::with_capacity(session.requests.len());
        for request in &session.requests {
            let prefix = &request.prefix;
            // The tree knows how long the earlier prompt is.
            let shared = if prefix.extends {
                u32::MAX
            } else {
                self.scale.tokens(prefix.shared_blocks.saturating_mul(self.block_size))
            };
            self.tree.insert(prefix.request, shared, self.scale.input(request.input_tokens));
            let runs = self.tree.block_runs(self.requests);
            prompts.push(Prompt(runs.into_iter().map(|(first, tokens)| Run { first, tokens }).collect()));
            self.requests += 1;
        }
        Draft { session, prompts }
    }
}

/// Turns prompts back into prefix columns, session by session, in published order.
#[derive(Debug)]
pub(super) struct Planter {
    scope: Scope,
    block_size: u32,
    /// Whether lengths are exact, so that `extends` says something.
    exact: bool,
    /// Runs of token ids that were seen: first id → (end, the request that brought them).
    seen: BTreeMap<u64, (u64, u64)>,
    tokens: PrefixTree,
    blocks: PrefixTree,
    requests: u64,
}

impl Planter {
    /// For a trace with this manifest that holds no session yet.
    pub(super) fn new(manifest: &Manifest) -> Self {
        Self {
            scope: manifest.scope,
            block_size: manifest.block_size,
            exact: manifest.quanta.input_tokens <= 1,
            seen: BTreeMap::new(),
            tokens: PrefixTree::new(),
            blocks: PrefixTree::new(),
            requests: 0,
        }
    }

    /// Distinct blocks so far.
    pub(super) fn unique_blocks(&self) -> u64 {
        self.blocks.unique_blocks()
    }

    /// Fills in the prefix columns and lengths of the next session.
    pub(super) fn plant(&mut self, draft: Draft) -> Session {
        let Draft { mut session, prompts } = draft;
        if self.scope == Scope::Session {
            self.seen.clear();
            self.tokens.begin_session();
            self.blocks.begin_session();
        }
        let first = self.requests;
        let mut lengths = Vec::with_capacity(prompts.len());
        for (request, prompt) in session.requests.iter_mut().zip(&prompts) {
            let length = prompt.tokens();
            let (with, shared) = self.longest(prompt);
            let blocks = |tokens: u32| tokens.checked_div(self.block_size).unwrap_or(0);
            self.tokens.insert(with, shared, length);
            let mut prefix = self.blocks.insert(with, blocks(shared), blocks(length));
            let earlier = prefix.request.and_then(|earlier| Some((earlier, earlier.checked_sub(first)?)));
            prefix.extends = self.exact
                && earlier.is_some_and(|(earlier, local)| {
                    let whole = usize::try_from(local).ok().and_then(|local| lengths.get(local));
                    whole == Some(&self.tokens.shared(self.requests, earlier))
                });
            request.prefix = prefix;
            request.input_tokens = length;
            self.remember(prompt, shared);
            lengths.push(length);
            self.requests += 1;
        }
        session
    }

    /// An earlier request that shares the most leading tokens, and how many.
    fn longest(&self, prompt: &Prompt) -> (Option<u64>, u32) {
        // Seen tokens lead a prompt, so the last one that was seen tells.
        let mut before = prompt.tokens();
        for run in prompt.0.iter().rev() {
            before = before.saturating_sub(run.tokens);
            let end = run.first + u64::from(run.tokens);
            if let Some((_, &(seen_end, request))) = self.seen.range(..end).next_back()
                && seen_end > run.first
            {
                let shared = u32::try_from(seen_end.min(end) - run.first).unwrap_or(run.tokens);
                return (Some(request), before + shared);
            }
        }
        (None, 0)
    }

    /// Notes the tokens behind the first `shared` of a prompt.
    fn remember(&mut self, prompt: &Prompt, shared: u32) {
        let mut left = shared;
        for run in &prompt.0 {
            let skipped = run.tokens.min(left);
            left -= skipped;
            if skipped < run.tokens {
                let end = run.first + u64::from(run.tokens);
                self.seen.insert(run.first + u64::from(skipped), (end, self.requests));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{manifest, session_of};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_loaded_is_planted_with_the_same_columns(
            shapes in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), 0u32..100, 0u32..100), 1..20), 1..5),
            scope in prop::sample::select(vec![Scope::Session, Scope::Dataset]),
        ) {
            let mut manifest = manifest(16);
            manifest.scope = scope;
            let mut planter = Planter::new(&manifest);
            // Prompts that go on from any part of any earlier one.
            let mut earlier: Vec<Prompt> = Vec::new();
            let mut fresh = Fresh::default();
            let sessions: Vec<Session> = shapes.iter().map(|shape| {
                if scope == Scope::Session {
                    earlier.clear();
                }
                let prompts: Vec<Prompt> = shape.iter().map(|(pick, kept, new)| {
                    let base = if earlier.is_empty() { Prompt::default() } else { earlier[pick.index(earlier.len())].clone() };
                    let prompt = base.head(*kept).followed_by(*new, &mut fresh);
                    earlier.push(prompt.clone());
                    prompt
                }).collect();
                let mut session = session_of(&vec![(0, None); prompts.len()]);
                session.edges.clear();
                planter.plant(Draft { session, prompts })
            }).collect();
            let mut checker = crate::format::Checker::new(&manifest);
            let mut loader = Loader::new(&manifest, Scale::ONE);
            let mut again = Planter::new(&manifest);
            for session in &sessions {
                prop_assert_eq!(checker.check(session), Ok(()));
                prop_assert_eq!(&again.plant(loader.load(session.clone())), session);
            }
        }
    }

    #[test]
    fn a_head_cuts_inside_a_run() {
        let prompt = Prompt(vec![Run { first: 0, tokens: 5 }, Run { first: 9, tokens: 3 }]);
        assert_eq!(prompt.head(6).0, [Run { first: 0, tokens: 5 }, Run { first: 9, tokens: 1 }]);
        assert_eq!(prompt.head(5).0, [Run { first: 0, tokens: 5 }]);
        assert_eq!(prompt.head(100), prompt);
        assert_eq!(prompt.head(0), Prompt::default());
    }
}
