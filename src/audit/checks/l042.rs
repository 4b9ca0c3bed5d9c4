//! L042: date in a name or in metadata.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A file name, a column name or metadata holds a date: when something was recorded or exported.
    L042 Error "date in a name or in metadata"; "take it out of the name";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::NameDate);
    }
}
