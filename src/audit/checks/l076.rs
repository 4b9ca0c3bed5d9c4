//! L076: unused dictionary entry.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A dictionary holds an entry that no row uses: what a filter leaves behind. The rows are gone, their text is not.
    L076 Error "unused dictionary entry"; "write the column again from its values";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::UnusedEntry);
    }
}
