//! L077: bytes below a null.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A null of an Arrow column has bytes below it. Masking a value leaves it in the buffer.
    L077 Error "bytes below a null"; "write the column again from its values";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::NullSlot);
    }
}
