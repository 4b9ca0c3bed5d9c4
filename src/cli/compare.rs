//! `tracecloak inspect --compare`: how two traces differ, as text or JSON.
//!
//! Invariant: differences are exit code 1, in words and numbers of the closed vocabularies only.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::json;

use super::exit::Exit;
use super::output::Stdout;
use crate::analyze::compare::{Aspect, Comparison, Difference, compare};
use crate::format::{TraceSource, open};

/// Compares two trace directories and prints the result.
pub fn run(first: &Path, second: &Path, json: bool) -> anyhow::Result<Exit> {
    let open = |path: &Path| open(path).with_context(|| format!("could not open {}", path.display()));
    report(open(first)?, open(second)?, json)
}

/// Compares two open traces, of any formats, and prints the result.
pub fn report(first: Box<dyn TraceSource>, second: Box<dyn TraceSource>, json: bool) -> anyhow::Result<Exit> {
    let manifests = (first.manifest().clone(), second.manifest().clone());
    let comparison = compare((&manifests.0, &manifests.1), first, second).context("could not compare")?;
    let mut stdout = Stdout::new();
    if json {
        serde_json::to_writer_pretty(&mut stdout, &json!({ "equal": comparison.equal(), "comparison": comparison }))?;
        writeln!(stdout)?;
    } else {
        text(&comparison, &mut stdout)?;
    }
    stdout.flush()?;
    Ok(if comparison.equal() { Exit::Fine } else { Exit::Findings })
}

fn text(comparison: &Comparison, out: &mut impl Write) -> std::io::Result<()> {
    if !comparison.same_block_size {
        writeln!(out, "block sizes differ: prefix columns cannot agree")?;
    }
    if !comparison.same_scope {
        writeln!(out, "scopes differ")?;
    }
    for aspect in Aspect::ALL {
        let verdict = if comparison.equal_in(aspect) { "equal" } else { "differ" };
        writeln!(out, "{:<18} {verdict}", title(aspect))?;
        for column in comparison.columns.iter().filter(|column| column.name.aspect == aspect && !column.counts.equal())
        {
            let counts = &column.counts;
            let place = format!("{}.{}", column.name.table, column.name.column);
            write!(out, "  {place:<32} {} of {} differ", counts.differ, counts.compared)?;
            for (only, which) in [(counts.only_first, "first"), (counts.only_second, "second")] {
                if only > 0 {
                    write!(out, ", {only} only in the {which}")?;
                }
            }
            writeln!(out)?;
        }
    }
    if !comparison.first.is_empty() {
        writeln!(out, "first differences")?;
    }
    for Difference { session, row, name, first, second } in &comparison.first {
        let value = |value: &Option<i128>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        let (table, column) = (name.table, name.column);
        writeln!(out, "  session {session}, {table} row {row}, {column}: {} | {}", value(first), value(second))?;
    }
    Ok(())
}

fn title(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Lengths => "lengths",
        Aspect::Prefix => "prefix structure",
        Aspect::Edges => "edges",
        Aspect::Times => "times",
        Aspect::Rest => "everything else",
    }
}

#[cfg(test)]
mod tests {
    use crate::analyze::compare::{ColumnCounts, ColumnName, Counts};

    use super::*;

    #[test]
    fn a_difference_is_shown_by_aspect_column_and_place() {
        let name = ColumnName { aspect: Aspect::Times, table: "requests", column: "start_ms" };
        let comparison = Comparison {
            same_block_size: true,
            same_scope: true,
            columns: vec![ColumnCounts {
                name,
                counts: Counts { compared: 5, differ: 1, only_first: 2, only_second: 0 },
            }],
            first: vec![Difference { session: 3, row: 1, name, first: Some(10), second: None }],
        };
        let mut shown = Vec::new();
        text(&comparison, &mut shown).unwrap();
        let shown = String::from_utf8(shown).unwrap();
        assert!(
            shown.contains(
                "times              differ\n  requests.start_ms                1 of 5 differ, 2 only in the first\n"
            ),
            "{shown}"
        );
        assert!(shown.contains("session 3, requests row 1, start_ms: 10 | -\n"), "{shown}");
        assert!(shown.contains("lengths            equal\n"), "{shown}");
    }
}
