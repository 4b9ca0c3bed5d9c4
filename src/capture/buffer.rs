//! Buffers for bytes of a log on their way to a record.
//!
//! Invariant: what a buffer held is overwritten before its memory is freed. (The windows inside the decompressors are not ours
//! to overwrite.)

use std::io::{ErrorKind, Read};

use zeroize::Zeroizing;

use super::exchange::SkipReason;
use super::text::{Text, erase};

/// Decompressed bytes read at a time.
const CHUNK: usize = 128 << 10;

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

/// A decompressed input, read in chunks.
pub(super) struct Source {
    inner: Box<dyn Read + Send>,
    chunk: Zeroizing<Vec<u8>>,
    start: usize,
    end: usize,
    offset: u64,
}

impl Source {
    /// At the start of `inner`.
    pub(super) fn new(inner: Box<dyn Read + Send>) -> Self {
        Self { inner, chunk: Zeroizing::new(vec![0; CHUNK]), start: 0, end: 0, offset: 0 }
    }

    /// Bytes consumed so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What comes next; empty only at the end of the input.
    pub(super) fn chunk(&mut self) -> Result<&[u8], SkipReason> {
        while self.start == self.end {
            match self.inner.read(&mut self.chunk) {
                Ok(length) => (self.start, self.end) = (0, length),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(SkipReason::Decompression),
                Err(_) => return Err(SkipReason::Truncated),
            }
            break;
        }
        Ok(self.chunk.get(self.start..self.end).unwrap_or_default())
    }

    /// Goes past the first bytes of the chunk.
    pub(super) fn consume(&mut self, length: usize) {
        self.start = self.end.min(self.start + length);
        self.offset += u64::try_from(length).unwrap_or(u64::MAX);
    }
}
