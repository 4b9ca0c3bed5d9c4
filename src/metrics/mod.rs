//! What a replay measured: records of requests, and what they come to.
//!
//! Invariant: pure functions of what was measured or read; no clock, no network, no text.

mod collector;
mod histogram;
mod record;
pub mod scrape;
mod slo;
mod summary;
mod table;

pub use collector::{Collector, Wants};
pub use histogram::Histogram;
pub use record::{Ending, RequestRecord};
pub use slo::{Metric, Price, Slo, Syntax, time};
pub use summary::{Cache, Cost, Counters, Distribution, Goodput, Length, Objective, Requests, Sessions, Summary};
pub use table::{RecordWriter, columns};
