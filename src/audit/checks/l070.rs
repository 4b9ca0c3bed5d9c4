//! L070: bytes that no structure owns.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// Bytes between the parts of a file, behind its values, or in members that the format does not know. Readers skip them; they can
    /// hold anything.
    L070 Error "bytes that no structure owns"; "write the file again from its values";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Unowned);
    }
}
