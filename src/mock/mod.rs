//! A mock inference endpoint: OpenAI's and Anthropic's APIs over a simulated engine with a prefix cache.
//!
//! For dry runs and tests of a replay: what arrived can be recorded as lengths and block ids, what the engine did is in the usage
//! of each answer and in `/metrics`, and both agree. The engine ([`Timing`]) is a pure model; sockets only carry it.
//!
//! ```
//! use tracecloak::mock::{Options, Server};
//!
//! let server = Server::start(Options::default()).unwrap();   // any free port of 127.0.0.1
//! assert!(server.addr().ip().is_loopback());
//! assert_eq!(server.snapshot().requests, 0);
//! server.stop();
//! ```
//!
//! Invariant: the text of a prompt is read, counted and dropped; it is in no log line, error or recording. The same requests in the
//! same order get the same answers, cached tokens and faults for the same seed.

mod api;
mod body;
mod clock;
mod fault;
mod http;
mod metrics;
mod model;
mod options;
mod pool;
mod record;
mod server;
mod shared;
mod tokens;

pub use fault::{Fault, FaultSyntax, Faults};
pub use model::Timing;
pub use options::{Counting, Imitate, MockError, Options};
pub use server::Server;
pub use shared::Snapshot;
