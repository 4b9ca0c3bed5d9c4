//! The windows of a residual, laid out so that a source can be probed for them at memory speed.
//!
//! Invariant: no false negatives. Every [telling](Index) window of `k` bytes of every piece is in the table, and each
//! of its short stretches in a filter; so probing a source at every so many bytes that one of them is met in each window meets
//! each window that occurs there. No false positives either: what the filter lets through is compared byte by byte.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use super::closure::Decoding;
use super::grams::{Grams, LONG, SHORT};

/// Distinct bytes that a window needs to tell anything: runs of one digit or of spaces are everywhere.
const DISTINCT: usize = 6;

/// Bytes of a source that are looked at in one go, and one place in how many of them may be looked up in vain.
const BLOCK: usize = 16 << 10;
const OFTEN: usize = 512;

/// Places in a window where its bytes do more than stay or go one up or down: numbers that count spell the alphabet, and logs hold it.
const JUMPS: usize = 3;

/// Where bytes of the residual stand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file, and the part of it where that is known.
    pub name: Arc<str>,
    /// What had to be undone to get at the bytes; empty if they stand there as they are.
    pub decoded: Vec<Decoding>,
}

/// A stretch of the residual that consists of telling windows.
struct Segment {
    place: usize,
    /// Where it begins in its piece.
    offset: u64,
    /// Where it lies in the arena.
    range: Range<usize>,
}

/// The index.
///
/// A window is *telling* if text can hold it: it is a part of UTF-8 without NUL, with at least six distinct bytes, and it
/// does not count up or down.
pub(super) struct Index {
    k: usize,
    arena: Vec<u8>,
    segments: Vec<Segment>,
    places: Vec<Place>,
    table: Table,
    /// Few bytes are looked for at few places; where many of them meet by chance, more at more places.
    short: Grams,
    long: Grams,
    /// One bit for each byte of the arena: a window of the source was found to begin there.
    hits: Vec<AtomicU64>,
    /// Whether everything fitted.
    pub(super) whole: bool,
}

impl Index {
    /// An empty index of windows of `k` bytes; of 8 at least.
    pub(super) fn new(k: usize) -> Self {
        Self {
            k: k.max(LONG),
            arena: Vec::new(),
            segments: Vec::new(),
            places: Vec::new(),
            table: Table::default(),
            short: Grams::default(),
            long: Grams::default(),
            hits: Vec::new(),
            whole: true,
        }
    }

    /// Bytes of a window.
    pub(super) fn k(&self) -> usize {
        self.k
    }

    /// Adds a piece that begins at `offset` of its place. What was decoded from another piece and brings nothing new is
    /// left out.
    pub(super) fn add(&mut self, name: &Arc<str>, decoded: &[Decoding], offset: u64, bytes: &[u8]) {
        let mut named = false;
        for text in textual(bytes).filter(|text| text.len() >= self.k) {
            for range in telling(bytes.get(text.clone()).unwrap_or_default(), self.k) {
                let range = text.start + range.start..text.start + range.end;
                let start = self.arena.len();
                self.arena.extend_from_slice(bytes.get(range.clone()).unwrap_or_default());
                // Positions are kept as 32 bits.
                self.whole &= u32::try_from(self.arena.len()).is_ok();
                let mut new = false;
                for at in start..=(self.arena.len() - self.k).max(start) {
                    new |= self.table.insert(&self.arena, at, self.k);
                }
                if !self.whole || (!new && !decoded.is_empty()) {
                    self.arena.truncate(start);
                    continue;
                }
                if !named {
                    self.places.push(Place { name: Arc::clone(name), decoded: decoded.to_vec() });
                    named = true;
                }
                let offset = offset + u64::try_from(range.start).unwrap_or(u64::MAX);
                let place = self.places.len() - 1;
                self.segments.push(Segment { place, offset, range: start..self.arena.len() });
            }
        }
    }

