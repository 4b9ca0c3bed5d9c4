//! [`Known`]: a body that was read, with the places from which reading can go on; and how a longer body is read from them.
//!
//! Invariant: what is taken over from a body stands, byte for byte, behind a place where the parser is in the same state in both.

use serde::Deserialize;
use serde_json::value::RawValue;
use xxhash_rust::xxh3::xxh3_64;

use super::buffer::Buffer;
use super::exchange::Alike;
use super::json;
use super::reader::Limits;
use super::text::Text;

/// Less than this is parsed again rather than found again.
pub(super) const SHORT: usize = 4 << 10;

/// Bytes that are compared before whole bodies are.
const PROBE: usize = 64;

/// Parts of a body, between which such bytes are compared.
const PROBES: usize = 16;

/// Places at which what follows is compared with a known end, at most.
const TRIES: usize = 16;

/// A unit of a string is no longer than this: two `\u` escapes that are one character.
const UNIT: usize = 12;

/// How long a `\u` escape is.
const UNICODE: usize = 6;

/// A place between two units of a string.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    /// Offset in the string as the record holds it, with its quotes.
    pub(super) at: usize,
    /// Offset in what it stands for.
    pub(super) unescaped: usize,
}

/// A body as a record holds it.
pub(super) struct Known {
    /// That of [`head`].
    pub(super) head: Option<u64>,
    /// The JSON value, a string or an object; none while it is the body itself.
    value: Option<Buffer>,
    /// The body that it stands for.
    pub(super) body: Text,
    /// Places in a string, in order.
    units: Vec<Unit>,
    /// Offsets in the body, in order, behind elements of arrays in its object.
    ends: Vec<usize>,
}

/// Where an old value and a new one are equal again, up to their ends.
#[derive(Clone, Copy)]
pub(super) struct Joint {
    old: usize,
    new: usize,
    /// Where in the old body that is.
    body: usize,
}

/// What becomes of a body when another one goes on from it.
pub(super) struct Growth {
    /// The other one.
    pub(super) body: Text,
    /// The length of its value.
    pub(super) length: usize,
    /// What the two have in common.
    pub(super) alike: Alike,
    units: Vec<Unit>,
    ends: Vec<usize>,
}

impl Known {
    /// A body that is a string.
    pub(super) fn string(raw: &RawValue) -> Option<Self> {
        let (mut units, mut ends) = (Vec::new(), Vec::new());
        let escaped = raw.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
        let mut body = Vec::with_capacity(escaped.len());
        json::unescape(escaped, 1, &mut body, &mut units);
        json::scan(&body, u32::MAX, &mut ends);
        let head = head(raw.get().as_bytes());
        Some(Self { head, value: Some(copy(raw.get().as_bytes())), body: Text::from(body), units, ends })
    }

    /// A body that is an object, with the ends that [`json::scan`] found in it.
    pub(super) fn object(body: Text, ends: Vec<usize>) -> Self {
        Self { head: head(body.as_bytes()), value: None, body, units: Vec::new(), ends }
    }

    /// The JSON value.
    pub(super) fn value(&self) -> &[u8] {
        self.value.as_ref().map_or_else(|| self.body.as_bytes(), Buffer::as_slice)
    }

    fn is_string(&self) -> bool {
        is_string(self.value())
    }

    /// How many places, from which parsing can go on, lie in the first `equal` bytes.
    fn places(&self, equal: usize) -> usize {
        if self.is_string() {
            self.units.partition_point(|unit| unit.at + UNIT <= equal)
        } else {
            self.ends.partition_point(|end| *end <= equal)
        }
    }

    /// Whether a value whose first `equal` bytes are those of this one, and its end from the joint on, has nearly all of it.
    pub(super) fn is_outgrown(&self, equal: usize, joint: Option<Joint>) -> bool {
        self.places(equal) + 4 >= self.places(joint.map_or(usize::MAX, |joint| joint.old))
    }

    /// The last place in the first `equal` bytes: where it stands in the value, and in the body.
    fn place(&self, equal: usize) -> Option<(usize, usize)> {
        let last = self.places(equal).checked_sub(1)?;
        if self.is_string() {
            self.units.get(last).map(|unit| (unit.at, unit.unescaped))
        } else {
            self.ends.get(last).map(|end| (*end, *end))
        }
    }

