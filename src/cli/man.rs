//! `tracecloak man`: manual pages.
//!
//! Invariant: made from the same definitions as the parser, so that the two cannot differ.

use std::io::Write;

use anyhow::{Context, anyhow};
use clap::{Args, CommandFactory};

use super::exit::{Exit, Hint};
use super::output::Stdout;

const EXAMPLES: &str = "\
Examples:
  tracecloak man > tracecloak.1
  tracecloak man keygen | man -l -";

/// Print a manual page
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ManArgs {
    /// Subcommand to describe [default: the program]
    command: Option<String>,
}

pub(super) fn run(args: &ManArgs) -> anyhow::Result<Exit> {
    let mut program = super::Cli::command();
    program.build();
    let described = match &args.command {
        None => program,
        Some(name) => program
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| anyhow!("there is no such subcommand"))
            .hint("tracecloak --help lists them")?,
    };
    let mut stdout = Stdout::new();
    let page = clap_mangen::Man::new(described).source(concat!("tracecloak ", env!("CARGO_PKG_VERSION")));
    page.render(&mut stdout).and_then(|()| stdout.flush()).context("could not write to stdout")?;
    Ok(Exit::Fine)
}
