//! L083: JSON that readers understand differently.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// Duplicate members, bytes before or behind, a byte order mark, text that is not UTF-8, unusual white space: one reader sees what
    /// another does not.
    L083 Error "JSON that readers understand differently"; "write it again with one JSON writer";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Spelling);
    }
}
