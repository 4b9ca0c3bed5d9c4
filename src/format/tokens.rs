//! Prompts spelled out as runs of token ids, so that they can be cut, joined and cut into other blocks; and the way back into
//! prefix columns.
//!
//! Invariant: equal token ids stand for equal prefixes (as block ids do, at blocks of one token), so planting what was spelled
//! gives the same columns; what is planted has canonical columns, whatever was done to it before.

use std::collections::BTreeMap;

use crate::trace::{Prefix, PrefixTree, Request};

/// Token ids `first`, `first + 1` … of one prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first id.
    pub first: u64,
    /// How many.
    pub tokens: u32,
}

/// A prompt, from its front. What leads to a token id is the same wherever the id stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt(Vec<Run>);

impl Prompt {
    /// Its length in tokens.
    pub fn tokens(&self) -> u32 {
        self.0.iter().fold(0, |sum, run| sum.saturating_add(run.tokens))
    }

    /// Its runs.
    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    /// Its first `tokens` tokens.
    #[must_use]
    pub fn head(&self, tokens: u32) -> Self {
        let mut left = tokens;
        let cut = self.0.iter().map_while(|run| {
            let taken = run.tokens.min(left);
            left -= taken;
            (taken > 0).then_some(Run { tokens: taken, ..*run })
        });
        Self(cut.collect())
    }

    /// What follows its first `tokens` tokens.
    #[must_use]
    pub fn after(&self, tokens: u32) -> Self {
        let mut left = tokens;
        let rest = self.0.iter().filter_map(|run| {
            let skipped = run.tokens.min(left);
            left -= skipped;
            (skipped < run.tokens)
                .then_some(Run { first: run.first + u64::from(skipped), tokens: run.tokens - skipped })
        });
        Self(rest.collect())
    }

    /// This prompt, followed by tokens of another one that stand behind the same prefix there.
    #[must_use]
    pub fn with(mut self, rest: &Self) -> Self {
        let mut room = u32::MAX - self.tokens();
        for run in &rest.0 {
            let tokens = run.tokens.min(room);
            room -= tokens;
            match self.0.last_mut() {
                Some(last) if last.first + u64::from(last.tokens) == run.first => last.tokens += tokens,
                _ if tokens > 0 => self.0.push(Run { tokens, ..*run }),
                _ => (),
            }
        }
        self
    }

    /// How many leading tokens two prompts share.
    pub fn shared(&self, other: &Self) -> u32 {
        let (mut one, mut two) = (self.0.iter().copied(), other.0.iter().copied());
        let (mut left, mut right) = (one.next(), two.next());
        let mut shared = 0;
        while let (Some(run), Some(other)) = (left, right) {
            if run.first != other.first {
                break;
            }
            let both = run.tokens.min(other.tokens);
            shared += both;
            let rest = |run: Run| Run { first: run.first + u64::from(both), tokens: run.tokens - both };
            left = if run.tokens > both { Some(rest(run)) } else { one.next() };
            right = if other.tokens > both { Some(rest(other)) } else { two.next() };
        }
        shared
    }
}

/// The next token id that stands nowhere yet. Ids of a [`Speller`] are below all of these.
#[derive(Debug)]
pub struct Fresh(u64);

impl Fresh {
    /// So many new tokens.
    pub fn tokens(&mut self, tokens: u32) -> Prompt {
        let first = self.0;
        self.0 += u64::from(tokens);
        Prompt(if tokens > 0 { vec![Run { first, tokens }] } else { Vec::new() })
    }
}

impl Default for Fresh {
    fn default() -> Self {
        Self(1 << 63)
    }
}

/// Spells out the prompts of a trace, request by request, from its first on: later ones may share tokens with any earlier one.
#[derive(Debug, Default)]
pub struct Speller {
    /// At blocks of one token.
    tree: PrefixTree,
    requests: u64,
}

impl Speller {
    /// Forgets every prompt: for the next session under scope `session`.
    pub fn begin_session(&mut self) {
        self.tree.begin_session();
    }

    /// The prompt of the next request of a trace with blocks of `block_size` tokens.
    pub fn spell(&mut self, request: &Request, block_size: u32) -> Prompt {
        self.scaled(request, block_size, |tokens| tokens, |tokens| tokens)
    }

    /// The same with scaled lengths: `inner` scales a length within a prompt, `whole` that of a prompt. Both are monotone.
    pub fn scaled(
        &mut self,
        request: &Request,
        block_size: u32,
        inner: impl Fn(u32) -> u32,
        whole: impl Fn(u32) -> u32,
    ) -> Prompt {
        let prefix = &request.prefix;
        // The tree knows how long the earlier prompt is.
        let shared = if prefix.extends { u32::MAX } else { inner(prefix.shared_blocks.saturating_mul(block_size)) };
        self.tree.insert(prefix.request, shared, whole(request.input_tokens));
        let runs = self.tree.block_runs(self.requests);
        self.requests += 1;
        Prompt(runs.into_iter().map(|(first, tokens)| Run { first, tokens }).collect())
    }
}

