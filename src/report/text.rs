//! A run for a terminal.
//!
//! Invariant: as the module's.

use std::fmt::Write;

use super::{distributions, facts, maybe};
use crate::metrics::Summary;

/// The summary in lines.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    if summary.partial {
        out.push_str("PARTIAL: not all was sent\n");
    }
    for (name, value) in facts(summary) {
        line(&mut out, format_args!("{name:<24} {value}"));
    }
    line(&mut out, format_args!("{:<24} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "p50", "p90", "p95", "p99", "max"));
    for (name, values) in distributions(summary) {
        let [p50, p90, p95, p99, max] = [values.p50, values.p90, values.p95, values.p99, values.max].map(maybe);
        line(&mut out, format_args!("{name:<24} {p50:>10} {p90:>10} {p95:>10} {p99:>10} {max:>10}"));
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string never fails.
    writeln!(out, "{text}").ok();
}
