//! [`Text`]: bytes of a log, erased on drop.
//!
//! Invariant: no `Debug`, `Display` or `Serialize`, so that it can reach no message, log line or file by accident.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zeroize::Zeroize;

use super::grown::{Base, Grown, Part};

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
/// A clone shares the bytes, and so does what grows from it: bodies are kept to read the next one from where it parts from them.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    Whole(Arc<Erased>),
    Grown(Arc<Grown>),
}

/// Bytes that are overwritten when dropped.
#[derive(Default)]
pub(crate) struct Erased(Vec<u8>);

impl Erased {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The vector; one that grows leaves what it held behind.
    pub(super) fn as_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl From<Vec<u8>> for Erased {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Text {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Whole(bytes) => bytes.as_bytes(),
            Form::Grown(grown) => grown.as_bytes(),
        }
    }

    /// The bytes as UTF-8, if they are.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()).ok()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Whole(bytes) => bytes.as_bytes().len(),
            Form::Grown(grown) => grown.len(),
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in a range, as far as it lies in the text; cheaper than all of them where the text grew.
    pub(crate) fn part(&self, range: Range<usize>) -> Part<'_> {
        let range = range.start..range.end.min(self.len());
        match &self.0 {
            _ if range.is_empty() => Part::Borrowed(&[]),
            Form::Whole(bytes) => Part::Borrowed(bytes.as_bytes().get(range).unwrap_or_default()),
            Form::Grown(grown) => grown.part(range),
        }
    }

    /// A text of the first `before` bytes of this one, the middle, and what stands at and behind `again` in this one. It shares them.
    pub(super) fn grow(&self, before: usize, middle: Vec<u8>, again: usize) -> Self {
        let base = match &self.0 {
            Form::Whole(bytes) => Base::Whole(Arc::clone(bytes)),
            Form::Grown(grown) => Base::Link(Arc::clone(&grown.link)),
        };
        Self(match base.grow(before, middle, again) {
            Base::Whole(bytes) => Form::Whole(bytes),
            Base::Link(link) => Form::Grown(Arc::new(Grown::from(link))),
        })
    }

    /// Whether both are one text, and not only equal.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Whole(one), Form::Whole(other)) => Arc::ptr_eq(one, other),
            (Form::Grown(one), Form::Grown(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// How many bytes it may take in memory.
    pub(crate) fn size(&self) -> usize {
        match &self.0 {
            Form::Whole(bytes) => bytes.capacity(),
            Form::Grown(grown) => grown.size(),
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl From<Erased> for Text {
    fn from(bytes: Erased) -> Self {
        Self(Form::Whole(Arc::new(bytes)))
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(Erased(bytes))
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
