//! The prefix tree: who shares how many leading blocks with whom.
//!
//! Invariant: a parent comes before its child; a shared length is at most the length of both; block ids are dense and numbered
//! by first appearance, so they carry the equality pattern of prefixes and nothing else.
//!
//! [`PrefixTree`] makes the stored columns and reads them back into block ids. It keeps *segments*: runs of consecutive blocks
//! that one request, or a chain of requests that extend each other, brought in; so the cost of a request grows with the forks
//! above it, not with its length.

use super::session::Prefix;

/// A place where stored columns contradict the invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// `prefix_request` is null but blocks are shared, or the other way round.
    #[error("prefix_request and shared_blocks do not agree")]
    Pointer,
    /// `prefix_request` is not an earlier request.
    #[error("prefix_request is not an earlier request")]
    Forward,
    /// More blocks are shared than one of the two prompts has.
    #[error("shared_blocks is larger than one of the two prompts")]
    TooLong,
    /// `first_block` is not the running count.
    #[error("first_block is not the running count of new blocks")]
    Count,
    /// Another earlier request shares more blocks, or as many and later.
    #[error("prefix_request is not the latest request that shares the most blocks")]
    NotCanonical,
}

/// A run of consecutive blocks at depths `start + 1 ..= start + length`, hanging below a place in another segment.
#[derive(Clone, Debug)]
struct Segment {
    /// The segment above, or none at the root.
    above: Option<usize>,
    /// Depth of the last block above this segment.
    start: u32,
    /// `(depth, block id there)` where a run of consecutive ids begins.
    runs: Vec<(u32, u64)>,
    /// Depth of its last block.
    end: u32,
    /// Requests whose path ends in or leaves through this segment, latest last; depths fall from first to last, so that the
    /// latest request at or below a depth is the last entry that is deep enough.
    latest: Vec<(u32, u64)>,
}

/// Where a prompt's last full block lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    segment: usize,
    /// Full blocks from the root; 0 lies above every segment.
    depth: u32,
}

/// The tree of a dataset (or of one session), grown request by request.
#[derive(Clone, Debug, Default)]
pub struct PrefixTree {
    segments: Vec<Segment>,
    /// Per request: its last full block; depth 0 for a prompt shorter than a block.
    places: Vec<Place>,
    /// Row id of the first request of `places`.
    first_request: u64,
    next_block: u64,
}

impl PrefixTree {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Distinct blocks so far: the next block id.
    pub fn unique_blocks(&self) -> u64 {
        self.next_block
    }

    /// Forgets every request, but goes on numbering requests and blocks: for the next session under scope `session`.
    pub fn begin_session(&mut self) {
        self.first_request += as_u64(self.places.len());
        self.segments.clear();
        self.places.clear();
    }

    /// Adds the next request from its stored columns.
    ///
    /// # Errors
    /// Where the columns contradict the invariant; the tree is left as it was.
    pub fn push(&mut self, prefix: &Prefix, blocks: u32) -> Result<(), TreeError> {
        if prefix.first_block != self.next_block {
            return Err(TreeError::Count);
        }
        let shared = match (prefix.request, prefix.shared_blocks) {
            (Some(request), shared @ 1..) => {
                let parent = self.place(request).ok_or(TreeError::Forward)?;
                if parent.depth < shared || blocks < shared {
                    return Err(TreeError::TooLong);
                }
                let place = self.climb(parent, shared);
                if self.latest(place) != Some(request) {
                    return Err(TreeError::NotCanonical);
                }
                place
            }
            (None, 0) => Place::default(),
            _ => return Err(TreeError::Pointer),
        };
        self.attach(shared, blocks);
        Ok(())
    }

    /// Adds the next request, which shares `shared` leading blocks with the earlier request `with` (any one of those that share
    /// the most), and has `blocks` full blocks; gives its columns, `extends` left false.
    pub fn insert(&mut self, with: Option<u64>, shared: u32, blocks: u32) -> Prefix {
        let place = with.and_then(|request| self.place(request)).unwrap_or_default();
        let place = self.climb(place, shared.min(place.depth).min(blocks));
        let prefix = Prefix {
            request: if place.depth > 0 { self.latest(place) } else { None },
            shared_blocks: place.depth,
            extends: false,
            first_block: self.next_block,
        };
        self.attach(place, blocks);
        prefix
    }

