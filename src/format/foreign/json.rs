//! JSON rows, field by field, so that an error can name the field.
//!
//! Invariant: values are borrowed from the row until they are asked for; a long list of numbers is passed over at the speed of
//! memory and read once, when it is taken. No error carries a value.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::counting;
use super::error::{RowError, RowFault};
use super::tree::Ids;

/// How deep values may be nested.
const DEPTH: u32 = 64;

/// An object: its members, not yet read.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, &'a [u8])>,
}

type Field<T> = Result<T, RowError>;

/// The first object of `bytes` and what follows it, as far as it reaches: where it is cut off, `None` for the rest.
pub(crate) fn keys(bytes: &[u8]) -> Vec<Cow<'_, str>> {
    let mut keys = Vec::new();
    let mut rest = blank(bytes);
    let Some(mut inner) = rest.strip_prefix(b"{") else { return keys };
    while let Ok((key, value)) = member(inner) {
        keys.push(key);
        match skip(value, DEPTH) {
            Ok(after) => rest = blank(after),
            Err(_) => break,
        }
        match rest.strip_prefix(b",") {
            Some(next) => inner = next,
            None => break,
        }
    }
    keys
}

/// The length of the value that `bytes` begin with.
pub(crate) fn value_length(bytes: &[u8]) -> Result<usize, RowFault> {
    skip(bytes, DEPTH).map(|rest| bytes.len() - rest.len())
}

impl<'a> Object<'a> {
    /// The members of an object that is the whole of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RowFault> {
        let mut members: Vec<(Cow<'a, str>, &'a [u8])> = Vec::with_capacity(16);
        let mut rest = blank(blank(bytes).strip_prefix(b"{").ok_or(RowFault::Type)?);
        if let Some(after) = rest.strip_prefix(b"}") {
            return end(after).map(|()| Self { members });
        }
        loop {
            let (key, value) = member(rest)?;
            let after = skip(value, DEPTH)?;
            let value = value.get(..value.len() - after.len()).unwrap_or(value);
            if members.iter().any(|(earlier, _)| *earlier == key) {
                return Err(RowFault::Twice);
            }
            members.push((key, value));
            match blank(after).split_first() {
                Some((b',', next)) => rest = next,
                Some((b'}', after)) => return end(after).map(|()| Self { members }),
                Some(_) => return Err(RowFault::NotJson),
                None => return Err(RowFault::CutOff),
            }
        }
    }

    /// How many members are none of these.
    pub fn unknown(&self, known: &[&str]) -> usize {
        self.members.iter().filter(|(key, _)| !known.contains(&&**key)).count()
    }

    /// The member as it stands; `None` where it is missing or null.
    pub fn raw(&self, name: &str) -> Option<&'a [u8]> {
        self.members.iter().find(|(key, _)| key == name).map(|(_, value)| *value).filter(|value| *value != b"null")
    }

    /// The member read by `read`; `None` where it is missing or null.
    pub fn maybe<T>(&self, name: &'static str, read: impl FnOnce(&'a [u8]) -> Result<T, RowFault>) -> Field<Option<T>> {
        self.raw(name).map(read).transpose().map_err(|fault| RowError::new(name, fault))
    }

    /// The member read by `read`.
    pub fn get<T>(&self, name: &'static str, read: impl FnOnce(&'a [u8]) -> Result<T, RowFault>) -> Field<T> {
        self.maybe(name, read)?.ok_or(RowError::new(name, RowFault::Missing))
    }

    /// The items of a list of objects; an error within names its place.
    pub fn list<T>(&self, name: &'static str, mut item: impl FnMut(usize, Self) -> Field<T>) -> Field<Option<Vec<T>>> {
        let Some(bytes) = self.raw(name) else { return Ok(None) };
        let mut items = Vec::new();
        let walked = each(bytes, |value| {
            let place = items.len();
            let object = Object::parse(value).map_err(|fault| RowError::new("", fault));
            items.push(object.and_then(|object| item(place, object)).map_err(|error| error.within(name, place))?);
            Ok(())
        });
        walked.map_err(|error| error.unwrap_or_else(|fault| RowError::new(name, fault)))?;
        Ok(Some(items))
    }
}

