//! `tracecloak export`: our traces to the formats of other projects.
//!
//! Invariant: the target appears whole or not at all; what the format cannot carry is said.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use serde_json::json;

use super::args::Globals;
use super::exit::{Exit, Hint};
use super::import::counts;
use super::interrupt;
use super::output::{Stdout, number};
use crate::format;
use crate::format::foreign::{self, Dialect, EXPORTERS, ExportOptions, ExportReport, Exporter, ForeignError};
use crate::trace::vocab::Vocabulary;

const EXAMPLES: &str = "\
Examples:
  tracecloak export trace --to weka -o traces
  tracecloak export trace --to weka --dialect agentx --select agentx -o dataset
  tracecloak export trace --to mooncake --block-size 512 -o trace.jsonl
  tracecloak export trace --to flat -o requests.parquet";

/// Write a trace in another format
///
/// Says what the format cannot carry.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// Folder of the trace
    pub(super) trace: PathBuf,
    /// Format to write
    #[arg(long, value_name = "FORMAT", env = "TRACECLOAK_TO", hide_env = true)]
    #[arg(value_parser = PossibleValuesParser::new(EXPORTERS.iter().map(|exporter| exporter.format().word())))]
    pub(super) to: String,
    /// File or folder to write: weka takes a folder, or a name that ends in .jsonl or .json
    #[arg(short, long, value_name = "OUT", env = "TRACECLOAK_OUTPUT", hide_env = true)]
    pub(super) output: PathBuf,
    /// Which WEKA: that of kv-cache-tester, or that of SemiAnalysis
    #[arg(long, env = "TRACECLOAK_DIALECT", hide_env = true, default_value = "tester")]
    #[arg(value_parser = PossibleValuesParser::new(["tester", "agentx"]).map(|word| dialect(&word)))]
    pub(super) dialect: Dialect,
    /// Mooncake rows that name their session and wait for the turn before, instead of rows in order of time
    #[arg(long, env = "TRACECLOAK_SESSIONS", hide_env = true, value_parser = BoolishValueParser::new())]
    pub(super) sessions: bool,
    /// Only what the published rules of this dataset admit
    #[arg(long, value_name = "RULES", env = "TRACECLOAK_SELECT", hide_env = true)]
    #[arg(value_parser = PossibleValuesParser::new(["agentx"]))]
    pub(super) select: Option<String>,
    /// Tokens per block: a multiple of the trace's [default: the trace's]
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_BLOCK_SIZE", hide_env = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) block_size: Option<u32>,
    /// Replace what an earlier export wrote
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    pub(super) force: bool,
}

fn dialect(word: &str) -> Dialect {
    if word == "agentx" { Dialect::AgentX } else { Dialect::Tester }
}

pub(super) fn run(args: &ExportArgs, globals: Globals) -> anyhow::Result<Exit> {
    let exporter = foreign::exporter(&args.to).ok_or_else(|| anyhow!("no such format"))?;
    let mut trace = format::open(&args.trace).with_context(|| format!("cannot open {}", args.trace.display()))?;
    let options = ExportOptions {
        replace: args.force,
        dialect: args.dialect,
        block_size: args.block_size,
        sessions: args.sessions,
        select_agentx: args.select.is_some(),
    };
    let _guard = interrupt::removing(&[&args.output])?;
    let report = match exporter.export(&mut *trace, &args.output, &options) {
        Err(error @ ForeignError::Exists) => {
            return Err(anyhow!("{}: {error}", args.output.display()))
                .hint("choose another target with -o, or replace it with --force");
        }
        other => other.with_context(|| format!("cannot export to {}", args.output.display()))?,
    };
    print(exporter, &report, globals)?;
    Ok(Exit::Fine)
}

fn print(exporter: &dyn Exporter, report: &ExportReport, globals: Globals) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut stdout = Stdout::new();
    if globals.json {
        let json = json!({
            "format": exporter.format(), "sessions": report.sessions, "requests": report.requests,
            "left_out": report.left_out, "lost": report.lost, "never_held": exporter.loss(),
        });
        serde_json::to_writer_pretty(&mut stdout, &json)?;
        writeln!(stdout)?;
    } else if !globals.quiet {
        let never: Vec<&str> = exporter.loss().iter().map(|loss| loss.word()).collect();
        writeln!(
            stdout,
            "wrote     {} sessions, {} requests as {}",
            number(report.sessions),
            number(report.requests),
            exporter.format().word()
        )?;
        if report.left_out > 0 {
            writeln!(stdout, "left out  {} requests", number(report.left_out))?;
        }
        for (name, words) in [("lost", counts(&report.lost)), ("not held", never.join(", "))] {
            if !words.is_empty() {
                writeln!(stdout, "{name:<9} {words}")?;
            }
        }
    }
    stdout.flush()?;
    Ok(())
}
