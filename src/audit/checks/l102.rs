//! L102: hash of the source.
//!
//! Invariant: it reports places and classes only, and keeps nothing. What finds it needs the logs, so it is in `proof`.

use crate::audit::check::check;

check! {
    /// Ids are what a hash without a key makes of messages, lines or blocks of the logs: md5, sha1, sha2, blake2, blake3, xxh3 with the
    /// usual seeds, siphash with key 0 and crc, cut to 32 to 128 bits from either end. Whoever guesses the text can confirm the guess.
    /// Looked for with `--source LOG…`; blocks of tokens need `--tokenizer` too.
    L102 Error "hash of the source"; "number ids by first appearance";
}