    /// Makes the filters; to be called once, after the last piece.
    pub(super) fn freeze(&mut self) {
        let segments = || self.segments.iter().filter_map(|segment| self.arena.get(segment.range.clone()));
        (self.short, self.long) = (Grams::new(SHORT, segments()), Grams::new(LONG, segments()));
        self.hits = (0..=self.arena.len() / 64).map(|_| AtomicU64::new(0)).collect();
    }

    /// Whether there is nothing to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Marks every window that occurs in `source`. Sources may be scanned in chunks that overlap by `k` − 1 bytes, and by
    /// several threads.
    pub(super) fn scan(&self, source: &[u8]) {
        if self.is_empty() {
            return;
        }
        let (mut grams, mut at) = (&self.short, 0);
        while source.len() - at >= self.k {
            let past = source.len().min(at + BLOCK + self.k - 1);
            let mut met = 0;
            grams.probe(source, at..past, self.k, &mut |found| {
                met += 1;
                self.confirm(source, found, grams.length());
            });
            if met > BLOCK / OFTEN {
                grams = &self.long;
            }
            at = past + 1 - self.k;
        }
    }

    /// Looks up the windows that hold the gram at `at`.
    #[cold]
    fn confirm(&self, source: &[u8], at: usize, length: usize) {
        for start in (at + length).saturating_sub(self.k)..=at {
            let window = source.get(start..start + self.k);
            if let Some(found) = window.and_then(|window| self.table.find(&self.arena, window)) {
                let (word, bit) = (found / 64, 1 << (found % 64));
                if let Some(hits) = self.hits.get(word).filter(|hits| hits.load(Ordering::Relaxed) & bit == 0) {
                    hits.fetch_or(bit, Ordering::Relaxed);
                }
            }
        }
    }

    /// Where windows were found: each place, where it begins there, and how many bytes are covered.
    pub(super) fn found(&self) -> Vec<(&Place, u64, u64)> {
        let mut found = Vec::new();
        if self.hits.iter().all(|hits| hits.load(Ordering::Relaxed) == 0) {
            return found;
        }
        let hit = |at: usize| {
            let window = self.arena.get(at..at + self.k)?;
            let first = self.table.find(&self.arena, window)?;
            let word = self.hits.get(first / 64)?.load(Ordering::Relaxed);
            (word >> (first % 64) & 1 == 1).then_some(())
        };
        for segment in &self.segments {
            let mut run: Option<Range<usize>> = None;
            let Some(place) = self.places.get(segment.place) else { continue };
            let mut push = |run: Range<usize>| {
                let start = segment.offset + count(run.start - segment.range.start);
                found.push((place, start, count(run.len())));
            };
            for at in segment.range.start..=segment.range.end - self.k {
                if hit(at).is_none() {
                    continue;
                }
                match &mut run {
                    Some(run) if run.end >= at => run.end = at + self.k,
                    _ => run.replace(at..at + self.k).into_iter().for_each(&mut push),
                }
            }
            run.into_iter().for_each(push);
        }
        found
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// The stretches of `bytes` that can stand in UTF-8 without NUL, its ends perhaps cut.
pub(super) fn textual(bytes: &[u8]) -> impl Iterator<Item = Range<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Class {
        Ascii,
        Lead,
        Continuation,
        Never,
    }
    let class = |byte: u8| match byte {
        1..0x80 => Class::Ascii,
        0x80..0xC0 => Class::Continuation,
        0xC2..0xF5 => Class::Lead,
        _ => Class::Never,
    };
    let (mut start, mut before) = (0, Class::Never);
    // A NUL ends the last stretch.
    bytes.iter().chain(&[0]).enumerate().filter_map(move |(at, byte)| {
        let this = class(*byte);
        let apart = this == Class::Never
            || match before {
                Class::Ascii => this == Class::Continuation,
                Class::Lead => this != Class::Continuation,
                Class::Continuation | Class::Never => false,
            };
        before = this;
        if !apart {
            return None;
        }
        let text = start..at;
        start = if this == Class::Never { at + 1 } else { at };
        Some(text).filter(|text| !text.is_empty())
    })
}

/// The stretches of `text` that its telling windows of `k` bytes cover.
fn telling(text: &[u8], k: usize) -> Vec<Range<usize>> {
    let mut counts = [0_u32; 256];
    let (mut distinct, mut jumps) = (0, 0);
    let jump = |at: usize| match text.get(at..at + 2) {
        Some([one, next]) => usize::from(one.abs_diff(*next) > 1),
        _ => 0,
    };
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (end, byte) in text.iter().enumerate() {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            distinct += usize::from(*count == 0);
            *count += 1;
        }
        if let Some(left) = end.checked_sub(k).and_then(|at| text.get(at))
            && let Some(count) = counts.get_mut(usize::from(*left))
        {
            *count -= 1;
            distinct -= usize::from(*count == 0);
            jumps -= jump(end - k);
        }
        jumps += end.checked_sub(1).map_or(0, jump);
        if end + 1 >= k && distinct >= DISTINCT && jumps >= JUMPS {
            match ranges.last_mut() {
                Some(range) if range.end >= end => range.end = end + 1,
                _ => ranges.push(end + 1 - k..end + 1),
            }
        }
    }
    ranges
}

