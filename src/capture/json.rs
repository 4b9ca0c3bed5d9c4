//! Parts of JSON records, looked into only where they are needed.
//!
//! Invariant: a string of a log is unescaped straight into [`Text`]; nothing here recurses, so nesting cannot exhaust the stack.
//!
//! Records are parsed into structs whose leaves are `&RawValue`: the parser then makes no copies of its own, and what a format
//! does not name is skipped whatever it holds.

use std::fmt;

use memchr::{memchr, memchr2};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::exchange::{Headers, SkipReason};
use super::familiar::Record;
use super::known::Unit;
use super::reader::Limits;
use super::text::Text;

/// A part of a record that may be absent or null.
pub(super) type Part<'a> = Option<&'a RawValue>;

/// Parses a record. A reason of `Truncated` means: not whole JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(record: &'a str, limits: Limits) -> Result<T, SkipReason> {
    // Of serde's error only the category is kept: its message quotes the log.
    serde_json::from_str(record).map_err(|error| {
        if deeper_than(record, limits.depth) {
            SkipReason::TooDeep
        } else if error.is_data() {
            SkipReason::Malformed
        } else {
            SkipReason::Truncated
        }
    })
}

/// Reads a part with `read`, which gives none for a wrong type.
pub(super) fn get<T>(part: Part, read: impl FnOnce(&RawValue) -> Option<T>) -> Result<Option<T>, SkipReason> {
    part.map(|raw| read(raw).ok_or(SkipReason::Malformed)).transpose()
}

/// A number that fits `T`.
pub(super) fn number<T: std::str::FromStr>(raw: &RawValue) -> Option<T> {
    raw.get().parse().ok()
}

/// A boolean.
pub(super) fn boolean(raw: &RawValue) -> Option<bool> {
    raw.get().parse().ok()
}

/// A string, unescaped. A surrogate without its other half becomes U+FFFD.
pub(super) fn text(raw: &RawValue) -> Option<Text> {
    let escaped = raw.get().strip_prefix('"')?.strip_suffix('"')?.as_bytes();
    // Text is never longer than its escaped form, so that this never grows and leaves no copy behind.
    let mut out = Vec::with_capacity(escaped.len());
    unescape(escaped, 0, &mut out, &mut Vec::new());
    Some(Text::from(out))
}

/// Bytes between two places from which reading may go on, at least.
const BETWEEN_MARKS: usize = 2 << 10;

/// Appends what is escaped in the middle of a string, which stands at `at` in it, and notes places between its units.
pub(super) fn unescape(escaped: &[u8], at: usize, out: &mut Vec<u8>, units: &mut Vec<Unit>) {
    let mut rest = escaped;
    let mut next = units.last().map_or(at, |unit| unit.at) + BETWEEN_MARKS;
    while let Some(length) = memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(length);
        out.extend_from_slice(plain);
        let here = at + escaped.len() - escape.len();
        if here >= next {
            units.push(Unit { at: here, unescaped: out.len() });
            next = here + BETWEEN_MARKS;
        }
        rest = unescape_one(escape, out);
    }
    out.extend_from_slice(rest);
}

/// Appends what the escape at the start stands for; gives what follows it. The parser has checked its form.
fn unescape_one<'a>(escape: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (byte, rest) = match escape {
        [_, b'u', rest @ ..] => {
            let (char, rest) = unicode(rest);
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            return rest;
        }
        [_, b'b', rest @ ..] => (0x08, rest),
        [_, b'f', rest @ ..] => (0x0c, rest),
        [_, b'n', rest @ ..] => (b'\n', rest),
        [_, b'r', rest @ ..] => (b'\r', rest),
        [_, b't', rest @ ..] => (b'\t', rest),
        [_, itself, rest @ ..] => (*itself, rest),
        _ => return &[],
    };
    out.push(byte);
    rest
}

/// The character of one `\u` escape, or of two that are a surrogate pair, and what follows.
fn unicode(digits: &[u8]) -> (char, &[u8]) {
    let (first, rest) = hex(digits);
    if (0xd800..0xdc00).contains(&first)
        && let [b'\\', b'u', digits @ ..] = rest
        && let (second @ 0xdc00..0xe000, rest) = hex(digits)
    {
        let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), rest);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), rest)
}

/// Four hex digits and what follows.
fn hex(digits: &[u8]) -> (u32, &[u8]) {
    let (four, rest) = digits.split_at_checked(4).unwrap_or_default();
    (four.iter().fold(0, |code, digit| code << 4 | char::from(*digit).to_digit(16).unwrap_or(0)), rest)
}

/// A body that was stored parsed if it was JSON, and as a string otherwise.
pub(super) fn stored(part: Part, limits: Limits) -> Result<Option<Text>, SkipReason> {
    Record::whole("").stored(part, limits)
}

