//! Trace files: reading and writing sessions, whatever the format.
//!
//! Invariant: everything that is read has passed the [`Checker`], and so has everything that is written; an error says where,
//! never what. Nothing here sees text.
//!
//! Our own format is a directory of Parquet tables beside a manifest ([`parquet`]). To add a format: one new file, one line in
//! [`FORMATS`].

pub mod card;
pub mod check;
mod error;
pub mod foreign;
pub mod manifest;
pub mod parquet;
#[cfg(test)]
pub(crate) mod sample;
pub mod schemas;
mod staging;
pub mod tokens;

use std::path::Path;

pub use check::Checker;
pub use error::{Fault, FileName, FormatError};
pub use staging::{publish, remove_staged};

use crate::trace::vocab::Loss;
use crate::trace::{Manifest, Session};

/// A format that traces can be stored in.
pub trait TraceFormat: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Opens a trace for reading.
    ///
    /// # Errors
    /// If there is no trace of this format.
    fn open(&self, path: &Path) -> Result<Box<dyn TraceSource>, FormatError>;

    /// Begins a trace. The totals and files of `manifest` are left out of account; the sink works them out. An existing trace
    /// is replaced at the end, if `replace` says so.
    ///
    /// # Errors
    /// If the target exists and may not be replaced, or can't be written.
    fn create(&self, path: &Path, manifest: Manifest, replace: bool) -> Result<Box<dyn TraceSink>, FormatError>;

    /// What a trace loses when it is stored in this format.
    fn loss(&self) -> &'static [Loss];
}

/// A trace being read: its sessions, one at a time. It ends after the first error.
pub trait TraceSource: Iterator<Item = Result<Session, FormatError>> {
    /// What is known before the tables.
    fn manifest(&self) -> &Manifest;
}

/// A trace being written. Nothing can be seen at the target until it is finished; dropped before, it leaves nothing behind.
pub trait TraceSink {
    /// Adds the next session, in published order.
    ///
    /// # Errors
    /// If it breaks a rule of the format or can't be written. What was written so far is then removed.
    fn session(&mut self, session: &Session) -> Result<(), FormatError>;

    /// Puts the trace in place and gives its manifest.
    ///
    /// # Errors
    /// If it can't be written, or an earlier session could not.
    fn finish(self: Box<Self>) -> Result<Manifest, FormatError>;
}

/// Every format.
pub const FORMATS: &[&dyn TraceFormat] = &[&parquet::Directory];

/// Opens a trace in our own format.
///
/// # Errors
/// If there is none.
pub fn open(path: &Path) -> Result<Box<dyn TraceSource>, FormatError> {
    parquet::Directory.open(path)
}

/// A length as a count of rows.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
