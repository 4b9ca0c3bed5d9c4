//! What inference servers say of themselves at `/metrics`: Prometheus text to counters, gauges and quantiles per engine.
//!
//! ```
//! use std::time::Duration;
//! use tracecloak::metrics::scrape::{Engine, Measure, Page, Tally};
//!
//! let page = |hits: u32| Page::parse(&format!("vllm:prefix_cache_queries_total 900\nvllm:prefix_cache_hits_total{{engine=\"0\"}} {hits}\n"));
//! let mut tally = Tally::new();
//! tally.add(Duration::ZERO, &page(100));
//! tally.add(Duration::from_secs(5), &page(164));
//! assert_eq!(tally.engine(), Some(Engine::Vllm));
//! assert_eq!(tally.increase(Measure::Hits), Some(64.0));
//! ```
//!
//! The parser is our own: of the crates, one is LGPL, the other needs a clock for time stamps and drops broken lines in silence.
//!
//! Invariant: counters are taken as differences between pages, never as last values; a counter that falls was reset and counts from 0.

mod engine;
mod page;
mod tally;

pub use engine::{Engine, Measure};
pub use page::{Page, Series};
pub use tally::{Sample, Tally};
