//! Arguments of `tracecloak replay`.
//!
//! Invariant: as the other arguments': every flag has an environment variable of its name. A key is never an argument.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

use crate::cli::args::TokenizerSource;
use crate::metrics::{self, Slo};
use crate::replay::schedule::{Arrival, Loop, OnError, Pacing};

const EXAMPLES: &str = "\
Examples:
  tracecloak replay trace --url http://127.0.0.1:8000 --model my-model --tokenizer models/my-model/ -o run
  tracecloak replay trace --dry-run --concurrency 8 --cache-size 1000000,10000000
  tracecloak replay trace --verify-prompts --tokenizer models/my-model/
  tracecloak replay trace --url https://api.example --model m --api messages --api-key-env KEY -o run \\
      --concurrency 4 --slo ttft_p95=2s,itl_p95=50ms

Proxies are those of --proxy, else of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY.

Exit codes: 0 fine, 1 a request failed, prompts were not as the trace says, an objective was missed or the run was interrupted, 2 failed.
Ctrl-C sends nothing more and waits for what is in flight; once more gives that up, too. Either way what was measured is written.";

/// Drive an endpoint as the agents of a trace did
///
/// Prompts are made up: they share with each other what the trace says, to the token, and hold no text of anybody.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ReplayArgs {
    /// Folder of the trace
    pub trace: PathBuf,
    /// The endpoint, with or without /v1
    #[arg(long, value_name = "URL", env = "TRACECLOAK_URL", hide_env = true, required_unless_present_any = ["dry_run", "verify_prompts"])]
    pub url: Option<String>,
    /// The model's name at the endpoint
    #[arg(long, value_name = "NAME", env = "TRACECLOAK_MODEL", hide_env = true, required_unless_present_any = ["dry_run", "verify_prompts"])]
    pub model: Option<String>,
    /// Folder to make for records.parquet, summary.json, report.html, manifest.json
    #[arg(short, long, value_name = "RUN", env = "TRACECLOAK_OUTPUT", hide_env = true)]
    #[arg(required_unless_present_any = ["dry_run", "verify_prompts"])]
    pub output: Option<PathBuf>,
    /// Replace an existing run
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    pub force: bool,
    /// What the endpoint speaks
    #[arg(long, env = "TRACECLOAK_API", hide_env = true, default_value = "chat")]
    #[arg(value_parser = ["chat", "completions", "messages", "responses"])]
    pub api: String,
    /// Send completions as token ids
    #[arg(long, env = "TRACECLOAK_TOKEN_IDS", hide_env = true, value_parser = BoolishValueParser::new())]
    #[arg(requires = "tokenizer")]
    pub token_ids: bool,
    /// What counts tokens at the endpoint: builtin, its tokenizer.json, or the model's folder with its chat template [default: none;
    /// lengths are fitted to the endpoint's own counts]
    #[arg(long, value_name = "builtin|FILE|DIR", env = "TRACECLOAK_TOKENIZER", hide_env = true)]
    pub tokenizer: Option<TokenizerSource>,
    /// Show the plan and send nothing
    #[arg(long, env = "TRACECLOAK_DRY_RUN", hide_env = true, value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// Cache sizes, in tokens, for which --dry-run says what part of the prompts they find [default: every doubling]
    #[arg(long, value_name = "TOKENS,…", env = "TRACECLOAK_CACHE_SIZE", hide_env = true, value_delimiter = ',')]
    #[arg(requires = "dry_run")]
    pub cache_size: Vec<u64>,
    /// Render every prompt, hold its length and its shared prefix against the trace, and send nothing
    #[arg(long, env = "TRACECLOAK_VERIFY_PROMPTS", hide_env = true, value_parser = BoolishValueParser::new())]
    #[arg(requires = "tokenizer", conflicts_with = "dry_run")]
    pub verify_prompts: bool,
    /// When requests are sent.
    #[command(flatten, next_help_heading = "Pace")]
    pub pace: Pace,
    /// How requests are sent.
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: Traffic,
    /// Objectives, such as ttft_p95=2s,itl_p95=50ms,latency_p99=1min,session_p95=10min; a missed one is exit code 1
    #[arg(long, value_name = "LIST", env = "TRACECLOAK_SLO", hide_env = true, value_delimiter = ',')]
    pub slo: Vec<Slo>,
    /// Prices: input=X,cached=X,output=X for a million tokens, hour=X for all instances
    #[arg(long, value_name = "LIST", env = "TRACECLOAK_PRICE", hide_env = true, value_delimiter = ',')]
    pub price: Vec<String>,
}

