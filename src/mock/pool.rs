//! [`Pool`]: the blocks of a KV cache: who uses them, which prefix each holds, which is evicted next.
//!
//! Invariant: a prefix is only held with all prefixes of it, since the blocks of a request are released from its tail; a block
//! in use is never evicted; no more blocks are in use or held than the pool has. Pure.

use std::collections::{HashMap, VecDeque};

/// Names a block by all tokens from the start of the prompt to its end; 0 names nothing.
pub(super) type BlockHash = u128;

/// Position of a block in the pool.
type Slot = u32;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// What it holds; 0 where nothing that can be found again.
    hash: BlockHash,
    users: u32,
    /// Counts releases, so that an outdated entry of the queue can be told.
    released: u32,
}

/// What a request holds while it runs.
#[derive(Debug, Default)]
pub(super) struct Held {
    slots: Vec<Slot>,
    /// Leading blocks that were there before.
    pub(super) cached: usize,
}

/// The pool.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// How many blocks it has; none if it has no bound.
    capacity: Option<u32>,
    blocks: Vec<Block>,
    held: HashMap<BlockHash, Slot>,
    /// Released blocks, next to be evicted first, as `(slot, its count of releases)`.
    queue: VecDeque<(Slot, u32)>,
    in_use: u32,
    evictions: u64,
}

impl Pool {
    pub(super) fn new(capacity: Option<u32>) -> Self {
        Self { capacity, ..Self::default() }
    }

    /// Blocks in use now.
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// How many held prefixes made room for others so far.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Whether a request of so many blocks could ever run.
    pub(super) fn fits(&self, blocks: usize) -> bool {
        self.capacity.is_none_or(|capacity| u32::try_from(blocks).is_ok_and(|blocks| blocks <= capacity))
    }

    /// Takes `blocks` blocks for a request whose full blocks are `hashes`; at most `reusable` of them are taken as they are.
    /// Gives none where too many blocks are in use.
    pub(super) fn take(&mut self, hashes: &[BlockHash], reusable: usize, blocks: usize) -> Option<Held> {
        let mut slots: Vec<Slot> =
            hashes.iter().take(reusable).map_while(|hash| self.held.get(hash).copied()).collect();
        let cached = slots.len();
        let revived = slots.iter().filter(|slot| self.block(**slot).users == 0).count();
        let asked = u32::try_from(blocks.max(hashes.len()) - cached + revived).unwrap_or(u32::MAX);
        if self.capacity.is_some_and(|capacity| asked > capacity - self.in_use) {
            return None;
        }
        self.in_use += asked;
        for slot in &slots {
            self.with(*slot, |block| block.users += 1);
        }
        for at in cached..blocks.max(hashes.len()) {
            let hash = hashes.get(at).copied().unwrap_or_default();
            let slot = self.fresh();
            // Two requests may fill a block with the same prefix at the same time; the first stays the one that is found.
            let found = hash != 0 && *self.held.entry(hash).or_insert(slot) == slot;
            self.with(slot, |block| *block = Block { hash: if found { hash } else { 0 }, users: 1, ..*block });
            slots.push(slot);
        }
        Some(Held { slots, cached })
    }

    /// Releases what a request held, its tail first. `hashes` names its full blocks, those that the answer filled included.
    pub(super) fn release(&mut self, request: &Held, hashes: &[BlockHash]) {
        for (slot, hash) in request.slots.iter().zip(hashes) {
            if self.block(*slot).hash == 0 && *self.held.entry(*hash).or_insert(*slot) == *slot {
                self.with(*slot, |block| block.hash = *hash);
            }
        }
        for slot in request.slots.iter().rev().copied() {
            let released = self.with(slot, |block| {
                block.users = block.users.saturating_sub(1);
                block.released = block.released.wrapping_add(1);
                (block.users == 0).then_some(block.released)
            });
            if let Some(Some(released)) = released {
                self.in_use -= 1;
                self.queue.push_back((slot, released));
            }
        }
        if self.queue.len() > 4 * self.blocks.len() + 64 {
            let blocks = &self.blocks;
            self.queue.retain(|entry| waits(blocks, *entry));
        }
    }

    /// Forgets every prefix; what runs goes on.
    pub(super) fn reset(&mut self) {
        self.held.clear();
        self.blocks.iter_mut().for_each(|block| block.hash = 0);
    }

    /// A block to fill: a new one, or the one released longest ago.
    fn fresh(&mut self) -> Slot {
        let made = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        if self.capacity.is_none_or(|capacity| made < capacity) {
            self.blocks.push(Block::default());
            return made;
        }
        while let Some(entry) = self.queue.pop_front() {
            if waits(&self.blocks, entry) {
                let hash = self.block(entry.0).hash;
                self.evictions += u64::from(hash != 0 && self.held.remove(&hash).is_some());
                return entry.0;
            }
        }
        made
    }

