//! L010: passthrough object.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// An object that the format does not declare: headers, metadata, a body. Objects passed through from the source hold whatever
    /// the source put there, today or after its next update.
    L010 Error "passthrough object"; "name the members that are needed, and drop the rest";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Passthrough);
    }
}
