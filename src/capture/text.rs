//! [`Text`]: bytes of a log, erased on drop.
//!
//! Invariant: no `Debug`, `Display` or `Serialize`, so that it can reach no message, log line or file by accident.

use zeroize::Zeroize;

/// Bytes that came from a log. They are overwritten when dropped.
///
/// It can be read where it must be:
/// ```
/// let text = tracecloak::capture::Text::from("secret");
/// assert_eq!(text.as_bytes().len(), 6);
/// ```
/// It cannot be printed:
/// ```compile_fail
/// let text = tracecloak::capture::Text::from("secret");
/// println!("{text}");
/// ```
/// Not for debugging either:
/// ```compile_fail
/// let text = tracecloak::capture::Text::from("secret");
/// println!("{text:?}");
/// ```
/// Nor can it be serialized:
/// ```compile_fail
/// let text = tracecloak::capture::Text::from("secret");
/// let _ = serde_json::to_string(&text);
/// ```
/// The twin of these compiles, since a length says nothing:
/// ```
/// let text = tracecloak::capture::Text::from("secret");
/// println!("{:?} {}", text.as_bytes().len(), serde_json::to_string(&text.as_bytes().len()).unwrap());
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Text(Vec<u8>);

impl Text {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as UTF-8, if they are.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        erase(&mut self.0);
    }
}

/// Overwrites all that a vector holds or held.
pub(super) fn erase(bytes: &mut Vec<u8>) {
    // Emptied first: `zeroize` goes byte by byte over what is in use, but in bulk over what is spare.
    bytes.clear();
    bytes.zeroize();
}
