//! Arguments as they are typed. What they mean together is checked where they are used.
//!
//! Invariant: every flag has an environment variable of its name, `TRACECLOAK_*`; every word comes from `trace::vocab`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};

use crate::trace::vocab::{Harness, Keep, License, Profile, PromptScale, Scope, SourceFormat, Vocabulary};

/// Flags of every subcommand.
#[derive(Clone, Copy, Debug, Args)]
pub struct Globals {
    /// Results as JSON on stdout, where the command has results
    #[arg(long, global = true, env = "TRACECLOAK_JSON", hide_env = true, value_parser = BoolishValueParser::new())]
    pub json: bool,
    /// No progress bar and no summary on stderr
    #[arg(short, long, global = true, env = "TRACECLOAK_QUIET", hide_env = true, value_parser = BoolishValueParser::new())]
    pub quiet: bool,
}

const CONVERT_EXAMPLES: &str = "\
Examples:
  tracecloak convert proxy.jsonl -o trace
  tracecloak convert logs/ 'more/*.jsonl.zst' -o trace --tokenizer models/my-model/
  zcat proxy.jsonl.gz | tracecloak convert - -o trace --keep usage,tool-times";

/// Make a text-free trace from raw logs
///
/// Logs are recognised by their content, plain or compressed with gzip or zstd. The trace appears whole or not at all.
#[derive(Clone, Debug, Args)]
#[command(after_help = CONVERT_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ConvertArgs {
    /// Logs: files, folders (walked), globs, or - for stdin
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// Folder to make for the trace
    #[arg(short, long, value_name = "TRACE", env = "TRACECLOAK_OUTPUT", hide_env = true)]
    pub output: PathBuf,
    /// Rules for what is written: public rounds and leaves out, private is exact
    #[arg(long, env = "TRACECLOAK_PROFILE", hide_env = true, default_value = "public")]
    #[arg(value_parser = words(&[Profile::Public, Profile::Private]))]
    pub profile: Profile,
    /// Items that the public profile is to write as the private one does; separate them by commas
    #[arg(long, value_name = "LIST", env = "TRACECLOAK_KEEP", hide_env = true, value_delimiter = ',')]
    #[arg(value_parser = words(Keep::ALL))]
    pub keep: Vec<Keep>,
    /// Format of the logs: auto, or a name to skip recognition
    #[arg(long, value_name = "FORMAT", env = "TRACECLOAK_LOG_FORMAT", hide_env = true, default_value = "auto")]
    #[arg(value_parser = PossibleValuesParser::new(LogFormat::words()).try_map(|word| word.parse::<LogFormat>()))]
    pub log_format: LogFormat,
    /// What counts tokens: builtin, a Hugging Face tokenizer.json, or a folder with one and its chat template
    #[arg(
        long,
        value_name = "builtin|FILE|DIR",
        env = "TRACECLOAK_TOKENIZER",
        hide_env = true,
        default_value = "builtin"
    )]
    pub tokenizer: TokenizerSource,
    /// Tokens per block; small blocks tell more about where prompts differ
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_BLOCK_SIZE", hide_env = true, default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u32).range(16..=65536))]
    pub block_size: u32,
    /// Which prompts share block ids: those of one session, or all
    #[arg(long, env = "TRACECLOAK_SCOPE", hide_env = true, default_value = "session")]
    #[arg(value_parser = words(&[Scope::Session, Scope::Dataset]))]
    pub scope: Scope,
    /// Key from `tracecloak keygen` [default: a fresh key, erased at the end]
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_KEY_FILE", hide_env = true)]
    pub key_file: Option<PathBuf>,
    /// Prompt lengths as counted by the tokenizer (none), or scaled to what the provider counted (usage)
    #[arg(long, env = "TRACECLOAK_PROMPT_SCALE", hide_env = true, default_value = "none")]
    #[arg(value_parser = words(PromptScale::ALL))]
    pub prompt_scale: PromptScale,
    /// Leave out auxiliary requests, such as titles and topics
    #[arg(long, env = "TRACECLOAK_DROP_AUX", hide_env = true, value_parser = BoolishValueParser::new())]
    pub drop_aux: bool,
    /// Leave out sessions with fewer requests
    #[arg(long, value_name = "N", env = "TRACECLOAK_MIN_REQUESTS", hide_env = true, default_value_t = 1)]
    pub min_requests: u32,
    /// Keep only sessions of these harnesses; separate them by commas
    #[arg(long, value_name = "LIST", env = "TRACECLOAK_ONLY_HARNESS", hide_env = true, value_delimiter = ',')]
    #[arg(value_parser = words(Harness::ALL))]
    pub only_harness: Vec<Harness>,
    /// Keep only requests sent at this time or later, such as 2026-03-01T00:00:00Z; not written to the trace
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_SINCE", hide_env = true, value_parser = moment)]
    pub since: Option<Moment>,
    /// Keep only requests sent before this time; not written to the trace
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_UNTIL", hide_env = true, value_parser = moment)]
    pub until: Option<Moment>,
    /// Keep only sessions that this file lists, an id a line; of all others nothing is looked at but their id, and nothing kept
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_CONSENT", hide_env = true)]
    pub consent: Option<PathBuf>,
    /// Memory to use, about, such as 512M or 4G [default: half of this machine's]; with less, more is read again from its start
    #[arg(long, value_name = "SIZE", env = "TRACECLOAK_MEMORY", hide_env = true, value_parser = size)]
    pub memory: Option<usize>,
    /// Read every body from its start: slow, for comparing
    #[arg(long, env = "TRACECLOAK_REFERENCE", hide_env = true, value_parser = BoolishValueParser::new())]
    pub reference: bool,
    /// Stop at the first record that cannot be read, instead of counting it
    #[arg(long, env = "TRACECLOAK_STRICT", hide_env = true, value_parser = BoolishValueParser::new())]
    pub strict: bool,
    /// Replace an existing trace
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    pub force: bool,
    /// Licence to name in the trace
    #[arg(long, value_name = "SPDX", env = "TRACECLOAK_LICENSE", hide_env = true, value_parser = words(License::ALL))]
    pub license: Option<License>,
}

