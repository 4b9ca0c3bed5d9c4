//! L084: undeclared file beside the trace.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A file lies in the trace's folder that its manifest does not name.
    L084 Error "undeclared file beside the trace"; "move it away";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::UndeclaredFile);
    }
}