/// Calls `item` with each value of a list.
fn each<'a, E>(bytes: &'a [u8], mut item: impl FnMut(&'a [u8]) -> Result<(), E>) -> Result<(), Result<E, RowFault>> {
    let mut rest = blank(bytes.strip_prefix(b"[").ok_or(Err(RowFault::Type))?);
    if rest.starts_with(b"]") {
        return Ok(());
    }
    loop {
        let value = blank(rest);
        let after = skip(value, DEPTH).map_err(Err)?;
        item(value.get(..value.len() - after.len()).unwrap_or(value)).map_err(Ok)?;
        match blank(after).split_first() {
            Some((b',', next)) => rest = next,
            Some((b']', _)) => return Ok(()),
            _ => return Err(Err(RowFault::NotJson)),
        }
    }
}

/// Reads a list, each item by `read`.
pub fn items<'a, T>(
    read: impl Fn(&'a [u8]) -> Result<T, RowFault>,
) -> impl FnOnce(&'a [u8]) -> Result<Vec<T>, RowFault> {
    move |bytes| {
        let mut items = Vec::new();
        each(bytes, |value| read(value).map(|item| items.push(item)))
            .map_err(|error| error.unwrap_or_else(|fault| fault))?;
        Ok(items)
    }
}

/// Reads an object.
pub fn object(bytes: &[u8]) -> Result<Object<'_>, RowFault> {
    Object::parse(bytes)
}

/// Reads a whole number of its type; `5.0` is one.
pub fn whole<N: TryFrom<i128>>(bytes: &[u8]) -> Result<N, RowFault> {
    let (units, exact) = decimal(bytes, 0)?;
    if exact { N::try_from(units).map_err(|_| RowFault::Domain) } else { Err(RowFault::Domain) }
}

/// Reads a time in seconds as milliseconds, and whether nothing was rounded.
pub fn seconds(bytes: &[u8]) -> Result<(i64, bool), RowFault> {
    scaled(bytes, 3)
}

/// Reads a number as so many thousandths (or other places after the point), and whether nothing was rounded.
pub fn scaled(bytes: &[u8], places: u32) -> Result<(i64, bool), RowFault> {
    let (units, exact) = decimal(bytes, places)?;
    // Beyond a million years nothing can be meant.
    let units = i64::try_from(units).ok().filter(|units| units.unsigned_abs() < 1 << 55).ok_or(RowFault::Domain)?;
    Ok((units, exact))
}

/// Reads true or false.
pub fn truth(bytes: &[u8]) -> Result<bool, RowFault> {
    match bytes {
        b"true" => Ok(true),
        b"false" => Ok(false),
        _ => Err(RowFault::Type),
    }
}

/// Reads a string.
pub fn string(bytes: &[u8]) -> Result<Cow<'_, str>, RowFault> {
    let inner = bytes.strip_prefix(b"\"").and_then(|bytes| bytes.strip_suffix(b"\"")).ok_or(RowFault::Type)?;
    if memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).map(Cow::Borrowed).map_err(|_| RowFault::NotJson);
    }
    serde_json::from_slice::<String>(bytes).map(Cow::Owned).map_err(|_| RowFault::NotJson)
}

/// Reads a list of block ids.
pub fn ids(bytes: &[u8]) -> Result<Ids, RowFault> {
    let mut ids = Ids::default();
    let mut rest = blank(bytes.strip_prefix(b"[").ok_or(RowFault::Type)?);
    if rest.starts_with(b"]") {
        return Ok(ids);
    }
    loop {
        let (mut id, mut digits) = (0_u64, 0_usize);
        for digit in rest.iter().map(|byte| byte.wrapping_sub(b'0')).take_while(|digit| *digit < 10) {
            id = if digits < 19 {
                id * 10 + u64::from(digit)
            } else {
                id.checked_mul(10).and_then(|id| id.checked_add(digit.into())).ok_or(RowFault::Domain)?
            };
            digits += 1;
        }
        if digits == 0 {
            return Err(if rest.starts_with(b"-") { RowFault::Domain } else { RowFault::Type });
        }
        ids.push(id);
        let after = rest.get(digits..).unwrap_or_default();
        rest = match after {
            [b',', next @ ..] => next,
            [b']', ..] => return Ok(ids),
            _ => match blank(after).split_first() {
                Some((b',', next)) => next,
                Some((b']', _)) => return Ok(ids),
                _ => return Err(RowFault::Type),
            },
        };
        rest = if rest.first().is_some_and(u8::is_ascii_digit) { rest } else { blank(rest) };
        if ids.counts_up() {
            let (count, length) = counting::read(rest, id.saturating_add(1));
            ids.count_on(count);
            rest = blank(rest.get(length..).unwrap_or_default());
        }
    }
}

