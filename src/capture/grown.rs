//! [`Grown`]: a text that has most of its bytes in common with an earlier one, and holds only what is new.
//!
//! Invariant: what is held is at most twice the text, and few links long, whatever it grew from; all of it is overwritten when dropped.

use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use super::text::Erased;

/// Texts that grow from each other, at most; then one is made whole again.
const LINKS: usize = 64;

/// What a text grows from: one that is whole, or one that grew itself.
#[derive(Clone)]
pub(super) enum Base {
    Whole(Arc<Erased>),
    Link(Arc<Link>),
}

/// The first bytes of a base, others, and the last ones of the base.
pub(super) struct Link {
    base: Base,
    before: usize,
    middle: Erased,
    /// From where on the base follows.
    again: usize,
    length: usize,
    links: usize,
    held: usize,
}

/// A text that grew; put together where all of it is asked for.
pub(super) struct Grown {
    pub(super) link: Arc<Link>,
    whole: OnceLock<Erased>,
}

/// A part of a text: borrowed where it stands in one piece, or put together.
pub(crate) enum Part<'a> {
    Borrowed(&'a [u8]),
    Copied(Erased),
}

impl Deref for Part<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Copied(bytes) => bytes.as_bytes(),
        }
    }
}

impl Base {
    fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.as_bytes().len(),
            Self::Link(link) => link.length,
        }
    }

    /// How many bytes it holds in memory, and how many links long it is.
    fn held(&self) -> (usize, usize) {
        match self {
            Self::Whole(bytes) => (bytes.capacity(), 0),
            Self::Link(link) => (link.held, link.links),
        }
    }

    /// What has its first `before` bytes, then the middle, and then those of it that stand at and behind `again`. What would hold too
    /// much comes back whole.
    pub(super) fn grow(self, before: usize, middle: Vec<u8>, again: usize) -> Self {
        let (before, again) = (before.min(self.len()), again.min(self.len()));
        let length = before + middle.len() + self.len() - again;
        let (held, links) = self.held();
        let (held, links) = (held + middle.capacity(), links + 1);
        let link = Link { base: self, before, middle: Erased::from(middle), again, length, links, held };
        if links > LINKS || held > 2 * length {
            let mut whole = Vec::with_capacity(length);
            link.append(0..length, &mut whole);
            return Self::Whole(Arc::new(Erased::from(whole)));
        }
        Self::Link(Arc::new(link))
    }

    fn append(&self, range: Range<usize>, out: &mut Vec<u8>) {
        match self {
            _ if range.is_empty() => {}
            Self::Whole(bytes) => out.extend_from_slice(bytes.as_bytes().get(range).unwrap_or_default()),
            Self::Link(link) => link.append(range, out),
        }
    }
}

impl Link {
    fn append(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let behind = self.before + self.middle.as_bytes().len();
        let within = |from: usize, to: usize| range.start.clamp(from, to)..range.end.clamp(from, to);
        let (middle, rest) = (within(self.before, behind), within(behind, self.length));
        self.base.append(within(0, self.before), out);
        let middle = middle.start - self.before..middle.end - self.before;
        out.extend_from_slice(self.middle.as_bytes().get(middle).unwrap_or_default());
        self.base.append(rest.start - behind + self.again..rest.end - behind + self.again, out);
    }
}

impl From<Arc<Link>> for Grown {
    fn from(link: Arc<Link>) -> Self {
        Self { link, whole: OnceLock::new() }
    }
}

impl Grown {
    pub(super) fn len(&self) -> usize {
        self.link.length
    }

    /// How many bytes it may take in memory.
    pub(super) fn size(&self) -> usize {
        self.link.held + self.link.length
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.whole.get_or_init(|| self.copy(0..self.len())).as_bytes()
    }

    /// The bytes in a range that lies in it.
    pub(super) fn part(&self, range: Range<usize>) -> Part<'_> {
        match self.whole.get() {
            Some(whole) => Part::Borrowed(whole.as_bytes().get(range).unwrap_or_default()),
            None => Part::Copied(self.copy(range)),
        }
    }

    fn copy(&self, range: Range<usize>) -> Erased {
        // Never grows, so that no copy is left behind.
        let mut out = Vec::with_capacity(range.len());
        self.link.append(range, &mut out);
        Erased::from(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::capture::Text;

    proptest! {
        #[test]
        fn what_grew_is_what_it_would_be_in_one_piece(
            first in proptest::collection::vec(any::<u8>(), 0..200),
            steps in proptest::collection::vec((0_usize..300, proptest::collection::vec(any::<u8>(), 0..40), 0_usize..300), 0..100),
            (from, to) in (0_usize..200, 0_usize..400),
        ) {
            let (mut text, mut bytes) = (Text::from(first.clone()), first);
            for (before, middle, again) in steps {
                let (before, again) = (before.min(bytes.len()), again.min(bytes.len()));
                text = text.grow(before, middle.clone(), again);
                bytes = [&bytes[..before], &middle, &bytes[again..]].concat();
                prop_assert_eq!(text.len(), bytes.len());
                prop_assert!(text.size() <= 3 * bytes.len().max(text.len()) + 64);
                let part = from.min(bytes.len())..to.clamp(from, from.max(bytes.len())).min(bytes.len());
                prop_assert!(*text.part(part.clone()) == bytes[part]);
                prop_assert!(*text.part(from..to) == *bytes.get(from..to.min(bytes.len())).unwrap_or_default());
            }
            prop_assert!(text.as_bytes() == bytes && text == Text::from(bytes));
        }
    }
}
