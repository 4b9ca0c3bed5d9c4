//! From what the user names to a tokenizer and a layout.
//!
//! Invariant: a folder means its chat template, a file or nothing the neutral layout.

use std::path::PathBuf;

use super::{ChatTemplate, Layout, Neutral, Tokenizer, TokenizerError};

/// Which tokenizer and layout to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenizerSpec {
    /// The embedded tokenizer and the neutral layout.
    #[default]
    Builtin,
    /// A `tokenizer.json` and the neutral layout.
    File(PathBuf),
    /// A model's folder: its `tokenizer.json` and its chat template.
    Dir(PathBuf),
}

/// What was loaded, for a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenizerInfo {
    /// SHA-256 of the bytes of `tokenizer.json`.
    pub tokenizer_sha256: [u8; 32],
    /// SHA-256 of the chat template's source; none for the neutral layout.
    pub template_sha256: Option<[u8; 32]>,
}

/// Loads a tokenizer and the layout that goes with it.
///
/// # Errors
/// If a file is missing or cannot be used.
pub fn load(spec: &TokenizerSpec) -> Result<(Tokenizer, Box<dyn Layout>, TokenizerInfo), TokenizerError> {
    let tokenizer = match spec {
        TokenizerSpec::Builtin => Tokenizer::builtin()?,
        TokenizerSpec::File(path) => Tokenizer::from_file(path)?,
        TokenizerSpec::Dir(path) => Tokenizer::from_file(&path.join("tokenizer.json"))?,
    };
    let tokenizer_sha256 = tokenizer.sha256();
    let (layout, template_sha256): (Box<dyn Layout>, _) = match spec {
        TokenizerSpec::Dir(path) => {
            let template = ChatTemplate::from_dir(path, tokenizer.clone())?;
            let sha256 = template.sha256();
            (Box::new(template), Some(sha256))
        }
        _ => (Box::new(Neutral::new(tokenizer.clone())), None),
    };
    Ok((tokenizer, layout, TokenizerInfo { tokenizer_sha256, template_sha256 }))
}
