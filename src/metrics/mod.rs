//! What a replay measured: records of requests, and what they come to.
//!
//! Invariant: pure functions of what was measured or read; no clock, no network, no text.

mod collector;
mod histogram;
mod record;
mod samples;
mod schema;
pub mod scrape;
mod slo;
mod summary;
mod table;

pub use collector::{Collector, Wants};
pub use histogram::Histogram;
pub use record::{Ending, RequestId, RequestRecord};
pub use samples::write_samples;
pub use schema::summary_json;
pub use slo::{Metric, Price, Slo, Syntax, time};
pub use summary::{
    Cache, Calibrated, Cost, Counters, Distribution, Gates, Goodput, Length, Objective, Rendered, Requests, Sessions,
    Summary,
};
pub use table::{RecordWriter, columns};