    /// Bytes that it takes in memory.
    pub(super) fn size(&self) -> usize {
        self.value.as_ref().map_or(0, Buffer::capacity) + self.body.size()
    }

    /// How many leading bytes of `value` are those of this one.
    pub(super) fn equal(&self, value: &[u8]) -> usize {
        common_prefix(self.value(), value)
    }

    /// How far `value` seems to go on like this one, by some bytes here and there.
    pub(super) fn likeness(&self, value: &[u8]) -> usize {
        let known = self.value();
        let places = (1..PROBES).map(|probe| known.len() / PROBES * probe);
        let is_equal = |at: &usize| {
            let probe = *at..known.len().min(at + PROBE);
            known.get(probe.clone()) == value.get(probe)
        };
        places.take_while(is_equal).last().unwrap_or(0)
    }

    /// Where the value at the start of `record`, whose first `equal` bytes are those of this one, is as this one again: what stands
    /// behind the messages of a body stays while they grow.
    pub(super) fn joint(&self, record: &[u8], equal: usize, scratch: &mut Buffer) -> Option<Joint> {
        let (from, _) = self.place(equal)?;
        let (old, body) = if self.is_string() {
            let unit = self.units.get(self.units.partition_point(|unit| unit.at < equal))?;
            (unit.at, unit.unescaped)
        } else {
            let end = *self.ends.get(self.ends.partition_point(|end| *end < equal))?;
            (end, end)
        };
        let end = self.value().get(old..).filter(|end| end.len() >= SHORT)?;
        let places = memchr::memmem::find_iter(record.get(from..)?, end.get(..PROBE)?).take(TRIES).map(|at| from + at);
        let new = places.into_iter().find(|new| record.get(*new..).is_some_and(|record| record.starts_with(end)))?;
        // What lies between must be whole by itself, and what follows must follow an element.
        let between = record.get(from..new)?;
        let half = between.len().checked_sub(UNICODE).and_then(|at| between.get(at..)).unwrap_or_default();
        let (opener, closer): (_, &[u8]) = if self.is_string() { (STRING, b"\"") } else { (ELEMENT, b",0]}") };
        scratch.clear();
        [opener, between, closer].into_iter().for_each(|piece| scratch.push(piece));
        let whole = serde_json::from_slice::<&RawValue>(scratch.as_slice()).is_ok();
        // The halves of a surrogate pair are one unit.
        (whole && !half.starts_with(b"\\u")).then_some(Joint { old, new, body })
    }

    /// How much of the value at the start of a record is known, if its first `equal` bytes are those of this one, and whether that is
    /// all of it.
    pub(super) fn familiar(&self, equal: usize, joint: Option<Joint>) -> Option<(usize, bool)> {
        match joint {
            Some(joint) => Some((joint.new + self.value().len() - joint.old, true)),
            None => self.place(equal).map(|(at, _)| (at, false)),
        }
    }

    /// The value at the start of `record`, whose first `equal` bytes are those of this one.
    pub(super) fn grown(
        &self,
        record: &[u8],
        equal: usize,
        joint: Option<Joint>,
        limits: Limits,
        scratch: &mut Buffer,
    ) -> Option<Growth> {
        let (from, unescaped) = self.place(equal)?;
        let length = match joint {
            Some(_) => self.familiar(equal, joint)?.0,
            None => {
                let opener = if self.is_string() { STRING } else { ELEMENT };
                scratch.clear();
                scratch.push(opener);
                scratch.push(record.get(from..)?);
                let rest = std::str::from_utf8(scratch.as_slice()).ok()?;
                let rest = <&RawValue>::deserialize(&mut serde_json::Deserializer::from_str(rest)).ok()?.get();
                from + rest.len() - opener.len()
            }
        };
        let again = joint.map_or(self.body.len(), |joint| joint.body);
        let (middle, units, depth) = if self.is_string() {
            let mut units = self.units.get(..self.places(equal))?.to_vec();
            let escaped = record.get(from..joint.map_or(length - 1, |joint| joint.new))?;
            let mut middle = Vec::with_capacity(escaped.len());
            json::unescape(escaped, from, &mut middle, &mut units);
            let new = units.get_mut(self.places(equal)..).unwrap_or_default();
            new.iter_mut().for_each(|unit| unit.unescaped += unescaped);
            if let Some(joint) = joint {
                let known = self.units.get(self.units.partition_point(|unit| unit.at < joint.old)..)?;
                let here = unescaped + middle.len();
                units.extend(known.iter().map(|unit| Unit {
                    at: unit.at - joint.old + joint.new,
                    unescaped: unit.unescaped - joint.body + here,
                }));
            }
            (middle, units, u32::MAX)
        } else {
            (record.get(from..joint.map_or(length, |joint| joint.new))?.to_vec(), Vec::new(), limits.depth)
        };
        let body = limits.check(self.body.grow(unescaped, middle, again)).ok()?;
        let mut ends = self.ends.get(..self.ends.partition_point(|end| *end <= unescaped))?.to_vec();
        let familiar = ends.last().copied().unwrap_or(0);
        let behind = self.find_ends(&body, joint.map(|joint| joint.body), depth, &mut ends)?;
        let alike = Alike { body: self.body.clone(), length: familiar, behind };
        Some(Growth { body, length, alike, units, ends })
    }