/// A number times 10^places, rounded, and whether it was exact.
fn decimal(bytes: &[u8], places: u32) -> Result<(i128, bool), RowFault> {
    let (negative, digits) = bytes.strip_prefix(b"-").map_or((false, bytes), |digits| (true, digits));
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return Err(RowFault::Type);
    }
    let (mut units, mut after_point, mut exact) = (0_i128, None, true);
    for (at, byte) in digits.iter().enumerate() {
        match (byte, after_point) {
            (b'0'..=b'9', Some(point)) if point >= places => {
                if point == places && *byte >= b'5' {
                    units += 1;
                }
                exact &= *byte == b'0';
                after_point = Some(point + 1);
            }
            (b'0'..=b'9', _) => {
                units = units * 10 + i128::from(byte - b'0');
                after_point = after_point.map(|point| point + 1);
            }
            (b'.', None) => after_point = Some(0),
            (b'e' | b'E', _) => return exponent(bytes, places),
            _ => return Err(RowFault::Type),
        }
        if at > 30 && units > 1 << 80 {
            return Err(RowFault::Domain);
        }
    }
    for _ in after_point.unwrap_or(0)..places {
        units *= 10;
    }
    Ok((if negative { -units } else { units }, exact))
}

/// Few writers use exponents; those go through a float.
fn exponent(bytes: &[u8], places: u32) -> Result<(i128, bool), RowFault> {
    let number: f64 = serde_json::from_slice(bytes).map_err(|_| RowFault::Type)?;
    let units = (number * 10_f64.powi(places.cast_signed())).round();
    let exact = number.abs() < 1e15 && (units - number * 10_f64.powi(places.cast_signed())).abs() < 1e-9;
    // A float prints as plain digits, so this needs no lossy conversion.
    format!("{units:.0}").parse().map(|units| (units, exact)).map_err(|_| RowFault::Domain)
}

fn end(rest: &[u8]) -> Result<(), RowFault> {
    if blank(rest).is_empty() { Ok(()) } else { Err(RowFault::NotJson) }
}

/// Without the white space at the front.
pub(crate) fn blank(bytes: &[u8]) -> &[u8] {
    let at = bytes.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
    at.and_then(|at| bytes.get(at..)).unwrap_or_default()
}

/// A key, and what follows its colon.
fn member(bytes: &[u8]) -> Result<(Cow<'_, str>, &[u8]), RowFault> {
    let bytes = blank(bytes);
    let after = quoted(bytes)?;
    let key = string(bytes.get(..bytes.len() - after.len()).unwrap_or(bytes))?;
    let after = blank(after);
    match after.split_first() {
        Some((b':', value)) => Ok((key, blank(value))),
        Some(_) => Err(RowFault::NotJson),
        None => Err(RowFault::CutOff),
    }
}

/// What follows a string.
fn quoted(bytes: &[u8]) -> Result<&[u8], RowFault> {
    let mut rest = match bytes.split_first() {
        Some((b'"', rest)) => rest,
        Some(_) => return Err(RowFault::NotJson),
        None => return Err(RowFault::CutOff),
    };
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let escape = rest.get(at) == Some(&b'\\');
        rest = rest.get(at + if escape { 2 } else { 1 }..).ok_or(RowFault::CutOff)?;
        if !escape {
            return Ok(rest);
        }
    }
    Err(RowFault::CutOff)
}

/// What follows the value at the front. Numbers and lists of numbers are not looked into.
fn skip(bytes: &[u8], depth: u32) -> Result<&[u8], RowFault> {
    let deeper = depth.checked_sub(1).ok_or(RowFault::TooLarge)?;
    let bytes = blank(bytes);
    let Some((first, rest)) = bytes.split_first() else { return Err(RowFault::CutOff) };
    match first {
        b'"' => quoted(bytes),
        b'[' if blank(rest).first().is_some_and(u8::is_ascii_digit) => match memchr2(b']', b'"', rest) {
            Some(at) if rest.get(at) == Some(&b']') => Ok(rest.get(at + 1..).unwrap_or_default()),
            Some(_) => Err(RowFault::Type),
            None => Err(RowFault::CutOff),
        },
        b'[' | b'{' => {
            let close = if *first == b'[' { b']' } else { b'}' };
            let mut rest = blank(rest);
            if let Some(after) = rest.strip_prefix(&[close]) {
                return Ok(after);
            }
            loop {
                let value = if close == b'}' { member(rest)?.1 } else { rest };
                match blank(skip(value, deeper)?).split_first() {
                    Some((b',', next)) => rest = next,
                    Some((byte, after)) if *byte == close => return Ok(after),
                    Some(_) => return Err(RowFault::NotJson),
                    None => return Err(RowFault::CutOff),
                }
            }
        }
        _ => {
            let length = bytes.iter().position(|byte| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte)));
            match length {
                Some(0) => Err(RowFault::NotJson),
                Some(length) => scalar(bytes, length),
                None => Err(RowFault::CutOff),
            }
        }
    }
}