/// An object of the parts that are there.
pub(super) fn object(parts: &[(&str, Part)]) -> Text {
    let mut out =
        Vec::with_capacity(parts.iter().filter_map(|(_, part)| *part).map(|part| part.get().len() + 32).sum());
    out.push(b'{');
    for (key, value) in parts.iter().filter_map(|(key, part)| Some((key, (*part)?))) {
        if out.len() > 1 {
            out.push(b',');
        }
        for piece in [b"\"", key.as_bytes(), b"\":", value.get().as_bytes()] {
            out.extend_from_slice(piece);
        }
    }
    out.push(b'}');
    Text::from(out)
}

/// Headers that were stored as an object: a value is a string, or a list of them.
pub(super) fn headers(fields: Option<Fields>) -> Result<Headers, SkipReason> {
    let mut headers = Vec::new();
    for (name, value) in fields.map(|Fields(fields)| fields).unwrap_or_default() {
        if let Some(value) = text(value) {
            headers.push((name, value));
        } else {
            let values: Vec<&RawValue> = serde_json::from_str(value.get()).map_err(|_| SkipReason::Malformed)?;
            for value in values {
                headers.push((name.clone(), text(value).ok_or(SkipReason::Malformed)?));
            }
        }
    }
    Ok(Headers(headers))
}

/// The fields of an object, in order.
#[derive(Clone)]
pub(super) struct Fields<'a>(pub(super) Vec<(Text, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// The fields of a part, if it is an object.
    pub(super) fn of(part: Part<'a>) -> Option<Self> {
        serde_json::from_str(part?.get()).ok()
    }

    /// The first field of a name.
    pub(super) fn get(&self, name: &str) -> Part<'a> {
        self.0.iter().find(|(field, _)| field.as_bytes() == name.as_bytes()).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields<'de>, M::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, _>()? {
                    fields.push((Text::from(name), value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Whether arrays and objects nest deeper than `limit`.
pub(super) fn deeper_than(json: &str, limit: u32) -> bool {
    scan(json.as_bytes(), limit, &mut Vec::new()).is_none()
}

/// Where a scan ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Right behind an array or object that is an element of an array in the outermost object.
    BehindElement,
    /// Anywhere else.
    Other,
}

/// Notes the ends of arrays and objects that are elements of an array in the outermost object; with such ends given, `json` is what
/// stands behind the last of them. Nothing if arrays and objects nest deeper than `limit`.
pub(super) fn scan(json: &[u8], limit: u32, ends: &mut Vec<usize>) -> Option<Place> {
    let from = ends.last().copied().unwrap_or(0);
    let mut rest = json;
    let (mut depth, mut in_object, mut in_array) = if from > 0 { (2_u32, true, true) } else { (0, false, false) };
    let mut place = if from > 0 { Place::BehindElement } else { Place::Other };
    while let [byte, tail @ ..] = rest {
        (rest, place) = (tail, Place::Other);
        match byte {
            b'"' => rest = after_string(tail),
            b'{' | b'[' if depth == limit => return None,
            b'{' | b'[' => {
                match depth {
                    0 => in_object = *byte == b'{',
                    1 => in_array = *byte == b'[',
                    _ => {}
                }
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 2 && in_object && in_array {
                    place = Place::BehindElement;
                    let at = from + json.len() - rest.len();
                    if at >= ends.last().unwrap_or(&0) + BETWEEN_MARKS {
                        ends.push(at);
                    }
                }
            }
            _ => {}
        }
    }
    Some(place)
}

/// What follows a string whose opening quote has been passed; nothing if it does not end.
pub(super) fn after_string(mut inside: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', inside) {
        match inside.get(at..) {
            Some([b'"', rest @ ..]) => return rest,
            Some([_, _, rest @ ..]) => inside = rest,
            _ => break,
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unescaped(json: &str) -> Option<Vec<u8>> {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        text(raw).map(|text| text.as_bytes().to_vec())
    }

    #[test]
    fn every_escape_is_undone() {
        assert_eq!(
            unescaped(r#""\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00.""#).unwrap(),
            "\"\\/\u{8}\u{c}\n\r\tAé😀.".as_bytes()
        );
        assert_eq!(unescaped(r#""\ud83d-\ude00\ud83d\u0041""#).unwrap(), "\u{fffd}-\u{fffd}\u{fffd}A".as_bytes());
        assert_eq!(unescaped("12"), None);
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        assert!(!deeper_than(r#"{"[[[[":["\"[[[["]}"#, 2));
        assert!(deeper_than(r#"{"a":[{}]}"#, 2));
        assert!(deeper_than(&"[".repeat(1_000_000), 128));
        assert!(!deeper_than(r#"["\"#, 1));
    }

    proptest! {
        #[test]
        fn strings_are_unescaped_as_serde_does(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescaped(&json).unwrap(), text.as_bytes());
        }
    }
}
