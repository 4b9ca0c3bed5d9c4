//! Metrics: what a server says of itself.
//!
//! Invariant: pure functions of what was read; no clock, no I/O.

pub mod scrape;
