//! Which strings a declaration proves, and which could be ids.
//!
//! Invariant: a proved string is a word of a list that this program holds, with at most a few digits; those digits can be read by
//! whoever asks for them.

use super::Shape;
use super::words::{is_plain_name, is_tool};
use crate::audit::detect::{has_uuid, is_hex_text};
use crate::trace::Model;

/// Whether a string is proved by its declaration: it is one of few words that carry nothing.
pub(crate) fn proves(shape: &Shape, bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match shape {
        Shape::Word(words) => words.contains(&text),
        Shape::Listed(knows) => knows(text),
        Shape::Model => Model::parse(text).is_some(),
        Shape::Numbered(prefix) => text.strip_prefix(prefix).is_some_and(|digits| {
            (1..=6).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
        }),
        Shape::Opaque => is_plain_name(bytes) || is_number(text),
        Shape::Tool => is_tool(text),
        _ => false,
    }
}

/// Whether an id is digits with up to three letters between them, such as `p0a3`.
fn is_number(text: &str) -> bool {
    let letters = text.bytes().filter(u8::is_ascii_lowercase).count();
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    letters <= 3 && (1..=12).contains(&digits) && letters + digits == text.len()
}

/// The digits of a proved string as one number: what is left to say with it.
pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| i64::from(byte - b'0'));
    let mut some = false;
    let value =
        digits.inspect(|_| some = true).try_fold(0i64, |value, digit| value.checked_mul(10)?.checked_add(digit))?;
    some.then_some(value)
}

/// Whether a string can be nothing but an id: generic words, numbers, and hexadecimal digits that spell no text.
pub(crate) fn is_id(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let part = |part: &str| {
        let hex = part.len() >= 8 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        part.is_empty() || is_plain_name(part.as_bytes()) || is_number(part) || (hex && !is_hex_text(part))
    };
    bytes.len() <= 80
        && (has_uuid(text)
            || !is_hex_text(&text.replace(['-', '_', ':', '.'], "")) && text.split(['-', '_', ':', '.']).all(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_words_and_from_text_in_digits() {
        for id in
            ["request_12", "p0a3", "0f3a5b6c7d8e9f00", "session-7f3a9b2c1d", "550e8400-e29b-41d4-a716-446655440000"]
        {
            assert!(is_id(id.as_bytes()), "{id}");
        }
        for id in ["walrus", "Please-tell", "d2FscnVz", "77616c727573", "7761-6c72-7573-6573", "a b"] {
            assert!(!is_id(id.as_bytes()), "{id}");
        }
        assert_eq!((number(b"p1a23"), number(b"request")), (Some(123), None));
    }
}
