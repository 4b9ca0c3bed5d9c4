//! A trace drives an endpoint as the agents did.
//!
//! Invariant: what is sent follows from the trace, the seed and the options; no text of a log is involved.

pub mod prompt;
