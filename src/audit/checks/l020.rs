//! L020: ids are not canonical.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Severity;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind, SessionView};

check! {
    /// Block ids are not numbered by first appearance in row order, from 0 or 1. Only that numbering is a function of the pattern of
    /// equal prefixes alone; any other order or gap can carry more. An error in our own format, a warning elsewhere.
    L020 Warning "ids are not canonical"; "number blocks by first appearance in row order";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        if !session.is_canonical() {
            self.find(report, session.place(), "block ids not numbered by first appearance", None);
        }
    }

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), Severity::Error, file, Kind::Canonical);
    }
}
