//! `audit --source`: whether anything of the logs, a canary or a key is in what is audited.
//!
//! Invariant: a finding says where and how much, never what; a check that did not see everything does not count as run.

use std::fs::File;
use std::io::Read;
use std::num::NonZero;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use walkdir::WalkDir;

use super::args::TokenizerSource;
use super::convert::spec;
use super::exit::Hint;
use super::key;
use crate::audit::check::find;
use crate::audit::{Finding, Place, Severity, SourceOutcome};
use crate::capture::Inputs;
use crate::proof::{ERROR_WINDOW, Match, Residual, SourceCheck, Tokens, WARNING_WINDOW, check_logs};
use crate::tokenize::{self, Encoder};

/// The logs that `paths` were made from, and what has to do with them.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) logs: &'a [PathBuf],
    pub(super) tokenizer: Option<&'a TokenizerSource>,
    pub(super) canaries: Option<&'a Path>,
    pub(super) key: Option<&'a Path>,
}

impl Source<'_> {
    /// What it has in common with each of `paths`.
    pub(super) fn compare(&self, paths: &[PathBuf]) -> anyhow::Result<SourceOutcome> {
        let mut outcome = SourceOutcome { asked: !self.logs.is_empty(), ..SourceOutcome::default() };
        let residuals = if self.logs.is_empty() && self.canaries.is_none() { &[][..] } else { paths };
        let residual = |(number, path): (usize, &PathBuf)| {
            Residual::of(path).with_context(|| format!("could not read path {}", number + 1))
        };
        let residuals = residuals.iter().enumerate().map(residual).collect::<anyhow::Result<Vec<_>>>()?;
        if !self.logs.is_empty() && self.logs(&residuals, &mut outcome.findings)? {
            outcome.ran.extend(["L100", "L102"]);
        }
        if let Some(file) = self.canaries
            && canaries(file, &residuals, &mut outcome.findings)?
        {
            outcome.ran.push("L101");
        }
        if let Some(file) = self.key {
            key_material(file, paths, &mut outcome.findings)?;
            outcome.ran.push("L103");
        }
        outcome.findings = merged(outcome.findings);
        Ok(outcome)
    }

    /// Gives whether all of both sides was looked at. With a tokenizer, token ids are read as text, and blocks of tokens are hashed.
    fn logs(&self, residuals: &[Residual], found: &mut Vec<Finding>) -> anyhow::Result<bool> {
        let inputs = Inputs::expand(self.logs).hint("--source takes the logs that the trace was made from")?;
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let load = |source| tokenize::load(&spec(source)).map(|(tokenizer, ..)| tokenizer);
        let tokenizer = self.tokenizer.map(load).transpose().context("cannot use the tokenizer")?;
        let encode = |text: &str| {
            let mut tokens = Vec::new();
            tokenizer.iter().for_each(|tokenizer| tokenizer.encode(text, &mut tokens));
            tokens
        };
        let decode =
            |ids: &[u32]| tokenizer.as_ref().map(|tokenizer| tokenizer.decode(ids).into_bytes()).unwrap_or_default();
        let tokens = tokenizer.is_some().then_some(Tokens { encode: &encode, decode: &decode });
        let mut complete = true;
        for residual in residuals {
            let report = check_logs(&inputs, residual, WARNING_WINDOW, tokens, threads, &|_| {})
                .context("could not read the logs")?;
            complete &= report.complete;
            found.extend(report.windows.iter().map(|window| matched("L100", window, "bytes that stand in the logs")));
            found.extend(report.hashes.iter().map(|hash| {
                let message = "ids that are unkeyed hashes of the logs";
                Finding { count: hash.ids, ..finding("L102", &hash.place, message, hash.bits.into()) }
            }));
        }
        Ok(complete)
    }
}

fn canaries(file: &Path, residuals: &[Residual], found: &mut Vec<Finding>) -> anyhow::Result<bool> {
    let text = std::fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    let mut complete = true;
    for residual in residuals {
        let check = SourceCheck::new(residual, WARNING_WINDOW, None).context("could not read what is audited")?;
        text.split(|byte| *byte == b'\n').for_each(|canary| check.feed_text(canary.trim_ascii()));
        let report = check.finish();
        complete &= report.complete;
        let canary = |window| Finding { severity: Severity::Error, ..matched("L101", window, "a canary of the logs") };
        found.extend(report.windows.iter().map(canary));
    }
    Ok(complete)
}

/// The key as it is, in hexadecimal digits of either case, and in base64.
fn key_material(file: &Path, paths: &[PathBuf], found: &mut Vec<Finding>) -> anyhow::Result<()> {
    let key = key::read(file)?;
    let digits = key::render(&key);
    let digits = digits.trim_ascii();
    let forms = [key.to_vec(), digits.to_vec(), digits.to_ascii_uppercase(), STANDARD_NO_PAD.encode(*key).into_bytes()];
    for (number, path) in paths.iter().enumerate() {
        let entries = WalkDir::new(path).sort_by_file_name().into_iter();
        for entry in entries.filter(|entry| entry.as_ref().map_or(true, |entry| entry.file_type().is_file())) {
            let read = entry.map_err(std::io::Error::from).and_then(|entry| holds(entry.path(), &forms));
            if read.with_context(|| format!("could not read path {}", number + 1))? {
                let place = format!("path {}", number + 1);
                found.push(finding("L103", &place, "the key of a conversion", 32));
            }
        }
    }
    Ok(())
}

/// Whether a file holds one of these, of at most 64 bytes.
fn holds(path: &Path, forms: &[Vec<u8>]) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut held = Vec::new();
    loop {
        held.drain(..held.len().saturating_sub(63));
        if file.by_ref().take(1 << 20).read_to_end(&mut held)? == 0 {
            return Ok(false);
        }
        if forms.iter().any(|form| memchr::memmem::find(&held, form).is_some()) {
            return Ok(true);
        }
    }
}

/// One finding for each check and column, with how many there are, as the other checks report.
fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut merged: Vec<Finding> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|known| known.key() == finding.key()) {
            Some(known) => {
                known.count += finding.count;
                known.severity = known.severity.max(finding.severity);
                known.length = known.length.max(finding.length);
            }
            None => merged.push(finding),
        }
    }
    merged
}

fn matched(id: &'static str, window: &Match, message: &'static str) -> Finding {
    let enough = window.length >= u64::try_from(ERROR_WINDOW).unwrap_or(u64::MAX);
    Finding {
        severity: if enough { Severity::Error } else { Severity::Warning },
        place: Place { offset: Some(window.offset), ..finding(id, &window.place, message, 0).place },
        ..finding(id, &window.place, message, window.length)
    }
}

/// A place is a file, or a file and what it is in it.
fn finding(id: &'static str, place: &str, message: &'static str, length: u64) -> Finding {
    let (file, column) = place.split_once(": ").map_or((place, None), |(file, column)| (file, Some(column.to_owned())));
    Finding {
        id,
        severity: Severity::Error,
        file: file.to_owned(),
        place: Place { column, ..Place::default() },
        message,
        length: Some(length),
        count: 1,
        remedy: find(id).map_or("", |check| check.meta().remedy),
    }
}
