//! Content that comes in pieces: lines of JSON are read as they come, everything else when it is there as a whole.
//!
//! Invariant: of lines of JSON no more is held than a few megabytes and the longest line; of anything else no more than the limits
//! say.

use super::collect::{Collector, Feed};
use super::fact::{Facts, Kind};
use super::sink::is_loose;
use super::{FileView, json, open};
use crate::audit::finding::Place;

/// Bytes of lines that are read at a time.
const PIECE: usize = 4 << 20;

/// Bytes after which the first line has to have ended.
const FIRST: usize = 64 << 20;

/// What is said of content that is larger than the limits.
pub(super) const TOO_MUCH: &str = "more than can be looked at as a whole";

/// Takes pieces, and gives a view of the whole.
pub(super) struct Content<'f, 'a> {
    held: Vec<u8>,
    depth: usize,
    /// Most bytes that may be held.
    most: usize,
    over: bool,
    state: State<'f, 'a>,
}

enum State<'f, 'a> {
    /// Read as a whole, unless the first line, which may not have ended yet, is a record.
    Held(&'f mut Feed<'a>, bool),
    /// Lines of JSON.
    Lines(Box<Collector<'f, 'a>>, json::Seen),
    /// Between two states.
    Nothing,
}

impl<'f, 'a> Content<'f, 'a> {
    pub(super) fn new(feed: &'f mut Feed<'a>, depth: usize, most: usize) -> Self {
        Self { held: Vec::new(), depth, most, over: false, state: State::Held(feed, false) }
    }

    /// How many bytes may be unpacked from what this holds.
    pub(super) fn allow(&mut self, left: usize) {
        match &mut self.state {
            State::Held(feed, _) => feed.left = left,
            State::Lines(to, _) => to.feed.left = left,
            State::Nothing => (),
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        if self.over {
            return;
        }
        let before = self.held.len();
        self.held.extend_from_slice(piece);
        match std::mem::replace(&mut self.state, State::Nothing) {
            State::Held(feed, decided) => {
                let end = memchr::memchr(b'\n', piece).filter(|_| !decided).map(|at| before + at);
                let line = end.and_then(|end| self.held.get(..end)).filter(|line| json::is_line(line));
                self.state = match line {
                    Some(line) if self.depth <= feed.limits.depth => {
                        let format = open::recognise(&json::first_keys(line));
                        let to = Collector::new(feed, Facts::default(), format, true);
                        State::Lines(Box::new(to), json::Seen::default())
                    }
                    _ => {
                        self.over = self.held.len() > self.most;
                        State::Held(feed, decided || end.is_some() || self.held.len() > FIRST)
                    }
                };
            }
            other => self.state = other,
        }
        if self.held.len() >= PIECE
            && let State::Lines(..) = self.state
        {
            match memchr::memrchr(b'\n', &self.held) {
                Some(end) => self.lines(end + 1),
                None => self.over = self.held.len() > self.most,
            }
        }
    }

    /// Reads the lines up to `end`.
    fn lines(&mut self, end: usize) {
        let State::Lines(to, seen) = &mut self.state else { return };
        let lines = self.held.get(..end).unwrap_or_default();
        if let Err(error) = std::str::from_utf8(lines) {
            to.view.facts.add(Kind::Spelling, Place::at(seen.base + error.valid_up_to()), "not UTF-8", None);
        }
        json::read(lines, to, seen);
        if (is_loose(&to.view.facts) || to.nodes.any_foreign()) && to.feed.sink.is_some() {
            to.prove_names();
            to.feed.sink.iter_mut().for_each(|sink| sink.raw(lines));
        }
        self.held.drain(..end);
    }

    pub(super) fn finish(mut self) -> FileView {
        if !self.over {
            self.lines(self.held.len());
        }
        match self.state {
            State::Lines(mut to, seen) => {
                if self.over {
                    to.view.facts.add(Kind::Undecodable, Place::default(), TOO_MUCH, None);
                }
                seen.finish(&mut to);
                to.finish()
            }
            State::Held(feed, _) if !self.over => open(&self.held, self.depth, feed),
            _ => {
                let mut view = FileView::default();
                view.facts.add(Kind::Undecodable, Place::default(), TOO_MUCH, None);
                view
            }
        }
    }
}
