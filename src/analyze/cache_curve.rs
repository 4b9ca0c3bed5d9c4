//! [`CacheCurve`]: how many blocks a prefix cache of any size would have found, exact for every size from one pass.
//!
//! The cache is the one that engines have: blocks are looked up from the front of a prompt, evicted least recently used first, and a
//! request leaves its tail before its head. So a cache that holds a block holds every block before it, and one that is larger holds
//! all that a smaller one holds. What counts is a block's *stack distance*: how many distinct blocks were used since, itself
//! included; it is found by every cache of at least that size.
//!
//! Blocks are handled as runs. Those of a prompt that were last used by one earlier request lie side by side on the stack, so a
//! request costs a search for each such piece, not for each block.
//!
//! Invariant: the pieces that a request used last are the end of its prompt; requests are taken one after another, in the order in
//! which they are given. Blocks that hold answers, or parts of a block, take no room.

use std::collections::BTreeMap;

/// A run of block ids that the same request used last.
#[derive(Clone, Copy, Debug)]
struct Used {
    /// One more than its last id.
    end: u64,
    /// Place of the request.
    request: usize,
}

/// Where the blocks of one session's prompts had been before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Full blocks of its prompts.
    pub blocks: u64,
    /// Of those, blocks that no earlier prompt had: no cache can find them.
    pub cold: u64,
    /// Blocks last used by this session.
    pub own: u64,
    /// Blocks last used by another session.
    pub shared: u64,
}

/// A request that was taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    session: u32,
    /// Blocks of its prompt.
    blocks: u64,
    /// Blocks that no later request has used: the last ones of its prompt.
    latest: u64,
}

/// Takes requests one by one.
#[derive(Clone, Debug)]
pub struct CurveBuilder {
    block_size: u32,
    /// First id of a run → the run. Runs do not overlap.
    used: BTreeMap<u64, Used>,
    requests: Vec<Taken>,
    /// Sums of `latest`, for stack distances.
    sums: Fenwick,
    /// Where, along the stack, the number of blocks found changes.
    changes: BTreeMap<u64, i64>,
    splits: BTreeMap<u32, Split>,
    blocks: u64,
    tokens: u64,
}

impl CurveBuilder {
    /// For prompts in blocks of this many tokens.
    pub fn new(block_size: u32) -> Self {
        Self {
            block_size: block_size.max(1),
            used: BTreeMap::new(),
            requests: Vec::new(),
            sums: Fenwick::default(),
            changes: BTreeMap::new(),
            splits: BTreeMap::new(),
            blocks: 0,
            tokens: 0,
        }
    }

    /// Takes the next request: its session, the ids of its full blocks as runs `(first, how many)` from the front (equal ids mean equal
    /// prefixes), and the length of its prompt in tokens. The block with the last token is computed even where it is known.
    pub fn take(&mut self, session: u32, runs: &[(u64, u32)], input_tokens: u32) {
        let now = self.requests.len();
        let usable = u64::from(input_tokens.saturating_sub(1) / self.block_size);
        let split = self.splits.entry(session).or_default();
        let mut pieces: Vec<(usize, u64)> = Vec::new();
        let mut depth = 0;
        for &(first, count) in runs {
            let end = first + u64::from(count);
            for (from, to, request) in cut(&mut self.used, first, end) {
                let Some(before) = self.requests.get(request) else { continue };
                // Above it on the stack: all that later requests used, and what lies before it of the same request.
                let above = self.sums.after(request) + (depth + from - first) - (before.blocks - before.latest);
                let found = usable.saturating_sub(depth + from - first).min(to - from);
                if found > 0 {
                    *self.changes.entry(above + 1).or_default() += 1;
                    *self.changes.entry(above + found + 1).or_default() -= 1;
                }
                *(if before.session == session { &mut split.own } else { &mut split.shared }) += to - from;
                pieces.push((request, to - from));
            }
            self.used.insert(first, Used { end, request: now });
            depth += u64::from(count);
        }
        let known: u64 = pieces.iter().map(|(_, blocks)| blocks).sum();
        split.blocks += depth;
        split.cold += depth - known;
        for (request, blocks) in pieces {
            if let Some(before) = self.requests.get_mut(request) {
                before.latest -= blocks;
            }
            self.sums.take(request, blocks);
        }
        self.requests.push(Taken { session, blocks: depth, latest: depth });
        self.sums.push(depth);
        self.blocks += depth;
        self.tokens += u64::from(input_tokens);
    }

    /// The curve of all requests that were taken.
    pub fn finish(self) -> CacheCurve {
        let (mut steps, mut found, mut height, mut last) = (Vec::new(), 0, 0_i64, 1);
        for (position, change) in self.changes.into_iter().filter(|(_, change)| *change != 0) {
            found += (position - last) * u64::try_from(height).unwrap_or(0);
            height += change;
            last = position;
            steps.push(Step { position, found, height: u64::try_from(height).unwrap_or(0) });
        }
        CacheCurve {
            block_size: self.block_size,
            steps,
            blocks: self.blocks,
            tokens: self.tokens,
            distinct: self.splits.values().map(|split| split.cold).sum(),
            splits: self.splits,
        }
    }
}

