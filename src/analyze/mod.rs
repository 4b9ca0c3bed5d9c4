//! What a trace looks like: pure functions of sessions.
//!
//! Invariant: no I/O and no text; what is counted is exact.

mod overview;

pub use overview::{Overview, Quantiles};
