//! L050: character or byte lengths.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::ColumnView;
use crate::audit::vocab::Role;

check! {
    /// A field counts characters or bytes. Such lengths are finer than tokens and match a file or a page exactly; together with token
    /// counts they nearly always identify it.
    L050 Warning "character or byte lengths"; "store tokens, rounded, or leave it out";

    fn column(&self, column: &ColumnView<'_>, report: &mut Report) {
        if column.role == Role::Characters && column.values.iter().any(|value| *value != 0) {
            self.find(report, column.place(), "lengths in characters or bytes", None);
        }
    }
}
