//! L026: row ids are not dense.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// Ids of sessions, agents or requests of our own format are not dense and in row order. A gap tells what was taken out; an order
    /// of its own can carry something.
    L026 Error "row ids are not dense"; "number rows from 0 in their order";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Dense);
    }
}
