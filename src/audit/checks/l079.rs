//! L079: archive header with a name, time or owner.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A compressed stream or an archive says whose file it was, when it changed, or carries bytes that readers skip.
    L079 Error "archive header with a name, time or owner"; "pack it again without them (gzip -n, tar --owner=0 --mtime=@0)";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Archive);
    }
}
