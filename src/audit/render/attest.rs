//! A statement of what was looked at, and of what was not.
//!
//! Invariant: no time, no path, no command line: the same files and program give the same statement.

use serde::Serialize;

use crate::audit::check::CHECKS;
use crate::audit::finding::Severity;
use crate::audit::risk::Risk;
use crate::audit::run::{AuditedFile, Outcome};

#[derive(Serialize)]
struct Statement<'o> {
    version: u32,
    tool: &'static str,
    tool_version: &'static str,
    trace_format_version: u32,
    files: &'o [AuditedFile],
    checks_run: Vec<&'static str>,
    checks_not_run: Vec<&'static str>,
    fully_audited: bool,
    errors: usize,
    warnings: usize,
    accepted: u64,
    risk: &'o Risk,
}

/// The checks of the converter, which its tests run.
const CONVERTER: &[&str] = &["L120", "L121", "L122", "L123", "L124", "L125", "L126"];

/// The statement as JSON.
pub fn attest(outcome: &Outcome) -> String {
    let count = |severity| outcome.findings.iter().filter(|finding| finding.severity == severity).count();
    let all = CHECKS.iter().map(|check| check.meta().id).filter(|id| *id != "L104");
    let statement = Statement {
        version: 1,
        tool: "tracecloak",
        tool_version: env!("CARGO_PKG_VERSION"),
        trace_format_version: crate::trace::manifest::FORMAT_VERSION,
        files: &outcome.files,
        checks_run: all.filter(|id| !outcome.not_run.contains(id)).collect(),
        checks_not_run: outcome.not_run.iter().chain(CONVERTER).copied().collect(),
        fully_audited: !outcome.undecodable,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        accepted: outcome.accepted,
        risk: &outcome.risk,
    };
    serde_json::to_string_pretty(&statement).unwrap_or_default() + "\n"
}