    /// Block ids of a request, as runs `(first id, how many)` from the front. Empty for a request that is not in the tree.
    pub fn block_runs(&self, request: u64) -> Vec<(u64, u32)> {
        let mut runs = Vec::new();
        let mut at = self.place(request).filter(|place| place.depth > 0);
        while let Some(place) = at {
            let Some(segment) = self.segments.get(place.segment) else { break };
            let mut end = place.depth;
            for &(start, id) in segment.runs.iter().rev().filter(|&&(start, _)| start <= place.depth) {
                runs.push((id, end + 1 - start));
                end = start - 1;
            }
            at = segment.above.map(|above| Place { segment: above, depth: segment.start });
        }
        runs.reverse();
        runs
    }

    /// How many leading blocks two requests share.
    pub fn shared(&self, one: u64, other: u64) -> u32 {
        let (Some(mut one), Some(mut other)) = (self.place(one), self.place(other)) else { return 0 };
        loop {
            if one.segment == other.segment || one.depth == 0 || other.depth == 0 {
                return one.depth.min(other.depth);
            }
            // Segments are numbered by first appearance, so the later one hangs below.
            let lower = if one.segment > other.segment { &mut one } else { &mut other };
            match self.segments.get(lower.segment).and_then(|segment| Some((segment.above?, segment.start))) {
                Some((above, depth)) => *lower = Place { segment: above, depth },
                None => return 0,
            }
        }
    }

    fn place(&self, request: u64) -> Option<Place> {
        let local = usize::try_from(request.checked_sub(self.first_request)?).ok()?;
        self.places.get(local).copied()
    }

    /// The place at `depth` on the path of `place`.
    fn climb(&self, mut place: Place, depth: u32) -> Place {
        while let Some(segment) = self.segments.get(place.segment) {
            match segment.above {
                Some(above) if depth <= segment.start => place = Place { segment: above, depth: segment.start },
                _ => break,
            }
        }
        Place { segment: place.segment, depth: depth.min(place.depth) }
    }

    /// The latest request whose path goes through `place`.
    fn latest(&self, place: Place) -> Option<u64> {
        let latest = &self.segments.get(place.segment)?.latest;
        // Depths fall towards the end: the entries that are deep enough come first.
        let deep_enough = latest.partition_point(|&(depth, _)| depth >= place.depth);
        latest.get(deep_enough.checked_sub(1)?).map(|&(_, request)| request)
    }

    /// Hangs a request of `blocks` full blocks below `shared`.
    fn attach(&mut self, shared: Place, blocks: u32) {
        let request = self.first_request + as_u64(self.places.len());
        let new = blocks - shared.depth;
        let grows =
            shared.depth > 0 && self.segments.get(shared.segment).is_some_and(|segment| segment.end == shared.depth);
        let mut place = Place { segment: shared.segment, depth: blocks };
        if new > 0 && grows {
            // It goes on where the segment ends: the segment grows, so that a linear session stays one segment.
            if let Some(segment) = self.segments.get_mut(shared.segment) {
                let follows = segment
                    .runs
                    .last()
                    .is_some_and(|&(depth, id)| id + u64::from(segment.end + 1 - depth) == self.next_block);
                if !follows {
                    segment.runs.push((segment.end + 1, self.next_block));
                }
                segment.end = blocks;
            }
        } else if new > 0 {
            place.segment = self.segments.len();
            self.segments.push(Segment {
                above: (shared.depth > 0).then_some(shared.segment),
                start: shared.depth,
                runs: vec![(shared.depth + 1, self.next_block)],
                end: blocks,
                latest: Vec::new(),
            });
        }
        self.next_block += u64::from(new);
        self.places.push(place);
        let mut at = Some(place).filter(|place| place.depth > 0);
        while let Some(place) = at {
            let Some(segment) = self.segments.get_mut(place.segment) else { break };
            while segment.latest.last().is_some_and(|&(depth, _)| depth <= place.depth) {
                segment.latest.pop();
            }
            segment.latest.push((place.depth, request));
            at = segment.above.map(|above| Place { segment: above, depth: segment.start });
        }
    }
}

