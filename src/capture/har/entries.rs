//! Cutting the entries of a HAR from a stream, by its brackets and strings alone.
//!
//! Invariant: no more than the limit of an entry is ever held.

use std::io::Read;

use memchr::memchr2;

use super::entry::exchange;
use crate::capture::buffer::{Buffer, Source};
use crate::capture::exchange::{Exchange, LogError, Position, SkipReason};
use crate::capture::reader::Limits;

/// The entries of a HAR as exchanges.
pub(super) struct Entries {
    source: Source,
    outside: Outside,
    entry: Buffer,
    limits: Limits,
    input: u32,
    record: u64,
    done: bool,
}

impl Entries {
    /// The entries of `source`.
    pub(super) fn new(source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Self {
        let (outside, entry) = (Outside::default(), Buffer::default());
        Self { source: Source::new(source), outside, entry, limits, input, record: 0, done: false }
    }

    /// Goes to the start of the next entry; false at the end of the input.
    fn seek(&mut self) -> Result<bool, SkipReason> {
        loop {
            let chunk = self.source.chunk()?;
            if chunk.is_empty() {
                return Ok(false);
            }
            let found = chunk.iter().position(|byte| self.outside.begins_entry(*byte));
            let passed = found.unwrap_or(chunk.len());
            self.source.consume(passed);
            if found.is_some() {
                return Ok(true);
            }
        }
    }

    /// Reads an entry up to the comma or bracket behind it. A reason of `Truncated` means that the input ended before.
    fn take(&mut self) -> Result<Entry, SkipReason> {
        self.entry.clear();
        let (mut inside, start) = (Inside::default(), self.source.offset());
        loop {
            let held = self.source.offset() - start;
            let chunk = self.source.chunk()?;
            let end = inside.end(chunk);
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let too_large = held + u64::try_from(part.len()).unwrap_or(u64::MAX) > self.limits.record_bytes;
            let ended = end.is_some() || chunk.is_empty();
            if too_large {
                self.entry.clear();
            } else {
                self.entry.push(part);
            }
            let passed = part.len();
            self.source.consume(passed);
            if end.is_none() && ended && !(inside.is_closed() && self.entry.as_slice().trim_ascii_end().ends_with(b"}"))
            {
                return Err(SkipReason::Truncated);
            }
            if ended {
                return Ok(Entry { too_large, deepest: inside.deepest });
            }
        }
    }

    /// What was taken, as an exchange.
    fn parse(&self, entry: &Entry, position: Position) -> Result<Exchange, SkipReason> {
        if entry.too_large {
            return Err(SkipReason::TooLarge);
        }
        if entry.deepest > self.limits.depth {
            return Err(SkipReason::TooDeep);
        }
        let text = std::str::from_utf8(self.entry.as_slice()).map_err(|_| SkipReason::NotUtf8)?;
        exchange(text, position, self.limits).map_err(|reason| match reason {
            // It has an end, so that it is broken and not cut.
            SkipReason::Truncated => SkipReason::Malformed,
            reason => reason,
        })
    }
}

impl Iterator for Entries {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let sought = self.seek();
        let position = Position { input: self.input, record: self.record + 1, offset: self.source.offset() };
        let taken = match sought {
            Ok(true) => self.take(),
            // A HAR that ends behind its entries has lost nothing.
            Ok(false) if self.outside.is_complete() => {
                self.done = true;
                return None;
            }
            Ok(false) => Err(SkipReason::Truncated),
            Err(reason) => Err(reason),
        };
        Some(
            match taken {
                Ok(entry) => {
                    self.record += 1;
                    self.parse(&entry, position)
                }
                Err(reason) => {
                    self.done = true;
                    Err(reason)
                }
            }
            .map_err(|reason| LogError { position, reason }),
        )
    }
}

/// What is known of an entry without parsing it.
struct Entry {
    too_large: bool,
    deepest: u32,
}

/// Where a byte stands with regard to strings.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum StringState {
    /// In none.
    #[default]
    None,
    /// In one.
    Inside,
    /// Behind a backslash in one.
    Escaped,
}

/// Follows a HAR outside of its entries, byte by byte.
#[derive(Default)]
struct Outside {
    depth: u32,
    in_log: bool,
    in_entries: bool,
    seen_entries: bool,
    string: StringState,
    /// The start of the last string, long enough to know the two keys that matter.
    word: Vec<u8>,
}

impl Outside {
    /// Whether nothing that follows could be an entry.
    fn is_complete(&self) -> bool {
        !self.in_entries && (self.seen_entries || self.depth == 0)
    }

    /// Takes a byte, unless it is the first of an entry.
    fn begins_entry(&mut self, byte: u8) -> bool {
        match byte {
            _ if self.string == StringState::Escaped => self.string = StringState::Inside,
            b'"' if self.string == StringState::Inside => self.string = StringState::None,
            b'\\' if self.string == StringState::Inside => self.string = StringState::Escaped,
            _ if self.string == StringState::Inside && self.word.len() < 8 => self.word.push(byte),
            _ if self.string == StringState::Inside => {}
            b']' if self.in_entries => {
                self.in_entries = false;
                self.depth -= 1;
            }
            b' ' | b'\t' | b'\r' | b'\n' | b',' if self.in_entries => {}
            _ if self.in_entries => return true,
            b'"' => {
                self.string = StringState::Inside;
                self.word.clear();
            }
            b'{' | b'[' => {
                let in_object = self.depth == 1 || self.depth == 2 && self.in_log;
                self.in_entries = byte == b'[' && in_object && self.word == b"entries";
                self.in_log |= byte == b'{' && self.depth == 1 && self.word == b"log";
                self.seen_entries |= self.in_entries;
                self.depth += 1;
                self.word.clear();
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.in_log &= self.depth > 1;
                self.word.clear();
            }
            b',' => self.word.clear(),
            _ => {}
        }
        false
    }
}

/// Follows an entry from its first byte, chunk by chunk.
#[derive(Default)]
struct Inside {
    depth: u32,
    deepest: u32,
    string: StringState,
}

impl Inside {
    /// Whether all brackets and strings are closed.
    fn is_closed(&self) -> bool {
        self.depth == 0 && self.string == StringState::None
    }

    /// Where in `chunk` the comma or bracket behind the entry stands, if it is there.
    fn end(&mut self, chunk: &[u8]) -> Option<usize> {
        let mut rest = chunk;
        while let [byte, tail @ ..] = rest {
            match self.string {
                StringState::None => {}
                StringState::Escaped => {
                    self.string = StringState::Inside;
                    rest = tail;
                    continue;
                }
                StringState::Inside => {
                    let at = memchr2(b'"', b'\\', rest)?;
                    let (found, tail) = rest.get(at..).and_then(<[u8]>::split_first)?;
                    self.string = if *found == b'"' { StringState::None } else { StringState::Escaped };
                    rest = tail;
                    continue;
                }
            }
            match byte {
                b'"' => self.string = StringState::Inside,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                }
                b',' | b']' if self.depth == 0 => return Some(chunk.len() - rest.len()),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            rest = tail;
        }
        None
    }
}
