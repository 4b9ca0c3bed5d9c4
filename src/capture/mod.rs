//! Raw logs: reading them as a stream of [`Exchange`]s, whatever recorded them.
//!
//! Invariant: text from a log lives only inside [`Text`], which is erased when dropped and cannot be printed. A record that
//! cannot be read is an item of its own ([`LogError`]), with its number and offset and never its content.
//!
//! Bytes flow [`Input`] → decompression → one of the [`READERS`], chosen by content → [`Exchange`]:
//! ```
//! use tracecloak::capture::{Limits, open_stream};
//! let log = br#"{"tracecloak_capture":1,"method":"GET","path":"/v1/models","start_us":1700000000000000,"status":200}"#;
//! let (reader, mut records) = open_stream(Box::new(&log[..]), 0, Limits::default())?;
//! assert_eq!(reader.name(), "tracecloak-capture");
//! assert_eq!(records.next().unwrap()?.status, Some(200));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod body;
mod buffer;
mod claude_tap;
mod claude_trace;
mod database;
mod decompress;
mod envoy;
mod exchange;
mod familiar;
mod grown;
mod har;
mod held;
mod input;
mod json;
mod known;
mod lines;
mod litellm;
mod mitmproxy;
mod moment;
pub mod native;
mod nginx;
mod objects;
mod outline;
mod reader;
mod router;
mod seifghazi;
#[cfg(test)]
mod testing;
mod text;
mod transcript;
mod url;

pub use ahead::ahead;
pub use database::Database;
pub use exchange::{
    Alike, Body, Cut, Exchange, Headers, LogError, Moment, Piece, Position, Precision, Provenance, ResponseBody,
    SkipReason, Trust,
};
pub(crate) use grown::Part;
pub use input::{Input, InputError, Inputs};
pub(crate) use known::common_prefix;
pub use reader::{Limits, LogReader, OpenError, READERS, Records, Sniff, open, open_as, open_stream, open_through};
pub use text::{Text, leave_erasing_to_allocator};
