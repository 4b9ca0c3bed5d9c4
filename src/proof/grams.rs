//! The short stretches of a residual's windows, to be met in a source at memory speed.
//!
//! Invariant: no false negatives. A window of `k` bytes holds a stretch of `n` bytes at one of any `k` − `n` + 1 places in a row;
//! one such place in a row is probed, and every stretch of the residual is in the filter.

use std::ops::Range;

/// Bytes of a stretch: few, so that few places have to be probed; and as many as are loaded at once, where few are met too often.
pub(super) const SHORT: usize = 5;
pub(super) const LONG: usize = 8;

/// Words of the smallest and of the largest first filter: 32 KiB, which fits the first-level cache, and 512 KiB.
const FIRST: Range<usize> = 1 << 12..1 << 16;

/// The same of the second: 16 KiB and 32 MiB. In between there is a word for two bytes: so one probe in a thousand that should not
/// gets through.
const SECOND: Range<usize> = 1 << 11..1 << 22;

/// Which stretches there are, in two filters: one bit tells nearly all of a source apart at a glance, three bits the rest.
#[derive(Default)]
pub(super) struct Grams {
    length: usize,
    first: Vec<u64>,
    second: Vec<u64>,
}

impl Grams {
    /// The stretches of `length` bytes, 8 at most, of each segment.
    pub(super) fn new<'a>(length: usize, segments: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let bytes = segments.clone().map(<[u8]>::len).sum::<usize>();
        let words =
            |per: usize, range: Range<usize>| vec![0; (bytes / per).next_power_of_two().clamp(range.start, range.end)];
        let mut grams = Self { length, first: words(2, FIRST), second: words(2, SECOND) };
        for segment in segments {
            for gram in segment.windows(length) {
                let hash = grams.hash(padded(gram));
                let ((first, bit), (second, bits)) = (grams.first_spot(hash), grams.second_spot(hash));
                for (filter, word, bits) in [(&mut grams.first, first, bit), (&mut grams.second, second, bits)] {
                    if let Some(word) = filter.get_mut(word) {
                        *word |= bits;
                    }
                }
            }
        }
        grams
    }

    /// Bytes of a stretch.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Calls `met` with the places of `source` where a stretch may stand, so that one of them is in each window of `k` bytes in
    /// `range` that consists of them.
    #[inline]
    pub(super) fn probe(&self, source: &[u8], range: Range<usize>, k: usize, met: &mut dyn FnMut(usize)) {
        let step = k + 1 - self.length;
        let mut at = range.start;
        let bytes = source.get(at..source.len().min(range.end + LONG - self.length)).unwrap_or_default();
        for gram in bytes.array_windows::<LONG>().step_by(step) {
            let hash = self.hash(*gram);
            let (word, bit) = self.first_spot(hash);
            if self.first.get(word).is_some_and(|word| word & bit != 0) && self.is_in_second(hash) {
                met(at);
            }
            at += step;
        }
        // The last places, behind which there is less to load.
        while let Some(gram) = source.get(at..at + self.length).filter(|_| at + self.length <= range.end) {
            if self.is_in_second(self.hash(padded(gram))) {
                met(at);
            }
            at += step;
        }
    }

    /// Of the first bytes only: the high half of a product depends on all of them.
    fn hash(&self, bytes: [u8; LONG]) -> u64 {
        (u64::from_le_bytes(bytes) << (8 * (LONG - self.length))).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    fn first_spot(&self, hash: u64) -> (usize, u64) {
        (usize::try_from(hash >> 42).unwrap_or(0) & (self.first.len() - 1), 1 << (hash >> 58))
    }

    #[cold]
    fn is_in_second(&self, hash: u64) -> bool {
        let (word, bits) = self.second_spot(hash);
        self.second.get(word).is_some_and(|word| word & bits == bits)
    }

    fn second_spot(&self, hash: u64) -> (usize, u64) {
        // Other bits of it than the first filter goes by.
        let hash = (hash ^ (hash >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = usize::try_from(hash >> 42).unwrap_or(0) & (self.second.len() - 1);
        (word, 1 << (hash >> 26 & 63) | 1 << (hash >> 20 & 63) | 1 << (hash >> 32 & 63))
    }
}

/// As many bytes as are loaded at once, of fewer.
fn padded(gram: &[u8]) -> [u8; LONG] {
    let mut bytes = [0; LONG];
    bytes.iter_mut().zip(gram).for_each(|(into, byte)| *into = *byte);
    bytes
}
