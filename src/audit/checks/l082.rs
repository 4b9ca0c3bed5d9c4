//! L082: file or folder name.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Severity;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// The name of a file, a folder or an archive's entry is published with what is in it, and can hold text as well. The report shows
    /// such a file by its number.
    ///
    /// Names of generic words and small numbers tell nothing (`trace_0001.jsonl.zst`). A name with one short word of its own
    /// (`acme-trace.jsonl`) is a warning: it may be the data set's public name, or a customer's. More is an error: several such words, a
    /// long one, letters mixed with digits as in keys and hashes, a long number, spaces, or other characters. Four names with a word
    /// each are several words. Dates are L042.
    L082 Error "file or folder name"; "rename it with generic words, or accept it with --allow L082";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::FileName);
        report.facts(self.meta(), Severity::Warning, file, Kind::FileWord);
    }
}
