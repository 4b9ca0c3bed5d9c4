//! L027: the same raw ids in two files.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::Dataset;

check! {
    /// Two files share wide ids that no dense numbering gives: they were hashed with the same key, or with none, and can be joined.
    L027 Warning "the same raw ids in two files"; "renumber ids in each file";

    fn dataset(&self, dataset: &Dataset, report: &mut Report) {
        for (at, (file, ids)) in dataset.raw_ids.iter().enumerate() {
            let shared = dataset.raw_ids.iter().take(at).any(|(_, other)| ids.iter().any(|id| other.binary_search(id).is_ok()));
            if shared {
                report.begin(file);
                self.find(report, Place::default(), "ids that another file holds too", None);
            }
        }
    }
}