/// What follows a number, true, false or null of this length.
fn scalar(bytes: &[u8], length: usize) -> Result<&[u8], RowFault> {
    let (value, rest) = bytes.split_at_checked(length).ok_or(RowFault::CutOff)?;
    let number = value.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
    if number || [&b"true"[..], b"false", b"null"].contains(&value) { Ok(rest) } else { Err(RowFault::NotJson) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_where_they_are_asked_for() {
        let row =
            br#" {"t": 1.25, "in":7, "ids":[1, 2,5], "n\u0061me":"a\"b", "no":null, "more":[{"x":[[]]},{"x":-1}]} "#;
        let row = Object::parse(row).unwrap();
        assert_eq!(row.get("t", seconds), Ok((1250, true)));
        assert_eq!(row.get("in", whole::<u32>), Ok(7));
        assert_eq!(row.get("ids", ids).unwrap().iter().collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!(row.get("name", string).unwrap(), "a\"b");
        assert_eq!(row.maybe("no", whole::<u8>), Ok(None));
        assert_eq!(row.get("gone", string).unwrap_err(), RowError::new("gone", RowFault::Missing));
        assert_eq!(row.unknown(&["t", "in", "ids", "name"]), 2);
        let error = row.list("more", |_, item| item.get("x", whole::<u32>)).unwrap_err();
        assert_eq!(error, RowError::new("x", RowFault::Type).within("more", 0));
    }

    #[test]
    fn numbers_are_exact_in_their_unit() {
        for (text, expected) in [
            ("0", Ok((0, true))),
            ("12.5", Ok((12_500, true))),
            ("-0.001", Ok((-1, true))),
            ("1.23456", Ok((1235, false))),
            ("1.2340", Ok((1234, true))),
            ("1e3", Ok((1_000_000, true))),
            ("1e300", Err(RowFault::Domain)),
            ("\"1\"", Err(RowFault::Type)),
            ("NaN", Err(RowFault::Type)),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(whole::<u32>(b"5.0"), Ok(5));
        assert_eq!(whole::<u32>(b"5.5"), Err(RowFault::Domain));
        assert_eq!(whole::<u32>(b"4294967296"), Err(RowFault::Domain));
        assert_eq!(whole::<u64>(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(ids(b"[18446744073709551615]").unwrap().iter().collect::<Vec<_>>(), [u64::MAX]);
        assert_eq!(ids(b"[18446744073709551616]").unwrap_err(), RowFault::Domain);
        assert_eq!(ids(b"[1,-2]").unwrap_err(), RowFault::Domain);
        assert_eq!(ids(b"[1,2.5]").unwrap_err(), RowFault::Type);
    }

    #[test]
    fn what_is_no_json_is_refused_and_what_is_cut_off_is_told_apart() {
        for broken in
            ["{\"a\":1]", "{a:1}", "{\"a\":tru}", "{\"a\":1,,}", "{\"a\" 1}", "{\"a\":1} x", "{\"a\":[1,\"x\"]}"]
        {
            assert!(Object::parse(broken.as_bytes()).is_err_and(|fault| fault != RowFault::CutOff), "{broken}");
        }
        let whole = br#"{"a":[1,2],"b":{"c":"d\\"}}"#;
        for length in 1..whole.len() {
            assert_eq!(value_length(&whole[..length]), Err(RowFault::CutOff), "{length}");
        }
        assert_eq!(value_length(whole), Ok(whole.len()));
        let nested = [b"[".repeat(1000), b"]".repeat(1000)].concat();
        assert_eq!(value_length(&nested), Err(RowFault::TooLarge));
        assert_eq!(Object::parse(br#"{"a":1,"a":2}"#).unwrap_err(), RowFault::Twice);
    }
}