const INSPECT_EXAMPLES: &str = "\
Examples:
  tracecloak inspect trace
  tracecloak inspect trace --session 0
  tracecloak inspect trace --concurrency 16 --bytes-per-token 98304
  tracecloak inspect trace --html trace.html
  tracecloak inspect trace --json | jq .cache";

/// Show what a trace holds
#[derive(Clone, Debug, Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub struct InspectArgs {
    /// Folder of the trace
    pub trace: PathBuf,
    /// Show one session: its agents, requests and what they waited for
    #[arg(long, value_name = "N", env = "TRACECLOAK_SESSION", hide_env = true)]
    pub session: Option<u32>,
    /// Compare with another trace: lengths, prefix structure, edges, times; exit code 1 where they differ
    #[arg(long, value_name = "TRACE2", env = "TRACECLOAK_COMPARE", hide_env = true)]
    pub compare: Option<PathBuf>,
    /// Sessions that run at a time, for the cache-hit curve
    #[arg(long, value_name = "N", env = "TRACECLOAK_CONCURRENCY", hide_env = true, default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    /// Bytes that a token takes in the KV cache, to show cache sizes in bytes too
    #[arg(long, value_name = "BYTES", env = "TRACECLOAK_BYTES_PER_TOKEN", hide_env = true)]
    pub bytes_per_token: Option<u64>,
    /// Write a page with plots, and a timeline of the session (or of the one with the most agents)
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_HTML", hide_env = true)]
    pub html: Option<PathBuf>,
    /// Replace an existing page
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    pub force: bool,
}

/// A time that was typed, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(pub i64);

fn moment(text: &str) -> Result<Moment, &'static str> {
    let time = text.parse::<jiff::Timestamp>().map_err(|_| "a time is written as 2026-03-01T00:00:00Z")?;
    Ok(Moment(time.as_microsecond()))
}

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &str) -> Result<usize, &'static str> {
    let wrong = "a size is written as 512M or 4G";
    let digits = text.trim_end_matches(|char: char| !char.is_ascii_digit());
    let shift = match text
        .get(digits.len()..)
        .unwrap_or_default()
        .to_ascii_uppercase()
        .trim_end_matches("IB")
        .trim_end_matches('B')
    {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wrong),
    };
    let number: usize = digits.parse().map_err(|_| wrong)?;
    number.checked_mul(1 << shift).ok_or(wrong)
}

/// Which reader reads the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Recognised by content, input by input.
    Auto,
    /// This one, for every input.
    Only(SourceFormat),
}

impl LogFormat {
    fn words() -> impl Iterator<Item = &'static str> {
        let logs = SourceFormat::ALL.iter().filter(|format| format.is_log());
        std::iter::once("auto").chain(logs.map(|format| format.word()))
    }
}

impl FromStr for LogFormat {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if word == "auto" {
            Ok(Self::Auto)
        } else {
            SourceFormat::parse(word).map(Self::Only).ok_or("no such log format")
        }
    }
}

/// Where a tokenizer comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenizerSource {
    /// The embedded one.
    Builtin,
    /// A `tokenizer.json`, or a folder with one.
    Path(PathBuf),
}

impl From<OsString> for TokenizerSource {
    fn from(value: OsString) -> Self {
        if value == "builtin" { Self::Builtin } else { Self::Path(value.into()) }
    }
}

