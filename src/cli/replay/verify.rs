//! `--verify-prompts`: what rendered prompts are beside what the trace says.
//!
//! Invariant: requests are named by session and row; no prompt is shown.

use std::io::Write;

use serde_json::json;

use crate::cli::args::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{Stdout, number};
use crate::metrics::Rendered;
use crate::replay::prompt::{Found, Named, PromptError, VerifyReport};
use crate::replay::source::Planner;
use crate::trace::Manifest;

/// What a summary says of a sample.
pub(super) fn rendered(report: &VerifyReport) -> Rendered {
    let named = report.too_small + report.too_short;
    Rendered { requests: report.requests + named, off: report.off, named }
}

/// Prints the report of all prompts. A request without a prompt, or one that is not what the trace says, is a finding; one that
/// shares less because its growth is too small for the template is named.
pub(super) fn print(planner: &Planner, manifest: &Manifest, globals: Globals) -> anyhow::Result<Exit> {
    let report = planner.verified().cloned().unwrap_or_default();
    let mut stdout = Stdout::new();
    if globals.json {
        writeln!(stdout, "{}", as_json(&report, planner))?;
    } else {
        stdout.write_all(text(&report, planner, manifest).as_bytes())?;
    }
    stdout.flush()?;
    Ok(if report.is_exact() && report.too_short == 0 { Exit::Fine } else { Exit::Findings })
}

fn text(report: &VerifyReport, planner: &Planner, manifest: &Manifest) -> String {
    let of = |count: u64| format!("{} of {}", number(count), number(report.requests));
    let mut lines = vec![
        format!("rendered          {} prompts of {} tokens", number(report.requests), number(report.tokens)),
        format!("length            {} as the trace says", of(report.length_exact)),
        format!(
            "shared prefix     {} as the trace says, in blocks of {}",
            of(report.prefix_exact),
            manifest.block_size
        ),
        format!("block ids         {} equal where the trace's are, and only there", of(report.blocks_exact)),
        format!(
            "head              {} tokens, which the template gives to every prompt",
            number(report.head_tokens.into())
        ),
        format!(
            "too small         {} requests grow by less than the template's own tokens: they share less",
            number(report.too_small)
        ),
        format!(
            "too short         {} requests are shorter than the template: they have no prompt",
            number(report.too_short)
        ),
    ];
    for (row, why) in &report.named {
        let (session, request) = planner.place(*row);
        let why = match why {
            Named::Shortfall(short) => format!(
                "grows by {} tokens, the template needs {}: shares {} of {} blocks",
                short.has, short.needs, short.shared_blocks, short.asked_blocks
            ),
            Named::Error(PromptError::TooShort { needs, has, .. }) => {
                format!("has {has} tokens, the template needs {needs}")
            }
            Named::Error(error) => error.to_string(),
            Named::Off(found, said) => format!(
                "is OFF: {} tokens for {}, {} shared blocks for {}",
                found.tokens, said.tokens, found.shared_blocks, said.shared_blocks
            ),
        };
        lines.push(format!("session {session} request {request} {why}"));
    }
    lines.join("\n") + "\n"
}

fn as_json(report: &VerifyReport, planner: &Planner) -> serde_json::Value {
    let named = report.named.iter().map(|(row, why)| {
        let (session, request) = planner.place(*row);
        let found = |found: &Found| json!({"tokens": found.tokens, "shared_blocks": found.shared_blocks});
        let (word, about) = match why {
            Named::Shortfall(short) => (
                "too_small",
                json!({"needs": short.needs, "has": short.has, "asked_blocks": short.asked_blocks, "shared_blocks": short.shared_blocks}),
            ),
            Named::Error(PromptError::TooShort { needs, has, .. }) => ("too_short", json!({"needs": needs, "has": has})),
            Named::Error(_) => ("no_prompt", json!(null)),
            Named::Off(is, said) => ("off", json!({"is": found(is), "trace": found(said)})),
        };
        json!({"session": session, "request": request, "why": word, "about": about})
    });
    json!({
        "requests": report.requests,
        "tokens": report.tokens,
        "length_exact": report.length_exact,
        "prefix_exact": report.prefix_exact,
        "blocks_exact": report.blocks_exact,
        "off": report.off,
        "head_tokens": report.head_tokens,
        "unrelated": report.roots,
        "unrelated_sharing_more_than_the_head": report.roots_alike,
        "too_small": report.too_small,
        "too_short": report.too_short,
        "named": named.collect::<Vec<_>>(),
    })
}