    fn block(&self, slot: Slot) -> Block {
        index(slot).and_then(|at| self.blocks.get(at)).copied().unwrap_or_default()
    }

    fn with<T>(&mut self, slot: Slot, act: impl FnOnce(&mut Block) -> T) -> Option<T> {
        index(slot).and_then(|at| self.blocks.get_mut(at)).map(act)
    }
}

/// Whether an entry of the queue is not outdated: its block was neither taken nor released since.
fn waits(blocks: &[Block], (slot, released): (Slot, u32)) -> bool {
    index(slot).and_then(|at| blocks.get(at)).is_some_and(|block| block.users == 0 && block.released == released)
}

fn index(slot: Slot) -> Option<usize> {
    usize::try_from(slot).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Full blocks of prompt `name`, which shares its first `shared` blocks with every other.
    fn prompt(name: u128, shared: usize, blocks: usize) -> Vec<BlockHash> {
        let own = |at: usize| (name + 1) << 64 | (shared as u128) << 32 | at as u128;
        (1..=blocks).map(|at| if at <= shared { at as u128 } else { own(at) }).collect()
    }

    /// Sends prompts one after another; gives the cached blocks of each.
    fn one_by_one(pool: &mut Pool, prompts: &[Vec<BlockHash>]) -> Vec<usize> {
        prompts
            .iter()
            .map(|hashes| {
                let held = pool.take(hashes, usize::MAX, hashes.len() + 1).unwrap();
                pool.release(&held, hashes);
                held.cached
            })
            .collect()
    }

    #[test]
    fn two_passes_over_prompts_that_fit_hit_and_over_those_that_do_not_miss() {
        // The small pool of reference/endpoints.md 2a: 512 blocks of 32 tokens, prompts of 3,000 tokens (93 full blocks).
        let second_pass = |count: u128| -> Vec<usize> {
            let prompts: Vec<_> = (1..=count).map(|name| prompt(name, 0, 93)).collect();
            let mut pool = Pool::new(Some(512));
            assert!(one_by_one(&mut pool, &prompts).iter().all(|cached| *cached == 0));
            one_by_one(&mut pool, &prompts)
        };
        assert_eq!(second_pass(5), [93; 5]);
        // The tail of a prompt is evicted first, so that its head still hits.
        assert!(second_pass(6).iter().all(|cached| (40..50).contains(cached)), "{:?}", second_pass(6));
        assert_eq!(second_pass(8), [0; 8]);
    }

    #[test]
    fn what_runs_is_not_evicted_and_what_does_not_fit_waits() {
        let mut pool = Pool::new(Some(10));
        let one = pool.take(&prompt(1, 2, 5), usize::MAX, 6).unwrap();
        assert!(pool.take(&prompt(2, 0, 5), usize::MAX, 6).is_none(), "4 blocks are left");
        let two = pool.take(&prompt(2, 2, 5), usize::MAX, 6).unwrap();
        assert_eq!((two.cached, pool.in_use()), (2, 10));
        pool.release(&one, &prompt(1, 2, 5));
        assert_eq!(pool.in_use(), 6);
        assert!(!pool.fits(11) && pool.fits(10));
        let three = pool.take(&prompt(3, 2, 4), usize::MAX, 4).unwrap();
        assert_eq!((three.cached, pool.evictions()), (2, 1));
    }

    #[test]
    fn an_answer_can_be_found_again_and_a_reset_forgets() {
        let mut pool = Pool::new(None);
        let held = pool.take(&prompt(1, 0, 2), usize::MAX, 4).unwrap();
        pool.release(&held, &prompt(1, 0, 4));
        let again = pool.take(&prompt(1, 0, 5), 3, 6).unwrap();
        assert_eq!(again.cached, 3, "no more than may be reused");
        pool.reset();
        pool.release(&again, &[]);
        assert_eq!(pool.take(&prompt(1, 0, 5), usize::MAX, 6).unwrap().cached, 0);
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_plain_list_of_least_recently_used_prefixes(
            prompts in prop::collection::vec((0u128..4, 0usize..6, 0usize..8), 1..60),
            capacity in 8u32..24,
        ) {
            let mut pool = Pool::new(Some(capacity));
            // Most recent first; a prompt puts its head in front of its tail.
            let mut recent: Vec<BlockHash> = Vec::new();
            for (name, shared, blocks) in prompts {
                let hashes = prompt(name, shared, blocks);
                let expected = hashes.iter().take_while(|hash| recent.contains(hash)).count();
                let held = pool.take(&hashes, usize::MAX, hashes.len()).unwrap();
                prop_assert_eq!(held.cached, expected);
                pool.release(&held, &hashes);
                recent.retain(|hash| !hashes.contains(hash));
                recent.splice(0..0, hashes);
                recent.truncate(capacity as usize);
                prop_assert_eq!(pool.in_use(), 0);
                prop_assert!(pool.blocks.len() <= capacity as usize);
            }
        }
    }
}
