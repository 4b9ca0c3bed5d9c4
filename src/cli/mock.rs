//! `tracecloak mock`: a mock inference endpoint until it is interrupted.
//!
//! Invariant: it listens on the loopback address unless another one is typed; it prints where it listens and what it did.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::args::{Globals, TokenizerSource};
use super::exit::{Exit, Hint, print_to_stderr};
use super::output::{Stdout, number, percent};
use crate::mock::{Counting, Faults, Imitate, Options, Server, Snapshot, Timing};
use crate::tokenize::TokenizerSpec;

const EXAMPLES: &str = "\
Examples:
  tracecloak mock
  tracecloak mock --cache-blocks 4096 --block-size 16 --max-running 8 --record arrived.jsonl
  tracecloak mock --tokenizer models/my-model/ --imitate dynamo
  tracecloak mock --fault 429:0.01,cut:0.005,slow-start:0.01 --retry-after 2";

/// Serve a mock inference endpoint with a simulated prefix cache
///
/// OpenAI chat, completions and responses, Anthropic messages; streaming or not; /v1/models, /tokenize, /metrics,
/// /reset_prefix_cache. Prompts are counted and dropped; answers are made-up words. Ctrl-C ends it.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MockArgs {
    /// Address and port to listen on; port 0 is any free one
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "TRACECLOAK_LISTEN",
        hide_env = true,
        default_value = "127.0.0.1:8000"
    )]
    listen: SocketAddr,
    /// Name of the model to list; requests may name any
    #[arg(long, value_name = "NAME", env = "TRACECLOAK_MODEL", hide_env = true, default_value = "mock")]
    model: String,
    /// What counts tokens: builtin, a tokenizer.json, a folder with one and its chat template, or words (fast: a word is a token)
    #[arg(
        long,
        value_name = "builtin|words|FILE|DIR",
        env = "TRACECLOAK_TOKENIZER",
        hide_env = true,
        default_value = "builtin"
    )]
    tokenizer: TokenizerSource,
    /// Engine whose habits the answers follow
    #[arg(long, value_name = "ENGINE", env = "TRACECLOAK_IMITATE", hide_env = true, default_value = "vllm")]
    imitate: Engine,
    /// Milliseconds to the first token of a prompt that is cached whole
    #[arg(long, value_name = "MS", env = "TRACECLOAK_TTFT_MS", hide_env = true, default_value_t = 10.0, value_parser = not_negative)]
    ttft_ms: f64,
    /// Uncached prompt tokens computed a second, for each request; 0 is no time
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_PREFILL_RATE", hide_env = true, default_value_t = 50_000.0, value_parser = not_negative)]
    prefill_rate: f64,
    /// Tokens of an answer a second, for each request; 0 is no time
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_DECODE_RATE", hide_env = true, default_value_t = 100.0, value_parser = not_negative)]
    decode_rate: f64,
    /// Requests that run at the same time; others wait
    #[arg(long, value_name = "N", env = "TRACECLOAK_MAX_RUNNING", hide_env = true, default_value_t = 64)]
    max_running: usize,
    /// Tokens of a block of the prefix cache
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_BLOCK_SIZE", hide_env = true, default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65536))]
    block_size: u32,
    /// Blocks of the cache, least recently used evicted first [default: no bound]
    #[arg(long, value_name = "N", env = "TRACECLOAK_CACHE_BLOCKS", hide_env = true, value_parser = clap::value_parser!(u32).range(1..))]
    cache_blocks: Option<u32>,
    /// Longest prompt and answer together
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_MAX_MODEL_LEN", hide_env = true, default_value_t = 1 << 20)]
    max_model_len: u32,
    /// Mean length of answers that end by themselves
    #[arg(long, value_name = "TOKENS", env = "TRACECLOAK_MEAN_OUTPUT", hide_env = true, default_value_t = 128)]
    mean_output: u32,
    /// Tokens in each piece of a stream
    #[arg(long, value_name = "N", env = "TRACECLOAK_CHUNK_TOKENS", hide_env = true, default_value_t = 1)]
    chunk_tokens: u32,
    /// Do not say in usage how many tokens were cached
    #[arg(long, env = "TRACECLOAK_HIDE_CACHED", hide_env = true, value_parser = BoolishValueParser::new())]
    hide_cached: bool,
    /// Fields of a body to refuse with 422; separate them by commas
    #[arg(long, value_name = "LIST", env = "TRACECLOAK_REFUSE", hide_env = true, value_delimiter = ',')]
    refuse: Vec<String>,
    /// Faults with the share of requests they befall: a status, reset, stall, slow-start, cut, garbage
    #[arg(long, value_name = "FAULT:SHARE,…", env = "TRACECLOAK_FAULT", hide_env = true)]
    fault: Option<Faults>,
    /// What retry-after says on 429, 503 and 529
    #[arg(long, value_name = "SECONDS", env = "TRACECLOAK_RETRY_AFTER", hide_env = true, default_value_t = 1)]
    retry_after: u64,
    /// Decides lengths of answers, and which requests fail
    #[arg(long, value_name = "N", env = "TRACECLOAK_SEED", hide_env = true, default_value_t = 0)]
    seed: u64,
    /// Record what arrives, one JSON object a line: lengths, block ids, times, session headers; no text
    #[arg(long, value_name = "FILE", env = "TRACECLOAK_RECORD", hide_env = true)]
    record: Option<PathBuf>,
    /// Another header to record; may be given several times
    #[arg(long, value_name = "NAME", env = "TRACECLOAK_RECORD_HEADER", hide_env = true, requires = "record")]
    record_header: Vec<String>,
    /// Threads that serve
    #[arg(long, value_name = "N", env = "TRACECLOAK_THREADS", hide_env = true, default_value_t = 1)]
    threads: usize,
    /// Replace an existing recording
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    force: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Engine {
    Vllm,
    #[value(name = "llama.cpp")]
    LlamaCpp,
    Dynamo,
}

