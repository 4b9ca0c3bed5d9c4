//! [`Text`]: bytes of a log, erased on drop.
//!
//! Invariant: no `Debug`, `Display` or `Serialize`, so that it can reach no message, log line or file by accident.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
///
/// A clone shares the bytes, since bodies are kept to read the next one from where it parts from them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Text(Arc<Erased>);

/// Bytes that are overwritten when dropped.
#[derive(Default, PartialEq, Eq)]
struct Erased(Vec<u8>);

impl Text {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.0
    }

    /// The bytes as UTF-8, if they are.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// Whether both are one text, and not only equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many bytes it takes in memory.
    pub(crate) fn capacity(&self) -> usize {
        self.0.0.capacity()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Erased(bytes)))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(text.into_bytes())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes().to_vec())
    }
}

impl Drop for Erased {
    fn drop(&mut self) {
        if !LEFT_TO_ALLOCATOR.load(Ordering::Relaxed) {
            erase(&mut self.0);
        }
    }
}

/// Whether the allocator overwrites what is freed.
static LEFT_TO_ALLOCATOR: AtomicBool = AtomicBool::new(false);

/// Says that the program's allocator overwrites what is freed, so that doing it here, too, would do it twice.
pub fn leave_erasing_to_allocator() {
    LEFT_TO_ALLOCATOR.store(true, Ordering::Relaxed);
}

/// Overwrites all that a vector holds or held.
pub(super) fn erase(bytes: &mut Vec<u8>) {
    // Emptied first: `zeroize` goes byte by byte over what is in use, but in bulk over what is spare.
    bytes.clear();
    bytes.zeroize();
}