/// The first position of each distinct window, in open addressing.
#[derive(Default)]
struct Table {
    /// Positions plus one; 0 is free.
    slots: Vec<u32>,
    used: usize,
}

impl Table {
    /// Notes the window at `at`; whether it is new.
    fn insert(&mut self, arena: &[u8], at: usize, k: usize) -> bool {
        if self.used * 2 >= self.slots.len() {
            self.grow(arena, k);
        }
        let Some(window) = arena.get(at..at + k) else { return false };
        let Ok(slot) = self.probe(arena, window) else { return false };
        if let Some(place) = self.slots.get_mut(slot) {
            *place = u32::try_from(at + 1).unwrap_or(0);
            self.used += 1;
        }
        true
    }

    /// The first position of a window.
    fn find(&self, arena: &[u8], window: &[u8]) -> Option<usize> {
        self.probe(arena, window).err()
    }

    /// The free slot where a window belongs, or else the position where it was noted.
    fn probe(&self, arena: &[u8], window: &[u8]) -> Result<usize, usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = usize::try_from(xxh3_64(window)).unwrap_or(0) & mask;
        loop {
            let Some(at) = self.slots.get(slot).and_then(|at| usize::try_from(*at).ok()?.checked_sub(1)) else {
                return Ok(slot);
            };
            if arena.get(at..at + window.len()) == Some(window) {
                return Err(at);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self, arena: &[u8], k: usize) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; (old.len() * 2).max(1 << 10)];
        for at in old.into_iter().filter(|at| *at != 0) {
            let start = usize::try_from(at).unwrap_or(0) - 1;
            let slot = arena.get(start..start + k).and_then(|window| self.probe(arena, window).ok());
            if let Some(place) = slot.and_then(|slot| self.slots.get_mut(slot)) {
                *place = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(pieces: &[Vec<u8>], k: usize) -> Index {
        let mut index = Index::new(k);
        for (number, piece) in pieces.iter().enumerate() {
            index.add(&number.to_string().into(), &[], 0, piece);
        }
        index.freeze();
        index
    }

    fn tells(window: &[u8]) -> bool {
        let distinct = window.iter().collect::<std::collections::BTreeSet<_>>().len();
        let whole = |text: &[u8]| std::str::from_utf8(text).is_ok();
        // Whatever cut characters stand at its ends.
        distinct >= DISTINCT
            && window.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) > 1).count() >= JUMPS
            && !window.contains(&0)
            && (0..4).any(|from| (window.len() - 3..=window.len()).any(|to| whole(&window[from..to])))
    }