/// Turns prompts into prefix columns, request by request, in published order.
#[derive(Debug)]
pub struct Planter {
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
    /// For a trace with blocks of `block_size` tokens. Where lengths are not exact, `extends` stays false.
    pub fn new(block_size: u32, exact: bool) -> Self {
        Self {
            block_size,
            exact,
            seen: BTreeMap::new(),
            tokens: PrefixTree::new(),
            blocks: PrefixTree::new(),
            requests: 0,
        }
    }

    /// Distinct blocks so far.
    pub fn unique_blocks(&self) -> u64 {
        self.blocks.unique_blocks()
    }

    /// Block ids of a request that was planted since the latest session began, as runs `(first id, how many)`.
    pub fn block_runs(&self, request: u64) -> Vec<(u64, u32)> {
        self.blocks.block_runs(request)
    }

    /// Forgets every prompt, but goes on numbering: for the next session under scope `session`.
    pub fn begin_session(&mut self) {
        self.seen.clear();
        self.tokens.begin_session();
        self.blocks.begin_session();
    }

    /// Fills in the prefix columns and `input_tokens` of the next session's requests.
    pub fn fill(&mut self, requests: &mut [Request], prompts: &[Prompt]) {
        let first = self.requests;
        let mut lengths = Vec::with_capacity(prompts.len());
        for (request, prompt) in requests.iter_mut().zip(prompts) {
            let mut prefix = self.plant(prompt);
            let row = self.requests - 1;
            let earlier = prefix.request.and_then(|earlier| Some((earlier, earlier.checked_sub(first)?)));
            // Only within the session.
            prefix.extends = self.exact
                && earlier.is_some_and(|(earlier, local)| {
                    let whole = usize::try_from(local).ok().and_then(|local| lengths.get(local));
                    whole == Some(&self.tokens.shared(row, earlier))
                });
            request.prefix = prefix;
            request.input_tokens = prompt.tokens();
            lengths.push(request.input_tokens);
        }
    }

    /// The prefix columns of the next request, `extends` left false.
    pub fn plant(&mut self, prompt: &Prompt) -> Prefix {
        let length = prompt.tokens();
        let (with, shared) = self.longest(prompt, length);
        let blocks = |tokens: u32| tokens.checked_div(self.block_size).unwrap_or(0);
        self.tokens.insert(with, shared, length);
        let prefix = self.blocks.insert(with, blocks(shared), blocks(length));
        for run in prompt.after(shared).0 {
            self.seen.insert(run.first, (run.first + u64::from(run.tokens), self.requests));
        }
        self.requests += 1;
        prefix
    }

    /// An earlier request that shares the most leading tokens, and how many.
    fn longest(&self, prompt: &Prompt, length: u32) -> (Option<u64>, u32) {
        // Seen tokens lead a prompt, so the last one that was seen tells.
        let mut before = length;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::foreign::session::request;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_spelled_is_planted_with_the_same_columns(
            shapes in prop::collection::vec(prop::collection::vec((any::<prop::sample::Index>(), 0u32..100, 0u32..100), 1..20), 1..5),
            by_session in any::<bool>(),
        ) {
            let (mut planter, mut speller, mut again) = (Planter::new(16, true), Speller::default(), Planter::new(16, true));
            let (mut earlier, mut fresh): (Vec<Prompt>, _) = (Vec::new(), Fresh::default());
            for shape in &shapes {
                if by_session {
                    earlier.clear();
                    planter.begin_session();
                    speller.begin_session();
                    again.begin_session();
                }
                // Prompts that go on from any part of any earlier one.
                let first = earlier.len();
                for (pick, kept, new) in shape {
                    let base = if earlier.is_empty() { Prompt::default() } else { earlier[pick.index(earlier.len())].clone() };
                    earlier.push(base.head(*kept).with(&fresh.tokens(*new)));
                }
                let mut requests = vec![request(0, None); shape.len()];
                planter.fill(&mut requests, &earlier[first..]);
                let spelled: Vec<Prompt> = requests.iter().map(|request| speller.spell(request, 16)).collect();
                let mut planted = requests.clone();
                again.fill(&mut planted, &spelled);
                prop_assert_eq!(requests, planted);
            }
        }

        #[test]
        fn heads_and_rests_are_those_of_the_list(lengths in prop::collection::vec(1u32..5, 0..6), cut in 0u32..30) {
            let mut fresh = Fresh::default();
            let prompt = lengths.iter().fold(Prompt::default(), |prompt, length| {
                fresh.tokens(1);
                prompt.with(&fresh.tokens(*length))
            });
            let (head, rest) = (prompt.head(cut), prompt.after(cut));
            prop_assert_eq!(head.tokens(), cut.min(prompt.tokens()));
            prop_assert_eq!(head.shared(&prompt), head.tokens());
            prop_assert_eq!(head.with(&rest), prompt);
        }
    }
}
