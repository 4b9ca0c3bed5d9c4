//! Bodies seen lately: a record whose body begins like one of them is looked at only from where the two part.
//!
//! Invariant: a record is read this way only where that gives what parsing it whole gives; in any doubt it is parsed whole. Behind
//! the equal part everything is parsed, the equal part was parsed when it was new, and the two meet at a mark: a place where the state
//! of the parser is known.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::buffer::Buffer;
use super::exchange::{Alike, Body, Exchange, Position, SkipReason};
use super::json::{self, Part};
use super::lines::Parse;
use super::reader::Limits;
use super::text::Text;

/// Bodies shorter than this are parsed whole.
const SHORT: usize = 4 << 10;

/// How far into a record its body may begin.
pub(super) const HEAD: usize = 64 << 10;

/// Bodies kept at most.
const BODIES: usize = 1024;

/// Bytes that are compared before whole bodies are.
const PROBE: usize = 64;

/// A unit of a string is no longer than this: two `\u` escapes that are one character.
const UNIT: usize = 12;

/// A place between two units of a string.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Offset in the string as the record holds it, with its quotes.
    pub(super) at: usize,
    /// Offset in what it stands for.
    pub(super) unescaped: usize,
}

/// A body as a record holds it.
struct Known {
    /// The JSON value: a string or an object.
    value: Text,
    /// The body that it stands for.
    body: Text,
    /// Places in a string, in order.
    units: Vec<Unit>,
    /// Offsets in the body, in order, behind elements of arrays in its object.
    ends: Vec<usize>,
}

impl Known {
    fn is_string(&self) -> bool {
        is_string(self.value.as_bytes())
    }

    /// How many places there are from which parsing can go on, and how many of them lie in the first `equal` bytes.
    fn places(&self, equal: usize) -> (usize, usize) {
        if self.is_string() {
            (self.units.len(), self.units.partition_point(|unit| unit.at + UNIT <= equal))
        } else {
            (self.ends.len(), self.ends.partition_point(|end| *end <= equal))
        }
    }

    /// Bytes of the value and, for a string, of the body.
    fn size(&self) -> usize {
        let unescaped = if self.is_string() { self.body.as_bytes().len() } else { 0 };
        self.value.as_bytes().len() + unescaped
    }
}

/// What a reader gets to parse: a record, or what is left of it when its body was taken out.
pub(super) struct Record<'a> {
    /// The record as JSON; where the body was taken out, a 0 stands for it.
    pub(super) json: &'a str,
    /// Where the 0 stands, and the body.
    lifted: Option<(usize, Text)>,
    /// Whether the reader found the body where it was taken out.
    met: Cell<bool>,
    /// Whether a body that is parsed is to be kept, and the body.
    keep: bool,
    kept: RefCell<Option<Known>>,
}

impl<'a> Record<'a> {
    /// A record as it is.
    pub(super) fn whole(json: &'a str) -> Self {
        Self { json, lifted: None, met: Cell::new(false), keep: false, kept: RefCell::new(None) }
    }

    /// A body that is a string.
    pub(super) fn text(&self, raw: &RawValue) -> Option<Text> {
        if let Some(body) = self.lifted(raw) {
            return Some(body);
        }
        if !self.keep || raw.get().len() < SHORT {
            return json::text(raw);
        }
        let (mut units, mut ends) = (Vec::new(), Vec::new());
        let escaped = raw.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
        let mut body = Vec::with_capacity(escaped.len());
        json::unescape(escaped, 1, &mut body, &mut units);
        json::scan(&body, u32::MAX, &mut ends);
        let (value, body) = (Text::from(raw.get()), Text::from(body));
        self.kept.replace(Some(Known { value, body: body.clone(), units, ends }));
        Some(body)
    }

    /// A body that was stored parsed if it was JSON, and as a string otherwise.
    pub(super) fn stored(&self, part: Part, limits: Limits) -> Result<Option<Text>, SkipReason> {
        let Some(raw) = part else { return Ok(None) };
        if let Some(body) = self.lifted(raw) {
            return limits.check(body).map(Some);
        }
        let mut ends = Vec::new();
        if json::scan(raw.get().as_bytes(), limits.depth, &mut ends) {
            return Err(SkipReason::TooDeep);
        }
        if is_string(raw.get().as_bytes()) {
            return self.text(raw).map(|body| limits.check(body)).transpose();
        }
        let body = limits.check(Text::from(raw.get()))?;
        if self.keep && raw.get().len() >= SHORT {
            self.kept.replace(Some(Known { value: body.clone(), body: body.clone(), units: Vec::new(), ends }));
        }
        Ok(Some(body))
    }

