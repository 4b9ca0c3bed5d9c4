//! `tracecloak convert`: raw logs to a trace.
//!
//! Invariant: the trace appears whole or not at all; each record read is kept or counted under one reason; nothing that came from a
//! log is printed.

mod gate;
mod summary;

use anyhow::{Context, anyhow};

use super::args::{ConvertArgs, Globals, LogFormat, TokenizerSource};
use super::exit::{Exit, Hint};
use super::{interrupt, key, progress::Progress};
use crate::anonymize::{self, Converter, Key, Options, Rules, Selection};
use crate::capture::{self, Input, Inputs, Limits, LogError, OpenError, Records};
use crate::format::parquet::Directory;
use crate::format::{self, TraceFormat, TraceSink};
use crate::tokenize::{self, TokenizerInfo, TokenizerSpec};
use crate::trace::manifest::{FORMAT_VERSION, Named, Sha256, SkipCounts, ToolName, ToolVersion, Totals};
use crate::trace::vocab::{Keep, Loss, SourceFormat, TemplateName, TokenizerName, Vocabulary};
use crate::trace::{Manifest, Session};

use gate::SourceCheck;
use summary::{InputCounts, Report};

pub(super) fn run(args: &ConvertArgs, globals: Globals) -> anyhow::Result<Exit> {
    let inputs = Inputs::expand(&args.logs).hint("give files, folders, globs in quotes, or - for stdin")?;
    if !args.force && args.output.exists() {
        return Err(anyhow!("{} exists", args.output.display()))
            .hint("choose another folder with -o, or replace it with --force");
    }
    let key = match &args.key_file {
        Some(path) => Key::from_bytes(*key::read(path)?),
        None => Key::fresh().context("the system gives no randomness")?,
    };
    let (tokenizer, layout, info) = tokenize::load(&spec(&args.tokenizer)).context("cannot use the tokenizer")?;
    let rules = Rules::new(args.profile, &args.keep, args.block_size);
    let options = Options {
        rules: rules.clone(),
        scope: args.scope,
        prompt_scale: args.prompt_scale,
        drop_auxiliary: args.drop_aux,
        min_requests: usize::try_from(args.min_requests).unwrap_or(usize::MAX),
        selection: selection(args)?,
        reuse: kept_bytes(args),
    };
    let mut converter = Converter::new(options, &key, layout, Box::new(tokenizer));
    let counts = read(args, globals, &inputs, &mut converter)?;
    let (sessions, summary) = converter.finish();
    if sessions.is_empty() {
        summary::print_records(&summary);
        return Err(anyhow!("nothing usable in {} inputs", inputs.list().len()))
            .hint("convert reads traffic of the Anthropic and OpenAI APIs that a proxy or a client recorded; the counts above say why records were left out");
    }
    let head = manifest(args, &rules, &counts, &info, &summary);
    let bytes_in = inputs.consumed();
    let (manifest, bytes_out, source_check) = write(args, head, &sessions, &inputs)?;
    Report { manifest: &manifest, summary: &summary, inputs: &counts, bytes_in, bytes_out, source_check }
        .print(globals)?;
    Ok(Exit::Fine)
}

fn selection(args: &ConvertArgs) -> anyhow::Result<Selection> {
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let ids = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        anyhow::Ok(ids.map(str::to_ascii_lowercase).collect())
    };
    Ok(Selection {
        harnesses: args.only_harness.clone(),
        since_us: args.since.map(|time| time.0),
        until_us: args.until.map(|time| time.0),
        consent: args.consent.as_ref().map(read).transpose()?,
    })
}

/// Bytes of bodies that the reader and the converter may each keep, to read the next ones from where they part from them.
fn kept_bytes(args: &ConvertArgs) -> usize {
    if args.reference {
        return 0;
    }
    let memory = args.memory.unwrap_or_else(half_of_memory);
    (memory / 4).min(1 << 30)
}

/// Half of this machine's memory, in bytes; elsewhere than on Linux, where it isn't asked, that of a small machine.
fn half_of_memory() -> usize {
    #[cfg(target_os = "linux")]
    {
        let system = rustix::system::sysinfo();
        let unit = usize::try_from(system.mem_unit).unwrap_or(1);
        usize::try_from(system.totalram).unwrap_or(usize::MAX).saturating_mul(unit) / 2
    }
    #[cfg(not(target_os = "linux"))]
    {
        4 << 30
    }
}

/// What to load for `--tokenizer`.
pub(super) fn spec(source: &TokenizerSource) -> TokenizerSpec {
    match source {
        TokenizerSource::Builtin => TokenizerSpec::Builtin,
        TokenizerSource::Path(path) if path.is_dir() => TokenizerSpec::Dir(path.clone()),
        TokenizerSource::Path(path) => TokenizerSpec::File(path.clone()),
    }
}

