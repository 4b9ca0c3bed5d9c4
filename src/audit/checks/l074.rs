//! L074: statistics or index differ from the data.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// Statistics, a page index, a checksum or a stated count do not belong to the data. Values that were blanked in the pages live on
    /// in them.
    L074 Error "statistics or index differ from the data"; "write the file again from its values";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Statistics);
    }
}
