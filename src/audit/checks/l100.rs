//! L100: window of the source.
//!
//! Invariant: it reports places and classes only, and keeps nothing. What finds it needs the logs, so it is in `proof`.

use crate::audit::check::check;

check! {
    /// Bytes in a row that stand in the logs: 16 or more are an error, 12 a warning. With `--source LOG…` the logs are looked through as
    /// bytes and as the strings that their parser assembles.
    ///
    /// Looked for is what nothing proved textless: open strings, names, numbers, and the bytes of a file wherever they are more than its
    /// values; as they are and decoded up to four times (base64, hex, escapes, compressed streams, UTF-16, numbers as characters or
    /// bytes, columns joined over rows, and with `--tokenizer` token ids).
    L100 Error "window of the source"; "take out what came from the logs";
}
