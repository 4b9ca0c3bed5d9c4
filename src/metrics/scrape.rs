//! x
//!
//! Invariant: x
