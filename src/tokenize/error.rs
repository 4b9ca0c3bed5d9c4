//! What can be wrong with a tokenizer or its chat template.
//!
//! Invariant: a message says which file and where, never what it holds.

/// A tokenizer that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file could not be read.
    #[error("the tokenizer file cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// It is not JSON, or not the JSON of a tokenizer.
    #[error("not a tokenizer.json (line {line}, column {column})")]
    NotTokenizer {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// It uses a model or component that the engine does not have.
    #[error("the tokenizer.json needs a component that this build does not have")]
    Unsupported,
    /// A file beside the tokenizer is not the JSON it must be.
    #[error("{file} cannot be read (line {line}, column {column})")]
    BadConfig {
        /// Its name.
        file: &'static str,
        /// Line, from 1; 0 if it could not be opened.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// The folder holds no chat template.
    #[error("the folder has no chat template; give its tokenizer.json alone to do without")]
    NoTemplate,
    /// The chat template does not compile.
    #[error("the chat template does not compile (line {line})")]
    BadTemplate {
        /// Line, from 1; 0 if unknown.
        line: usize,
    },
}
