//! L078: padding that is not zero.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// Bits or bytes that only fill up are not zero. Some writers leave memory there; it can hold anything.
    L078 Warning "padding that is not zero"; "write the file again from its values";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Padding);
    }
}
