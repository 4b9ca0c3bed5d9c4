//! What a trace is: sessions, agents, requests, edges, tool calls and the prefix tree.
//!
//! Invariant: nothing here can hold text. Every value is a count, a duration, a position in a graph, or a word from a closed
//! vocabulary ([`vocab`]); there is no owned string type, no I/O and no async in this module, and a test keeps it so.

pub mod manifest;
pub mod model;
pub mod session;
pub mod tree;
pub mod vocab;

pub use manifest::Manifest;
pub use model::Model;
pub use session::{Agent, Edge, Parts, Prefix, Request, Session, ToolCall, Usage};
pub use tree::{PrefixTree, TreeError};
