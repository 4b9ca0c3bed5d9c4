//! From explicit lists of block ids, whatever they are, to the columns of the prefix tree.
//!
//! Invariant: two prompts share as many leading blocks as their lists have leading ids in common, and nothing else is kept of
//! the ids; so ids that stand for a block's own content keep only what they say about prefixes.
//!
//! Lists are kept as runs of consecutive ids, and the tree as long segments, so that a prompt costs as much as its list has
//! runs and forks: most have one.

use std::collections::HashMap;

use crate::trace::{Prefix, PrefixTree, Request};

/// A list of block ids, as runs of consecutive ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// `(first id, how many)`.
    runs: Vec<(u64, u32)>,
    length: u32,
}

impl Ids {
    /// Adds an id.
    pub fn push(&mut self, id: u64) {
        self.length = self.length.saturating_add(1);
        match self.runs.last_mut() {
            Some((first, count)) if first.checked_add((*count).into()) == Some(id) && *count < u32::MAX => *count += 1,
            _ => self.runs.push((id, 1)),
        }
    }

    /// Whether the last id followed the one before it.
    pub(super) fn counts_up(&self) -> bool {
        self.runs.last().is_some_and(|(_, count)| *count > 1)
    }

    /// Adds the next `more` ids after the last.
    pub(super) fn count_on(&mut self, more: u32) {
        if let Some((_, count)) = self.runs.last_mut() {
            *count = count.saturating_add(more);
            self.length = self.length.saturating_add(more);
        }
    }

    /// How many ids it holds.
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The runs of consecutive ids.
    pub fn runs(&self) -> &[(u64, u32)] {
        &self.runs
    }

    /// Every id.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().flat_map(|&(first, count)| (0..u64::from(count)).map(move |at| first.wrapping_add(at)))
    }

    /// Leaves only the first `length` ids.
    pub fn truncate(&mut self, length: u32) {
        let mut left = length.min(self.length);
        self.length = left;
        self.runs.retain_mut(|(_, count)| {
            *count = left.min(*count);
            left -= *count;
            *count > 0
        });
    }

    /// The runs of what follows the first `start` ids.
    fn from(&self, start: u32) -> Self {
        let mut skip = start;
        let mut runs = Vec::new();
        for &(first, count) in &self.runs {
            let skipped = skip.min(count);
            skip -= skipped;
            if count > skipped {
                runs.push((first.wrapping_add(skipped.into()), count - skipped));
            }
        }
        Self { runs, length: self.length.saturating_sub(start) }
    }

    /// How many leading ids two lists have in common.
    pub fn common(&self, other: &Self) -> u32 {
        let (mut one, mut two) = (self.runs.iter().copied(), other.runs.iter().copied());
        let (mut left, mut right) = (one.next(), two.next());
        let mut common = 0;
        while let (Some((first, count)), Some((other_first, other_count))) = (left, right) {
            if first != other_first {
                break;
            }
            let both = count.min(other_count);
            common += both;
            let rest = |first: u64, count: u32| (first.wrapping_add(both.into()), count - both);
            left = if count > both { Some(rest(first, count)) } else { one.next() };
            right = if other_count > both { Some(rest(other_first, other_count)) } else { two.next() };
        }
        common
    }

    fn append(&mut self, other: &Self) {
        for &(first, count) in &other.runs {
            self.length = self.length.saturating_add(count);
            match self.runs.last_mut() {
                Some((last, length)) if last.checked_add((*length).into()) == Some(first) => *length += count,
                _ => self.runs.push((first, count)),
            }
        }
    }
}

impl FromIterator<u64> for Ids {
    fn from_iter<I: IntoIterator<Item = u64>>(ids: I) -> Self {
        let mut list = Self::default();
        ids.into_iter().for_each(|id| list.push(id));
        list
    }
}

/// A run of ids that no fork interrupts.
#[derive(Debug, Default)]
struct Segment {
    ids: Ids,
    /// By the first id below.
    below: HashMap<u64, usize>,
    /// A request whose list goes through the whole segment.
    request: u64,
}

/// Gives requests their prefix columns from their lists of ids.
#[derive(Debug)]
pub struct TreeFromIds {
    /// Segment 0 is the empty one at the root.
    segments: Vec<Segment>,
    tree: PrefixTree,
    next_request: u64,
}

impl Default for TreeFromIds {
    fn default() -> Self {
        Self { segments: vec![Segment::default()], tree: PrefixTree::new(), next_request: 0 }
    }
}

impl TreeFromIds {
    /// An empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Distinct blocks so far.
    pub fn unique_blocks(&self) -> u64 {
        self.tree.unique_blocks()
    }

    /// Forgets every list, but goes on numbering: for the next session, where ids are local to one.
    pub fn begin_session(&mut self) {
        self.segments = vec![Segment::default()];
        self.tree.begin_session();
    }

    /// The prefix columns of the next request, which has `blocks` full blocks of which `ids` names the first ones: blocks
    /// beyond the list are new, ids beyond the blocks are left out. `extends` is left false.
    pub fn insert(&mut self, mut ids: Ids, blocks: u32) -> Prefix {
        ids.truncate(blocks);
        let request = self.next_request;
        self.next_request += 1;
        let (with, shared) = self.descend(&ids, request);
        self.tree.insert(with, shared, blocks)
    }

