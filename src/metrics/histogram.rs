//! Counts of values in bounded memory.
//!
//! Invariant: a quantile is within 0.1 % of a value that occurred at that rank (nearest rank); the smallest and the largest value and
//! the sum are exact.

use std::collections::BTreeMap;

/// Values from 2048 on are kept in 2048 steps for each doubling, so that a step is at most 1/1024 of the value.
const BITS: u32 = 11;

/// A distribution of whole numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: BTreeMap<u64, u64>,
    count: u64,
    sum: u128,
    min: Option<u64>,
    max: Option<u64>,
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        *self.counts.entry(rounded(value)).or_default() += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The largest.
    pub fn max(&self) -> Option<u64> {
        self.max
    }

    /// Their mean, rounded down.
    pub fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(self.count.into())?).ok()
    }

    /// The smallest value that at least this many thousandths of all values do not exceed.
    pub fn permille(&self, permille: u32) -> Option<u64> {
        self.permille_among(permille, 0)
    }

    /// The same if there were `more` values, larger than any; none if it is one of those.
    pub fn permille_among(&self, permille: u32, more: u64) -> Option<u64> {
        let rank = ((u128::from(self.count) + u128::from(more)) * u128::from(permille)).div_ceil(1000).max(1);
        let mut below = 0;
        let (value, _) = self.counts.iter().find(|(_, count)| {
            below += u128::from(**count);
            below >= rank
        })?;
        Some((*value).clamp(self.min?, self.max?))
    }
}

/// The lower end of the step that holds a value.
fn rounded(value: u64) -> u64 {
    let drop = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    value >> drop << drop
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth_of_the_sorted_values(values in prop::collection::vec(prop_oneof![0u64..5000, any::<u64>()], 1..200), permille in 0u32..=1000) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            let mut sorted = values.clone();
            sorted.sort_unstable();
            let exact = sorted[(values.len() * permille as usize).div_ceil(1000).max(1) - 1];
            let found = histogram.permille(permille).unwrap();
            prop_assert!(exact.abs_diff(found) <= exact / 1000, "{} {}", exact, found);
            prop_assert_eq!(histogram.max(), sorted.last().copied());
            prop_assert_eq!(histogram.sum(), values.iter().map(|value| u128::from(*value)).sum::<u128>());
        }
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let empty = Histogram::default();
        assert_eq!((empty.permille(500), empty.mean(), empty.max(), empty.count()), (None, None, None, 0));
    }
}
