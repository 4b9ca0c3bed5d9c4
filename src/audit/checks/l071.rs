//! L071: key-value metadata.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A Parquet file has key-value metadata, names other files, or an unknown writer names itself. Libraries put paths, attributes and
    /// histories there.
    L071 Error "key-value metadata"; "write without metadata";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::KeyValue);
    }
}