/// Takes `first..end` out of the runs; gives the parts of it that were in them, as `(from, to, request)` in order.
fn cut(used: &mut BTreeMap<u64, Used>, first: u64, end: u64) -> Vec<(u64, u64, usize)> {
    let before = used.range(..first).next_back().filter(|(_, run)| run.end > first);
    let from = before.map_or(first, |(start, _)| *start);
    let overlapping: Vec<(u64, Used)> = used.range(from..end).map(|(start, run)| (*start, *run)).collect();
    let mut parts = Vec::with_capacity(overlapping.len());
    for (start, run) in overlapping {
        used.remove(&start);
        if start < first {
            used.insert(start, Used { end: first, ..run });
        }
        if run.end > end {
            used.insert(end, run);
        }
        parts.push((start.max(first), run.end.min(end), run.request));
    }
    parts
}

/// From `position` on, each further block of cache finds `height` more; `found` by all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    position: u64,
    found: u64,
    height: u64,
}

/// Blocks found by a cache of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheCurve {
    /// Tokens of a block.
    pub block_size: u32,
    steps: Vec<Step>,
    /// Full blocks of all prompts.
    pub blocks: u64,
    /// Tokens of all prompts.
    pub tokens: u64,
    /// Distinct blocks: more room than this finds nothing more.
    pub distinct: u64,
    splits: BTreeMap<u32, Split>,
}

impl CacheCurve {
    /// Blocks that a cache of `size` blocks finds.
    pub fn found(&self, size: u64) -> u64 {
        let after = self.steps.partition_point(|step| step.position <= size);
        after
            .checked_sub(1)
            .and_then(|at| self.steps.get(at))
            .map_or(0, |step| step.found + (size + 1 - step.position) * step.height)
    }