/// Parses the words of `members`, a part of a vocabulary or all of it.
pub(super) fn words<V: Vocabulary + Send + Sync>(members: &'static [V]) -> impl TypedValueParser<Value = V> {
    PossibleValuesParser::new(members.iter().map(|member| member.word()))
        .try_map(|word| V::parse(&word).ok_or("a word outside the vocabulary"))
}

#[cfg(test)]
pub(super) mod tests {
    use clap::{Command, CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct Convert {
        #[command(flatten)]
        globals: Globals,
        #[command(flatten)]
        args: ConvertArgs,
    }

    #[derive(Debug, Parser)]
    struct Inspect {
        #[command(flatten)]
        args: InspectArgs,
    }

    /// A flag `--block-size` has the variable `TRACECLOAK_BLOCK_SIZE`.
    pub(in crate::cli) fn every_flag_has_its_variable(command: &Command) {
        for arg in command.get_arguments().filter(|arg| !["help", "version"].contains(&arg.get_id().as_str())) {
            if let Some(flag) = arg.get_long() {
                let expected = format!("TRACECLOAK_{}", flag.replace('-', "_").to_uppercase());
                let found = arg.get_env().and_then(|name| name.to_str());
                assert_eq!(found, Some(expected.as_str()), "{} --{flag}", command.get_name());
            }
        }
    }

    fn convert(arguments: &str) -> Result<ConvertArgs, clap::Error> {
        Convert::try_parse_from(["convert"].into_iter().chain(arguments.split(' '))).map(|parsed| parsed.args)
    }

    #[test]
    fn the_definitions_are_consistent_and_every_flag_has_its_variable() {
        for command in [Convert::command(), Inspect::command()] {
            every_flag_has_its_variable(&command);
            command.debug_assert();
        }
    }

    #[test]
    fn a_plain_conversion_is_public_and_by_session() {
        let args = convert("a.jsonl b.har -o out").unwrap();
        assert_eq!(args.logs, [PathBuf::from("a.jsonl"), PathBuf::from("b.har")]);
        assert_eq!(args.output, PathBuf::from("out"));
        assert_eq!((args.profile, args.scope, args.prompt_scale), (Profile::Public, Scope::Session, PromptScale::None));
        assert_eq!((args.log_format, args.tokenizer), (LogFormat::Auto, TokenizerSource::Builtin));
        assert_eq!((args.block_size, args.min_requests), (64, 1));
        assert!(args.keep.is_empty() && args.key_file.is_none() && args.license.is_none());
        assert!(!args.drop_aux && !args.strict && !args.force);
    }

    #[test]
    fn every_word_of_the_vocabularies_can_be_typed() {
        let args =
            convert("- -o out --keep usage,tool-times --keep arrivals --license Apache-2.0 --log-format har").unwrap();
        assert_eq!(args.keep, [Keep::Usage, Keep::ToolTimes, Keep::Arrivals]);
        assert_eq!(args.license, Some(License::Apache2));
        assert_eq!(args.log_format, LogFormat::Only(SourceFormat::Har));
        for keep in Keep::ALL {
            assert_eq!(convert(&format!("- -o out --keep {}", keep.word())).unwrap().keep, [*keep]);
        }
    }

    #[test]
    fn a_selection_is_by_harness_time_and_consent() {
        let args =
            convert("- -o out --only-harness codex,opencode --since 1970-01-01T00:00:01Z --consent ids").unwrap();
        assert_eq!(args.only_harness, [Harness::Codex, Harness::OpenCode]);
        assert_eq!((args.since, args.until), (Some(Moment(1_000_000)), None));
        assert!(convert("- -o out --until yesterday").is_err());
    }

    #[test]
    fn a_tokenizer_is_builtin_or_a_path() {
        let args = convert("- -o out --tokenizer models/tokenizer.json").unwrap();
        assert_eq!(args.tokenizer, TokenizerSource::Path("models/tokenizer.json".into()));
    }

    #[test]
    fn what_this_version_cannot_do_is_not_accepted() {
        for flags in ["--scope shared", "--profile imported", "--block-size 8", "--keep everything", "--log-format csv"]
        {
            assert!(convert(&format!("- -o out {flags}")).is_err(), "{flags}");
        }
        assert!(convert("a.jsonl").is_err(), "no output");
        assert!(convert("-o out").is_err(), "no logs");
    }

    #[test]
    fn inspect_takes_a_trace_and_a_session() {
        let args = Inspect::try_parse_from(["inspect", "out", "--session", "3"]).unwrap().args;
        assert_eq!((args.trace, args.session), (PathBuf::from("out"), Some(3)));
    }
}
