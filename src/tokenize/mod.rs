//! Text to tokens: tokenizers behind a trait, chat templates, and the layout of a prompt.
//!
//! Invariant: it knows no log and no trace. Text that looks like a special token is encoded as plain text; only a layout puts
//! special tokens in.

/// A token id. Ids from [`SEPARATOR_BASE`] on are separators of the neutral layout, which no vocabulary holds.
pub type Token = u32;

/// The neutral layout's separators are `SEPARATOR_BASE + n`.
pub const SEPARATOR_BASE: Token = 0xFFFF_FF00;

/// Encodes plain text.
pub trait Encoder: Send + Sync {
    /// Appends the tokens of `text`, none of them special, to `out`. Never fails: text that the vocabulary cannot express
    /// becomes its unknown or byte tokens.
    fn encode(&self, text: &str, out: &mut Vec<Token>);
}

mod engine;
mod error;
mod load;
mod memo;
mod neutral;
#[cfg(test)]
mod oracle;
mod prompt;
mod special;
mod template;

pub use engine::Tokenizer;
pub use error::TokenizerError;
pub use load::{TokenizerInfo, TokenizerSpec, load};
pub use neutral::Neutral;
pub use prompt::{Block, Content, Laid, Layout, LayoutError, Message, Prompt, Role, Tool};
pub use template::{ChatTemplate, History};
