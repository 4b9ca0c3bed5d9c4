//! L056: value outside its domain.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A value has another type or size than the format declares, or stands where the declared profile keeps none.
    L056 Error "value outside its domain"; "correct it, or leave it out";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Domain);
        report.facts(self.meta(), self.meta().severity, file, Kind::Profile);
    }
}
