//! [`Specials`]: finds the literals of special tokens in text.
//!
//! Invariant: leftmost first, the longest of those that start at one place, as the engine matches them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What a special token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Special {
    pub(super) id: super::Token,
    /// Swallows the white space before it.
    pub(super) lstrip: bool,
    /// Swallows the white space after it.
    pub(super) rstrip: bool,
}

/// The special tokens of a tokenizer.
pub(super) struct Specials {
    by_literal: HashMap<Box<str>, Special>,
    /// Lengths that occur, longest first.
    lengths: Vec<usize>,
    /// Which bytes a literal can start with, as a list and as a table, and which can come second.
    starts: Box<[u8]>,
    first: [bool; 256],
    second: [bool; 256],
    /// Every proper prefix and every proper suffix of a literal.
    heads: HashSet<Box<str>>,
    tails: HashSet<Box<str>>,
}

impl Specials {
    pub(super) fn new(tokens: impl Iterator<Item = (String, Special)>) -> Self {
        let by_literal: HashMap<Box<str>, Special> = tokens
            .filter(|(literal, _)| !literal.is_empty())
            .map(|(literal, special)| (literal.into(), special))
            .collect();
        let (mut first, mut second) = ([false; 256], [false; 256]);
        let (mut heads, mut tails) = (HashSet::new(), HashSet::new());
        let mut lengths: Vec<usize> = by_literal.keys().map(|literal| literal.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        for literal in by_literal.keys().collect::<Vec<_>>() {
            let mut bytes = literal.bytes().map(usize::from);
            bytes.next().and_then(|byte| first.get_mut(byte)).into_iter().for_each(|may| *may = true);
            match bytes.next() {
                Some(byte) => second.get_mut(byte).into_iter().for_each(|may| *may = true),
                None => second = [true; 256],
            }
            for (at, _) in literal.char_indices().skip(1) {
                let (head, tail) = literal.split_at(at);
                heads.insert(head.into());
                tails.insert(tail.into());
            }
        }
        let starts = (0..=u8::MAX).zip(first).filter_map(|(byte, may)| may.then_some(byte)).collect();
        Self { by_literal, lengths, starts, first, second, heads, tails }
    }

    pub(super) fn get(&self, literal: &str) -> Option<Special> {
        self.by_literal.get(literal).copied()
    }

    pub(super) fn literals(&self) -> Vec<&str> {
        let mut literals: Vec<&str> = self.by_literal.keys().map(|literal| &**literal).collect();
        literals.sort_unstable();
        literals
    }

    /// The first special token in `text` at or after `from`.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<(Range<usize>, Special)> {
        let bytes = text.as_bytes();
        let may = |table: &[bool; 256], byte: &u8| table.get(usize::from(*byte)).copied().unwrap_or(false);
        let rest = bytes.get(from..).unwrap_or_default();
        let starts: Box<dyn Iterator<Item = usize>> = match *self.starts {
            [] => return None,
            [a] => Box::new(memchr::memchr_iter(a, rest)),
            [a, b] => Box::new(memchr::memchr2_iter(a, b, rest)),
            [a, b, c] => Box::new(memchr::memchr3_iter(a, b, c, rest)),
            _ => Box::new(rest.iter().enumerate().filter(|(_, byte)| may(&self.first, byte)).map(|(at, _)| at)),
        };
        for at in starts.map(|at| from + at) {
            if bytes.get(at + 1).is_some_and(|byte| !may(&self.second, byte)) {
                continue;
            }
            for length in &self.lengths {
                if let Some(special) = text.get(at..at + length).and_then(|literal| self.get(literal)) {
                    return Some((at..at + length, special));
                }
            }
        }
        None
    }

    /// Whether `text` could complete a special token that something before it begins.
    pub(super) fn completes(&self, text: &str) -> bool {
        self.short(text.len()).any(|length| text.get(..length).is_some_and(|head| self.tails.contains(head)))
    }

    /// Whether `text` could begin a special token that something after it completes.
    pub(super) fn begins(&self, text: &str) -> bool {
        self.short(text.len())
            .any(|length| text.get(text.len() - length..).is_some_and(|tail| self.heads.contains(tail)))
    }

    fn short(&self, limit: usize) -> std::ops::RangeInclusive<usize> {
        1..=limit.min(self.lengths.first().map_or(0, |longest| longest - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specials() -> Specials {
        let special = |id| Special { id, lstrip: false, rstrip: false };
        let tokens = [("<a>", 1), ("<a>b", 2), ("§", 3)];
        Specials::new(tokens.into_iter().map(|(literal, id)| (literal.to_owned(), special(id))))
    }

    #[test]
    fn the_leftmost_and_longest_literal_wins() {
        let specials = specials();
        let found = |text| specials.find(text, 0).map(|(range, special)| (range, special.id));
        assert_eq!(found("x<<a>bc§"), Some((2..6, 2)));
        assert_eq!(found("ü<a>c"), Some((2..5, 1)));
        assert_eq!(found("ü§"), Some((2..4, 3)));
        assert_eq!(found("<a"), None);
        assert_eq!(specials.find("<a><a>", 1).unwrap().0, 3..6);
    }

    #[test]
    fn beginnings_and_ends_of_literals_are_noticed() {
        let specials = specials();
        assert!(specials.begins("ü<") && specials.begins("<a>") && !specials.begins("ü"));
        assert!(specials.completes(">b") && specials.completes("b") && !specials.completes("ü"));
        assert!(!specials.begins("") && !specials.completes(""));
    }
}
