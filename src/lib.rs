//! tracecloak: share what coding agents do to an inference server, without a word of what was said.
//!
//! A raw log of a coding agent's API traffic goes in; a *trace* comes out: sessions, agents, requests, what each request waited
//! for, and how much of each prompt had been sent before. That is what a serving system's behaviour depends on.
//!
//! # Data flow
//!
//! ```text
//! log bytes
//!  → capture     Exchange          one HTTP request and its response            text side
//!  → wire        Prompt            tools, system, messages, in order
//!  → tokenize    tokens
//!  → anonymize   Session           tokens → blocks → prefix tree; lineage       the one joint
//!  → format      trace directory                                                text-free from here on
//!  → format      Session           read back, to be inspected
//! ```
//!
//! # Layers
//!
//! | module | is | may use |
//! |---|---|---|
//! | `trace` | what a trace is: no text, no I/O | – |
//! | `wire` | API bodies | – |
//! | `tokenize` | tokenizers, chat templates, layout | – |
//! | `capture` | raw logs, one file a log format | wire |
//! | `anonymize` | from exchanges to sessions | trace, wire, tokenize, capture |
//! | `format` | trace files | trace |
//! | `derive` | new workloads from a trace | trace, format |
//! | `audit` | what a trace file holds that it must not | trace, format |
//! | `replay` | from sessions to prompts and requests | trace, wire, tokenize, metrics |
//! | `analyze` | what a trace looks like: distributions, cache-hit curve; how two differ | trace |
//! | `metrics` | records, what they come to, what a server says of itself | trace |
//! | `report` | analyses and runs as text and pages | trace, metrics, analyze |
//! | `mock` | a mock endpoint with a simulated prefix cache | trace, wire, tokenize |
//! | `proof` | whether text of a log is in a trace | audit, wire, capture, anonymize, trace, format |
//! | `cli` | the program | all |
//!
//! The text-free side (`trace`, `format`, `derive`, `analyze`) never imports the text side. `tests/suite/architecture.rs` fails
//! where a module uses another one than these.
//!
//! # The prefix tree is the trace
//!
//! Prompts are cut into blocks of tokens. Equal prefixes get equal block ids, numbered by first appearance; so an id says which
//! prompts begin alike, and nothing else.
//!
//! ```
//! use tracecloak::trace::PrefixTree;
//!
//! let mut tree = PrefixTree::new();
//! let first = tree.insert(None, 0, 3);       // a prompt of 3 full blocks
//! let second = tree.insert(Some(0), 3, 5);   // the next turn repeats them and adds 2
//! let side = tree.insert(Some(1), 1, 2);     // another prompt that begins with the same block
//!
//! assert_eq!((first.request, first.first_block), (None, 0));
//! assert_eq!((second.request, second.shared_blocks, second.first_block), (Some(0), 3, 3));
//! assert_eq!(tree.block_runs(1), [(0, 5)]);           // ids 0 1 2 3 4
//! assert_eq!(tree.block_runs(2), [(0, 1), (5, 1)]);   // ids 0 5
//! assert_eq!(side.request, Some(1));                  // of two that share as much, the latest
//! ```
//!
//! Invariant: text from a log lives in memory only ([`capture::Text`]), between `capture` and `anonymize`. What is written is a
//! count, a duration, a position in a graph, or a word from a closed list ([`trace::vocab`]).
#![cfg_attr(
    test,
    expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::format_push_string,
        clippy::needless_pass_by_value,
        reason = "tests may convert and build values freely"
    )
)]

pub mod analyze;
pub mod anonymize;
pub mod audit;
pub mod capture;
pub mod cli;
pub mod derive;
pub mod format;
pub mod metrics;
pub mod mock;
pub mod proof;
pub mod replay;
pub mod report;
pub mod tokenize;
pub mod trace;
pub mod wire;
