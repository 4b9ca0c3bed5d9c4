//! `audit --source`: whether anything of the logs is in what is audited.
//!
//! Invariant: a finding says where and how much, never what; a check that did not see everything does not count as run.

use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit::Hint;
use crate::audit::{Finding, Place, Severity};
use crate::capture::Inputs;
use crate::proof::{Residual, check_logs};

/// Bytes in a row that are a warning; 16 are an error.
const WINDOW: usize = 12;

/// What the logs have in common with each of `paths`, and whether all of both was looked at.
pub(super) fn findings(paths: &[PathBuf], logs: &[PathBuf]) -> anyhow::Result<(Vec<Finding>, bool)> {
    let inputs = Inputs::expand(logs).hint("--source takes the logs that the trace was made from")?;
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut found = Vec::new();
    let mut complete = true;
    for (number, path) in paths.iter().enumerate() {
        let residual = Residual::of(path).with_context(|| format!("could not read path {}", number + 1))?;
        let report =
            check_logs(&inputs, &residual, WINDOW, None, threads, &|_| {}).context("could not read the logs")?;
        complete &= report.complete;
        let file = |place: &str| if is_own(place) { place.to_owned() } else { format!("path {}", number + 1) };
        found.extend(report.windows.iter().map(|window| Finding {
            id: "L100",
            severity: if window.length >= 16 { Severity::Error } else { Severity::Warning },
            file: file(&window.place),
            place: Place { offset: Some(window.offset), ..Place::default() },
            message: "bytes that stand in the logs",
            length: Some(window.length),
            count: 1,
            remedy: "take out what came from the logs",
        }));
        found.extend(report.hashes.iter().map(|hash| Finding {
            id: "L102",
            severity: Severity::Error,
            file: file(&hash.place),
            place: Place::default(),
            message: "ids that are unkeyed hashes of the logs",
            length: Some(hash.bits.into()),
            count: hash.ids,
            remedy: "number ids by first appearance instead",
        }));
    }
    Ok((found, complete))
}

/// Whether a place is one of our own files, whose names say nothing.
fn is_own(place: &str) -> bool {
    Path::new(place)
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| crate::format::FileName::parse(name).is_some())
}
