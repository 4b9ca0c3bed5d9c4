//! Findings as JSON, by `schemas/finding.v1.json`.
//!
//! Invariant: the form is versioned, and a test compares it with its schema.

use serde::Serialize;

use crate::audit::finding::Finding;
use crate::audit::risk::Risk;
use crate::audit::run::{AuditedFile, Outcome};

#[derive(Serialize)]
struct Document<'o> {
    version: u32,
    tool: &'static str,
    tool_version: &'static str,
    fully_audited: bool,
    accepted: u64,
    files: &'o [AuditedFile],
    findings: &'o [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    risk: Option<&'o Risk>,
}

/// The outcome, with the risk table if it was asked for.
pub fn json(outcome: &Outcome, risk: bool) -> String {
    let document = Document {
        version: 1,
        tool: "tracecloak",
        tool_version: env!("CARGO_PKG_VERSION"),
        fully_audited: !outcome.undecodable,
        accepted: outcome.accepted,
        files: &outcome.files,
        findings: &outcome.findings,
        risk: risk.then_some(&outcome.risk),
    };
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}
