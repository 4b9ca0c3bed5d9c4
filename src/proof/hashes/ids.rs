//! The ids of a residual that may be hashes, and the values that a digest may be written as.
//!
//! Invariant: an id is compared as a number of at most 64 bits: the number itself, or the first digits of a hexadecimal string.

use std::sync::Arc;

use super::mixed;

/// A number below this is a count.
const LEAST: u64 = 1 << 31;

/// Ids of one residual.
const MOST: usize = 1 << 24;

/// Hexadecimal digits of 32, 48 and 64 bits, and of the longest hash.
const DIGITS: [usize; 3] = [8, 12, 16];
const LONGEST: usize = 128;

#[derive(Default)]
pub(super) struct Ids {
    places: Vec<Arc<str>>,
    /// Sorted, once frozen.
    values: Vec<(u64, u32)>,
    filter: Vec<u64>,
    over: bool,
    narrow: u64,
}

impl Ids {
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.values.len()).unwrap_or(u64::MAX)
    }

    /// How many fit 32 bits.
    pub(super) fn narrow(&self) -> u64 {
        self.narrow
    }

    /// Notes numbers of a column, but for those that stand close together: they count something.
    pub(super) fn numbers(&mut self, place: &Arc<str>, values: &[u64]) {
        let mut high: Vec<u64> = values.iter().copied().filter(|value| *value >= LEAST).collect();
        high.sort_unstable();
        high.dedup();
        let close = |one: Option<&u64>, other: &u64| one.is_some_and(|one| one.abs_diff(*other) < 1 << 12);
        for (at, value) in high.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| high.get(at));
            if !close(before, value) && !close(high.get(at + 1), value) {
                self.push(place, *value);
            }
        }
    }

    /// Notes the numbers and hexadecimal strings of a text.
    pub(super) fn text(&mut self, place: &Arc<str>, text: &[u8]) {
        let mut numbers = Vec::new();
        for run in text.split(|byte| !byte.is_ascii_hexdigit()).filter(|run| (DIGITS[0]..=LONGEST).contains(&run.len()))
        {
            let Ok(run) = std::str::from_utf8(run) else { continue };
            numbers.extend(run.parse::<u64>().ok().filter(|value| *value >= LEAST));
            if let Some(digits) = DIGITS.iter().rfind(|digits| **digits <= run.len()) {
                let value = run.get(..*digits).and_then(|digits| u64::from_str_radix(digits, 16).ok());
                if let Some(value) = value {
                    self.push(place, value);
                }
            }
        }
        self.numbers(place, &numbers);
    }

    fn push(&mut self, place: &Arc<str>, value: u64) {
        if self.values.len() >= MOST {
            // The same values may come from many decodings.
            self.values.sort_unstable();
            self.values.dedup();
            self.over |= self.values.len() >= MOST / 2;
            if self.over {
                return;
            }
        }
        if self.places.last().is_none_or(|last| last != place) {
            self.places.push(Arc::clone(place));
        }
        self.values.push((value, u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)));
    }

    pub(super) fn freeze(&mut self) -> bool {
        self.values.sort_unstable();
        self.values.dedup();
        self.narrow = u64::try_from(self.values.partition_point(|(value, _)| *value < 1 << 32)).unwrap_or(u64::MAX);
        let words = (self.values.len() / 4).next_power_of_two();
        self.filter = vec![0; words];
        for (value, _) in &self.values {
            let hash = mixed(*value);
            if let Some(word) = self.filter.get_mut((hash / 64) & (words - 1)) {
                *word |= 1 << (hash % 64);
            }
        }
        !self.over
    }

    pub(super) fn contains(&self, value: u64) -> bool {
        let hash = mixed(value);
        let word = self.filter.get((hash / 64) & (self.filter.len().wrapping_sub(1)));
        word.is_some_and(|word| (word >> (hash % 64)) & 1 == 1) && self.places(value).next().is_some()
    }

    /// Where a value stands.
    pub(super) fn places(&self, value: u64) -> impl Iterator<Item = &Arc<str>> {
        let start = self.values.partition_point(|(other, _)| *other < value);
        let equal = self.values.get(start..).unwrap_or_default().iter().take_while(move |(other, _)| *other == value);
        equal.filter_map(|(_, place)| self.places.get(usize::try_from(*place).ok()?))
    }
}

/// The numbers that a digest may be written as, with how many bits of it they hold: from either end, in either byte order, cut
/// from above or below.
pub(super) fn forms(digest: &[u8], visit: &mut dyn FnMut(u32, u64)) {
    if let Some(bytes) = digest.first_chunk::<4>().filter(|_| digest.len() == 4) {
        visit(32, u32::from_be_bytes(*bytes).into());
        visit(32, u32::from_le_bytes(*bytes).into());
        return;
    }
    let ends = [digest.first_chunk::<8>(), digest.last_chunk::<8>()];
    // A digest of eight bytes has one end.
    for bytes in ends.into_iter().flatten().take(1 + usize::from(digest.len() > 8)) {
        for word in [u64::from_be_bytes(*bytes), u64::from_le_bytes(*bytes)] {
            visit(64, word);
            for bits in [63, 53, 48, 32] {
                visit(bits, word >> (64 - bits));
                visit(bits, word & ((1 << bits) - 1));
            }
        }
    }
}