/// When requests are sent.
#[derive(Clone, Debug, Args)]
pub struct Pace {
    /// Due times from the replay's own answers (closed), or as recorded (open)
    #[arg(long, env = "TRACECLOAK_PACING", hide_env = true, default_value = "closed")]
    pub pacing: PacingWord,
    /// Multiply every recorded time
    #[arg(long, value_name = "X", env = "TRACECLOAK_TIME_SCALE", hide_env = true, default_value_t = 1.0)]
    pub time_scale: f64,
    /// Multiply only the delays between an answer and the next request
    #[arg(long, value_name = "X", env = "TRACECLOAK_THINK_SCALE", hide_env = true, default_value_t = 1.0)]
    pub think_scale: f64,
    /// No delay is longer
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_MAX_DELAY", hide_env = true, value_parser = metrics::time)]
    pub max_delay: Option<Duration>,
    /// Cut time in which nothing is in flight anywhere to this
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_IDLE_CAP", hide_env = true, value_parser = metrics::time)]
    pub idle_cap: Option<Duration>,
    /// Session trees under way at a time [default: 1 if they arrive at once, else no bound]
    #[arg(long, value_name = "N", env = "TRACECLOAK_CONCURRENCY", hide_env = true)]
    pub concurrency: Option<usize>,
    /// Requests in flight at a time
    #[arg(long, value_name = "N", env = "TRACECLOAK_MAX_IN_FLIGHT", hide_env = true)]
    pub max_in_flight: Option<usize>,
    /// When sessions arrive: immediate, recorded, or poisson:R (R sessions a second)
    #[arg(long, value_name = "HOW", env = "TRACECLOAK_ARRIVAL", hide_env = true, default_value = "immediate")]
    #[arg(value_parser = arrival)]
    pub arrival: Arrival,
    /// Begin inside sessions, at a share of their length between these; their contexts are filled first
    #[arg(long, value_name = "A%..B%", env = "TRACECLOAK_START_AT", hide_env = true)]
    pub start_at: Option<Shares>,
    /// Send nothing more after this time
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_DURATION", hide_env = true, value_parser = metrics::time)]
    pub duration: Option<Duration>,
    /// Sessions from A on and below B
    #[arg(long, value_name = "A..B", env = "TRACECLOAK_RANGE", hide_env = true)]
    pub range: Option<Range>,
    /// Only sessions whose number is I modulo N, for N machines that start together
    #[arg(long, value_name = "I/N", env = "TRACECLOAK_SHARD", hide_env = true)]
    pub shard: Option<Shard>,
    /// When to begin, such as 2026-03-01T12:00:00Z: the same for every shard
    #[arg(long, value_name = "WHEN", env = "TRACECLOAK_START_TIME", hide_env = true)]
    pub start_time: Option<jiff::Timestamp>,
    /// Send what is left out by default: attempts that were tried again, auxiliary requests
    #[arg(long, value_name = "LIST", env = "TRACECLOAK_INCLUDE", hide_env = true, value_delimiter = ',')]
    pub include: Vec<Include>,
    /// What a failed request does: nothing more of its session is sent, or the session goes on
    #[arg(long, env = "TRACECLOAK_ON_ERROR", hide_env = true, default_value = "stop-session")]
    pub on_error: OnErrorWord,
    /// Of everything that is drawn: words, arrivals, beginnings
    #[arg(long, value_name = "N", env = "TRACECLOAK_SEED", hide_env = true, default_value_t = 0)]
    pub seed: u64,
}

/// How requests are sent.
#[derive(Clone, Debug, Args)]
pub struct Traffic {
    /// What later prompts hold of earlier answers: made-up ones, the same in every run, or what the endpoint said
    #[arg(long, env = "TRACECLOAK_HISTORY", hide_env = true, default_value = "synthetic")]
    pub history: HistoryWord,
    /// Answers in events always, or only where the trace has them
    #[arg(long, env = "TRACECLOAK_STREAM", hide_env = true, default_value = "always")]
    pub stream: StreamWord,
    /// Other words than every earlier run, so that no cache knows them
    #[arg(long, env = "TRACECLOAK_CACHE_BUST", hide_env = true, value_parser = BoolishValueParser::new())]
    pub cache_bust: bool,
    /// A header of every request
    #[arg(long, value_name = "K:V", env = "TRACECLOAK_HEADER", hide_env = true)]
    pub header: Vec<String>,
    /// Environment variable that holds the API key
    #[arg(long, value_name = "VAR", env = "TRACECLOAK_API_KEY_ENV", hide_env = true, conflicts_with = "api_key_file")]
    pub api_key_env: Option<String>,
    /// File that holds the API key
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_API_KEY_FILE", hide_env = true)]
    pub api_key_file: Option<PathBuf>,
    /// Header that carries the session's id, beside those of the harness
    #[arg(long, value_name = "NAME", env = "TRACECLOAK_AFFINITY_HEADER", hide_env = true)]
    pub affinity_header: Option<String>,
    /// Where the server's counters are, if not at /metrics of the URL; one for each worker
    #[arg(long, value_name = "URL,…", env = "TRACECLOAK_METRICS", hide_env = true, value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Proxy to the endpoint, with a user and password if it wants them; none ignores the environment
    #[arg(long, value_name = "URL|none", env = "TRACECLOAK_PROXY", hide_env = true)]
    pub proxy: Option<String>,
    /// Trust the certificates of this file (PEM) in place of the system's
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_CA_FILE", hide_env = true)]
    pub ca_file: Option<PathBuf>,
    /// How often a request is sent again that the server is too busy for
    #[arg(long, value_name = "N", env = "TRACECLOAK_RETRIES", hide_env = true, default_value_t = 5)]
    pub retries: u32,
    /// Give up connecting after this time
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_CONNECT_TIMEOUT", hide_env = true, default_value = "10s")]
    #[arg(value_parser = metrics::time)]
    pub connect_timeout: Duration,
    /// Give up a request if nothing comes for this time
    #[arg(long, value_name = "TIME", env = "TRACECLOAK_IDLE_TIMEOUT", hide_env = true, default_value = "10min")]
    #[arg(value_parser = metrics::time)]
    pub idle_timeout: Duration,
}

