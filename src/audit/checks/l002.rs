//! L002: undeclared column or field.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Severity;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A column or field that the declared format does not have: an error, whatever its type, since nothing says what it may hold.
    ///
    /// In a file of no declared format every field is undeclared; there it is a warning, and its strings are L001.
    L002 Error "undeclared column or field"; "leave it out, or declare the format";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Undeclared);
        report.facts(self.meta(), Severity::Warning, file, Kind::Unknown);
    }
}