    /// The body that was taken out, if it stood here.
    fn lifted(&self, raw: &RawValue) -> Option<Text> {
        let (at, body) = self.lifted.as_ref()?;
        let here = raw.get().as_ptr().addr().checked_sub(self.json.as_ptr().addr())?;
        (here == *at).then(|| {
            self.met.set(true);
            body.clone()
        })
    }
}

fn is_string(value: &[u8]) -> bool {
    value.first() == Some(&b'"')
}

/// The latest bodies of an input.
pub(super) struct Familiar {
    /// The name of the member that a body is, in quotes; nothing if records are to be parsed whole.
    key: &'static [u8],
    /// The latest first.
    known: VecDeque<Known>,
    bytes: usize,
    limits: Limits,
    /// Records that could be taken apart, less those that could not.
    worth: i32,
    scratch: Buffer,
}

impl Familiar {
    /// Nothing is known yet. `key` is the name of the member that a body is, in quotes.
    pub(super) fn new(key: &'static [u8], limits: Limits) -> Self {
        Self { key, known: VecDeque::new(), bytes: 0, limits, worth: 8, scratch: Buffer::default() }
    }

    /// Parses a record. A reason of `Truncated` means: not whole JSON.
    pub(super) fn parse(&mut self, record: &[u8], position: Position, parse: Parse) -> Result<Exchange, SkipReason> {
        if let Some(exchange) = self.parse_from_mark(record, position, parse) {
            return Ok(exchange);
        }
        let json = std::str::from_utf8(record).map_err(|error| match error.error_len() {
            None => SkipReason::Truncated,
            Some(_) => SkipReason::NotUtf8,
        })?;
        let keep = self.limits.kept_bytes > 0 && !self.key.is_empty() && self.worth > 0;
        let record = Record { keep, ..Record::whole(json) };
        let exchange = parse(&record, position, self.limits)?;
        if let Some(known) = record.kept.into_inner() {
            self.keep(known);
        }
        Ok(exchange)
    }

    /// Parses a record from where its body parts from one that is known; nothing if there is none, or in any doubt.
    fn parse_from_mark(&mut self, record: &[u8], position: Position, parse: Parse) -> Option<Exchange> {
        let start = self.body_at(record)?;
        let value = record.get(start..)?;
        let (index, equal) = self.find(value)?;
        let (known, length, familiar) = self.grown(index, equal, value)?;
        self.scratch.clear();
        for piece in [record.get(..start)?, b"0", value.get(length..)?] {
            self.scratch.push(piece);
        }
        let json = std::str::from_utf8(self.scratch.as_slice()).ok()?;
        let rest = Record { lifted: Some((start, known.body.clone())), ..Record::whole(json) };
        let parsed = parse(&rest, position, self.limits).ok().filter(|_| rest.met.get());
        self.worth = (self.worth + if parsed.is_some() { 1 } else { -2 }).min(64);
        let mut exchange = parsed?;
        if matches!(&exchange.body, Body::Bytes(body) if body.is(&known.body)) {
            exchange.alike = Some(Alike { body: self.known.get(index)?.body.clone(), length: familiar });
        }
        // What goes on from nearly all of a body takes its place.
        let (all, shared) = self.known.get(index)?.places(equal);
        if shared + 4 >= all {
            self.bytes -= self.known.remove(index).map_or(0, |old| old.size());
        }
        self.keep(known);
        Some(exchange)
    }

    /// Where the body of a record may begin; nothing if there is nothing to compare it with.
    pub(super) fn body_at(&self, record: &[u8]) -> Option<usize> {
        if self.known.is_empty() || self.worth <= 0 {
            return None;
        }
        let head = record.get(..HEAD.min(record.len()))?;
        let behind = record.get(memchr::memmem::find(head, self.key)? + self.key.len()..)?;
        let value = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        Some(record.len() - value.len())
    }

