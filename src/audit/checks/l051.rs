//! L051: exact lengths.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::FileView;

check! {
    /// Lengths of prompts and answers are stated token by token. Exact growth of a prompt matches a known file uniquely in about half
    /// of all cases. `--risk` says how unique they are here.
    L051 Info "exact lengths"; "round them, if the trace is for everyone";

    fn file(&self, file: &FileView, report: &mut Report) {
        if file.exact_lengths {
            self.find(report, Place::default(), "lengths in single tokens", None);
        }
    }
}
