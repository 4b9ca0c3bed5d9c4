//! `tracecloak import`: traces of other projects to ours.
//!
//! Invariant: the trace appears whole or not at all; what had to be inferred, what was odd and what was lost is said.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser};
use serde_json::json;

use super::args::{Globals, words};
use super::exit::{Exit, Hint};
use super::output::{Stdout, bytes, number, percent};
use super::progress::Progress;
use super::{convert, interrupt};
use crate::capture::{Input, Inputs};
use crate::format::foreign::{
    self, ForeignError, Frame, IMPORTERS, ImportOptions, ImportReport, Importer, Source, Tally,
};
use crate::format::parquet::Directory;
use crate::format::{TraceFormat, TraceSink};
use crate::trace::Manifest;
use crate::trace::vocab::{License, Vocabulary};

const EXAMPLES: &str = "\
Examples:
  tracecloak import traces/ -o trace
  tracecloak import weka.jsonl.zst -o trace --license Apache-2.0
  tracecloak import conversation_trace.jsonl --from mooncake --block-size 512 -o trace";

/// Make a trace from one in another format
///
/// Sessions keep the order that they have in the source. What the source does not state is inferred and counted.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// Traces: files, folders (walked), globs, or - for stdin; plain, gzip or zstd
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Format of the files: auto, or a name to skip recognition
    #[arg(long, value_name = "FORMAT", env = "TRACECLOAK_FROM", hide_env = true, default_value = "auto")]
    #[arg(value_parser = PossibleValuesParser::new(names()))]
    pub(super) from: String,
    /// Folder to make for the trace
    #[arg(short, long, value_name = "TRACE", env = "TRACECLOAK_OUTPUT", hide_env = true)]
    pub(super) output: PathBuf,
    /// Tokens per block, where the format does not say [default: what is usual for it]
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_BLOCK_SIZE", hide_env = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) block_size: Option<u32>,
    /// Licence to name in the trace
    #[arg(long, value_name = "SPDX", env = "TRACECLOAK_LICENSE", hide_env = true, value_parser = words(License::ALL))]
    pub(super) license: Option<License>,
    /// Replace an existing trace
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    pub(super) force: bool,
}

fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once("auto").chain(IMPORTERS.iter().map(|importer| importer.format().word()))
}

pub(super) fn run(args: &ImportArgs, globals: Globals) -> anyhow::Result<Exit> {
    let inputs = Inputs::expand(&args.files).hint("give files, folders, globs in quotes, or - for stdin")?;
    if !args.force && args.output.exists() {
        return Err(anyhow!("{} exists", args.output.display()))
            .hint("choose another folder with -o, or replace it with --force");
    }
    let sources: Vec<Source> = inputs.list().iter().map(source).collect();
    let given = sources.len();
    let (importer, sources) = match foreign::importer(&args.from) {
        Some(importer) => (importer, sources),
        None => foreign::recognize(sources).map_err(|error| placed(error, &inputs)).hint("`--from` names a format")?,
    };
    let skipped = given - sources.len();
    let _guard = interrupt::removing(&[&args.output])?;
    let mut sink: Option<(Frame, Box<dyn TraceSink>)> = None;
    let progress = Progress::bytes(inputs.list().iter().map(Input::bytes).sum(), globals.quiet);
    let read = importer.import(&sources, ImportOptions { block_size: args.block_size }, &mut |frame, session| {
        progress.advance_to(inputs.consumed());
        let open = match &mut sink {
            Some((_, open)) => open,
            none => {
                let head = manifest(args, importer, frame);
                let open = Directory.create(&args.output, head, args.force)?;
                &mut none.insert((frame, open)).1
            }
        };
        Ok(open.session(&session)?)
    });
    progress.finish();
    let mut report = read.map_err(|error| placed(error, &inputs))?;
    report.skipped_files = u64::try_from(skipped).unwrap_or(u64::MAX);
    let (_, sink) = sink.ok_or(ForeignError::Nothing)?;
    let manifest = sink.finish().context("cannot finish the trace")?;
    print(importer, &manifest, &report, inputs.consumed(), globals)?;
    Ok(Exit::Fine)
}

fn source(input: &Input) -> Source {
    let opened = input.clone();
    Source::new(input.number(), input.named().is_some(), move || opened.open())
}

/// The error, with the name of the file if the user gave it.
fn placed(error: ForeignError, inputs: &Inputs) -> anyhow::Error {
    let file = match error {
        ForeignError::Read { file, .. }
        | ForeignError::Row { file, .. }
        | ForeignError::Unrecognized(file)
        | ForeignError::Damaged(file)
        | ForeignError::Mixed(file) => Some(file),
        _ => None,
    };
    let named = file.and_then(|file| inputs.list().iter().find(|input| input.number() == file)?.named());
    match named {
        Some(path) => anyhow::Error::from(error).context(path.display().to_string()),
        None => error.into(),
    }
}

fn manifest(args: &ImportArgs, importer: &dyn Importer, frame: Frame) -> Manifest {
    let mut loss = importer.loss().to_vec();
    loss.sort_unstable();
    Manifest {
        source_formats: vec![importer.format()],
        loss,
        license: args.license,
        ..Manifest::imported(convert::version(), frame.block_size, frame.scope)
    }
}

fn print(
    importer: &dyn Importer,
    manifest: &Manifest,
    report: &ImportReport,
    bytes_in: u64,
    globals: Globals,
) -> anyhow::Result<()> {
    use std::io::Write as _;
    let totals = &manifest.totals;
    let mut stdout = Stdout::new();
    if globals.json {
        let json = json!({
            "format": importer.format(), "rows": report.rows, "skipped_files": report.skipped_files,
            "inferred": report.inferred, "anomalies": report.anomalies, "lost": report.lost,
            "never_held": manifest.loss, "block_size": manifest.block_size, "scope": manifest.scope,
            "totals": totals, "bytes_in": bytes_in,
        });
        serde_json::to_writer_pretty(&mut stdout, &json)?;
        writeln!(stdout)?;
    } else if !globals.quiet {
        let reused = totals.blocks.saturating_sub(totals.unique_blocks);
        writeln!(
            stdout,
            "read      {} rows of {}, {}",
            number(report.rows),
            importer.format().word(),
            bytes(bytes_in)
        )?;
        if report.skipped_files > 0 {
            writeln!(stdout, "          {} files of no known format left out", number(report.skipped_files))?;
        }
        writeln!(
            stdout,
            "trace     {} sessions, {} agents, {} requests, {} edges, {} tool calls\n\
             tokens    {} in, {} out; {} of {} blocks were there before ({})",
            number(totals.sessions),
            number(totals.agents),
            number(totals.requests),
            number(totals.edges),
            number(totals.tools),
            number(totals.input_tokens),
            number(totals.output_tokens),
            number(reused),
            number(totals.blocks),
            percent(reused, totals.blocks),
        )?;
        let never: Vec<&str> = manifest.loss.iter().map(|loss| loss.word()).collect();
        for (name, words) in [
            ("inferred", counts(&report.inferred)),
            ("odd", counts(&report.anomalies)),
            ("lost", counts(&report.lost)),
            ("not held", never.join(", ")),
        ] {
            if !words.is_empty() {
                writeln!(stdout, "{name:<9} {words}")?;
            }
        }
    }
    stdout.flush()?;
    Ok(())
}

/// A tally on one line.
pub(super) fn counts<V: Vocabulary + Ord>(tally: &Tally<V>) -> String {
    let words: Vec<String> = tally.iter().map(|(word, count)| format!("{} {}", number(count), word.word())).collect();
    words.join(", ")
}
