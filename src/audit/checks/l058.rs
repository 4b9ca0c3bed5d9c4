//! L058: bits per column.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::FileView;

check! {
    /// How many bits a value of the column carries on average. `--risk` lists all columns.
    L058 Info "bits per column"; "round what tells much";

    fn file(&self, file: &FileView, report: &mut Report) {
        for (label, _, bits) in file.columns.iter().filter(|(_, _, bits)| *bits >= 8.0) {
            self.find(report, Place::column(label), "bits a value", Some(crate::audit::risk::whole(*bits)));
        }
    }
}
