//! L081: can not be decoded.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A file, or a part of one, can't be decoded: encrypted, damaged, of an unknown kind, or larger than it may be. Nothing is known
    /// about it, so the audit ends with exit code 3.
    L081 Error "can not be decoded"; "store it in a form that can be decoded";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Undecodable);
    }
}
