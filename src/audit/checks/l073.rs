//! L073: created_by.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// The file names the program and version that wrote it: one more thing by which files of one origin are recognised.
    L073 Warning "created_by"; "write without the name of the writer";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::CreatedBy);
    }
}
