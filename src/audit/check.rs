//! What a check is, and the list of all checks.
//!
//! Invariant: ids are never reused; a check is one file in `checks/`, its doc comment is its help page, and it holds no state.

use super::finding::{Place, Severity};
use super::report::Report;
use super::view::{ColumnView, Dataset, FileView, SessionView, TextView};

/// What is known about a check before it runs.
#[derive(Debug)]
pub struct Meta {
    /// Its id, such as `L070`.
    pub id: &'static str,
    /// How bad its findings are, where the finding does not say otherwise.
    pub severity: Severity,
    /// What it looks for, in a few words.
    pub title: &'static str,
    /// What to do about a finding.
    pub remedy: &'static str,
    /// Its help page, for `--explain`.
    pub page: &'static str,
}

/// Looks for one kind of leak, at the narrowest level where it can be seen.
pub trait Check: Sync {
    /// What is known before it runs.
    fn meta(&self) -> &'static Meta;
    /// A file, after everything in it has been seen.
    fn file(&self, _file: &FileView, _report: &mut Report) {}
    /// Numbers of one column; a long column comes in several chunks.
    fn column(&self, _column: &ColumnView<'_>, _report: &mut Report) {}
    /// The requests that share a space of block ids.
    fn session(&self, _session: &SessionView<'_>, _report: &mut Report) {}
    /// A string that no closed vocabulary proved.
    fn text(&self, _text: &TextView<'_>, _report: &mut Report) {}
    /// All files together.
    fn dataset(&self, _dataset: &Dataset, _report: &mut Report) {}

    /// Adds a finding of this check.
    fn find(&self, report: &mut Report, place: Place, message: &'static str, length: Option<u64>) {
        report.add(self.meta(), self.meta().severity, place, message, length);
    }
}

/// Defines a check: its doc comment (which is its page), id, severity, title, remedy, and the levels it looks at.
macro_rules! check {
    ($(#[doc = $page:literal])+ $id:ident $severity:ident $title:literal; $remedy:literal; $($body:tt)*) => {
        $(#[doc = $page])+
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $id;

        impl crate::audit::check::Check for $id {
            fn meta(&self) -> &'static crate::audit::check::Meta {
                static META: crate::audit::check::Meta = crate::audit::check::Meta {
                    id: stringify!($id),
                    severity: crate::audit::finding::Severity::$severity,
                    title: $title,
                    remedy: $remedy,
                    page: concat!($($page, "\n"),+),
                };
                &META
            }
            $($body)*
        }
    };
}
pub(crate) use check;

pub use super::checks::CHECKS;

/// The check with this id.
pub fn find(id: &str) -> Option<&'static dyn Check> {
    CHECKS.iter().copied().find(|check| check.meta().id.eq_ignore_ascii_case(id))
}
