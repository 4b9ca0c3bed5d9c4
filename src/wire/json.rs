//! JSON as sent: made independent of how a recorder spaces it, and looked into where it is needed.
//!
//! Invariant: two spellings of one value that differ in white space only become equal bytes; nothing else changes. What is looked
//! into is borrowed.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::WireError;

/// `raw` without white space outside strings. Borrows where there is none.
pub fn compact(raw: &str) -> Cow<'_, str> {
    let bytes = raw.as_bytes();
    let Some(first) = next_space(bytes, 0) else { return Cow::Borrowed(raw) };
    let mut out = String::with_capacity(raw.len());
    let (mut copied, mut at) = (0, Some(first));
    while let Some(space) = at {
        out.push_str(raw.get(copied..space).unwrap_or_default());
        copied = space + 1;
        at = next_space(bytes, copied);
    }
    out.push_str(raw.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// The next white space outside a string, from `at` on, where `at` lies outside one.
fn next_space(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut in_string = false;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// A JSON string, borrowed where it holds no escapes. Half surrogate pairs, which harnesses make when they cut a string, become
/// replacement characters.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Text<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string")
            }
            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Text<'de>, E> {
                Ok(Text(lossy(bytes)))
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(lossy(bytes).into_owned())))
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        // As bytes: serde_json lets half surrogate pairs through there only.
        deserializer.deserialize_bytes(Visitor)
    }
}

/// As [`String::from_utf8_lossy`], but at the speed of a check where nothing is lost.
fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// A value that is as if absent where its type is wrong.
pub(super) fn lenient<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

pub(super) fn list(raw: Option<&RawValue>) -> Result<Vec<&RawValue>, WireError> {
    let list = raw.map(|raw| serde_json::from_str::<Option<Vec<&RawValue>>>(raw.get())).transpose()?;
    Ok(list.flatten().unwrap_or_default())
}

/// A text; a null or missing one is empty. Another type is an error, since the prompt can't be laid out.
pub(super) fn text(raw: Option<&RawValue>) -> Result<Cow<'_, str>, WireError> {
    let text = raw.map(|raw| serde_json::from_str::<Option<Text<'_>>>(raw.get())).transpose()?.flatten();
    Ok(text.map(|text| text.0).unwrap_or_default())
}

/// The members of an object, in order. One that is null is as if absent.
#[derive(Default)]
pub(super) struct Object<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Reads an object.
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, WireError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// Reads a part that must be an object.
    pub(super) fn of(raw: &'a RawValue) -> Result<Self, WireError> {
        Self::parse(raw.get().as_bytes())
    }

    /// A member.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let member = self.0.iter().find(|(key, _)| key == name)?.1;
        (member.get() != "null").then_some(member)
    }

    /// The first member that is there.
    pub(super) fn any(&self, names: &[&str]) -> Option<&'a RawValue> {
        names.iter().find_map(|name| self.get(name))
    }

    /// A text; another type is as if absent, and so empty.
    pub(super) fn word(&self, name: &str) -> Cow<'a, str> {
        lenient::<Text<'_>>(self.get(name)).map(|text| text.0).unwrap_or_default()
    }

    /// An object inside; another type is as if absent, and so empty.
    pub(super) fn inside(&self, names: &[&str]) -> Self {
        lenient(self.any(names)).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Object<'de>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((key, value));
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_outside_strings_goes_and_nothing_else() {
        assert_eq!(compact(r#"{ "a b": [1, "c \" d"] , "e":"\\" }"#), r#"{"a b":[1,"c \" d"],"e":"\\"}"#);
        assert!(matches!(compact(r#"{"a b":1}"#), Cow::Borrowed(_)));
        assert_eq!(compact("\n\"é \u{1F600} \"\t"), "\"é \u{1F600} \"");
    }
}
