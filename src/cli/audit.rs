//! `tracecloak audit`: can anything be got back from these files?
//!
//! Invariant: what is printed are labels, places and classes; exit 0 only if everything was decoded and nothing at or above
//! `--fail-on` was found.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use clap::builder::{BoolishValueParser, PossibleValuesParser};

use super::args::{Globals, TokenizerSource};
use super::exit::{Exit, Hint};
use super::output::Stdout;
use super::self_test;
use super::source_check::Source;
use crate::audit::rules::Rules;
use crate::audit::view::Limits;
use crate::audit::{AuditError, Baseline, Options, Outcome, Severity, SourceOutcome, audit, check, render};

const EXAMPLES: &str = "\
Examples:
  tracecloak audit trace
  tracecloak audit public-traces/ --risk --fail-on warning
  tracecloak audit trace.parquet --format sarif > audit.sarif
  tracecloak audit trace --source logs/ --tokenizer builtin
  tracecloak audit --self-test
  tracecloak audit --explain L076";

/// Look for anything in trace files that could be got back: text, ids, hashes, times
///
/// Takes files and folders of any tool: our own traces, Parquet, Arrow, JSON, JSONL, CSV, and archives of them. A file is clean if
/// every byte of it is declared; what can't be decoded is not audited, and says so with exit code 3. Findings never show a value.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(super) struct AuditArgs {
    /// Trace files and folders
    #[arg(value_name = "PATH", required_unless_present_any = ["explain", "list", "self_test"])]
    paths: Vec<PathBuf>,
    /// How to show findings
    #[arg(long, env = "TRACECLOAK_FORMAT", hide_env = true, default_value = "plain")]
    #[arg(value_parser = PossibleValuesParser::new(["plain", "json", "sarif"]))]
    format: String,
    /// Findings to accept: a check, or a check in files whose path begins so
    #[arg(long, value_name = "ID[:PATH]", env = "TRACECLOAK_ALLOW", hide_env = true, value_delimiter = ',')]
    allow: Vec<String>,
    /// Findings to accept, as an earlier run wrote them; the file is made if there is none
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_BASELINE", hide_env = true)]
    baseline: Option<PathBuf>,
    /// Least severity that makes the exit code 1
    #[arg(long, env = "TRACECLOAK_FAIL_ON", hide_env = true, default_value = "error")]
    #[arg(value_parser = PossibleValuesParser::new(["info", "warning", "error"]))]
    fail_on: String,
    /// The logs that the trace was made from: proves that nothing of them is in it
    #[arg(long, value_name = "LOG", env = "TRACECLOAK_SOURCE", hide_env = true, value_delimiter = ',')]
    source: Vec<PathBuf>,
    /// With --source: read numbers as token ids of this tokenizer too, and look for hashes of token blocks
    #[arg(long, value_name = "builtin|FILE|DIR", env = "TRACECLOAK_TOKENIZER", hide_env = true)]
    tokenizer: Option<TokenizerSource>,
    /// Strings that were planted in the logs, one a line: none of them may be in what is audited
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_CANARY", hide_env = true)]
    canary: Option<PathBuf>,
    /// The key of the conversion: it may not be in what is audited
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_KEY_FILE", hide_env = true)]
    key_file: Option<PathBuf>,
    /// Secret rules in gitleaks' TOML form, instead of the built-in ones
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_RULES", hide_env = true)]
    rules: Option<PathBuf>,
    /// Show what remains: how unique requests are, and bits per column
    #[arg(long, env = "TRACECLOAK_RISK", hide_env = true, value_parser = BoolishValueParser::new())]
    risk: bool,
    /// Name single sessions in the risk table; for you, not for publication
    #[arg(long, env = "TRACECLOAK_LOCAL", hide_env = true, value_parser = BoolishValueParser::new())]
    local: bool,
    /// Fail if more than this share of places is unique by three exact requests (0 to 1)
    #[arg(long, value_name = "SHARE", env = "TRACECLOAK_MAX_UNIQUE", hide_env = true, value_parser = share)]
    max_unique: Option<f64>,
    /// Write a statement of what was looked at, with sha256 of each file
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_ATTEST", hide_env = true)]
    attest: Option<PathBuf>,
    /// Explain a check
    #[arg(long, value_name = "ID", env = "TRACECLOAK_EXPLAIN", hide_env = true)]
    explain: Option<String>,
    /// Plant known leaks in a small trace, and show which of them are found
    #[arg(long, env = "TRACECLOAK_SELF_TEST", hide_env = true, value_parser = BoolishValueParser::new())]
    self_test: bool,
    /// List all checks
    #[arg(long, env = "TRACECLOAK_LIST", hide_env = true, value_parser = BoolishValueParser::new())]
    list: bool,
}

