//! L072: Arrow schema in Parquet.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Severity;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A Parquet file repeats its schema in Arrow's form. That is harmless as such; metadata of fields or loose bytes inside it, which
    /// no look at the Parquet schema shows, are an error.
    L072 Warning "Arrow schema in Parquet"; "write without the Arrow schema";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::ArrowSchema);
        report.facts(self.meta(), Severity::Error, file, Kind::ArrowMetadata);
    }
}