    /// Texts that share stretches, of few letters so that windows recur, with bytes that are no text between.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            6 => "[a-h]{1,14}".prop_map(String::into_bytes),
            2 => "(stretch one of the source|zweite Strecke für alle|三番目の文章はここにあります)".prop_map(String::into_bytes),
            1 => "[äé漢\u{1F600}]{1,4}".prop_map(String::into_bytes),
            1 => prop::collection::vec(any::<u8>(), 0..6),
        ];
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    #[test]
    fn numbers_that_count_are_no_text() {
        let alphabet: Vec<u8> = (32..127).collect();
        let backwards: Vec<u8> = alphabet.iter().rev().copied().collect();
        let twice: Vec<u8> = alphabet.iter().flat_map(|byte| [*byte, *byte]).collect();
        for counting in [&alphabet, &backwards, &twice] {
            assert!(telling(counting, 12).is_empty());
        }
        let text = b"ABCDEFGHIJKLMNOP, he said, ABCDEFGHIJKLMNOP";
        assert_eq!(telling(text, 12).len(), 1);
        assert_eq!(telling(b"hi, defghijk", 12).len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn what_a_plain_search_finds_is_found_and_nothing_else(
            pieces in prop::collection::vec(bytes(), 1..4), source in bytes(), k in 8_usize..20, cut in 0_usize..200,
        ) {
            let index = index(&pieces, k);
            // In two chunks that overlap.
            let cut = cut.min(source.len());
            index.scan(&source[..cut]);
            index.scan(&source[cut.saturating_sub(k - 1)..]);
            let mut covered: Vec<Vec<bool>> = pieces.iter().map(|piece| vec![false; piece.len()]).collect();
            for (place, offset, length) in index.found() {
                let piece: usize = place.name.parse().unwrap();
                let range = offset as usize..(offset + length) as usize;
                for window in pieces[piece][range.clone()].windows(k) {
                    // A stretch may be covered by windows that stand apart in the source; its bytes all stand there.
                    prop_assert!(window.len() == k);
                }
                covered[piece][range].fill(true);
            }
            for (piece, covered) in pieces.iter().zip(&covered) {
                let mut plain = vec![false; piece.len()];
                for (at, window) in piece.windows(k).enumerate() {
                    if tells(window) && source.windows(k).any(|other| other == window) {
                        plain[at..at + k].fill(true);
                    }
                }
                for (at, plain) in plain.iter().enumerate() {
                    prop_assert!(!plain || covered[at], "missed at {at}");
                }
                // What is found beyond that is bytes of windows that occur, though they are no valid UTF-8.
                for (at, covered) in covered.iter().enumerate() {
                    let near = at.saturating_sub(k - 1)..(at + k).min(piece.len());
                    let occurs = piece[near].windows(k).any(|window| source.windows(k).any(|other| other == window));
                    prop_assert!(!covered || occurs, "made up at {at}");
                }
            }
        }
    }

    #[test]
    fn a_window_that_stands_twice_is_reported_twice() {
        let text = b"the same sentence".to_vec();
        let index = index(&[text.clone(), [b"x ".to_vec(), text.clone()].concat()], 12);
        index.scan(&text);
        let found: Vec<_> = index.found().into_iter().map(|(place, at, length)| (&*place.name, at, length)).collect();
        assert_eq!(found, [("0", 0, 17), ("1", 2, 17)]);
    }

    #[test]
    fn runs_of_one_character_tell_nothing() {
        let index = index(&[b"0000000000000000000000".to_vec(), b"48,48,48,48,48,48,48,48".to_vec()], 12);
        assert!(index.is_empty());
    }

    #[test]
    fn bytes_that_no_text_holds_are_left_out() {
        let noise: Vec<u8> = blake3::Hasher::new().finalize_xof().take_bytes(1 << 16);
        let index = index(&[noise], 12);
        assert!(index.arena.len() < 3000, "{}", index.arena.len());
    }

    trait TakeBytes {
        fn take_bytes(self, length: usize) -> Vec<u8>;
    }

    impl TakeBytes for blake3::OutputReader {
        fn take_bytes(mut self, length: usize) -> Vec<u8> {
            let mut bytes = vec![0; length];
            self.fill(&mut bytes);
            bytes
        }
    }
}
