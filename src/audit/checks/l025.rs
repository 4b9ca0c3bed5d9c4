//! L025: scope broken or undeclared.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::finding::Severity;
use crate::audit::report::Report;
use crate::audit::view::{FileView, Kind, SessionView};

check! {
    /// Which prompts share ids is not stated, or not kept: ids under a local scope go on from another session. Equal ids across
    /// sessions link people who saw the same text.
    L025 Error "scope broken or undeclared"; "state the scope, and number ids anew in each session";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        if session.format.is_none_or(|format| !format.local) || session.ids.is_empty() {
            return;
        }
        match session.scope {
            None => self.find(report, session.place(), "no scope is stated", None),
            Some(false) => report.add(self.meta(), Severity::Warning, session.place(), "ids are shared across sessions", None),
            Some(true) if session.ids.iter().min().is_some_and(|least| *least > 1 << 20) => {
                self.find(report, session.place(), "local ids that do not begin anew", None);
            }
            Some(true) => (),
        }
    }

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Scope);
    }
}