    /// The length of the longest body.
    pub(super) fn longest(&self) -> usize {
        self.known.iter().map(|known| known.value.as_bytes().len()).max().unwrap_or(0)
    }

    /// How much of the string at the start of `value` is known: up to a place between two units, before its end.
    pub(super) fn known_string(&self, value: &[u8]) -> Option<usize> {
        let (index, equal) = self.find(value)?;
        let known = self.known.get(index)?;
        let (_, shared) = known.places(equal);
        known.units.get(shared.checked_sub(1)?).map(|unit| unit.at)
    }

    /// The body that `value` has most in common with, and how many bytes.
    fn find(&self, value: &[u8]) -> Option<(usize, usize)> {
        let shared = |(index, known): (usize, &Known)| (index, common_prefix(known.value.as_bytes(), value));
        let probed = |(_, known): &(usize, &Known)| {
            let known = known.value.as_bytes();
            let at = known.len() / 8 * 7;
            let end = known.len().min(at + PROBE);
            known.get(at..end) == value.get(at..end)
        };
        let enough = |(_, equal): &(usize, usize)| *equal >= SHORT;
        let likely = self.known.iter().enumerate().filter(probed).map(shared).find(enough);
        // Where the body was edited far back (a cleared tool result, a fork), one of the latest has the most in common with it.
        likely.or_else(|| {
            self.known.iter().enumerate().take(4).map(shared).filter(enough).max_by_key(|(_, equal)| *equal)
        })
    }

    /// The value at the start of `record`, whose first `equal` bytes are those of a known body; its length, and how much of what it
    /// stands for is familiar.
    fn grown(&mut self, index: usize, equal: usize, record: &[u8]) -> Option<(Known, usize, usize)> {
        let old = self.known.get(index)?;
        let (_, shared) = old.places(equal);
        let mut units = old.units.get(..if old.is_string() { shared } else { 0 })?.to_vec();
        // Where parsing goes on, and how much of the body lies before.
        let (from, unescaped, opener): (usize, usize, &[u8]) = if old.is_string() {
            units.last().map(|unit| (unit.at, unit.unescaped, &b"\""[..]))?
        } else {
            let end = *old.ends.get(shared.checked_sub(1)?)?;
            (end, end, br#"{"":[0"#)
        };
        let mut ends = old.ends.get(..old.ends.partition_point(|end| *end <= unescaped))?.to_vec();
        let familiar = ends.last().copied().unwrap_or(0);
        self.scratch.clear();
        self.scratch.push(opener);
        self.scratch.push(record.get(from..)?);
        let rest = std::str::from_utf8(self.scratch.as_slice()).ok()?;
        let rest = <&RawValue>::deserialize(&mut serde_json::Deserializer::from_str(rest)).ok()?.get();
        let length = from + rest.len() - opener.len();
        let value = Text::from(record.get(..length)?.to_vec());
        let (body, depth) = if old.is_string() {
            let escaped = record.get(from..length - 1)?;
            let mut body = Vec::with_capacity(unescaped + escaped.len());
            body.extend_from_slice(old.body.as_bytes().get(..unescaped)?);
            json::unescape(escaped, from, &mut body, &mut units);
            (Text::from(body), u32::MAX)
        } else {
            (value.clone(), self.limits.depth)
        };
        if json::scan(body.as_bytes(), depth, &mut ends) {
            return None;
        }
        Some((Known { value, body: self.limits.check(body).ok()?, units, ends }, length, familiar))
    }

    /// Keeps a body; the oldest go when there are too many.
    fn keep(&mut self, known: Known) {
        self.bytes += known.size();
        self.known.push_front(known);
        while self.known.len() > BODIES || self.bytes > self.limits.kept_bytes {
            let Some(oldest) = self.known.pop_back() else { break };
            self.bytes -= oldest.size();
        }
    }
}

/// How many leading bytes are equal.
pub(crate) fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 1024;
    let chunks =
        one.chunks_exact(STEP).zip(other.chunks_exact(STEP)).take_while(|(one, other)| one == other).count() * STEP;
    let rest = one.iter().skip(chunks).zip(other.iter().skip(chunks)).take_while(|(one, other)| one == other).count();
    chunks + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::native::Native;
    use crate::capture::reader::LogReader;
    use crate::capture::testing::{body, read};

