//! What a trace looks like, and how two traces differ: pure functions of sessions.
//!
//! Invariant: no I/O and no text; what is counted is exact.

mod accesses;
pub mod cache_curve;
mod columns;
pub mod compare;
pub mod concurrency;
pub mod distributions;
mod overview;

pub use accesses::Accesses;
pub(crate) use cache_curve::float;
pub use cache_curve::{CacheCurve, CurveBuilder, Split};
pub use concurrency::InFlight;
pub use distributions::{Bins, Distributions};
pub use overview::{Overview, Quantiles};
