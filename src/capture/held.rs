//! [`Held`]: the part of an input that is being looked at, in one piece.
//!
//! Invariant: what was held is overwritten before its memory is freed; it holds what was asked for and a chunk more.

use std::io::{ErrorKind, Read};

use super::exchange::SkipReason;
use super::text::erase;

/// Bytes asked of the input at a time.
const CHUNK: usize = 128 << 10;

/// A window that moves over an input.
pub(super) struct Held {
    inner: Box<dyn Read + Send>,
    /// Behind us, then ahead, then unused.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl Held {
    /// At the start of `inner`.
    pub(super) fn new(inner: Box<dyn Read + Send>) -> Self {
        Self { inner, bytes: Vec::new(), start: 0, end: 0, offset: 0 }
    }

    /// What is held ahead.
    pub(super) fn ahead(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Where in the input that begins.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes past the first bytes ahead.
    pub(super) fn pass(&mut self, length: usize) {
        let length = length.min(self.end - self.start);
        self.start += length;
        self.offset += u64::try_from(length).unwrap_or(u64::MAX);
    }

    /// Reads on until `length` bytes are held ahead; false if the input ends before.
    pub(super) fn hold(&mut self, length: usize) -> Result<bool, SkipReason> {
        while self.end - self.start < length {
            self.make_room();
            let end = self.bytes.len().min(self.end + CHUNK);
            match self.inner.read(self.bytes.get_mut(self.end..end).unwrap_or_default()) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(SkipReason::Decompression),
                Err(_) => return Err(SkipReason::Truncated),
            }
        }
        Ok(true)
    }

    /// Makes room for a chunk behind what is held.
    fn make_room(&mut self) {
        if self.bytes.len() - self.end >= CHUNK {
            return;
        }
        let ahead = self.end - self.start;
        if ahead + CHUNK <= self.bytes.len() / 2 {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            let mut larger = vec![0; 2 * (ahead + CHUNK)];
            larger.iter_mut().zip(self.ahead()).for_each(|(new, old)| *new = *old);
            erase(&mut self.bytes);
            self.bytes = larger;
        }
        (self.start, self.end) = (0, ahead);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        erase(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn every_byte_passes_once_whatever_is_held() {
        let input: Vec<u8> = (0..1_000_000_u32).map(|at| u8::try_from(at % 253).unwrap()).collect();
        let mut held = Held::new(Box::new(Cursor::new(input.clone())));
        let (mut out, mut step) = (Vec::new(), 1);
        while held.hold(step).unwrap() || !held.ahead().is_empty() {
            assert_eq!(held.offset(), out.len() as u64);
            let length = held.ahead().len().min(step / 2 + 1);
            out.extend_from_slice(&held.ahead()[..length]);
            held.pass(length);
            step = step * 7 % 400_009;
        }
        assert!(out == input);
        assert!(held.bytes.len() <= 4 * (400_009 + CHUNK));
    }
}
