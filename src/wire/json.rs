//! JSON as sent, made independent of how a recorder spaces it.
//!
//! Invariant: two spellings of one value that differ in white space only become equal bytes; nothing else changes.

use std::borrow::Cow;

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
