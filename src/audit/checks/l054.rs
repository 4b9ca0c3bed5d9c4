//! L054: duplicate sessions.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::Dataset;

check! {
    /// Two sessions have the same lengths throughout: one was recorded twice, or forked. Duplicates weigh double in every result, and
    /// link what a scope was to keep apart.
    L054 Warning "duplicate sessions"; "keep each session once";

    fn dataset(&self, dataset: &Dataset, report: &mut Report) {
        let mut known = std::collections::BTreeSet::new();
        for session in dataset.sessions.iter().filter(|session| session.lengths.len() >= 3) {
            if !known.insert(&session.lengths) {
                report.begin(&session.file);
                self.find(report, Place::default().row(session.row), "a session with the lengths of another", None);
            }
        }
    }
}
