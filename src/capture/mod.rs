//! Raw logs: reading them as a stream of [`Exchange`]s, whatever recorded them.
//!
//! Invariant: text from a log lives only inside [`Text`], which is erased when dropped and cannot be printed. A record that
//! cannot be read is an item of its own ([`LogError`]), with its number and offset and never its content.

mod exchange;
mod text;

pub use exchange::{
    Body, Cut, Exchange, Headers, LogError, Moment, Piece, Position, Precision, ResponseBody, SkipReason,
};
pub use text::Text;
