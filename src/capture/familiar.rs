//! Bodies seen lately: a record whose body begins like one of them is looked at only from where the two part.
//!
//! Invariant: a record is read this way only where that gives what parsing it whole gives; in any doubt it is parsed whole. Behind
//! the equal part everything is parsed, the equal part was parsed when it was new, and the two meet at a mark: a place where the state
//! of the parser is known.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::buffer::Buffer;
use super::exchange::{Body, Exchange, Position, SkipReason};
use super::json::{self, Part};
use super::known::{self, Joint, Known, SHORT, is_string};
use super::lines::Parse;
use super::reader::Limits;
use super::text::Text;

/// How far into a record its body may begin.
pub(super) const HEAD: usize = 64 << 10;

/// Bodies kept at most.
const BODIES: usize = 1024;

/// After so many records in a row that go on from no body, only one in [`SAMPLE`] is kept: to keep them all costs memory.
const MISSES: u32 = 32;
const SAMPLE: u32 = 8;

/// Stands for a body in a record: no number, which what follows could make longer.
const STAND_IN: &[u8] = b"{}";

/// What a reader gets to parse: a record, or what is left of it when its body was taken out.
pub(super) struct Record<'a> {
    /// The record as JSON; where the body was taken out, an empty object stands for it.
    pub(super) json: &'a str,
    /// Where that stands, and the body.
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
        let known = Known::string(raw)?;
        let body = known.body.clone();
        self.kept.replace(Some(known));
        Some(body)
    }

    /// A body that was stored parsed if it was JSON, and as a string otherwise.
    pub(super) fn stored(&self, part: Part, limits: Limits) -> Result<Option<Text>, SkipReason> {
        let Some(raw) = part else { return Ok(None) };
        if let Some(body) = self.lifted(raw) {
            return limits.check(body).map(Some);
        }
        let mut ends = Vec::new();
        json::scan(raw.get().as_bytes(), limits.depth, &mut ends).ok_or(SkipReason::TooDeep)?;
        if is_string(raw.get().as_bytes()) {
            return self.text(raw).map(|body| limits.check(body)).transpose();
        }
        let body = limits.check(Text::from(raw.get()))?;
        if self.keep && raw.get().len() >= SHORT {
            self.kept.replace(Some(Known::object(body.clone(), ends)));
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

/// Which body a record's goes on from.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Where in the record its body begins.
    start: usize,
    index: usize,
    /// How many leading bytes are equal.
    equal: usize,
    joint: Option<Joint>,
}

/// Whether that is what the exchange has as its body: what is kept was handed on as it is.
fn is_body(exchange: &Exchange, known: &Text) -> bool {
    matches!(&exchange.body, Body::Bytes(body) if body.is(known))
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
    /// Records in a row that were parsed whole.
    missed: u32,
    scratch: Buffer,
}

impl Familiar {
    /// Nothing is known yet. `key` is the name of the member that a body is, in quotes.
    pub(super) fn new(key: &'static [u8], limits: Limits) -> Self {
        Self { key, known: VecDeque::new(), bytes: 0, limits, worth: 8, missed: 0, scratch: Buffer::default() }
    }

    /// Parses a record. A reason of `Truncated` means: not whole JSON.
    pub(super) fn parse(&mut self, record: &[u8], position: Position, parse: Parse) -> Result<Exchange, SkipReason> {
        let found = self.body_at(record).and_then(|start| self.find(record, start));
        self.parse_found(record, found, position, parse)
    }

    /// Parses a record, of which it is known which body its own goes on from.
    pub(super) fn parse_found(
        &mut self,
        record: &[u8],
        found: Option<Found>,
        position: Position,
        parse: Parse,
    ) -> Result<Exchange, SkipReason> {
        if let Some(found) = found
            && let Some(exchange) = self.parse_from_mark(record, found, position, parse)
        {
            self.missed = 0;
            return Ok(exchange);
        }
        self.missed = self.missed.wrapping_add(1);
        let likely = self.missed <= MISSES || self.missed.is_multiple_of(SAMPLE);
        let json = std::str::from_utf8(record).map_err(|error| match error.error_len() {
            None => SkipReason::Truncated,
            Some(_) => SkipReason::NotUtf8,
        })?;
        let keep = self.limits.kept_bytes > 0 && !self.key.is_empty() && self.worth > 0 && likely;
        let record = Record { keep, ..Record::whole(json) };
        let exchange = parse(&record, position, self.limits)?;
        if let Some(known) = record.kept.into_inner().filter(|known| is_body(&exchange, &known.body)) {
            self.keep(known);
        }
        Ok(exchange)
    }

    /// Parses a record from where its body parts from one that is known; nothing in any doubt.
    fn parse_from_mark(
        &mut self,
        record: &[u8],
        Found { start, index, equal, joint }: Found,
        position: Position,
        parse: Parse,
    ) -> Option<Exchange> {
        let value = record.get(start..)?;
        let old = self.known.get(index)?;
        let grown = old.grown(value, equal, joint, self.limits, &mut self.scratch)?;
        self.scratch.clear();
        for piece in [record.get(..start)?, STAND_IN, value.get(grown.length..)?] {
            self.scratch.push(piece);
        }
        let json = std::str::from_utf8(self.scratch.as_slice()).ok()?;
        let rest = Record { lifted: Some((start, grown.body.clone())), ..Record::whole(json) };
        let parsed = parse(&rest, position, self.limits).ok().filter(|_| rest.met.get());
        self.worth = (self.worth + if parsed.is_some() { 1 } else { -2 }).min(64);
        let mut exchange = parsed?;
        if !is_body(&exchange, &grown.body) {
            return Some(exchange);
        }
        exchange.alike = Some(grown.alike.clone());
        // What goes on from nearly all of a body takes its place.
        let outgrown = self.known.get(index)?.is_outgrown(equal, joint).then(|| self.known.remove(index)).flatten();
        let known = match outgrown {
            Some(mut known) => {
                self.bytes -= known.size();
                known.become_grown(value, equal, joint, grown);
                known
            }
            None => Known::beside(value, grown),
        };
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
        self.known.iter().map(|known| known.value().len()).max().unwrap_or(0)
    }

    /// How much of the string at `start` is known, as [`Known::familiar`] says.
    pub(super) fn known_string(&mut self, record: &[u8], start: usize) -> Option<(Found, usize, bool)> {
        let found = self.find(record, start)?;
        let (length, is_all) = self.known.get(found.index)?.familiar(found.equal, found.joint)?;
        Some((found, length, is_all))
    }

    /// The body that the value at `start` has most in common with.
    fn find(&mut self, record: &[u8], start: usize) -> Option<Found> {
        let value = record.get(start..)?;
        let head = Some(known::head(value)?);
        let shared = |(index, known): (usize, &Known)| (index, known.equal(value));
        let enough = |(_, equal): &(usize, usize)| *equal >= SHORT;
        let known = || self.known.iter().enumerate().filter(|(_, known)| known.head == head);
        // Of those that seem to have as much in common with it, the latest.
        let likely = known().rev().max_by_key(|(_, known)| known.likeness(value)).map(shared).filter(enough);
        // Where the body was edited early (a cleared tool result), one of the latest has the most in common with it.
        let (index, equal) =
            likely.or_else(|| known().take(4).map(shared).filter(enough).max_by_key(|(_, equal)| *equal))?;
        let joint = self.known.get(index)?.joint(value, equal, &mut self.scratch);
        Some(Found { start, index, equal, joint })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::capture::claude_trace::ClaudeTrace;
    use crate::capture::har::Har;
    use crate::capture::native::Native;
    use crate::capture::reader::LogReader;
    use crate::capture::testing::{body, read};

    const READERS: [&dyn LogReader; 3] = [&Native, &ClaudeTrace, &Har];

    fn log(bodies: &[Vec<u8>], reader: &dyn LogReader) -> Vec<u8> {
        let record = |body: &Vec<u8>| {
            let body = String::from_utf8_lossy(body);
            match reader.name() {
                "claude-trace" => format!(
                    r#"{{"request":{{"timestamp":1.5,"method":"POST","url":"http://h/v1/messages","headers":{{}},"body": {body}}},"response":null}}"#
                ),
                "har" => json!({
                    "startedDateTime": "2023-11-14T23:13:20Z",
                    "request": {"method": "POST", "url": "http://h/v1/messages", "postData": {"text": body}},
                })
                .to_string(),
                _ => json!({"tracecloak_capture": 1, "body": body}).to_string(),
            }
        };
        let records: Vec<String> = bodies.iter().map(record).collect();
        if reader.name() == "har" {
            return format!(r#"{{"log":{{"entries":[{}]}}}}"#, records.join(",\n")).into_bytes();
        }
        records.join("\n").into_bytes()
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
        let tool = |name: &str| json!({"name": name, "description": (0..150).map(|line| format!("{line} \"tool\" \u{1f600}\n")).collect::<String>()});
        json!({"messages": messages, "model": "m", "system": [{"type": "text"}], "tools": [tool("a"), tool("b"), [1], tool("c")]})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn a_body_that_grows_is_told_to_be_familiar() {
        let messages: Vec<Value> = (0..40).map(|at| message(at, 100)).collect();
        let bodies: Vec<Vec<u8>> = (10..40).map(|count| request(&messages[..count])).collect();
        for reader in READERS {
            let exchanges = read(reader, &log(&bodies, reader), Limits::default());
            let familiar: Vec<usize> = exchanges
                .iter()
                .map(|exchange| exchange.as_ref().unwrap().alike.as_ref().map_or(0, |alike| alike.length))
                .collect();
            assert_eq!(familiar[0], 0);
            for (at, familiar) in familiar.iter().enumerate().skip(1) {
                assert_eq!(bodies[at][..*familiar], bodies[at - 1][..*familiar]);
                assert!(
                    familiar + 4096 + request(&[]).len() > bodies[at - 1].len(),
                    "nearly all of the last body is familiar"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn records_are_read_as_without_it_whatever_was_changed_in_them(
            lengths in proptest::collection::vec(1_usize..400, 4..12),
            edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..3, proptest::collection::vec(
                proptest::sample::select(&b"\"\\{}[],:0u d8.e\n"[..]), 0..4)), 8),
        ) {
            let messages: Vec<Value> = lengths.iter().enumerate().map(|(at, length)| message(at, *length)).collect();
            let mut bodies: Vec<Vec<u8>> = (2..messages.len()).map(|count| request(&messages[..count])).collect();
            for reader in READERS {
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
            for reader in READERS {
                let [plain, kept] = both(&log(&bodies, reader), reader);
                prop_assert!(plain == kept);
            }
        }
    }
}