/// `--pacing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PacingWord {
    /// From the replay's own answers.
    Closed,
    /// As recorded.
    Open,
}

/// `--on-error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnErrorWord {
    /// Nothing more of the session is sent.
    StopSession,
    /// It goes on.
    Continue,
}

/// `--history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryWord {
    /// Made up.
    Synthetic,
    /// What was answered.
    Generated,
}

/// `--stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamWord {
    /// In events.
    Always,
    /// As recorded.
    Recorded,
}

/// `--include`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Include {
    /// Attempts that were tried again.
    Retries,
    /// Auxiliary requests.
    Aux,
}

/// `25%..75%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares(f64, f64);

impl FromStr for Shares {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let share = |text: &str| {
            let percent: f64 = text.trim().strip_suffix('%')?.parse().ok()?;
            (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
        };
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        match (share(low), share(high)) {
            (Some(low), Some(high)) if low <= high => Ok(Self(low, high)),
            _ => Err("two shares of a session's length, such as 25%..75%"),
        }
    }
}

/// `A..B`, with either left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "two session numbers, such as 10..20, either of which may be left out";
        let number = |text: &str, default| if text.is_empty() { Ok(default) } else { text.parse().map_err(|_| FORM) };
        let (from, to) = text.split_once("..").ok_or(FORM)?;
        let (from, to) = (number(from, 0)?, number(to, u32::MAX)?);
        if from < to { Ok(Self { from, to }) } else { Err(FORM) }
    }
}

/// `I/N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub(super) index: u32,
    pub(super) of: u32,
}

impl FromStr for Shard {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((index, of)) if index < of => Ok(Self { index, of }),
            _ => Err("which shard, from 0, of how many: 0/4"),
        }
    }
}

fn arrival(text: &str) -> Result<Arrival, &'static str> {
    match text.split_once(':') {
        None if text == "immediate" => Ok(Arrival::Immediate),
        None if text == "recorded" => Ok(Arrival::Recorded),
        Some(("poisson", rate)) => rate.parse().map(Arrival::Poisson).map_err(|_| "poisson:R takes a number"),
        _ => Err("immediate, recorded, or poisson:R"),
    }
}

impl Pace {
    /// What the schedule is told.
    pub(super) fn pacing(&self) -> Pacing {
        let immediate = self.arrival == Arrival::Immediate;
        Pacing {
            pacing: match self.pacing {
                PacingWord::Closed => Loop::Closed,
                PacingWord::Open => Loop::Open,
            },
            time_scale: self.time_scale,
            think_scale: self.think_scale,
            max_delay: self.max_delay,
            idle_cap: self.idle_cap,
            concurrency: self.concurrency.or(immediate.then_some(1)),
            max_in_flight: self.max_in_flight,
            arrival: self.arrival,
            seed: self.seed,
            retries: self.include.contains(&Include::Retries),
            auxiliary: self.include.contains(&Include::Aux),
            on_error: match self.on_error {
                OnErrorWord::StopSession => OnError::StopSession,
                OnErrorWord::Continue => OnError::Continue,
            },
            start_at: self.start_at.map(|Shares(low, high)| (low, high)),
            first_session: self.range.map_or(0, |range| range.from),
            from_first: self.range.is_some() && self.shard.is_none(),
        }
    }

    /// Whether session `number` is replayed here.
    pub(super) fn takes(&self, number: u32) -> bool {
        self.range.is_none_or(|range| (range.from..range.to).contains(&number))
            && self.shard.is_none_or(|shard| number % shard.of == shard.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_shards_and_shares_are_read() {
        assert_eq!("3..".parse(), Ok(Range { from: 3, to: u32::MAX }));
        assert_eq!("..5".parse(), Ok(Range { from: 0, to: 5 }));
        assert!("5..5".parse::<Range>().is_err() && "5".parse::<Range>().is_err());
        assert_eq!("1/4".parse(), Ok(Shard { index: 1, of: 4 }));
        assert!("4/4".parse::<Shard>().is_err() && "x".parse::<Shard>().is_err());
        assert_eq!("25%..75%".parse(), Ok(Shares(0.25, 0.75)));
        assert!("25..75".parse::<Shares>().is_err() && "75%..25%".parse::<Shares>().is_err());
        assert_eq!(arrival("poisson:0.5"), Ok(Arrival::Poisson(0.5)));
        assert!(arrival("poisson").is_err());
    }
}
