//! L040: wall-clock time or zone.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::detect::has_date;
use crate::audit::report::Report;
use crate::audit::view::{ColumnView, TextView};
use crate::audit::vocab::{Role, Shape};

check! {
    /// A date, a time of day, or a number that counts from 1970. With it the trace can be joined to any log of the provider, a proxy or
    /// the contributor's machine.
    L040 Error "wall-clock time or zone"; "store times since the beginning of the session";

    fn column(&self, column: &ColumnView<'_>, report: &mut Report) {
        let declared = column.role == Role::WallClock && column.values.iter().any(|value| *value != 0);
        let dated = |value: &&f64| (1.0e9..2.6e9).contains(*value) || (1.0e12..2.6e12).contains(*value);
        let mostly_dated = column.floats.iter().filter(dated).count() * 2 > column.floats.len();
        if declared || since_1970(column.values, column.role) || mostly_dated {
            self.find(report, column.place(), "times that count from 1970", None);
        }
    }

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        if matches!(text.shape, Some(Shape::Instant)) || has_date(&text.lossy()) {
            self.find(report, text.place(), "a date or a time of day", Some(crate::audit::wide(text.bytes.len())));
        }
    }
}

/// Whether most numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, this century.
fn since_1970(values: &[i64], role: Role) -> bool {
    let within = |low: i64, high: i64| values.iter().filter(|value| (low..high).contains(*value)).count();
    let fine = [1_000_000_000_000, 1_000_000_000_000_000, 1_000_000_000_000_000_000];
    let fine = fine.iter().any(|low| within(*low, low.saturating_mul(4)) * 2 > values.len());
    // Seconds look like other large numbers, so nearly all must fit.
    let seconds = within(1_000_000_000, 2_600_000_000);
    fine || (seconds > 0 && seconds * 10 >= values.len() * 9 && (role == Role::Time || values.len() > 1))
}
