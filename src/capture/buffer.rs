//! Buffers for bytes of a log on their way to a record.
//!
//! Invariant: what a buffer held is overwritten before its memory is freed. (The windows inside the decompressors are not ours
//! to overwrite.)

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
