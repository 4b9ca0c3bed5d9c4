//! [`Content`]: which word stands at which place.
//!
//! Invariant: a word follows from the seed, the block that holds the place (named by the request that brought it in), and the
//! place. The first word of a block tells which of those it is that part there, so blocks that part differ in it.

use super::layout::PromptTree;
use super::vocabulary::{Vocabulary, Word};

/// Words for places.
pub(super) struct Content {
    vocabulary: Vocabulary,
    seed: u64,
    /// Tokens in a million words, where tokens cannot be counted.
    rate: Option<u64>,
}

/// The block in which words are being written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    /// The block's number, from 1; 0 before the first.
    block: u32,
    /// Words written in it.
    written: u32,
    key: u64,
    first: [usize; 2],
}

/// A good mixing of bits: the finalizer of SplitMix64.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A number below `size` from the upper half of `bits`.
fn below(size: u64, bits: u64) -> usize {
    usize::try_from(((bits >> 32) * size) >> 32).unwrap_or(0)
}

impl Content {
    pub(super) fn new(vocabulary: Vocabulary, seed: u64, rate: Option<u64>) -> Self {
        Self { vocabulary, seed: mix(seed), rate }
    }

    pub(super) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Bytes that so many words need, more or less.
    pub(super) fn room(&self, words: u32) -> usize {
        let words = usize::try_from(words).unwrap_or(0);
        words.saturating_mul(self.vocabulary.permille()) / 1000 + words / 64 + 64
    }

    fn size(&self) -> u64 {
        u64::try_from(self.vocabulary.size()).unwrap_or(1).max(1)
    }

    /// Writes the words at `from..to` of a prompt whose blocks these own; the first has no space before it if it opens a text.
    pub(super) fn write<'a>(
        &'a self,
        tree: &PromptTree,
        owners: &[(u32, usize)],
        (from, to): (u32, u32),
        mut opens: bool,
        cursor: &mut Cursor,
        mut word: impl FnMut(&'a Word),
    ) {
        let size = self.size();
        let mut place = from;
        while place < to {
            let block = place / tree.block_size;
            if cursor.block != block + 1 {
                *cursor = self.enter(tree, owners, block);
            }
            let next = (block + 1).saturating_mul(tree.block_size).min(to);
            for place in place..next {
                if self.rate.is_some_and(|rate| !emits(rate, place)) {
                    continue;
                }
                let written = usize::try_from(cursor.written).unwrap_or(usize::MAX);
                cursor.written += 1;
                let index = match cursor.first.get(written) {
                    Some(&index) => index,
                    None => below(size, mix(cursor.key ^ u64::from(place))),
                };
                let found = if opens { self.vocabulary.starter(index) } else { self.vocabulary.word(index) };
                opens = false;
                found.into_iter().for_each(&mut word);
            }
            place = next;
        }
    }

    /// What is common to the words of a block.
    fn enter(&self, tree: &PromptTree, owners: &[(u32, usize)], block: u32) -> Cursor {
        let size = self.size();
        let name = |block: u32| {
            let index = owners.partition_point(|&(first, _)| first <= block);
            let owner = index.checked_sub(1).and_then(|index| owners.get(index)).map_or(0, |&(_, owner)| owner);
            let (key, own) = tree.node(owner).map_or((0, (0, 0)), |node| (node.key, (node.own_block, node.ordinal)));
            (mix(self.seed ^ mix(key ^ mix(u64::from(block)))), own)
        };
        let (key, (own_block, ordinal)) = name(block);
        let head = tree.head_blocks();
        let before = block.checked_sub(1).filter(|_| block > head).map_or(self.seed, |before| name(before).0);
        // Of those that part behind the same block, each has its number: in the first word, and once round in the second.
        let ordinal = if block == own_block.max(head) { ordinal } else { 0 };
        let index = |number: u64| usize::try_from(number % size).unwrap_or(0);
        let first = [index((before >> 32) + ordinal), index((mix(before) >> 32) + ordinal / size)];
        Cursor { block: block + 1, written: 0, key, first }
    }
}

/// Whether a word stands at a place, if a million words are `rate` tokens: one where the number of words so far grows.
fn emits(rate: u64, place: u32) -> bool {
    let words = |place: u64| (place * 1_000_000).checked_div(rate);
    words(u64::from(place) + 1) > words(u64::from(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_dense_as_the_rate_says() {
        for (rate, words) in [(1_000_000, 1000), (1_250_000, 800), (2_000_000, 500)] {
            assert_eq!((0..1000).filter(|&place| emits(rate, place)).count(), words);
        }
    }

    #[test]
    fn numbers_stay_below_their_bound_and_spread() {
        let mut seen = [false; 300];
        for place in 0..10_000 {
            seen[below(300, mix(place))] = true;
        }
        assert!(seen.iter().all(|&seen| seen));
    }
}
