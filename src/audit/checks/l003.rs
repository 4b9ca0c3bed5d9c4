//! L003: undeclared name.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// The name of a field, column or schema is not made of generic words and small numbers. A name can hold text as well as a value
    /// can. The report shows such a name as `?` and a number.
    L003 Error "undeclared name"; "rename it with generic words";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Name);
    }
}
