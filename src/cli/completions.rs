//! `tracecloak completions`: shell completions.
//!
//! Invariant: made from the same definitions as the parser, so that the two cannot differ.

use std::io::Write;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::Exit;
use super::output::Stdout;

const EXAMPLES: &str = "\
Examples:
  tracecloak completions bash > ~/.local/share/bash-completion/completions/tracecloak
  tracecloak completions fish > ~/.config/fish/completions/tracecloak.fish";

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs) -> anyhow::Result<Exit> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "tracecloak", &mut script);
    let mut stdout = Stdout::new();
    stdout.write_all(&script).and_then(|()| stdout.flush()).context("could not write to stdout")?;
    Ok(Exit::Fine)
}