    /// Finds the ends in a body that begins and, from `again` of this one on, ends like this one; nothing if it is too deep. Gives how
    /// many bytes at the end, which begin behind an element, are those of this one.
    fn find_ends(&self, body: &Text, again: Option<usize>, depth: u32, ends: &mut Vec<usize>) -> Option<usize> {
        let again = again.and_then(|again| self.ends.get(self.ends.partition_point(|end| *end < again)..));
        let moved = |end: usize| (end + body.len()).checked_sub(self.body.len());
        let familiar = ends.last().copied().unwrap_or(0);
        if let Some([first, ..]) = again
            && let Some(first) = moved(*first).filter(|first| familiar < *first)
            && json::scan(&body.part(familiar..first), depth, ends)? == json::Place::BehindElement
        {
            let last = ends.last().copied();
            ends.extend(again.into_iter().flatten().filter_map(|end| moved(*end)).filter(|end| Some(*end) > last));
            return Some(body.len() - first);
        }
        let last = ends.last().copied().unwrap_or(0);
        json::scan(&body.part(last..body.len()), depth, ends).map(|_| 0)
    }

    /// Becomes what it grew to; `record` is the one from which that was read.
    pub(super) fn become_grown(&mut self, record: &[u8], equal: usize, joint: Option<Joint>, grown: Growth) {
        let value = record.get(..grown.length).unwrap_or_default();
        match &mut self.value {
            Some(known) => {
                let (old, new) = joint.map_or((known.as_slice().len(), value.len()), |joint| (joint.old, joint.new));
                let equal = equal.min(new);
                known.replace(equal..old, value.get(equal..new).unwrap_or_default());
            }
            None => self.value = Some(copy(value)),
        }
        (self.head, self.body, self.units, self.ends) = (head(value), grown.body, grown.units, grown.ends);
    }

    /// What it grew to, beside what it is.
    pub(super) fn beside(record: &[u8], grown: Growth) -> Self {
        let value = record.get(..grown.length).unwrap_or_default();
        Self { head: head(value), value: Some(copy(value)), body: grown.body, units: grown.units, ends: grown.ends }
    }
}

/// What two values have in common if one of them goes on from the other: they begin alike.
pub(super) fn head(value: &[u8]) -> Option<u64> {
    value.get(..SHORT).map(xxh3_64)
}

/// A copy.
fn copy(bytes: &[u8]) -> Buffer {
    let mut copy = Buffer::default();
    copy.push(bytes);
    copy
}

/// Before the middle of a string.
const STRING: &[u8] = b"\"";

/// Before what follows an element of an array in an object.
const ELEMENT: &[u8] = br#"{"":[{}"#;

