//! Buffers for bytes of a log on their way to a record.
//!
//! Invariant: what a buffer held is overwritten before its memory is freed. (The windows inside the decompressors are not ours
//! to overwrite.)

use std::ops::Range;

use super::text::{Text, erase};

/// Bytes that grow piece by piece.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    /// Appends bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity() {
            // Not the growth of `Vec` itself: that frees the old memory as it is.
            let mut larger = Vec::with_capacity(needed.max(2 * self.0.capacity()));
            larger.extend_from_slice(&self.0);
            erase(&mut self.0);
            self.0 = larger;
        }
        self.0.extend_from_slice(bytes);
    }

    /// Puts `with` in the place of a range that lies in it.
    pub(super) fn replace(&mut self, range: Range<usize>, with: &[u8]) {
        let (length, grown) = (self.0.len(), with.len().saturating_sub(range.len()));
        self.push(with.get(with.len() - grown..).unwrap_or_default());
        self.0.copy_within(range.end..length, range.start + with.len());
        self.0.get_mut(range.start..range.start + with.len()).into_iter().for_each(|here| here.copy_from_slice(with));
        self.0.truncate(length - range.len() + with.len());
    }

    /// How many bytes it takes in memory.
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Empties it; the memory stays for the next record.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The bytes.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, as text of a log.
    pub(super) fn into_text(mut self) -> Text {
        Text::from(std::mem::take(&mut self.0))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        erase(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_replaced_by_more_or_less() {
        for (range, with, expected) in
            [(1..3, &b"xyz"[..], &b"axyzde"[..]), (1..3, b"", b"ade"), (5..5, b"f", b"abcdef"), (0..5, b"x", b"x")]
        {
            let mut buffer = Buffer::default();
            buffer.push(b"abcde");
            buffer.replace(range, with);
            assert_eq!(buffer.as_slice(), expected);
        }
    }
}