pub(super) fn run(args: &AuditArgs, globals: Globals) -> anyhow::Result<Exit> {
    if args.list {
        return print(&render::list());
    }
    if let Some(id) = &args.explain {
        let check = check::find(id).ok_or_else(|| anyhow!("no check has this id")).hint("--list shows all")?;
        return print(&render::explain(check));
    }
    if args.self_test {
        return self_test::run(&options(args)?, globals);
    }
    let paths = if args.paths.iter().any(|path| path == Path::new("-")) {
        return Err(anyhow!("an audit needs files, not a pipe")).hint("write it to a file first");
    } else {
        &args.paths
    };
    let mut options = options(args)?;
    let source = Source {
        logs: &args.source,
        tokenizer: args.tokenizer.as_ref(),
        canaries: args.canary.as_deref(),
        key: args.key_file.as_deref(),
    };
    options.source = source.compare(paths)?;
    let outcome = audit(paths, &options).map_err(|error| located(&error, paths))?;
    finish(args, globals, &outcome)
}

/// What to look for, from the arguments.
fn options(args: &AuditArgs) -> anyhow::Result<Options> {
    let rules = match &args.rules {
        None => Rules::builtin(),
        Some(file) => {
            let shown = file.display();
            let toml = fs::read_to_string(file).with_context(|| format!("could not read {shown}"))?;
            Rules::parse(&toml).with_context(|| format!("{shown}"))?
        }
    };
    let baseline = match &args.baseline {
        Some(file) if file.exists() => {
            Baseline::parse(&fs::read_to_string(file).with_context(|| format!("could not read {}", file.display()))?)
        }
        _ => Baseline::default(),
    };
    let split = |entry: &String| match entry.split_once(':') {
        Some((id, path)) => (id.to_owned(), Some(path.to_owned())),
        None => (entry.clone(), None),
    };
    Ok(Options {
        rules,
        allow: args.allow.iter().map(split).collect(),
        baseline,
        scratch: std::env::temp_dir().join(format!("tracecloak-audit-{}", std::process::id())),
        limits: Limits::default(),
        local: args.local,
        source: SourceOutcome::default(),
        core_dumps: core_dumps(),
    })
}

/// Shows the outcome and says how the program ends.
fn finish(args: &AuditArgs, globals: Globals, outcome: &Outcome) -> anyhow::Result<Exit> {
    let format = if globals.json { "json" } else { args.format.as_str() };
    let mut text = match format {
        "json" => render::json(outcome, args.risk),
        "sarif" => render::sarif(outcome),
        _ => render::plain(outcome),
    };
    if args.risk && format == "plain" {
        text = text + "\n" + &render::risk(&outcome.risk);
    }
    let write = |file: &Path, content: String| {
        fs::write(file, content).with_context(|| format!("could not write {}", file.display()))
    };
    if let Some(file) = &args.attest {
        write(file, render::attest(outcome))?;
    }
    if let Some(file) = args.baseline.as_ref().filter(|file| !file.exists()) {
        write(file, Baseline::of(&outcome.findings))?;
    }
    print(&text)?;
    let fail_on = Severity::parse(&args.fail_on).unwrap_or(Severity::Error);
    let too_unique = args.max_unique.is_some_and(|most| outcome.risk.gate() > most);
    // Who gives the logs wants to know of all of them.
    let compared = args.source.is_empty() || !outcome.not_run.contains(&"L100");
    Ok(if outcome.undecodable || !compared {
        Exit::NotAuditable
    } else if outcome.worst() >= Some(fail_on) || too_unique {
        Exit::Findings
    } else {
        Exit::Fine
    })
}

/// A share, from 0 to 1.
fn share(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or("not a share from 0 to 1")
}

fn print(text: &str) -> anyhow::Result<Exit> {
    let mut stdout = Stdout::new();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("could not write to stdout")?;
    Ok(Exit::Fine)
}

/// The error, with the path that the caller typed.
fn located(error: &AuditError, paths: &[PathBuf]) -> anyhow::Error {
    match error {
        AuditError::Path(number, kind) => match number.checked_sub(1).and_then(|at| paths.get(at)) {
            Some(path) => anyhow!("{}: {kind}", path.display()),
            None => anyhow!("{error}"),
        },
        _ => anyhow!("{error}"),
    }
}

/// Whether the system would write a core dump of a program started as this one was. This program itself has turned that off, so
/// the limit of its parent is looked at, where the system tells.
fn core_dumps() -> bool {
    let mut limits = String::new();
    let path = format!("/proc/{}/limits", std::os::unix::process::parent_id());
    let read = fs::File::open(path).and_then(|file| file.take(1 << 14).read_to_string(&mut limits));
    read.is_ok()
        && limits
            .lines()
            .find_map(|line| line.strip_prefix("Max core file size"))
            .is_some_and(|rest| rest.split_whitespace().next().is_some_and(|soft| soft != "0"))
}
