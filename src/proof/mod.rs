//! What needs both sides: is any of the log's text in the trace?
//!
//! Invariant: what comes out is places, offsets, lengths and counts; never a byte of the source or of the trace.
//!
//! ```text
//! trace directory, any file → Residual → closure → Index ┐
//! logs → raw bytes, and the strings their parser assembles ┴ scan → SourceReport
//! ```
//!
//! The check can miss nothing that is at least `k` bytes long and stands in the residual in a form that the closure undoes:
//! ```
//! use tracecloak::proof::{Residual, SourceCheck};
//! let mut residual = Residual::new();
//! residual.push("notes.txt", b"see bWVldCBhdCBkb2NrIHNldmVu for details".to_vec());
//! let mut check = SourceCheck::new(&residual, 12, None)?;
//! check.feed_raw(b"{\"text\":\"we meet at dock seven tonight\"}");
//! let report = check.finish();
//! assert_eq!(report.windows[0].decoded[0].name(), "base64");
//! assert_eq!(report.windows[0].length, 18);
//! # Ok::<(), tracecloak::proof::ProofError>(())
//! ```

mod closure;
mod columns;
mod foreign;
mod grams;
mod hashes;
mod index;
mod logs;
mod residual;
mod source;
mod strings;
mod words;

use std::io;

pub use closure::{Decoding, Detokenize, walk};
pub use hashes::{Algorithm, HashMatch, Tokenize};
pub use index::Place;
pub use logs::check_logs;
pub use residual::Residual;
pub use source::{Coverage, Match, SourceCheck, SourceReport, Tokens};

/// Bytes of a window that is an error, and of one that is a warning (for a converter's own output, an error too).
pub const ERROR_WINDOW: usize = 16;
/// See [`ERROR_WINDOW`].
pub const WARNING_WINDOW: usize = 12;

/// Why a check could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// A file of the trace cannot be read.
    #[error("a file of the trace cannot be read: {0}")]
    Io(io::ErrorKind),
    /// A table that was read before cannot be read again.
    #[error("a table of the trace cannot be decoded")]
    Unreadable,
}

impl ProofError {
    fn io(error: &io::Error) -> Self {
        Self::Io(error.kind())
    }
}
