//! Cutting the entries of a HAR from a stream, by its brackets and strings alone.
//!
//! Invariant: no more than the limit of an entry is ever held, and as much of what follows.

use std::io::Read;

use memchr::memchr2;

use super::entry::exchange;
use crate::capture::exchange::{Exchange, LogError, Position, SkipReason};
use crate::capture::familiar::{Familiar, Found, HEAD};
use crate::capture::held::Held;
use crate::capture::reader::Limits;

/// The entries of a HAR as exchanges.
pub(super) struct Entries {
    /// From the entry on.
    held: Held,
    outside: Outside,
    familiar: Familiar,
    limits: Limits,
    input: u32,
    record: u64,
    done: bool,
}

impl Entries {
    /// The entries of `source`.
    pub(super) fn new(source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Self {
        let (held, familiar) = (Held::new(source), Familiar::new(b"\"text\"", limits));
        Self { held, outside: Outside::default(), familiar, limits, input, record: 0, done: false }
    }

    /// Goes to the start of the next entry; false at the end of the input.
    fn seek(&mut self) -> Result<bool, SkipReason> {
        loop {
            let ahead = self.held.ahead();
            let found = ahead.iter().position(|byte| self.outside.begins_entry(*byte));
            self.held.pass(found.unwrap_or(ahead.len()));
            if found.is_some() || !self.held.hold(1)? {
                return Ok(found.is_some());
            }
        }
    }

    /// Finds the end of the entry: the comma or bracket behind it. A reason of `Truncated` means that the input ended before.
    fn end(&mut self) -> Result<Entry, SkipReason> {
        let mut inside = Inside::default();
        let (mut length, found) = self.go_past_familiar(&mut inside)?;
        let (mut gone, mut too_large) = (0, false);
        loop {
            let ahead = self.held.ahead();
            let end = inside.end(ahead.get(length..).unwrap_or_default());
            length = end.map_or(ahead.len(), |end| length + end);
            let closed = inside.is_closed() && ahead.get(..length).unwrap_or_default().trim_ascii_end().ends_with(b"}");
            too_large |= gone + u64::try_from(length).unwrap_or(u64::MAX) > self.limits.record_bytes;
            if end.is_none() {
                if too_large {
                    gone += u64::try_from(std::mem::take(&mut length)).unwrap_or(0);
                    self.held.pass(usize::MAX);
                }
                if self.held.hold(length + 1)? {
                    continue;
                }
                if !closed {
                    return Err(SkipReason::Truncated);
                }
            }
            return Ok(Entry { length, too_large, deepest: inside.deepest, found });
        }
    }

    /// Goes past what a body of the entry has in common with one that was read before; gives how far, and with
    /// which one.
    fn go_past_familiar(&mut self, inside: &mut Inside) -> Result<(usize, Option<Found>), SkipReason> {
        const NONE: (usize, Option<Found>) = (0, None);
        self.held.hold(HEAD)?;
        let Some(start) = self.familiar.body_at(self.held.ahead()) else { return Ok(NONE) };
        let longest = self.familiar.longest();
        self.held.hold(start + longest + longest / 8 + HEAD)?;
        let Some((before, body)) = self.held.ahead().split_at_checked(start) else { return Ok(NONE) };
        let mut there = Inside::default();
        if !body.starts_with(b"\"") || there.end(before).is_some() || there.string != StringState::None {
            return Ok(NONE);
        }
        let Some((found, length, is_all)) = self.familiar.known_string(self.held.ahead(), start) else {
            return Ok(NONE);
        };
        *inside = Inside { string: if is_all { StringState::None } else { StringState::Inside }, ..there };
        Ok((start + length, Some(found)))
    }

    /// The entry, as an exchange.
    fn parse(&mut self, entry: &Entry, position: Position) -> Result<Exchange, SkipReason> {
        if entry.too_large {
            return Err(SkipReason::TooLarge);
        }
        if entry.deepest > self.limits.depth {
            return Err(SkipReason::TooDeep);
        }
        let record = self.held.ahead().get(..entry.length).unwrap_or_default();
        self.familiar.parse_found(record, entry.found, position, exchange).map_err(|reason| match reason {
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
        let position = Position { input: self.input, record: self.record + 1, offset: self.held.offset() };
        let taken = match sought {
            Ok(true) => self.end(),
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
                    let exchange = self.parse(&entry, position);
                    self.held.pass(entry.length);
                    exchange
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
    length: usize,
    too_large: bool,
    deepest: u32,
    /// Which body its own goes on from.
    found: Option<Found>,
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
