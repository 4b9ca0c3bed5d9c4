//! Outcomes as text, JSON, SARIF, and statements.
//!
//! Invariant: what is shown is findings, labels and counts: no value, no path of the machine, no time.

mod attest;
mod json;
mod plain;
mod sarif;

pub use attest::attest;
pub use json::json;
pub use plain::{explain, list, plain, risk};
pub use sarif::sarif;
