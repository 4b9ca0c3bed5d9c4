//! JSON and JSONL, read without building documents.
//!
//! Invariant: every byte is part of a value, plain white space, or a fact; nesting is bounded; a syntax error ends the file as
//! undecodable from there on.

mod spelling;

use std::borrow::Cow;

pub(crate) use self::spelling::Seen;
use self::spelling::{Bad, Gap, NONE, Reader, SPACE, Step};
use super::collect::{Collector, IDS};
use super::fact::Kind;
use crate::audit::finding::Place;

/// Deepest nesting.
const DEPTH: usize = 64;

/// Whether this may be JSON: its first byte that is no white space.
pub(crate) fn looks_like(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| b"{[".contains(byte))
}

/// Names of the members of the first record, for recognising the format.
pub(crate) fn first_keys(bytes: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut reader = Reader::new(bytes, Seen::default());
    reader.space();
    if reader.peek() == Some(b'[') {
        reader.at += 1;
        reader.space();
    }
    let mut keys = Vec::new();
    if reader.take(b'{').is_err() {
        return keys;
    }
    while keys.len() < 256 {
        reader.space();
        let Ok(key) = reader.string() else { break };
        keys.push(key);
        reader.space();
        if reader.take(b':').is_err() || reader.skip(0).is_err() {
            break;
        }
        reader.space();
        if reader.take(b',').is_err() {
            break;
        }
    }
    keys
}

/// Whether a line is a whole record, as lines of JSON are.
pub(crate) fn is_line(line: &[u8]) -> bool {
    let mut reader = Reader::new(line, Seen::default());
    reader.peek() == Some(b'{') && reader.skip(0).is_ok() && {
        reader.space();
        reader.peek().is_none()
    }
}

/// Reads all records of a part that ends with one; parts follow one another.
pub(crate) fn read(bytes: &[u8], to: &mut Collector<'_, '_>, seen: &mut Seen) {
    if seen.ended {
        return;
    }
    let mut reader = Reader::new(bytes, std::mem::take(seen));
    if let Err(Bad(at, message)) = reader.records(to) {
        let place = Place::at(reader.seen.base + at).row(to.row);
        to.view.facts.add(Kind::Undecodable, place, message, None);
        reader.seen.ended = true;
    }
    *seen = reader.seen;
    seen.base += bytes.len();
}

