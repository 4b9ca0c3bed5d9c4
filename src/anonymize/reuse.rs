//! Bodies seen before: where a new one begins like an old one, it goes on from there.
//!
//! Invariant: a body is reused only as far as its bytes are equal, up to the end of a whole message, and only if everything that is
//! not messages is equal too; so the result is that of reading it from the start. What is kept is bounded.

use std::collections::HashMap;

use crate::capture::{Alike, Text, common_prefix};

use super::extract::Around;
use super::key::Tag;
use super::reading::Reading;

/// How far a body was read, and what was known on the way.
#[derive(Clone)]
pub(super) struct Progress {
    /// What the body says outside its messages.
    pub(super) around: Around,
    /// How many bytes stand behind the messages, from the bracket that closes them.
    pub(super) behind: usize,
    /// Offset behind the bracket that opens the messages.
    open: usize,
    /// Offset of the end of each message.
    ends: Vec<usize>,
    /// What was known before the first message.
    begin: Reading,
    /// What was known after each message.
    readings: Vec<Reading>,
}

impl Progress {
    pub(super) fn new(around: Around, open: usize, behind: usize, begin: Reading) -> Self {
        Self { around, behind, open, ends: Vec::new(), begin, readings: Vec::new() }
    }

    /// How many messages were read.
    pub(super) fn messages(&self) -> usize {
        self.ends.len()
    }

    /// Where the next message begins, or white space or a comma before it.
    pub(super) fn end(&self) -> usize {
        self.ends.last().copied().unwrap_or(self.open)
    }

    /// What is known now.
    pub(super) fn reading(&self) -> &Reading {
        self.readings.last().unwrap_or(&self.begin)
    }

    pub(super) fn push(&mut self, end: usize, reading: Reading) {
        self.ends.push(end);
        self.readings.push(reading);
    }

    /// The progress after the first `messages`, and no further than the last answer among them, so that what follows an answer is
    /// read again as a whole.
    fn back_to(mut self, messages: usize) -> Self {
        self.readings.truncate(messages);
        let answered = self.reading().answered;
        self.readings.truncate(answered);
        self.ends.truncate(answered);
        self
    }
}

/// A body that was read.
struct Seen {
    body: Text,
    progress: Progress,
    used: u64,
}

/// Who sent a body (session and agent): bodies of one sender are likely to go on from each other.
pub(super) type Sender = (Option<Tag>, Option<Tag>);

/// The latest bodies of each sender.
pub(super) struct Bodies {
    by_sender: HashMap<Sender, Vec<Seen>>,
    bytes: usize,
    limit: usize,
    clock: u64,
}

/// A thread, and a side request or two.
const PER_SENDER: usize = 3;

impl Bodies {
    /// Keeps bodies of `limit` bytes together; none if it is 0.
    pub(super) fn new(limit: usize) -> Self {
        Self { by_sender: HashMap::new(), bytes: 0, limit, clock: 0 }
    }

    /// How far `body` is known from one that was read before. The body that it replaces, if it goes on from all of it, is taken out.
    pub(super) fn take(&mut self, sender: Sender, body: &[u8], alike: Option<&Alike>) -> Option<Progress> {
        // A fork's first body goes on from its session's main thread.
        let senders = [sender, (sender.0, None)];
        let senders = senders.get(..if sender.1.is_some() { 2 } else { 1 }).unwrap_or_default();
        let known = senders.iter().flat_map(|sender| {
            self.by_sender.get(sender).into_iter().flatten().enumerate().map(move |(at, seen)| (*sender, at, seen))
        });
        let known = known.filter_map(|(sender, at, seen)| Some((sender, at, seen.equal_messages(body, alike)?)));
        let (from, at, equal) = known.max_by_key(|(_, _, equal)| *equal).filter(|(_, _, equal)| *equal > 0)?;
        let seens = self.by_sender.get_mut(&from)?;
        let seen = seens.get(at)?;
        // The last message of a thread changes its form when the next one follows.
        if from == sender && equal + 1 >= seen.progress.messages() {
            let seen = seens.swap_remove(at);
            self.bytes -= seen.size();
            return Some(seen.progress.back_to(equal));
        }
        Some(seen.progress.clone().back_to(equal))
    }

    /// Keeps a body that was read to its end.
    pub(super) fn keep(&mut self, sender: Sender, body: Text, progress: Progress) {
        let opened = progress.open.checked_sub(1).and_then(|at| body.as_bytes().get(at)) == Some(&b'[');
        if self.limit == 0 || !opened {
            return;
        }
        self.clock += 1;
        let seen = Seen { body, progress, used: self.clock };
        self.bytes += seen.size();
        let seens = self.by_sender.entry(sender).or_default();
        let oldest = seens.iter().enumerate().min_by_key(|(_, seen)| seen.used).map(|(at, _)| at);
        if let Some(oldest) = oldest.filter(|_| seens.len() >= PER_SENDER) {
            self.bytes -= seens.swap_remove(oldest).size();
        }
        seens.push(seen);
        if self.bytes > self.limit {
            self.forget_half();
        }
    }

    /// Forgets the bodies that were used longest ago, until half the limit is free.
    fn forget_half(&mut self) {
        let mut ages: Vec<(u64, usize)> =
            self.by_sender.values().flatten().map(|seen| (seen.used, seen.size())).collect();
        ages.sort_unstable();
        let (mut last, mut needed) = (0, self.bytes.saturating_sub(self.limit / 2));
        for (used, size) in ages {
            if needed == 0 {
                break;
            }
            last = used;
            needed = needed.saturating_sub(size);
            self.bytes -= size;
        }
        self.by_sender.retain(|_, seens| {
            seens.retain(|seen| seen.used > last);
            !seens.is_empty()
        });
    }
}

impl Seen {
    /// How many leading messages of `body` are these, byte for byte; nothing if what stands around the messages differs.
    fn equal_messages(&self, body: &[u8], alike: Option<&Alike>) -> Option<usize> {
        let own = self.body.as_bytes();
        let Progress { open, behind, ends, .. } = &self.progress;
        let close = own.len().checked_sub(*behind)?;
        let around = own.get(..*open) == body.get(..*open) && body.ends_with(own.get(close..)?);
        let known = alike.filter(|alike| alike.body.is(&self.body)).map_or(0, |alike| alike.length.min(close));
        let equal = around.then(|| {
            known + common_prefix(own.get(known..close).unwrap_or_default(), body.get(known..).unwrap_or_default())
        })?;
        // Messages end in a bracket, so one whose last byte is equal is whole.
        Some(ends.partition_point(|end| *end <= equal))
    }

    /// About what it takes in memory.
    fn size(&self) -> usize {
        self.body.as_bytes().len() + self.progress.readings.len() * 512
    }
}
