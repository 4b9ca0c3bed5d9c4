//! The gate at the end of a conversion: what was written is audited, and compared with the logs, before it appears.
//!
//! Invariant: a trace that fails is removed; nothing at the target changes.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use crate::audit::{self, Severity};
use crate::capture::Inputs;
use crate::cli::exit::Hint;
use crate::proof::{Residual, SourceReport, check_logs};

/// Bytes of a window: a trace that holds so many bytes of a log in a row is refused.
const WINDOW: usize = 12;

/// What the source check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceCheck {
    /// Nothing of the logs was found.
    Passed {
        /// Bytes of the logs that were looked at.
        bytes: u64,
    },
    /// Some input can't be read again.
    NotRun,
}

/// Where a trace lies until it has passed: beside its target.
pub(super) fn waiting_room(target: &Path) -> anyhow::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| anyhow!("{} is no name for a folder", target.display()))?;
    // As staged directories are named, so that an interrupt removes it.
    let hidden = format!(".{}.partial-{}", name.to_string_lossy(), std::process::id());
    Ok(target.with_file_name(hidden))
}

/// Checks the trace at `path`, made from `inputs`.
pub(super) fn check(path: &Path, inputs: &Inputs) -> anyhow::Result<SourceCheck> {
    let scratch = path.with_extension("again");
    let options = audit::Options {
        rules: audit::rules::Rules::builtin(),
        allow: Vec::new(),
        baseline: audit::Baseline::default(),
        scratch,
        limits: audit::view::Limits::default(),
        local: false,
        // It is run below, on its own.
        source: audit::SourceOutcome { ran: vec!["L100"], ..audit::SourceOutcome::default() },
        core_dumps: false,
    };
    let outcome = audit::audit(&[path.to_path_buf()], &options).context("could not audit what was written")?;
    let errors: Vec<&str> =
        outcome.findings.iter().filter(|found| found.severity == Severity::Error).map(|found| found.id).collect();
    if outcome.undecodable || !errors.is_empty() {
        return Err(anyhow!("the trace failed its own audit: {}", errors.join(", ")))
            .hint("this is a fault of tracecloak: nothing was published; please report these ids, which say nothing of your logs");
    }
    if inputs.list().iter().any(|input| !input.can_reopen()) {
        return Ok(SourceCheck::NotRun);
    }
    let residual = Residual::of(path).context("could not read back what was written")?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let report =
        check_logs(inputs, &residual, WINDOW, None, threads, &|_| {}).context("could not compare with the logs")?;
    refuse(&report)?;
    // An input of no known format was looked at as bytes; one that could not be read at all was not.
    let all_read = report.complete || (report.coverage.skipped_inputs == 0 && report.coverage.unknown_inputs > 0);
    Ok(if all_read { SourceCheck::Passed { bytes: report.coverage.bytes } } else { SourceCheck::NotRun })
}

fn refuse(report: &SourceReport) -> anyhow::Result<()> {
    if let Some(window) = report.windows.first() {
        bail!(
            "the trace holds {} bytes of a log in a row, in {} at {}: nothing was published",
            window.length,
            window.place,
            window.offset
        );
    }
    if !report.hashes.is_empty() {
        bail!("the trace holds {} unkeyed hashes of the logs: nothing was published", report.hashes.len());
    }
    Ok(())
}
