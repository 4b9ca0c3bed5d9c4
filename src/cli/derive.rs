//! `tracecloak derive`: new workloads from a trace.
//!
//! Invariant: the source stays as it is; each part of the result appears whole or not at all.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use clap::{ArgGroup, Args};
use serde_json::json;

use super::args::Globals;
use super::exit::{Exit, Hint};
use super::output::Stdout;
use crate::derive::{Filter, Recipe, Scale, Work, derive, manifest};
use crate::format::parquet::Directory;
use crate::format::{TraceFormat, open};

const EXAMPLES: &str = "\
Examples:
  tracecloak derive trace -o wide --fan-out 4                    the same work in 4 branches
  tracecloak derive trace -o burst --fan-out 4 --work burst      4 times the work at once
  tracecloak derive trace -o some --filter 'requests>=20,subagents' --sample 100 --seed 1
  tracecloak derive trace -o parts --split 80                    parts/train and parts/test";

/// Make a new workload from a trace: pick sessions, change their shape or their lengths
///
/// In this order: filter, sample, scale lengths, linearize, fan out, split. The result keeps the profile of its source.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("recipe").required(true).multiple(true)
    .args(["filter", "sample", "scale_lengths", "linearize", "fan_out", "split"]))]
pub(super) struct DeriveArgs {
    /// Folder of the trace
    trace: PathBuf,
    /// Folder to make
    #[arg(short, long, value_name = "TRACE", env = "TRACECLOAK_OUTPUT", hide_env = true)]
    output: PathBuf,
    /// Keep sessions for which all conditions hold: requests, agents, tokens or longest with >=, <= or = and a number;
    /// model=NAME, model!=NAME, subagents, !subagents; separate them by commas
    #[arg(long, value_name = "EXPR", env = "TRACECLOAK_FILTER", hide_env = true)]
    filter: Option<Filter>,
    /// Keep this many sessions, drawn by the seed
    #[arg(long, value_name = "N", env = "TRACECLOAK_SAMPLE", hide_env = true, value_parser = clap::value_parser!(u32).range(1..))]
    sample: Option<u32>,
    /// What sample and split are drawn with
    #[arg(long, value_name = "S", env = "TRACECLOAK_SEED", hide_env = true, default_value_t = 0)]
    seed: u64,
    /// Multiply the lengths of prompts, answers and tool results; times stay
    #[arg(long, value_name = "X", env = "TRACECLOAK_SCALE_LENGTHS", hide_env = true)]
    scale_lengths: Option<Scale>,
    /// One request after another, with the same prompts and pauses
    #[arg(long, env = "TRACECLOAK_LINEARIZE", hide_env = true, value_parser = BoolishValueParser::new())]
    linearize: bool,
    /// Let K branches go on from the first request at once, each in an agent of its own
    #[arg(long, value_name = "K", env = "TRACECLOAK_FAN_OUT", hide_env = true, value_parser = clap::value_parser!(u32).range(1..=1024))]
    fan_out: Option<u32>,
    /// What the branches do: fixed deals the session's requests out, burst gives each branch all of them
    #[arg(
        long,
        value_name = "fixed|burst",
        env = "TRACECLOAK_WORK",
        hide_env = true,
        default_value = "fixed",
        requires = "fan_out"
    )]
    work: Work,
    /// Put this percentage of the sessions into TRACE/train and the others into TRACE/test
    #[arg(long, value_name = "PERCENT", env = "TRACECLOAK_SPLIT", hide_env = true, value_parser = clap::value_parser!(u8).range(1..=99))]
    split: Option<u8>,
    /// Replace an existing trace
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    force: bool,
}

pub(super) fn run(args: &DeriveArgs, globals: Globals) -> anyhow::Result<Exit> {
    let shown = args.trace.display();
    let source = open(&args.trace).with_context(|| format!("could not open {shown}"))?;
    let made = args.split.is_some() && !args.output.exists();
    let parts = if args.split.is_some() {
        fs::create_dir_all(&args.output).with_context(|| format!("could not make {}", args.output.display()))?;
        ["train", "test"].map(|part| args.output.join(part)).to_vec()
    } else {
        vec![args.output.clone()]
    };
    let mut sinks = Vec::with_capacity(parts.len());
    for part in &parts {
        let sink = Directory.create(part, manifest(source.manifest()), args.force);
        sinks
            .push(sink.hint("--force replaces a trace").with_context(|| format!("could not make {}", part.display()))?);
    }
    let recipe = Recipe {
        filter: args.filter.clone().unwrap_or_default(),
        sample: args.sample,
        seed: args.seed,
        scale_lengths: args.scale_lengths,
        linearize: args.linearize,
        fan_out: args.fan_out.map(|branches| (branches, args.work)),
        split: args.split,
    };
    let manifests = derive(source, &recipe, sinks).inspect_err(|_| {
        // The folder around the parts goes too, if it is new; where something is in it, it stays.
        if made {
            fs::remove_dir(&args.output).ok();
        }
    });
    let manifests = manifests.with_context(|| format!("nothing was derived from {shown}"))?;
    let mut stdout = Stdout::new();
    if globals.json {
        let traces: Vec<_> = parts
            .iter()
            .zip(&manifests)
            .map(|(part, manifest)| json!({ "trace": part.display().to_string(), "totals": manifest.totals }))
            .collect();
        serde_json::to_writer_pretty(&mut stdout, &json!({ "traces": traces }))?;
        writeln!(stdout)?;
    } else if !globals.quiet {
        for (part, manifest) in parts.iter().zip(&manifests) {
            let totals = manifest.totals;
            writeln!(
                stdout,
                "{}: {} sessions, {} agents, {} requests, {} input tokens in {} distinct blocks",
                part.display(),
                totals.sessions,
                totals.agents,
                totals.requests,
                totals.input_tokens,
                totals.unique_blocks
            )?;
        }
    }
    stdout.flush()?;
    Ok(Exit::Fine)
}
