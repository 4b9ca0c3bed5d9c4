//! L006: string bytes over budget.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::view::FileView;

check! {
    /// Strings that no closed list proved take more than 16 bytes a row (and 64 for the file): enough for something to be said with
    /// them, whatever each one looks like.
    L006 Error "string bytes over budget"; "replace ids by numbers, and leave text out";

    fn file(&self, file: &FileView, report: &mut Report) {
        if file.open_bytes > 64 + 16 * file.rows {
            self.find(report, Place::default(), "bytes of strings that no closed list proved", Some(file.open_bytes));
        }
    }
}
