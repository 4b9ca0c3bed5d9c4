//! How the program ends: exit codes, and errors as one line with a hint below it.
//!
//! Invariant: an error is printed once, here, on stderr, on one line, without control characters.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use super::output::Stdout;

/// What the program's exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: it did what was asked. So does a broken pipe.
    Fine,
    /// 1: it did what was asked and has something to report.
    Findings,
    /// 2: it could not do what was asked.
    Failed,
    /// 3: something could not be decoded, so that nothing can be said about it.
    NotAuditable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Fine => 0,
            Exit::Findings => 1,
            Exit::Failed => 2,
            Exit::NotAuditable => 3,
        })
    }
}

/// An error with advice on what to do about it.
#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#}", self.error)
    }
}

impl std::error::Error for Hinted {}

/// Adds advice to an error.
pub trait Hint<T> {
    /// Adds a line that says what to do about the error, printed below it.
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> Hint<T> for Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| Hinted { error: error.into(), hint: hint.into() }.into())
    }
}

/// Prints why a command failed.
pub(super) fn failure(error: &anyhow::Error) -> Exit {
    print_to_stderr(&message(error));
    Exit::Failed
}

/// Prints what the argument parser has to say: help and version on stdout, anything else on stderr.
pub(super) fn usage(error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    if error.use_stderr() {
        print_to_stderr(
            &text.strip_prefix("error: ").map_or_else(|| text.clone(), |text| format!("tracecloak: {text}")),
        );
        return Exit::Failed;
    }
    let mut stdout = Stdout::new();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Fine,
        Err(error) => failure(&error.into()),
    }
}

/// The error on one line, and its hint, if it has one, on another.
fn message(error: &anyhow::Error) -> String {
    let line = |text: String| text.replace(char::is_control, " ");
    let hint = error.downcast_ref::<Hinted>().map(|hinted| format!("  hint: {}\n", line(hinted.hint.clone())));
    format!("tracecloak: {}\n{}", line(format!("{error:#}")), hint.unwrap_or_default())
}

/// Where stderr is gone there is nobody to tell.
pub(super) fn print_to_stderr(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn an_error_is_one_line_with_its_causes() {
        let error = Err::<(), _>(io::Error::other("disk\nfull\x1b[2J")).context("could not write").unwrap_err();
        assert_eq!(message(&error), "tracecloak: could not write: disk full [2J\n");
    }

    #[test]
    fn a_hint_survives_context_added_above_it() {
        let error = Err::<(), _>(anyhow!("no key")).hint("run keygen").context("could not start").unwrap_err();
        assert_eq!(message(&error), "tracecloak: could not start: no key\n  hint: run keygen\n");
    }
}