/// A length as u64; a `usize` never has more than 64 bits.
fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow plain reference: prompts as lists of symbols, compared pairwise.
    fn reference(prompts: &[Vec<u8>]) -> Vec<(Prefix, Vec<u64>)> {
        let mut rows: Vec<(Prefix, Vec<u64>)> = Vec::new();
        let mut next = 0;
        for (at, prompt) in prompts.iter().enumerate() {
            let mut best: Option<(usize, usize)> = None;
            for (earlier, other) in prompts[..at].iter().enumerate() {
                let shared = prompt.iter().zip(other).take_while(|(one, two)| one == two).count();
                if shared > 0 && best.is_none_or(|(most, _)| shared >= most) {
                    best = Some((shared, earlier));
                }
            }
            let shared = best.map_or(0, |(shared, _)| shared);
            let mut ids = best.map_or(Vec::new(), |(shared, earlier)| rows[earlier].1[..shared].to_vec());
            let prefix = Prefix {
                request: best.map(|(_, earlier)| earlier as u64),
                shared_blocks: u32::try_from(shared).unwrap(),
                extends: false,
                first_block: next,
            };
            while ids.len() < prompt.len() {
                ids.push(next);
                next += 1;
            }
            rows.push((prefix, ids));
        }
        rows
    }

    proptest! {
        #[test]
        fn the_tree_agrees_with_pairwise_comparison(prompts in prop::collection::vec(prop::collection::vec(0u8..3, 0..12), 1..40), pick in any::<u64>()) {
            let expected = reference(&prompts);
            let mut built = PrefixTree::new();
            let mut read = PrefixTree::new();
            for (at, (prefix, _)) in expected.iter().enumerate() {
                let blocks = u32::try_from(prompts[at].len()).unwrap();
                // Any request that shares the most may be named.
                let shares = |other: &Vec<u8>| prompts[at].iter().zip(other).take_while(|(one, two)| one == two).count() as u32;
                let candidates: Vec<usize> = (0..at).filter(|&other| prefix.shared_blocks > 0 && shares(&prompts[other]) == prefix.shared_blocks).collect();
                let with = (!candidates.is_empty()).then(|| candidates[usize::try_from(pick).unwrap() % candidates.len()] as u64);
                prop_assert_eq!(&built.insert(with, prefix.shared_blocks, blocks), prefix);
                prop_assert_eq!(read.push(prefix, blocks), Ok(()));
            }
            for (at, (_, ids)) in expected.iter().enumerate() {
                let runs = read.block_runs(at as u64);
                let expanded: Vec<u64> = runs.iter().flat_map(|&(first, count)| first..first + u64::from(count)).collect();
                prop_assert_eq!(&expanded, ids);
                for (other, (_, other_ids)) in expected.iter().enumerate() {
                    let shared = ids.iter().zip(other_ids).take_while(|(one, two)| one == two).count();
                    prop_assert_eq!(read.shared(at as u64, other as u64) as usize, shared);
                }
            }
        }
    }

    #[test]
    fn a_linear_session_stays_one_segment() {
        let mut tree = PrefixTree::new();
        for turn in 0..1000u32 {
            tree.insert(turn.checked_sub(1).map(u64::from), turn * 10, turn * 10 + 10);
        }
        assert_eq!(tree.segments.len(), 1);
        assert_eq!(tree.block_runs(999), vec![(0, 10_000)]);
    }

    #[test]
    fn columns_that_contradict_the_invariant_are_refused() {
        let mut tree = PrefixTree::new();
        tree.insert(None, 0, 4);
        let bad = |request, shared_blocks, first_block| Prefix { request, shared_blocks, extends: false, first_block };
        assert_eq!(tree.push(&bad(Some(0), 2, 3), 4), Err(TreeError::Count));
        assert_eq!(tree.push(&bad(None, 2, 4), 4), Err(TreeError::Pointer));
        assert_eq!(tree.push(&bad(Some(1), 2, 4), 4), Err(TreeError::Forward));
        assert_eq!(tree.push(&bad(Some(0), 5, 4), 9), Err(TreeError::TooLong));
        assert_eq!(tree.push(&bad(Some(0), 4, 4), 3), Err(TreeError::TooLong));
        tree.insert(Some(0), 4, 6);
        assert_eq!(tree.push(&bad(Some(0), 4, 6), 6), Err(TreeError::NotCanonical));
        assert_eq!(tree.push(&bad(Some(1), 4, 6), 6), Ok(()));
    }
}
