//! What a trace looks like, and how two traces differ: pure functions of sessions.
//!
//! Invariant: no I/O and no text; what is counted is exact.

mod columns;
pub mod compare;
mod overview;

pub use overview::{Overview, Quantiles};
