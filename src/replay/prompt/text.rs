//! [`Text`]: what a message says, in memory once however many prompts hold it.
//!
//! Invariant: it is plain only if its JSON is itself between quotation marks.

use std::ops::Deref;
use std::sync::Arc;

use hyper::body::Bytes;

/// A text that prompts share.
#[derive(Clone, Debug, Default)]
pub struct Text {
    text: Arc<String>,
    plain: bool,
}

impl Text {
    /// Whether no part of it needs escaping in JSON.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Its bytes, not copied.
    pub(in crate::replay) fn bytes(&self) -> Bytes {
        Bytes::from_owner(Held(Arc::clone(&self.text)))
    }
}

/// Keeps a text while a piece of a body holds it.
struct Held(Arc<String>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        let escaped = |byte: u8| matches!(byte, ..b' ' | b'"' | b'\\');
        // To the end in any case, so that many bytes are looked at together.
        let plain = !text.bytes().fold(false, |found, byte| found | escaped(byte));
        Self { text: Arc::new(text), plain }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Text {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_what_json_leaves_as_it_is() {
        for byte in 0..=127_u8 {
            let text = format!("some words{}", char::from(byte));
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(Text::from(text.clone()).is_plain(), json == format!("\"{text}\""), "{byte}");
        }
        assert!(Text::from("").is_plain() && Text::from("über").is_plain());
    }
}