    /// Blocks that a cache without a bound finds.
    pub fn most(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.found)
    }

    /// Share of all prompt tokens that a cache of `size` blocks finds, from 0 to 1.
    pub fn hit_ratio(&self, size: u64) -> f64 {
        if self.tokens == 0 { 0.0 } else { float(self.found(size) * u64::from(self.block_size)) / float(self.tokens) }
    }

    /// The smallest cache, in blocks, whose hit ratio is at least `ratio`; none if no size reaches it.
    pub fn size_for(&self, ratio: f64) -> Option<u64> {
        if self.hit_ratio(u64::MAX >> 1) < ratio {
            return None;
        }
        let (mut low, mut high) = (0, self.steps.last().map_or(0, |step| step.position));
        while low < high {
            let middle = low.midpoint(high);
            if self.hit_ratio(middle) < ratio { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// Blocks that fit in `tokens` tokens of cache.
    pub fn blocks_of_tokens(&self, tokens: u64) -> u64 {
        tokens / u64::from(self.block_size)
    }

    /// Blocks that fit in `bytes` bytes of cache, where a token takes `bytes_per_token` (2 · layers · KV heads · head size · bytes of a
    /// number).
    pub fn blocks_of_bytes(&self, bytes: u64, bytes_per_token: u64) -> u64 {
        self.blocks_of_tokens(bytes / bytes_per_token.max(1))
    }

    /// Sizes 1, 2, 4 … blocks with the blocks found, up to the first that finds all that any can find.
    pub fn doublings(&self) -> Vec<(u64, u64)> {
        let most = self.most();
        let mut points: Vec<(u64, u64)> = Vec::new();
        for size in (0..63).map(|power| 1_u64 << power) {
            points.push((size, self.found(size)));
            if self.found(size) == most {
                break;
            }
        }
        points
    }

    /// Sessions with where their blocks had been before.
    pub fn splits(&self) -> impl Iterator<Item = (u32, Split)> {
        self.splits.iter().map(|(session, split)| (*session, *split))
    }
}

/// Prefix sums that can grow and change.
#[derive(Clone, Debug, Default)]
struct Fenwick {
    /// `tree[i]` sums the `lowbit(i + 1)` values that end at i.
    tree: Vec<u64>,
    total: u64,
}

impl Fenwick {
    fn push(&mut self, value: u64) {
        let place = self.tree.len() + 1;
        let (mut sum, mut step) = (value, 1);
        while step < place & place.wrapping_neg() {
            sum += self.tree.get(place - step - 1).copied().unwrap_or(0);
            step <<= 1;
        }
        self.tree.push(sum);
        self.total += value;
    }

    /// Makes the value at `index` smaller.
    fn take(&mut self, index: usize, value: u64) {
        let mut place = index + 1;
        while let Some(sum) = self.tree.get_mut(place - 1) {
            *sum -= value;
            place += place & place.wrapping_neg();
        }
        self.total -= value;
    }

    /// The sum of all values after `index`.
    fn after(&self, index: usize) -> u64 {
        let (mut place, mut sum) = (index + 1, 0);
        while place > 0 {
            sum += self.tree.get(place - 1).copied().unwrap_or(0);
            place &= place - 1;
        }
        self.total - sum
    }
}

/// A count as a number to calculate with; exact up to 2⁵³.
pub(crate) fn float(count: u64) -> f64 {
    let half = |bits: u64| f64::from(u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(u32::MAX));
    half(count >> 32) * 4_294_967_296.0 + half(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::PrefixTree;
    use proptest::prelude::*;

    /// The slow plain reference: a list of blocks, most recently used first, cut to `size`.
    fn lru(prompts: &[(Vec<u64>, u32)], size: usize) -> u64 {
        let (mut recent, mut found): (Vec<u64>, u64) = (Vec::new(), 0);
        for (ids, usable) in prompts {
            found += ids.iter().take(*usable as usize).take_while(|id| recent.contains(id)).count() as u64;
            recent.retain(|id| !ids.contains(id));
            recent.splice(0..0, ids.iter().copied());
            recent.truncate(size);
        }
        found
    }

    fn expand(runs: &[(u64, u32)]) -> Vec<u64> {
        runs.iter().flat_map(|&(first, count)| first..first + u64::from(count)).collect()
    }

    proptest! {
        #[test]
        fn the_curve_agrees_with_an_lru_list_at_every_size(
            prompts in prop::collection::vec((prop::collection::vec(0u8..3, 0..14), 0u32..4, any::<bool>()), 1..40),
            turn in any::<bool>(),
        ) {
            // Block ids of one prefix tree over all sessions.
            let mut tree = PrefixTree::new();
            let mut seen: Vec<Vec<u8>> = Vec::new();
            for (prompt, ..) in &prompts {
                let shared = |other: &Vec<u8>| prompt.iter().zip(other).take_while(|(one, two)| one == two).count();
                let best = (0..seen.len()).max_by_key(|at| shared(&seen[*at]));
                tree.insert(best.map(|at| at as u64), best.map_or(0, |at| shared(&seen[at]) as u32), prompt.len() as u32);
                seen.push(prompt.clone());
            }
            let mut order: Vec<usize> = (0..prompts.len()).collect();
            if turn {
                // Any order may be given, not only that of the tree.
                order.reverse();
            }
            let mut builder = CurveBuilder::new(10);
            let mut plain = Vec::new();
            let mut distinct = std::collections::BTreeSet::new();
            for at in order {
                let runs = tree.block_runs(at as u64);
                let (ids, session, whole) = (expand(&runs), prompts[at].1, prompts[at].2);
                let tokens = ids.len() as u32 * 10 + if whole { 0 } else { 3 };
                builder.take(session, &runs, tokens);
                distinct.extend(ids.iter().copied());
                plain.push((ids, tokens.saturating_sub(1) / 10));
            }
            let curve = builder.finish();
            prop_assert_eq!(curve.distinct, distinct.len() as u64);
            for size in 0..distinct.len() + 3 {
                prop_assert_eq!(curve.found(size as u64), lru(&plain, size), "size {}", size);
            }
            let splits: Vec<Split> = curve.splits().map(|(_, split)| split).collect();
            prop_assert!(splits.iter().all(|split| split.blocks == split.cold + split.own + split.shared));
            prop_assert_eq!(splits.iter().map(|split| split.blocks).sum::<u64>(), curve.blocks);
        }
    }

    #[test]
    fn two_interleaved_sessions_need_room_for_both() {
        let mut builder = CurveBuilder::new(10);
        for turn in 0..10_u32 {
            // Session 0 has ids from 0 on, session 1 from 1000 on; each turn adds a block.
            builder.take(0, &[(0, turn + 1)], turn * 10 + 15);
            builder.take(1, &[(1000, turn + 1)], turn * 10 + 15);
        }
        let curve = builder.finish();
        assert_eq!((curve.blocks, curve.distinct, curve.most()), (110, 20, 90));
        assert_eq!(curve.found(2), 1, "the second turn of session 0: its block lies under one of session 1");
        assert_eq!(curve.found(19), 90, "both sessions, without the very last block");
        assert_eq!(curve.found(18), 89);
        assert_eq!(curve.size_for(0.99), None);
        let best = curve.hit_ratio(1000);
        assert_eq!(curve.size_for(best), Some(19));
        assert_eq!(curve.doublings().last(), Some(&(32, 90)));
        assert_eq!((curve.blocks_of_tokens(95), curve.blocks_of_bytes(1000, 10)), (9, 10));
    }

    #[test]
    fn a_trace_without_prompts_has_an_empty_curve() {
        let curve = CurveBuilder::new(64).finish();
        assert_eq!((curve.found(9), curve.most(), curve.size_for(0.1)), (0, 0, None));
        assert_eq!(curve.doublings(), [(1, 0)]);
    }
}
