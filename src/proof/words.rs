//! Exempting what the closed world has proved: the names and words of the trace format, and pages that pack them.
//!
//! Invariant: only whole values go: a word counts where its length stands before it, a page where packing its content again gives
//! the same bytes.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::format::parquet::{Kind, columns};
use crate::trace::vocab::{Table, Vocabulary};

/// The level that the writer packs pages with.
const LEVEL: i32 = 9;

/// More than a page of a proved table unpacks to.
const PAGE: usize = 1 << 22;

/// Strings that are exempt where they stand as a whole.
#[derive(Clone, Default)]
pub(super) struct Words {
    words: BTreeSet<Vec<u8>>,
    /// Their lengths.
    lengths: BTreeSet<usize>,
}

impl Words {
    /// Every name and word of the format that is long enough to matter.
    pub(super) fn known() -> &'static Self {
        static KNOWN: OnceLock<Words> = OnceLock::new();
        KNOWN.get_or_init(|| {
            let mut known = Self::default();
            known.insert(b"tracecloak");
            for table in Table::ALL {
                known.insert(table.word().as_bytes());
                for column in columns(*table) {
                    known.insert(column.name.as_bytes());
                    if let Kind::Word(words) = column.kind {
                        words.listed().for_each(|word| known.insert(word.as_bytes()));
                    }
                }
            }
            known
        })
    }

    /// Exempts a string.
    pub(super) fn insert(&mut self, word: &[u8]) {
        if (1..256).contains(&word.len()) && !self.words.contains(word) {
            self.lengths.insert(word.len());
            self.words.insert(word.to_vec());
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Zeroes them where they stand as strings of JSON, or where their length stands before them.
    pub(super) fn mask(&self, bytes: &mut [u8]) {
        self.mask_strings(bytes);
        self.mask_counted(bytes);
    }

    /// Zeroes them where their length stands before them: in one byte (a footer), or in four (a dictionary).
    pub(super) fn mask_counted(&self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(length) = bytes.get(at).map(|byte| usize::from(*byte)) {
            at += 1;
            // A count before shorter words would be met by chance.
            if length < 4 || !self.lengths.contains(&length) {
                continue;
            }
            let zeros = if bytes.get(at..at + 3) == Some(&[0; 3]) { 3 } else { 0 };
            for start in [at, at + zeros] {
                if let Some(word) = bytes.get_mut(start..start + length).filter(|word| self.words.contains(&**word)) {
                    word.fill(0);
                    at = start + length;
                    break;
                }
            }
        }
    }

    /// Zeroes them where they are JSON strings, with their opening quotes.
    fn mask_strings(&self, bytes: &mut [u8]) {
        let mut at = 0;
        while let Some(open) = memchr::memchr(b'"', bytes.get(at..).unwrap_or_default()) {
            let inside = at + open + 1;
            let length = super::closure::string(bytes.get(inside..).unwrap_or_default()).0.len();
            if bytes.get(inside..inside + length).is_some_and(|word| self.words.contains(word))
                && let Some(word) = bytes.get_mut(inside - 1..inside + length)
            {
                word.fill(0);
            }
            at = inside + length + 1;
        }
    }
}

/// Takes the pages out of a table: zeroes each zstd frame that packing its content again gives, and gives that content with
/// where the frame stood.
pub(super) fn unpack(bytes: &mut [u8]) -> Vec<(u64, Vec<u8>)> {
    let starts: Vec<usize> = memchr::memmem::find_iter(bytes, &[0x28, 0xb5, 0x2f, 0xfd]).collect();
    let mut pages = Vec::new();
    let mut past = 0;
    for start in starts {
        let Some(frame) = bytes.get_mut(start..).filter(|_| start >= past) else { continue };
        let Ok(length) = zstd::zstd_safe::find_frame_compressed_size(frame) else { continue };
        let Some(frame) = frame.get_mut(..length) else { continue };
        // The writer states how much a page unpacks to; room for the most there may be would cost more than all else here.
        let stated = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten();
        let Some(room) = stated.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= PAGE) else {
            continue;
        };
        let Ok(content) = zstd::bulk::decompress(frame, room) else { continue };
        if zstd::bulk::compress(&content, LEVEL).is_ok_and(|again| again == frame) {
            frame.fill(0);
            past = start + length;
            pages.push((u64::try_from(start).unwrap_or(u64::MAX), content));
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_where_their_length_stands_and_stay_elsewhere() {
        let mut bytes = b"\x0egeneral-purpose \x0fgeneral-purpose\x0f\0\0\0general-purpose general-purpose".to_vec();
        Words::known().mask_counted(&mut bytes);
        let left: Vec<_> = memchr::memmem::find_iter(&bytes, b"general-purpose").collect();
        assert_eq!(left, [1, bytes.len() - 15]);
    }

    #[test]
    fn a_word_inside_a_longer_value_stays() {
        let mut bytes = b"\x18general-purpose-secrets!".to_vec();
        Words::known().mask_counted(&mut bytes);
        assert!(bytes.ends_with(b"general-purpose-secrets!"));
    }

    #[test]
    fn only_pages_that_pack_again_the_same_way_are_taken_out() {
        let page = |level| zstd::bulk::compress(&b"words words words".repeat(20), level).unwrap();
        assert_ne!(page(1), page(LEVEL));
        let mut bytes = [b"head".to_vec(), page(LEVEL), b"between".to_vec(), page(1), b"tail".to_vec()].concat();
        let before = bytes.clone();
        let pages = unpack(&mut bytes);
        assert_eq!(pages.len(), 1);
        assert_eq!(pages[0].0, 4);
        assert!(bytes.ends_with(&before[4 + page(LEVEL).len()..]));
    }

    #[test]
    fn declared_strings_go_with_their_quotes() {
        let mut bytes = br#"{"hash_ids":[1],"note":"hash_ids and more"}"#.to_vec();
        let mut words = Words::default();
        words.insert(b"hash_ids");
        words.mask(&mut bytes);
        assert_eq!(bytes, b"{\0\0\0\0\0\0\0\0\0\":[1],\"note\":\"hash_ids and more\"}");
    }
}
