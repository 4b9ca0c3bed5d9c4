//! Progress on stderr: a bar where a person watches, nothing anywhere else.
//!
//! Invariant: it shows byte counts, speed and time left, and never a name or text from an input.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const KNOWN: &str = "{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const UNKNOWN: &str = "{spinner} {bytes}, {bytes_per_sec}";

/// How far a command has come through its input. The bar is wiped when this is dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Progress through `total` bytes of input, or through an input of unknown size, such as a pipe.
    /// Silent if `quiet`, or where stderr is no terminal.
    pub fn bytes(total: Option<u64>, quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr_with_hz(8)
        };
        let style = ProgressStyle::with_template(if total.is_some() { KNOWN } else { UNKNOWN });
        let bar = ProgressBar::with_draw_target(total, target);
        Self(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }

    /// Moves to `bytes` from the start.
    pub fn advance_to(&self, bytes: u64) {
        self.0.set_position(bytes);
    }

    /// Wipes the bar, so that the summary starts on a clean line.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        assert!(ProgressStyle::with_template(KNOWN).is_ok());
        assert!(ProgressStyle::with_template(UNKNOWN).is_ok());
    }

    #[test]
    fn it_is_silent_when_told_so() {
        let progress = Progress::bytes(Some(10), true);
        progress.advance_to(5);
        assert!(progress.0.is_hidden());
        assert_eq!(progress.0.position(), 5);
        progress.finish();
    }
}
