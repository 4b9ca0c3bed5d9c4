//! L057: per-token series.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::ColumnView;

check! {
    /// A list with a number for each token of an answer: sizes or times of single tokens tell what was written, as work on encrypted
    /// streams shows.
    L057 Error "per-token series"; "store one number a request";

    fn column(&self, column: &ColumnView<'_>, report: &mut Report) {
        let name = column.label.rsplit('.').next().unwrap_or_default().trim_end_matches("[]");
        let lists = column.lists.len();
        let named = lists > 0 && NAMES.contains(&name);
        let mut from = 0;
        let lengths = column.lists.iter().map(|end| {
            let length = end.saturating_sub(from);
            from = *end;
            crate::audit::wide(length)
        });
        let alike = lengths.zip(column.outputs).filter(|(length, output)| *length > 8 && length.abs_diff(**output) <= 1).count();
        if named || (lists >= 3 && alike * 10 >= lists * 8) {
            self.find(report, column.place(), "a number for each token", None);
        }
    }
}

/// Names of such lists.
const NAMES: &[&str] = &[
    "itl",
    "itls",
    "inter_token_latencies",
    "token_times",
    "token_timestamps",
    "chunk_sizes",
    "chunk_times",
    "delta_bytes",
    "deltas",
];
