//! Findings as text for people.
//!
//! Invariant: one finding a line, grouped by file, worst first; what to do stands once for each check.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::audit::check::{CHECKS, Check};
use crate::audit::finding::Severity;
use crate::audit::risk::{Risk, percent};
use crate::audit::run::Outcome;

/// The outcome.
pub fn plain(outcome: &Outcome) -> String {
    let mut text = String::new();
    let mut file = None;
    let mut remedies = BTreeMap::new();
    for finding in outcome.findings.iter().filter(|finding| finding.severity > Severity::Info) {
        if file != Some(&finding.file) {
            writeln!(text, "{}", finding.file).ok();
            file = Some(&finding.file);
        }
        let times = if finding.count > 1 { format!(" ({} times)", finding.count) } else { String::new() };
        let length = finding.length.map(|length| format!(", length {length}")).unwrap_or_default();
        let place = finding.place_text();
        let place = if place.is_empty() { String::new() } else { format!(" at {place}") };
        writeln!(text, "  {:7} {} {}{place}{length}{times}", finding.severity.word(), finding.id, finding.message).ok();
        remedies.insert(finding.id, finding.remedy);
    }
    if !remedies.is_empty() {
        text.push_str("What to do\n");
    }
    for (id, remedy) in remedies {
        writeln!(text, "  {id}: {remedy}").ok();
    }
    let count = |severity| outcome.findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    write!(text, "{} files: {errors} errors, {warnings} warnings", outcome.files.len()).ok();
    if outcome.accepted > 0 {
        write!(text, ", {} accepted", outcome.accepted).ok();
    }
    text.push('\n');
    if outcome.undecodable {
        text.push_str("Not fully audited: something could not be decoded (L081).\n");
    }
    if outcome.findings.iter().any(|finding| finding.id == "L104") {
        text.push_str("Source check: not run (L104).\n");
    }
    text
}

/// The risk table, and what it means.
pub fn risk(risk: &Risk) -> String {
    let mut text = format!("What remains: {} sessions, {} requests\n", risk.sessions, risk.requests);
    let mut row = 0;
    for cell in &risk.uniqueness {
        if cell.requests != row {
            row = cell.requests;
            write!(text, "\n  {row:2} in a row:").ok();
        }
        let step = if cell.rounded_to == 1 { "exact".to_owned() } else { format!("to {}", cell.rounded_to) };
        write!(text, "  {step} {} %", percent(cell.share)).ok();
    }
    text.push_str("\n\n");
    for column in &risk.columns {
        let bits = column.bits.map_or_else(|| "not counted".to_owned(), |bits| format!("{bits:.1} bits"));
        writeln!(text, "  {}: {} values, {bits}", column.column, column.values).ok();
    }
    for (file, row) in &risk.exposed {
        writeln!(text, "  every window of three is unique: {file}, row {row}").ok();
    }
    for sentence in risk.words() {
        writeln!(text, "{sentence}").ok();
    }
    text
}

/// All checks, one a line.
pub fn list() -> String {
    CHECKS.iter().fold(String::new(), |text, check| {
        let meta = check.meta();
        text + &format!("{} {:7} {}\n", meta.id, meta.severity.word(), meta.title)
    })
}

/// The page of a check.
pub fn explain(check: &dyn Check) -> String {
    let meta = check.meta();
    let page: String = meta.page.lines().fold(String::new(), |text, line| text + line.trim() + "\n");
    format!("{}: {} ({})\n\n{page}\nWhat to do: {}.\n", meta.id, meta.title, meta.severity.word(), meta.remedy)
}