/// Whether a JSON value is a string.
pub(super) fn is_string(value: &[u8]) -> bool {
    value.first() == Some(&b'"')
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

    #[test]
    fn common_prefixes_are_found_at_any_length() {
        for (length, at) in [(0, 0), (10, 3), (1024, 1023), (5000, 4097), (5000, 5000)] {
            let one = vec![b'a'; length];
            let mut other = vec![b'a'; length + 5];
            other[at] = b'b';
            assert_eq!(common_prefix(&one, &other), at.min(length));
        }
    }

    /// A body whose tools stand behind its messages, as the records of one format or another hold it.
    fn value(messages: &[String], is_string: bool) -> String {
        let message = |text: &String| json!({"role": "user", "content": [{"type": "text", "text": text}]});
        let messages: Vec<Value> = messages.iter().map(message).collect();
        let tools: Vec<Value> =
            (0..4).map(|at| json!({"name": at, "about": (0..200).map(|line| format!("{line} \"tool\"\n\u{1f600}")).collect::<String>()})).collect();
        let body = json!({"messages": messages, "tools": tools}).to_string();
        if is_string { json!(body).to_string() } else { body }
    }

    fn known(value: &str) -> Known {
        let mut ends = Vec::new();
        json::scan(value.as_bytes(), 128, &mut ends);
        let raw: &RawValue = serde_json::from_str(value).unwrap();
        if is_string(value.as_bytes()) { Known::string(raw).unwrap() } else { Known::object(Text::from(value), ends) }
    }

    #[test]
    fn an_element_that_is_missing_is_no_joint() {
        let element = |name: &str| format!(r#"{{"{name}":"{}"}}"#, name.repeat(6000));
        let [a, b, t, u, v] = ["a", "b", "t", "u", "v"].map(element);
        let old = known(&format!(r#"{{"messages":[{a}],"tools":[{t},{u},{v}]}}"#));
        let joint = |record: String| {
            let equal = old.equal(record.as_bytes());
            old.joint(record.as_bytes(), equal, &mut Buffer::default())
        };
        assert!(joint(format!(r#"{{"messages":[{a},{b}],"tools":[{t},{u},{v}]}}"#)).is_some());
        assert!(joint(format!(r#"{{"messages":[{a},{b}],"tools":[,{u},{v}]}}"#)).is_none());
    }

    proptest! {
        #[test]
        fn what_grew_is_what_reading_it_whole_gives(
            texts in proptest::collection::vec("[a-c\"\\\\\n\u{1f600}]{0,3000}", 4..8), cut in 0_usize..3, is_string: bool,
        ) {
            let old = value(&texts[..texts.len() - 1 - cut], is_string);
            let old = known(&old);
            let new = value(&texts, is_string);
            let record = format!("{new},\"more\":[]");
            let (equal, mut scratch) = (old.equal(record.as_bytes()), Buffer::default());
            let Some(joint) = old.place(equal).and_then(|_| old.joint(record.as_bytes(), equal, &mut scratch)) else {
                prop_assert!(old.place(equal).is_none(), "tools are found again");
                return Ok(());
            };
            prop_assert!(old.is_outgrown(equal, Some(joint)));
            for joint in [Some(joint), None] {
                let grown = old.grown(record.as_bytes(), equal, joint, Limits::default(), &mut scratch).unwrap();
                prop_assert_eq!(grown.length, new.len());
                let (alike, fresh) = (grown.alike.clone(), known(&new));
                let (old_body, new_body) = (alike.body.as_bytes(), fresh.body.as_bytes());
                prop_assert!(old_body[..alike.length] == new_body[..alike.length]);
                prop_assert!(old_body[old_body.len() - alike.behind..] == new_body[new_body.len() - alike.behind..]);
                prop_assert_eq!(joint.is_some(), alike.behind > 0);
                let beside = old.grown(record.as_bytes(), equal, joint, Limits::default(), &mut scratch).unwrap();
                prop_assert!(Known::beside(record.as_bytes(), beside).value() == fresh.value());
                let mut grows = known(&value(&texts[..texts.len() - 1 - cut], is_string));
                grows.become_grown(record.as_bytes(), equal, joint, grown);
                let grown = grows;
                prop_assert!(grown.value() == fresh.value() && grown.body == fresh.body);
                prop_assert!(grown.ends.is_sorted() && grown.units.is_sorted_by_key(|unit| unit.at));
                for end in &grown.ends {
                    let place = json::scan(&grown.body.as_bytes()[..*end], 128, &mut Vec::new());
                    prop_assert!(place == Some(json::Place::BehindElement));
                }
                for unit in &grown.units {
                    let mut body = Vec::new();
                    json::unescape(&new.as_bytes()[1..unit.at], 1, &mut body, &mut Vec::new());
                    prop_assert!(body == grown.body.as_bytes()[..unit.unescaped]);
                }
            }
        }
    }
}
