<<<<<<< HEAD
//! What a trace looks like, and how two traces differ.
//!
//! Invariant: pure: it reads sessions and gives numbers, and neither prints nor opens anything.

mod columns;
pub mod compare;
=======
//! What a trace looks like: pure functions of sessions.
//!
//! Invariant: no I/O and no text; what is counted is exact.

mod overview;

pub use overview::{Overview, Quantiles};
>>>>>>> weka