impl Reader<'_> {
    fn records(&mut self, to: &mut Collector<'_, '_>) -> Step {
        self.space();
        if self.peek() == Some(b'[') && self.array_of_objects() {
            return self.list_of_records(to);
        }
        while self.peek().is_some() {
            self.value(to, 0, 0)?;
            to.end_record();
            let ways = self.space();
            match self.peek() {
                None => (),
                Some(0) => {
                    let place = Place::at(self.seen.base + self.at);
                    to.view.facts.add(Kind::Spelling, place, "bytes after the end of the document", None);
                    return self.bad("a zero byte between records");
                }
                Some(_) => self.note(Gap::Record, ways),
            }
        }
        Ok(())
    }

    fn list_of_records(&mut self, to: &mut Collector<'_, '_>) -> Step {
        self.at += 1;
        self.gap(Gap::Open);
        loop {
            self.value(to, 0, 0)?;
            to.end_record();
            if !self.more(b']')? {
                break;
            }
        }
        self.space();
        let left = self.bytes.len() - self.at;
        if left > 0 {
            let (place, message) = (Place::at(self.seen.base + self.at), "bytes after the end of the document");
            to.view.facts.add(Kind::Spelling, place, message, Some(crate::audit::wide(left)));
            return self.bad(message);
        }
        Ok(())
    }

    /// Whether a list at the top holds records.
    fn array_of_objects(&self) -> bool {
        let mut ahead = self.clone();
        ahead.at += 1;
        ahead.space();
        ahead.peek() == Some(b'{')
    }

    /// Whether another item follows, or the end.
    fn more(&mut self, close: u8) -> Step<bool> {
        let ways = self.space();
        if self.peek() == Some(b',') {
            self.at += 1;
            self.note(Gap::Item, ways);
            self.gap(Gap::Next);
            return Ok(true);
        }
        self.note(Gap::Close, ways);
        self.take(close).map(|()| false)
    }

    fn value(&mut self, to: &mut Collector<'_, '_>, node: usize, depth: usize) -> Step {
        if depth > DEPTH {
            return self.bad("nested too deeply");
        }
        let start = Some(self.seen.base + self.at);
        self.depth = depth;
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                let object = to.begin_object(node, start);
                let ways = self.space();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                } else {
                    self.note(Gap::Open, ways);
                    loop {
                        let at = self.seen.base + self.at;
                        let key = self.string()?;
                        let child = to.member(object, node, &key, Some(at));
                        self.gap(Gap::Name);
                        self.take(b':')?;
                        self.gap(Gap::Value);
                        self.value(to, child, depth + 1)?;
                        self.depth = depth;
                        if !self.more(b'}')? {
                            break;
                        }
                    }
                }
                to.end_members(object, node);
                Ok(())
            }
            Some(b'[') => {
                self.at += 1;
                let element = to.begin_list(node, start);
                let ways = self.space();
                if self.peek() == Some(b']') {
                    self.at += 1;
                } else {
                    self.note(Gap::Open, ways);
                    if !(to.is_ids(element) && self.ids(to, element)) {
                        loop {
                            self.value(to, element, depth + 1)?;
                            self.depth = depth;
                            if !self.more(b']')? {
                                break;
                            }
                        }
                    }
                }
                to.end_list(element);
                Ok(())
            }
            Some(b'"') => {
                let text = self.string()?;
                if std::str::from_utf8(&text).is_err() {
                    to.fact(Kind::Spelling, node, start, "a string that is not UTF-8");
                }
                to.text(node, &text, start);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(to, node),
            Some(b't') => self.word(b"true").map(|()| to.boolean(node, true, start)),
            Some(b'f') => self.word(b"false").map(|()| to.boolean(node, false, start)),
            Some(b'n') => self.word(b"null").map(|()| to.null(node)),
            _ => self.bad("not JSON here"),
        }
    }

    /// Small integers, separated by commas: the bulk of every trace. Stops before anything else; gives whether the list ended.
    fn ids(&mut self, to: &mut Collector<'_, '_>, element: usize) -> bool {
        let ids = to.ids_mut();
        let from = ids.len();
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        let (mut ways, mut ended) = (0, false);
        'numbers: loop {
            if ids.len() > IDS {
                break;
            }
            let mut value = 0u64;
            for (digits, byte) in rest.iter().enumerate() {
                match byte {
                    b'0'..=b'9' if digits < 18 && (digits != 1 || value > 0) => {
                        value = value * 10 + u64::from(byte - b'0');
                    }
                    b',' if digits > 0 => {
                        ids.push(value);
                        rest = rest.get(digits + 1..).unwrap_or_default();
                        if let [b' ', after @ ..] = rest {
                            rest = after;
                            ways |= SPACE;
                        } else {
                            ways |= if rest.first().is_some_and(u8::is_ascii_digit) { NONE } else { 0 };
                        }
                        continue 'numbers;
                    }
                    b']' if digits > 0 => {
                        ids.push(value);
                        rest = rest.get(digits + 1..).unwrap_or_default();
                        ended = true;
                        break 'numbers;
                    }
                    _ => break 'numbers,
                }
            }
            break;
        }
        self.at = self.bytes.len() - rest.len();
        self.note(Gap::Next, ways);
        if ended {
            self.note(Gap::Close, NONE);
        } else {
            let ways = self.space();
            if self.at < self.bytes.len() && from < to.ids_mut().len() {
                self.note(Gap::Next, ways);
            }
        }
        to.ids_added(element, from);
        ended
    }

    fn number(&mut self, to: &mut Collector<'_, '_>, node: usize) -> Step {
        let start = Some(self.seen.base + self.at);
        let text = self.extent()?;
        if let Ok(value) = text.parse::<i64>() {
            if text == "-0" {
                to.fact(Kind::Spelling, node, start, "a whole number that no writer of JSON makes");
            }
            to.int(node, value, false, start);
        } else if let Ok(value) = text.parse::<u64>() {
            to.int(node, value.cast_signed(), true, start);
        } else {
            if text.bytes().filter(u8::is_ascii_digit).count() > 20 {
                to.fact(Kind::Domain, node, start, "a number with more digits than a number of 64 bits has");
                to.text(node, text.as_bytes(), start);
            }
            let exponent =
                text.split_once(['e', 'E']).map_or("", |(_, exponent)| exponent.trim_start_matches(['+', '-']));
            if exponent.len() > 3 || (!exponent.is_empty() && text.starts_with(['0', '-'])) && text.parse() == Ok(0.0) {
                to.fact(Kind::Spelling, node, start, "an exponent that no writer of JSON makes");
            }
            let fraction =
                text.split_once('.').filter(|(_, digits)| digits.bytes().all(|digit| digit.is_ascii_digit()));
            if let (Some((_, digits)), Some(at)) = (fraction, to.nodes.get_mut(node)) {
                at.ragged |= *at.decimals.get_or_insert(digits.len()) != digits.len();
                at.padded |= digits.len() > 1 && digits.ends_with('0');
            }
            to.float(node, text.parse().unwrap_or(f64::INFINITY), start);
        }
        Ok(())
    }
}
