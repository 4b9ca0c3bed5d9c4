//! Findings as SARIF 2.1.0, for code scanning.
//!
//! Invariant: a location is a label and a byte, or a path of columns; there are no snippets.

use serde_json::{Value, json};

use crate::audit::check::CHECKS;
use crate::audit::finding::{Finding, Severity};
use crate::audit::run::Outcome;

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn result(finding: &Finding) -> Value {
    let uri: String = finding.file.chars().map(|c| if c == ' ' { '-' } else { c }).collect();
    // GitHub shows no result without a line, and does not know of bytes.
    let mut region = json!({ "startLine": 1 });
    if let (Some(offset), Some(object)) = (finding.place.offset, region.as_object_mut()) {
        object.insert("byteOffset".to_owned(), json!(offset));
        object.insert("byteLength".to_owned(), json!(0));
    }
    let mut location = json!({ "physicalLocation": { "artifactLocation": { "uri": uri }, "region": region } });
    let name = finding.place_text();
    if let (false, Some(object)) = (name.is_empty(), location.as_object_mut()) {
        object.insert("logicalLocations".to_owned(), json!([{ "fullyQualifiedName": name }]));
    }
    json!({
        "ruleId": finding.id,
        "ruleIndex": CHECKS.iter().position(|check| check.meta().id == finding.id),
        "level": level(finding.severity),
        "message": { "text": format!("{}. What to do: {}.", finding.message, finding.remedy) },
        "locations": [location],
        "occurrenceCount": finding.count,
        "partialFingerprints": { "place/v1": finding.key() },
    })
}

/// The outcome.
pub fn sarif(outcome: &Outcome) -> String {
    let rules: Vec<Value> = CHECKS
        .iter()
        .map(|check| {
            let meta = check.meta();
            json!({
                "id": meta.id,
                "shortDescription": { "text": meta.title },
                "fullDescription": { "text": meta.page.trim() },
                "help": { "text": meta.remedy },
                "defaultConfiguration": { "level": level(meta.severity) },
            })
        })
        .collect();
    let results: Vec<Value> = outcome
        .findings
        .iter()
        .map(|finding| {
            let mut result = result(finding);
            // A rule that another layer adds has no place in the list.
            if let Some(object) = result.as_object_mut() {
                object.retain(|_, value| !value.is_null());
            }
            result
        })
        .collect();
    let document = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "tracecloak",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "invocations": [{ "executionSuccessful": !outcome.undecodable }],
            "results": results,
        }],
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}
