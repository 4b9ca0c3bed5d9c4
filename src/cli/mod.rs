//! The command line: the only place that prints, reads the environment and ends the program.
//!
//! Invariant: what is printed holds counts, places and what the caller typed, never text from a log.

use std::panic;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub mod args;
mod audit;
pub mod compare;
mod completions;
mod convert;
mod derive;
pub mod exit;
mod export;
mod guard;
mod import;
mod inspect;
mod interrupt;
pub mod key;
mod keygen;
mod man;
mod mock;
pub mod output;
pub mod progress;
pub mod replay;
mod self_test;
mod source_check;

use args::Globals;
use exit::Exit;

const EXIT_CODES: &str = "\
Every flag can be given as an environment variable: --quiet is TRACECLOAK_QUIET=1.

Exit codes: 0 fine, 1 findings, 2 failed, 3 not fully auditable. A broken pipe is 0.";

/// Share what coding agents do to an inference server, without a word of what was said
#[derive(Debug, Parser)]
#[command(name = "tracecloak", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// The subcommands; each has a file of its own.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one, on the stack, once")]
enum Command {
    Convert(args::ConvertArgs),
    Inspect(args::InspectArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Derive(derive::DeriveArgs),
    Replay(replay::args::ReplayArgs),
    Mock(mock::MockArgs),
    Audit(audit::AuditArgs),
    Keygen(keygen::KeygenArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

impl Command {
    fn run(&self, globals: Globals) -> anyhow::Result<Exit> {
        match self {
            Self::Convert(args) => convert::run(args, globals),
            Self::Inspect(args) => inspect::run(args, globals),
            Self::Import(args) => import::run(args, globals),
            Self::Export(args) => export::run(args, globals),
            Self::Derive(args) => derive::run(args, globals),
            Self::Replay(args) => replay::run(args, globals),
            Self::Mock(args) => mock::run(args, globals),
            Self::Audit(args) => audit::run(args, globals),
            Self::Keygen(args) => keygen::run(args),
            Self::Completions(args) => completions::run(args),
            Self::Man(args) => man::run(args),
        }
    }
}

/// Runs the program on the arguments and the environment of this process.
pub fn main() -> ExitCode {
    guard::silence_panics();
    panic::catch_unwind(run).unwrap_or(Exit::Failed).into()
}

fn run() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return exit::usage(&usage),
    };
    guard::forbid_dumps().and_then(|()| cli.command.run(cli.globals)).unwrap_or_else(|error| exit::failure(&error))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_shows_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  tracecloak "), "{} has no examples", command.get_name());
        }
    }

    #[test]
    fn every_flag_has_its_environment_variable() {
        for command in Cli::command().get_subcommands() {
            args::tests::every_flag_has_its_variable(command);
        }
    }
}