    /// Sets the prefix of each request of a session, in row order, and takes tails as shared where the full blocks allow it.
    /// Gives how many tails were taken so.
    pub fn fill(&mut self, requests: &mut [Request], ids: impl IntoIterator<Item = Ids>, block_size: u32) -> u64 {
        let first = self.next_request;
        let mut tails = 0;
        for (row, ids) in ids.into_iter().enumerate().take(requests.len()) {
            let (earlier, rest) = requests.split_at_mut(row);
            let Some(request) = rest.first_mut() else { break };
            request.prefix = self.insert(ids, request.blocks(block_size));
            let before = request.prefix.request.and_then(|row| usize::try_from(row.checked_sub(first)?).ok());
            request.prefix.extends = before.and_then(|before| earlier.get(before)).is_some_and(|before| {
                before.blocks(block_size) == request.prefix.shared_blocks && before.input_tokens <= request.input_tokens
            });
            tails += u64::from(request.prefix.extends);
        }
        tails
    }

    /// Walks down as far as the list is known, adds the rest, and says with which request how much was known.
    fn descend(&mut self, ids: &Ids, request: u64) -> (Option<u64>, u32) {
        let (mut at, mut known, mut with) = (0, 0, None);
        loop {
            let rest = ids.from(known);
            let Some(&(next, _)) = rest.runs.first() else { return (with, known) };
            let Some(below) = self.segments.get(at).and_then(|segment| segment.below.get(&next)).copied() else {
                self.grow(at, next, rest, request);
                return (with, known);
            };
            let Some(segment) = self.segments.get_mut(below) else { return (with, known) };
            let common = segment.ids.common(&rest);
            known += common;
            with = Some(segment.request);
            if common < segment.ids.len() {
                if common == rest.len() {
                    return (with, known);
                }
                self.split(below, common);
            }
            at = below;
        }
    }

    /// Hangs the rest of a list below a segment; where nothing hangs there yet, the segment itself grows.
    fn grow(&mut self, at: usize, next: u64, rest: Ids, request: u64) {
        let new = self.segments.len();
        let Some(segment) = self.segments.get_mut(at) else { return };
        if at > 0 && segment.below.is_empty() {
            segment.ids.append(&rest);
            segment.request = request;
        } else {
            segment.below.insert(next, new);
            self.segments.push(Segment { ids: rest, below: HashMap::new(), request });
        }
    }

    /// Cuts a segment after its first `length` ids.
    fn split(&mut self, at: usize, length: u32) {
        let new = self.segments.len();
        let Some(segment) = self.segments.get_mut(at) else { return };
        let ids = segment.ids.from(length);
        segment.ids.truncate(length);
        let Some(&(next, _)) = ids.runs.first() else { return };
        let below = std::mem::replace(&mut segment.below, HashMap::from([(next, new)]));
        let request = segment.request;
        self.segments.push(Segment { ids, below, request });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_are_those_of_pairwise_comparison(lists in prop::collection::vec(prop::collection::vec(0_u64..3, 0..9), 1..40)) {
            let mut tree = TreeFromIds::new();
            for (at, list) in lists.iter().enumerate() {
                let shares = |other: &Vec<u64>| list.iter().zip(other).take_while(|(one, two)| one == two).count();
                let most = lists[..at].iter().map(shares).max().unwrap_or(0);
                let latest = (most > 0).then(|| lists[..at].iter().rposition(|other| shares(other) == most).unwrap() as u64);
                let prefix = tree.insert(list.iter().copied().collect(), list.len() as u32);
                prop_assert_eq!((prefix.request, prefix.shared_blocks as usize), (latest, most));
            }
        }

        #[test]
        fn runs_behave_like_the_list(list in prop::collection::vec(0_u64..6, 0..20), other in prop::collection::vec(0_u64..6, 0..20), cut in 0_u32..22) {
            let ids: Ids = list.iter().copied().collect();
            prop_assert_eq!(ids.iter().collect::<Vec<_>>(), &list[..]);
            let common = list.iter().zip(&other).take_while(|(one, two)| one == two).count();
            prop_assert_eq!(ids.common(&other.iter().copied().collect()) as usize, common);
            let at = (cut as usize).min(list.len());
            prop_assert_eq!(ids.from(cut).iter().collect::<Vec<_>>(), list[at..].to_vec());
            let mut front = ids;
            front.truncate(cut);
            prop_assert_eq!((front.iter().collect::<Vec<_>>(), front.len() as usize), (list[..at].to_vec(), at));
        }
    }

    #[test]
    fn a_linear_session_stays_one_segment_with_one_run() {
        let mut tree = TreeFromIds::new();
        for turn in 1..100 {
            tree.insert((0..turn * 10).collect(), u32::try_from(turn * 10).unwrap());
        }
        assert_eq!(tree.segments.len(), 2);
        assert_eq!(tree.segments[1].ids.runs(), [(0, 990)]);
    }

    #[test]
    fn blocks_without_ids_are_new() {
        let mut tree = TreeFromIds::new();
        tree.insert([7, 8].into_iter().collect(), 4);
        let prefix = tree.insert([7, 8].into_iter().collect(), 4);
        assert_eq!((prefix.shared_blocks, prefix.first_block), (2, 4));
    }
}
