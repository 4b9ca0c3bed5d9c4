//! L053: configuration fingerprint.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::FileView;

check! {
    /// Lengths of the tools and system parts of a prompt tell one machine's configuration from another's: of 692 public sessions they
    /// single out 32 %, and put 63 % in groups below five.
    L053 Warning "configuration fingerprint"; "leave lengths of tools and system prompt out";

    fn file(&self, file: &FileView, report: &mut Report) {
        if file.configuration {
            self.find(report, Place::default(), "lengths of tools and system parts", None);
        }
    }
}