/// Reads every input to its end.
fn read(
    args: &ConvertArgs,
    globals: Globals,
    inputs: &Inputs,
    converter: &mut Converter,
) -> anyhow::Result<InputCounts> {
    let total = inputs.list().iter().all(|input| input.bytes().is_some()).then(|| inputs.bytes());
    let progress = Progress::bytes(total, globals.quiet);
    let mut counts = InputCounts::default();
    for input in inputs.list() {
        let (format, records) = match open(input, args) {
            Ok(opened) => opened,
            Err(OpenError::Empty { .. }) => {
                counts.empty += 1;
                continue;
            }
            // What lies beside the logs in a folder is no mistake; a file that was named is.
            Err(error) if input.named().is_none() && !args.strict => {
                let is_unknown = matches!(error, OpenError::Unknown { .. });
                *if is_unknown { &mut counts.unknown } else { &mut counts.unreadable } += 1;
                continue;
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| place(input))
                    .hint("`--log-format` names a format; see `tracecloak convert --help`");
            }
        };
        counts.read += 1;
        counts.formats.extend(format);
        for record in capture::ahead(records) {
            let outcome = converter.push(record);
            match outcome {
                Err(error) if args.strict => {
                    return Err(error)
                        .with_context(|| place(input))
                        .hint("leave --strict out to count such records and go on");
                }
                Err(error) => counts.note(error),
                Ok(()) => {}
            }
            progress.advance_to(inputs.consumed());
        }
    }
    progress.finish();
    Ok(counts)
}

fn open(input: &Input, args: &ConvertArgs) -> Result<(Option<SourceFormat>, Records), OpenError> {
    let limits = Limits { kept_bytes: kept_bytes(args), ..Limits::default() };
    let named = match args.log_format {
        LogFormat::Auto => None,
        LogFormat::Only(format) => capture::READERS.iter().copied().find(|reader| reader.name() == format.word()),
    };
    let (reader, records) = match named {
        Some(reader) => (reader, capture::open_as(input, reader, limits)?),
        None => capture::open(input, limits)?,
    };
    Ok((SourceFormat::parse(reader.name()), records))
}

/// An input as the user may be told of it: by its name only if the user gave it.
fn place(input: &Input) -> String {
    input.named().map_or_else(|| format!("input {}", input.number()), |path| path.display().to_string())
}

fn manifest(
    args: &ConvertArgs,
    rules: &Rules,
    counts: &InputCounts,
    info: &TokenizerInfo,
    summary: &anonymize::Summary,
) -> Manifest {
    let hash = |sha256: [u8; 32]| rules.keeps(Keep::TokenizerHash).then_some(Sha256(sha256));
    let builtin = args.tokenizer == TokenizerSource::Builtin;
    let skipped = summary.skipped.values().sum::<u64>() + summary.in_small_sessions;
    Manifest {
        format_version: FORMAT_VERSION,
        tool: version(),
        profile: args.profile,
        kept: rules.kept.clone(),
        block_size: args.block_size,
        scope: args.scope,
        k: None,
        k_unit: None,
        tokenizer: Named {
            name: if builtin { TokenizerName::Builtin } else { TokenizerName::Custom },
            sha256: hash(info.tokenizer_sha256),
        },
        chat_template: Named {
            name: if info.template_sha256.is_some() { TemplateName::Custom } else { TemplateName::Neutral },
            sha256: info.template_sha256.and_then(hash),
        },
        normalizers: anonymize::normalizers(),
        quanta: rules.quanta(),
        prompt_scale: args.prompt_scale,
        source_formats: SourceFormat::ALL.iter().copied().filter(|format| counts.formats.contains(format)).collect(),
        totals: Totals::default(),
        loss: [
            (Loss::SystemPrompt, summary.no_system),
            (Loss::ToolDefinitions, summary.no_tools),
            (Loss::Answers, summary.no_answer),
        ]
        .into_iter()
        .filter_map(|(loss, requests)| (requests > 0).then_some(loss))
        .collect(),
        skip_counts: rules.keeps(Keep::SkipCounts).then_some(SkipCounts { records: summary.read, skipped }),
        license: args.license,
        files: Vec::new(),
    }
}

/// The version of this program.
pub(super) fn version() -> ToolVersion {
    let part = |text: &str| text.parse().unwrap_or(0);
    ToolVersion {
        name: ToolName::Tracecloak,
        major: part(env!("CARGO_PKG_VERSION_MAJOR")),
        minor: part(env!("CARGO_PKG_VERSION_MINOR")),
        patch: part(env!("CARGO_PKG_VERSION_PATCH")),
    }
}

/// Writes the trace beside its target, checks it, and puts it in place.
fn write(
    args: &ConvertArgs,
    head: Manifest,
    sessions: &[Session],
    inputs: &Inputs,
) -> anyhow::Result<(Manifest, u64, SourceCheck)> {
    let waiting = gate::waiting_room(&args.output)?;
    let _guard = interrupt::removing(&[&waiting, &args.output])?;
    let mut sink: Box<dyn TraceSink> = Directory.create(&waiting, head, false).context("cannot begin the trace")?;
    for session in sessions {
        sink.session(session).context("cannot write the trace")?;
    }
    let manifest = sink.finish().context("cannot finish the trace")?;
    let checked = gate::check(&waiting, inputs).and_then(|checked| {
        let mut bytes = 0;
        for entry in std::fs::read_dir(&waiting).context("cannot read the trace back")? {
            bytes += entry.and_then(|entry| entry.metadata()).context("cannot read the trace back")?.len();
        }
        format::publish(&waiting, &args.output, args.force).context("cannot put the trace in place")?;
        Ok((manifest, bytes, checked))
    });
    // After a success it is gone; after a failure nothing of it may stay.
    std::fs::remove_dir_all(&waiting).ok();
    checked
}

/// The first few errors, for a person to look at.
const SHOWN_ERRORS: usize = 5;

impl InputCounts {
    fn note(&mut self, error: LogError) {
        if self.errors.len() < SHOWN_ERRORS {
            self.errors.push(error);
        }
    }
}
