//! L041: finer than the declared quantum.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A number is no multiple of the step that the manifest declares for it. The finer digits identify, and a reader relies on the
    /// step.
    L041 Warning "finer than the declared quantum"; "round as the manifest says, or state the true quantum";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Quantum);
    }
}
