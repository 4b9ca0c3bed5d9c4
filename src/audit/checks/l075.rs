//! L075: bloom filter.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A bloom filter answers whether a value was in the column, also for values that are gone.
    L075 Error "bloom filter"; "write without bloom filters";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Bloom);
    }
}
