//! L052: uniqueness.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::Dataset;

check! {
    /// How many places of the trace are the only one with their three exact pairs of lengths, in percent. Whoever knows three
    /// successive requests of a session finds it then. `--risk` gives the table, `--max-unique X` makes it a gate.
    L052 Info "uniqueness"; "round lengths and times, or share with fewer people";

    fn dataset(&self, dataset: &Dataset, report: &mut Report) {
        let share = crate::audit::risk::unique(&dataset.sessions, 3, 1);
        if let Some(percent) = share.map(crate::audit::risk::percent) {
            report.begin("all files");
            self.find(report, Place::default(), "percent of windows of three requests that occur once", Some(percent));
        }
    }
}
