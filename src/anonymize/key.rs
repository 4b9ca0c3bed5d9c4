//! The key of a run, and the tags made with it.
//!
//! Invariant: nothing made with the key is ever published; it is erased at the end. The published trace can be recomputed from
//! the tree alone, so there is nothing to test guesses against.

use zeroize::{Zeroize, Zeroizing};

/// A 32-byte key.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; 32]>);

impl Key {
    /// A fresh one from the operating system.
    ///
    /// # Errors
    /// If the operating system has no randomness to give.
    pub fn fresh() -> Result<Self, getrandom::Error> {
        let mut key = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *key)?;
        Ok(Self(key))
    }

    /// From the bytes of a key file.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    fn derive(&self, context: &str) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(blake3::derive_key(context, &*self.0))
    }
}

/// A keyed hash of an identifier or of a text: equal for equal input, and meaningless without the key. In memory only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tag(pub(super) [u8; 16]);

/// Makes tags and chain hashes.
pub(super) struct Tagger {
    tags: blake3::Hasher,
    blocks: blake3::Hasher,
}

impl Tagger {
    pub(super) fn new(key: &Key) -> Self {
        Self {
            tags: blake3::Hasher::new_keyed(&key.derive("tracecloak 2026-11 identifiers v1")),
            blocks: blake3::Hasher::new_keyed(&key.derive("tracecloak 2026-11 token blocks v1")),
        }
    }

    /// The tag of the fields, in order; a field's end is part of it.
    pub(super) fn tag<'a>(&self, fields: impl IntoIterator<Item = &'a [u8]>) -> Tag {
        let mut hasher = self.tags.clone();
        for field in fields {
            hasher.update(&u64::try_from(field.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(field);
        }
        finish(&hasher)
    }

    /// The tag of one text.
    pub(super) fn text(&self, text: &str) -> Tag {
        self.tag([text.as_bytes()])
    }

    /// The tag of a session's id, in lower case.
    pub(super) fn session(&self, id: &str) -> Tag {
        self.tag([&b"session"[..], id.as_bytes()])
    }

    /// The chain hash of a block of tokens that follows the block `before`.
    pub(super) fn block(&self, before: Tag, tokens: &[u32]) -> Tag {
        let mut hasher = self.blocks.clone();
        hasher.update(&before.0);
        let mut bytes = [0; 256];
        for chunk in tokens.chunks(64) {
            for (to, token) in bytes.chunks_exact_mut(4).zip(chunk) {
                to.copy_from_slice(&token.to_le_bytes());
            }
            hasher.update(bytes.get(..chunk.len() * 4).unwrap_or_default());
        }
        finish(&hasher)
    }
}

impl Drop for Tagger {
    fn drop(&mut self) {
        self.tags.zeroize();
        self.blocks.zeroize();
    }
}

fn finish(hasher: &blake3::Hasher) -> Tag {
    let mut tag = [0; 16];
    hasher.finalize_xof().fill(&mut tag);
    Tag(tag)
}