    fn log(bodies: &[Vec<u8>], reader: &dyn LogReader) -> Vec<u8> {
        let record = |body: &Vec<u8>| {
            let body = String::from_utf8_lossy(body);
            match reader.name() {
                "claude-trace" => format!(
                    r#"{{"request":{{"timestamp":1.5,"method":"POST","url":"http://h/v1/messages","headers":{{}},"body": {body}}},"response":null}}"#
                ),
                _ => json!({"tracecloak_capture": 1, "body": body}).to_string(),
            }
        };
        bodies.iter().map(record).collect::<Vec<_>>().join("\n").into_bytes()
    }

    /// What each record gives, with and without bodies kept.
    fn both(log: &[u8], reader: &dyn LogReader) -> [Vec<Result<Option<String>, SkipReason>>; 2] {
        [0, 1 << 20].map(|kept_bytes| {
            let records = read(reader, log, Limits { kept_bytes, ..Limits::default() });
            records
                .iter()
                .map(|record| match record {
                    Ok(exchange) => Ok(body(exchange).map(str::to_owned)),
                    Err(error) => Err(error.reason),
                })
                .collect()
        })
    }

    fn message(number: usize, length: usize) -> Value {
        json!({"role": "user", "content": [{"type": "text", "text": format!("{number}\n\u{1f600}\"").repeat(length)}]})
    }

    fn request(messages: &[Value]) -> Vec<u8> {
        json!({"model": "m", "messages": messages, "system": [{"type": "text"}], "tools": [[1], {}]})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn common_prefixes_are_found_at_any_length() {
        for (length, at) in [(0, 0), (10, 3), (1024, 1023), (5000, 4097), (5000, 5000)] {
            let one = vec![b'a'; length];
            let mut other = vec![b'a'; length + 5];
            other[at] = b'b';
            assert_eq!(common_prefix(&one, &other), at.min(length));
        }
    }

    #[test]
    fn a_body_that_grows_is_told_to_be_familiar() {
        let messages: Vec<Value> = (0..40).map(|at| message(at, 100)).collect();
        let bodies: Vec<Vec<u8>> = (10..40).map(|count| request(&messages[..count])).collect();
        for reader in [&Native as &dyn LogReader, &crate::capture::claude_trace::ClaudeTrace] {
            let exchanges = read(reader, &log(&bodies, reader), Limits::default());
            let familiar: Vec<usize> = exchanges
                .iter()
                .map(|exchange| exchange.as_ref().unwrap().alike.as_ref().map_or(0, |alike| alike.length))
                .collect();
            assert_eq!(familiar[0], 0);
            for (at, familiar) in familiar.iter().enumerate().skip(1) {
                assert_eq!(bodies[at][..*familiar], bodies[at - 1][..*familiar]);
                assert!(familiar + 4096 > bodies[at - 1].len(), "nearly all of the last body is familiar");
            }
        }
    }

    proptest! {
        #[test]
        fn records_are_read_as_without_it_whatever_was_changed_in_them(
            lengths in proptest::collection::vec(1_usize..400, 4..12),
            edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..3, proptest::collection::vec(
                proptest::sample::select(&b"\"\\{}[],:0u d8\n"[..]), 0..4)), 8),
        ) {
            let messages: Vec<Value> = lengths.iter().enumerate().map(|(at, length)| message(at, *length)).collect();
            let mut bodies: Vec<Vec<u8>> = (2..messages.len()).map(|count| request(&messages[..count])).collect();
            for reader in [&Native as &dyn LogReader, &crate::capture::claude_trace::ClaudeTrace] {
                let mut whole = log(&bodies, reader);
                for (at, cut, with) in &edits {
                    let at = at.index(whole.len());
                    whole.splice(at..(at + cut).min(whole.len()), with.iter().copied());
                }
                let [plain, kept] = both(&whole, reader);
                prop_assert!(plain == kept);
            }
            for (at, cut, with) in &edits {
                let body = at.index(bodies.len());
                let at = at.index(bodies[body].len());
                let end = (at + cut).min(bodies[body].len());
                bodies[body].splice(at..end, with.iter().copied());
            }
            let [plain, kept] = both(&log(&bodies, &Native), &Native);
            prop_assert!(plain == kept);
        }
    }
}
