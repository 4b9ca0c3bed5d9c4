//! What a trace looks like, and how two traces differ.
//!
//! Invariant: pure: it reads sessions and gives numbers, and neither prints nor opens anything.

mod columns;
pub mod compare;
