//! L080: canonical re-encoding differs.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A trace of ours was decoded and written again by the one writer, and some byte came out differently. So not every byte is a
    /// function of the rows.
    L080 Error "canonical re-encoding differs"; "convert again with an unchanged program";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Reencoded);
    }
}
