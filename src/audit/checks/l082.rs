//! L082: file or folder name.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A name is not made of generic words and small numbers. It is published with the file. The report shows such a file by its
    /// number.
    L082 Error "file or folder name"; "rename it with generic words";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::FileName);
    }
}
