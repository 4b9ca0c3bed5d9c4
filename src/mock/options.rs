//! What a mock server is told.
//!
//! Invariant: the defaults serve any client on a free port of the loopback address.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::fault::Faults;
use super::model::Timing;
use crate::tokenize::{TokenizerError, TokenizerSpec};

/// Settings of a mock server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address to listen on; port 0 is any free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// Name of the model that is listed and reported. Requests may name any. Default `mock`.
    pub model: String,
    /// Speeds and sizes of the simulated engine.
    pub timing: Timing,
    /// What counts tokens. Default: the embedded tokenizer.
    pub counting: Counting,
    /// Whose habits the answers follow. Default vLLM.
    pub imitate: Imitate,
    /// What goes wrong, and how often. Default: nothing.
    pub faults: Faults,
    /// What `retry-after` says on 429, 503 and 529. Default 1 s.
    pub retry_after: Duration,
    /// How much later the first token comes under [`super::Fault::SlowStart`]. Default 5 s.
    pub slow_start: Duration,
    /// Top-level fields of a body that are refused with 422.
    pub refuse: Vec<String>,
    /// Whether usage says how many prompt tokens were cached. Default true.
    pub report_cached: bool,
    /// The longest prompt and answer together, in tokens. Default 1,048,576.
    pub max_model_len: u32,
    /// The mean length of an answer that ends by itself, in tokens. Default 128.
    pub mean_output: u32,
    /// Tokens in a piece of a stream. Default 1.
    pub chunk_tokens: u32,
    /// Decides lengths of answers, and faults. Default 0.
    pub seed: u64,
    /// File to record what arrives in, one JSON object a line.
    pub record: Option<PathBuf>,
    /// Headers to record beside those that name sessions and agents, in lower case.
    pub record_headers: Vec<String>,
    /// Threads that serve. Default 1.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            model: "mock".to_owned(),
            timing: Timing::default(),
            counting: Counting::default(),
            imitate: Imitate::default(),
            faults: Faults::default(),
            retry_after: Duration::from_secs(1),
            slow_start: Duration::from_secs(5),
            refuse: Vec::new(),
            report_cached: true,
            max_model_len: 1 << 20,
            mean_output: 128,
            chunk_tokens: 1,
            seed: 0,
            record: None,
            record_headers: Vec::new(),
            threads: 1,
        }
    }
}

/// What counts tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counting {
    /// A tokenizer; a folder brings its chat template.
    Tokenizer(TokenizerSpec),
    /// Every word is a token: fast, for load tests.
    Words,
}

impl Default for Counting {
    fn default() -> Self {
        Self::Tokenizer(TokenizerSpec::Builtin)
    }
}

/// Whose habits the answers follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Imitate {
    /// A role-only first chunk; usage in a chunk of its own, if asked for; Anthropic's usage is right in `message_delta` only.
    #[default]
    Vllm,
    /// Anthropic's input usage in `message_start` only; `timings`; its own metrics, which count cached tokens apart.
    LlamaCpp,
    /// Role and content in the first chunk; usage always; an Anthropic stream ends with `[DONE]`; no `content: null`.
    Dynamo,
}

/// Why a mock server could not start.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    /// The address could not be listened on.
    #[error("cannot listen on {address}: {kind}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        kind: std::io::ErrorKind,
    },
    /// The tokenizer could not be loaded.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The file to record in could not be made.
    #[error("cannot make the file to record in: {0}")]
    Record(std::io::ErrorKind),
    /// No thread or timer could be had.
    #[error("cannot start the server: {0}")]
    Runtime(std::io::ErrorKind),
}