fn not_negative(word: &str) -> Result<f64, &'static str> {
    word.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0).ok_or("must be a number, 0 or more")
}

/// The time that one of so many a second takes.
fn each(rate: f64) -> Duration {
    Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::ZERO)
}

impl MockArgs {
    fn options(&self) -> Options {
        let counting = match &self.tokenizer {
            TokenizerSource::Builtin => Counting::default(),
            TokenizerSource::Path(path) if path.as_os_str() == "words" => Counting::Words,
            TokenizerSource::Path(path) if path.is_dir() => Counting::Tokenizer(TokenizerSpec::Dir(path.clone())),
            TokenizerSource::Path(path) => Counting::Tokenizer(TokenizerSpec::File(path.clone())),
        };
        Options {
            listen: self.listen,
            model: self.model.clone(),
            timing: Timing {
                ttft_base: Duration::try_from_secs_f64(self.ttft_ms / 1000.0).unwrap_or(Duration::ZERO),
                per_uncached_token: each(self.prefill_rate),
                per_output_token: each(self.decode_rate),
                max_running: self.max_running.max(1),
                block_size: self.block_size,
                cache_blocks: self.cache_blocks,
            },
            counting,
            imitate: match self.imitate {
                Engine::Vllm => Imitate::Vllm,
                Engine::LlamaCpp => Imitate::LlamaCpp,
                Engine::Dynamo => Imitate::Dynamo,
            },
            faults: self.fault.clone().unwrap_or_default(),
            retry_after: Duration::from_secs(self.retry_after),
            refuse: self.refuse.clone(),
            report_cached: !self.hide_cached,
            max_model_len: self.max_model_len,
            mean_output: self.mean_output,
            chunk_tokens: self.chunk_tokens,
            seed: self.seed,
            record: self.record.clone(),
            record_headers: self.record_header.iter().map(|name| name.to_ascii_lowercase()).collect(),
            threads: self.threads,
            ..Options::default()
        }
    }
}

pub(super) fn run(args: &MockArgs, globals: Globals) -> anyhow::Result<Exit> {
    if let Some(record) = args.record.as_deref().filter(|record| !args.force && record.exists()) {
        return Err(anyhow!("{} exists", record.display())).hint("--force replaces it");
    }
    let (interrupt, interrupted) = mpsc::channel();
    ctrlc::set_handler(move || {
        interrupt.send(()).ok();
    })
    .context("cannot watch for interrupts")?;
    let server = Server::start(args.options())?;
    let addr = server.addr();
    let mut stdout = Stdout::new();
    if globals.json {
        writeln!(stdout, "{}", json!({ "listening": addr.to_string() }))?;
    } else {
        writeln!(stdout, "listening on http://{addr}")?;
    }
    stdout.flush()?;
    if !addr.ip().is_loopback() && !globals.quiet {
        print_to_stderr("warning: other machines can reach this address; nothing asks them who they are\n");
    }
    interrupted.recv().context("cannot wait for interrupts")?;
    let whole = server.flush_recording();
    let snapshot = server.stop();
    if globals.json {
        writeln!(stdout, "{}", as_json(&snapshot))?;
        stdout.flush()?;
    } else if !globals.quiet {
        print_to_stderr(&summary(&snapshot));
    }
    if whole { Ok(Exit::Fine) } else { Err(anyhow!("the recording could not be written whole")) }
}

fn summary(of: &Snapshot) -> String {
    format!(
        "{} requests: {} completed, {} ended early, {} failed\n{} prompt tokens, {} of them cached ({}), {} tokens of answers, {} evictions\n",
        number(of.requests),
        number(of.completed),
        number(of.aborted),
        number(of.failed),
        number(of.prompt_tokens),
        number(of.cached_tokens),
        percent(of.cached_tokens, of.prompt_tokens),
        number(of.generation_tokens),
        number(of.evictions),
    )
}

fn as_json(of: &Snapshot) -> serde_json::Value {
    json!({
        "requests": of.requests, "completed": of.completed, "aborted": of.aborted, "failed": of.failed,
        "prompt_tokens": of.prompt_tokens, "cached_tokens": of.cached_tokens, "generation_tokens": of.generation_tokens,
        "evictions": of.evictions,
    })
}
