//! L022: reproduced by an unkeyed hash.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use sha2::Digest;

use crate::audit::check::check;
use crate::audit::detect::is_hex_hash;
use crate::audit::report::Report;
use crate::audit::view::{ColumnView, SessionView, TextView};

check! {
    /// An id equals the unkeyed hash of a text that everybody knows: so the hash has no key, and any text can be tried. With the
    /// source at hand (`--source`) the same is tried with every message, line and block of it.
    L022 Error "reproduced by an unkeyed hash"; "use a keyed hash, erase the key, and renumber";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        if session.ids.iter().any(|id| *id > u64::from(u32::MAX) && KNOWN.contains(id)) {
            self.find(report, session.place(), "an id that is the unkeyed hash of a well-known text", None);
        }
    }

    fn column(&self, column: &ColumnView<'_>, report: &mut Report) {
        if column.values.iter().any(|value| value.unsigned_abs() > u64::from(u32::MAX) && KNOWN.contains(&value.cast_unsigned())) {
            self.find(report, column.place(), "a number that is the unkeyed hash of a well-known text", None);
        }
    }

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        let shown = text.lossy();
        let digits = shown.get(..16).filter(|_| is_hex_hash(&shown)).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if digits.is_some_and(|digits| KNOWN.contains(&digits)) {
            self.find(report, text.place(), "the unkeyed hash of a well-known text", None);
        }
    }
}

/// Texts that many prompts begin with or hold.
const TEXTS: &[&str] = &[
    "",
    "\n",
    " ",
    "a",
    "test",
    "hello",
    "Hello",
    "hi",
    "Hi",
    "ok",
    "yes",
    "continue",
    "Continue",
    "system",
    "user",
    "assistant",
    "null",
    "{}",
    "[]",
    "0",
    "1",
    "You are a helpful assistant.",
    "You are a helpful assistant",
    "Hello, world!",
    "Hello world",
    "foo",
    "password",
];

/// Their hashes, 64, 63, 53 and 32 bits of them, in both byte orders.
static KNOWN: LazyLock<BTreeSet<u64>> = LazyLock::new(|| {
    let mut known = BTreeSet::new();
    for text in TEXTS.iter().map(|text| text.as_bytes()) {
        let sha: [u8; 32] = sha2::Sha256::digest(text).into();
        let sha512: [u8; 64] = sha2::Sha512::digest(text).into();
        let blake: [u8; 32] = blake3::hash(text).into();
        let heads = [sha.first_chunk(), sha512.first_chunk(), blake.first_chunk()];
        let heads = heads.into_iter().flatten().flat_map(|head| [u64::from_be_bytes(*head), u64::from_le_bytes(*head)]);
        let fast = [0, 1337].map(|seed| xxhash_rust::xxh3::xxh3_64_with_seed(text, seed));
        for hash in heads.chain(fast).chain(fast.map(u64::swap_bytes)) {
            known.extend([hash, hash >> 1, hash & ((1 << 63) - 1), hash & ((1 << 53) - 1), hash >> 11]);
        }
    }
    known
});
