//! L140: mode of a key file.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A file with the form of a key lies beside the trace, readable by others.
    L140 Warning "mode of a key file"; "chmod 600, and move it away from the trace";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::KeyMode);
    }
}
