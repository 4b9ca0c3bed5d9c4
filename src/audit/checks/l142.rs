//! L142: debug log beside the output.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind};

check! {
    /// A log, a core dump or a journal lies beside the trace. Such files hold text, and go out with the folder if nobody looks.
    L142 Error "debug log beside the output"; "move it away";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::DebugLog);
    }
}
