//! Choices that a writer had and that no value shows: a null or none, a fraction or none, a member there or not, the order of members,
//! the sizes of parts. Each can spell a text.
//!
//! Invariant: bounded: choices are looked at in chunks, and only so many orders are kept.

use std::collections::{BTreeMap, BTreeSet};

use super::collect::Collector;
use super::fact::{Facts, Kind};
use super::node::{Node, Nodes};
use crate::audit::detect::{bits_hide_text, disguise};
use crate::audit::finding::Place;

/// Choices of a column that are held before they are looked at.
const CHUNK: usize = 1 << 20;
/// Members of an object whose absence is noted, and pairs of members that follow one another.
const MEMBERS: usize = 64;
const PAIRS: usize = 1 << 14;
/// Sizes of parts that are looked at.
const SIZES: usize = 1 << 16;

/// What a writer may choose for each value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    /// Null, or a value.
    Null,
    /// A whole number, or one written with a fraction or an exponent.
    Fraction,
    /// Zero, or minus zero.
    Sign,
    /// Whether a member is there.
    Present,
}

/// The choices of a column, in row order.
#[derive(Debug, Default)]
pub(crate) struct Choices([Vec<bool>; 4]);

impl Choices {
    /// Notes one; gives whether it is time to look at them.
    pub(crate) fn add(&mut self, choice: Choice, taken: bool) -> bool {
        let Some(taken_before) = self.0.get_mut(choice.index()) else { return false };
        taken_before.push(taken);
        taken_before.len() >= CHUNK
    }

    /// Says what hides a text, and forgets all.
    pub(crate) fn look(&mut self, label: &str, facts: &mut Facts, mut note: impl FnMut(&[bool])) {
        let messages = [
            "nulls that are the bits of a text",
            "whole numbers and fractions that are the bits of a text",
            "signs of zeros that are the bits of a text",
            "members that are there or not as the bits of a text",
        ];
        for (choices, message) in self.0.iter_mut().zip(messages) {
            let choices = std::mem::take(choices);
            if choices.iter().all(|taken| Some(taken) == choices.first()) {
                continue;
            }
            note(&choices);
            if bits_hide_text(&choices) {
                facts.add(Kind::Disguise, Place::column(label), message, None);
            }
        }
    }
}

impl Choice {
    fn index(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Fraction => 1,
            Self::Sign => 2,
            Self::Present => 3,
        }
    }
}

/// Notes which members an object has that ended; `object` is its serial number. Gives those whose choices are to be looked at.
fn present(nodes: &mut Nodes, node: usize, object: u64) -> Vec<usize> {
    let mut members = nodes.get(node).map(Node::members).unwrap_or_default();
    members.truncate(MEMBERS);
    members.retain(|member| {
        nodes.get_mut(*member).is_some_and(|node| node.choices.add(Choice::Present, node.stamp == object))
    });
    members
}

/// In which order members of an object follow one another.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    pairs: BTreeSet<(usize, usize)>,
}

impl Orders {
    /// A member follows another one of the same object.
    pub(crate) fn follows(&mut self, before: usize, after: usize) {
        if self.pairs.len() < PAIRS {
            self.pairs.insert((before, after));
        }
    }

    /// Whether no one order of members has them all: then the order was chosen anew.
    pub(crate) fn differ(&self) -> bool {
        let mut above: BTreeMap<usize, usize> = BTreeMap::new();
        for (before, after) in &self.pairs {
            above.entry(*before).or_default();
            *above.entry(*after).or_default() += 1;
        }
        let mut free: Vec<usize> = above.iter().filter(|(_, count)| **count == 0).map(|(member, _)| *member).collect();
        let mut placed = 0;
        while let Some(member) = free.pop() {
            placed += 1;
            for (_, after) in self.pairs.range((member, 0)..=(member, usize::MAX)) {
                if let Some(count) = above.get_mut(after) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(*after);
                    }
                }
            }
        }
        placed < above.len()
    }
}

impl Collector<'_, '_> {
    /// A member follows the last one of the object, if that has one.
    pub(super) fn follows(&mut self, object: u64, parent: usize, child: usize) {
        let Some(parent) = self.nodes.get_mut(parent) else { return };
        let same = std::mem::replace(&mut parent.open, object) == object;
        let before = std::mem::replace(&mut parent.last, child);
        if let Some(before_node) = self.nodes.get_mut(before).filter(|_| same)
            && std::mem::replace(&mut before_node.follower, child) != child
        {
            self.orders.follows(before, child);
        }
    }

    /// An object of this serial number ends, whose members need not all be there.
    pub(crate) fn end_members(&mut self, object: u64, node: usize) {
        for full in present(&mut self.nodes, node, object) {
            self.look(full);
        }
        self.end_object(node);
    }

    /// Looks at what was chosen for the values of a column.
    pub(super) fn look(&mut self, node: usize) {
        let Some(at) = self.nodes.get_mut(node) else { return };
        let (mut chosen, label) = (std::mem::take(&mut at.choices), at.label.clone());
        let (facts, sink) = (&mut self.view.facts, &mut self.feed.sink);
        chosen.look(&label, facts, |bits| {
            if let Some(sink) = sink {
                pack(bits, &mut |bytes| sink.numbers(&label, bytes));
            }
        });
    }
}

/// Eight bits spell a byte, in either order.
pub(super) fn pack(bits: &[bool], show: &mut dyn FnMut(&mut dyn Iterator<Item = u64>)) {
    let byte = |bits: &[bool]| bits.iter().fold(0, |byte, bit| byte << 1 | u64::from(*bit));
    show(&mut bits.chunks(8).map(byte));
    show(&mut bits.chunks(8).map(byte).map(u64::reverse_bits).map(|byte| byte >> 56));
}

/// Says if the sizes of parts, in their order, are a text.
pub(crate) fn sizes(sizes: &[usize], facts: &mut Facts, message: &'static str) {
    let sizes: Vec<i64> = sizes.iter().take(SIZES).map(|size| i64::try_from(*size).unwrap_or(i64::MAX)).collect();
    if disguise(&sizes, true).is_some() {
        facts.add(Kind::Disguise, Place::default(), message, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_no_one_order_has_are_told_from_members_left_out() {
        let orders = |orders: &[&[usize]]| {
            let mut all = Orders::default();
            for pair in orders.iter().flat_map(|order| order.windows(2)) {
                all.follows(pair[0], pair[1]);
            }
            all.differ()
        };
        assert!(!orders(&[&[1, 2, 3], &[1, 3], &[2, 3], &[1, 2, 3, 4]]));
        assert!(orders(&[&[1, 2, 3], &[1, 3, 2]]));
        assert!(orders(&[&[1, 2, 3], &[3, 1, 2]]));
        assert!(orders(&[&[1, 2], &[2, 3], &[3, 1]]));
    }
}
