//! Can anything be got back? Checks of trace files, ours and anyone's.
//!
//! Invariant: what can't be decoded is "not audited", never clean; a finding says where and what class, never the value.
//!
//! The ladder is file → column → session → value. `view` takes a file apart down to its last byte and feeds what it
//! holds to the [`check::Check`]s; `vocab` says what declared formats may hold; `run` walks paths and sums up; `render` shows.

pub mod check;
mod checks;
mod coded;
mod detect;
pub mod finding;
mod own;
pub mod render;
pub mod report;
pub mod risk;
pub mod rules;
pub mod run;
pub mod view;
pub mod vocab;

pub use check::{CHECKS, Check, Meta};
pub use finding::{Finding, Place, Severity};
pub use run::{AuditError, Baseline, Options, Outcome, SourceOutcome, audit};

/// A length as u64; a `usize` never has more than 64 bits.
pub(crate) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// A stated size as a length; what does not fit is out of range of any file anyway.
pub(crate) fn narrow(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
