//! Picking sessions by a seed.
//!
//! Invariant: what is picked depends on the seed and the row of a session alone, so that two runs pick the same, and a larger
//! sample holds the smaller one.

/// Where a session stands in the order that a seed gives: SplitMix64 of its row.
pub(super) fn rank(seed: u64, row: u64) -> u64 {
    let mut mixed = seed.wrapping_add(row.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Which of `sessions` sessions go to the first of two parts, `percent` percent of them.
pub(super) fn split(sessions: usize, percent: u8, seed: u64) -> Vec<bool> {
    // Another order than a sample's, so that a split of a sample is not a sample of a split.
    let seed = rank(seed, u64::MAX - 1);
    let mut order: Vec<(u64, usize)> = (0..).zip(0..sessions).map(|(row, at)| (rank(seed, row), at)).collect();
    order.sort_unstable();
    let mut first = vec![false; sessions];
    let taken = (sessions.saturating_mul(usize::from(percent)) + 50) / 100;
    for &(_, at) in order.iter().take(taken) {
        if let Some(slot) = first.get_mut(at) {
            *slot = true;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_is_exact_and_follows_the_seed() {
        let train = split(1000, 80, 1);
        assert_eq!(train.iter().filter(|first| **first).count(), 800);
        assert_eq!(train, split(1000, 80, 1));
        assert_ne!(train, split(1000, 80, 2));
        assert_eq!(split(3, 50, 0).iter().filter(|first| **first).count(), 2);
    }
}
