//! Prompts without text: token streams that relate to one another exactly as the prefix tree says.
//!
//! Invariant: a prompt is a function of the tree, the seed, the tokenizer and the template (and, with [`History::Generated`],
//! of the answers given); its rendered length is exactly `input_tokens`, or the request is named. It is never silently longer.

use std::path::PathBuf;

use crate::tokenize::{Layout, Role, Token, Tokenizer};
use crate::trace::Session;

/// How prompts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// Messages, which the endpoint renders by its chat template.
    #[default]
    Chat,
    /// One text, for completions endpoints.
    Text,
    /// Token ids, for completions endpoints that take them: exact for any tokenizer.
    Tokens,
}

/// What earlier answers are in later prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum History {
    /// Made up: every run sends the same prompts.
    #[default]
    Synthetic,
    /// What the endpoint answered, as far as [`PromptSynthesizer::answered`] was told.
    Generated,
}

/// What a synthesizer must know beside tokenizer and layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Tokens per block, as the manifest says.
    pub block_size: u32,
    /// Equal seeds give equal prompts.
    pub seed: u64,
    /// How prompts are sent.
    pub form: Form,
    /// What earlier answers are in later prompts.
    pub history: History,
    /// Tokens that the endpoint puts before a [`Form::Text`] prompt by itself, such as one for the beginning of the text.
    pub text_head: u32,
    /// Where the stable vocabulary of a tokenizer is kept between runs; none keeps nothing.
    pub cache_dir: Option<PathBuf>,
}

impl Setup {
    /// The defaults at a block size: seed 0, chat, synthetic history.
    pub fn new(block_size: u32) -> Self {
        let (form, history) = (Form::default(), History::default());
        Self { block_size, seed: 0, form, history, text_head: 0, cache_dir: None }
    }
}

/// Where the next tree begins in the dataset. Pass the same value to [`PromptSynthesizer::tree`] for session after session, in
/// their order, whether they are replayed or not: so unrelated prompts of different sessions begin differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeBase {
    /// Row id of the tree's first request.
    pub first_request: u64,
    /// Prompts so far that share nothing with earlier ones.
    pub roots: u64,
}

/// The prompts of one scope, planned: those of a session under scope `session`, else of the whole dataset. It holds a few
/// numbers a request, no prompt.
#[derive(Clone, Debug)]
pub struct PromptTree {}

/// A message of a chat prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said: plain words, none of which needs escaping in JSON (a real answer may).
    pub content: String,
}

/// A prompt as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptForm {
    /// Messages, the last of which is the user's.
    Chat(Vec<ChatMessage>),
    /// One text.
    Text(String),
    /// Token ids.
    Tokens(Vec<Token>),
}

/// A prompt and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What is sent.
    pub form: PromptForm,
    /// Its exact length in tokens, as rendered: what `usage.prompt_tokens` must say.
    pub tokens: u32,
    /// Leading tokens that it shares with the prompt of its prefix request; what all prompts share where it has none.
    pub planned_shared: u32,
    /// Set where the trace asks for something that the template leaves no room for: the length is right, less is shared.
    pub shortfall: Option<Shortfall>,
}

/// A request that cannot share what the trace says, because the template's own tokens don't fit in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Tokens needed after the last prompt that it would have to continue (or in all, if it continues none).
    pub needs: u32,
    /// Tokens that the trace gives.
    pub has: u32,
    /// Full blocks that the trace shares.
    pub asked_blocks: u32,
    /// Full blocks that are shared instead.
    pub shared_blocks: u32,
}

/// Why there is no prompt, or no synthesizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// Shorter than the template's own tokens.
    #[error("request {request}: {has} tokens are too few for the chat template, which needs {needs}")]
    TooShort {
        /// Row id.
        request: u64,
        /// The least that the template needs.
        needs: u32,
        /// `input_tokens`.
        has: u32,
    },
    /// The request is not in the tree.
    #[error("request {request} is not in this tree, or its prefix request is not")]
    OutsideTree {
        /// Row id.
        request: u64,
    },
}

/// Makes prompts.
pub struct PromptSynthesizer {}

impl PromptSynthesizer {
    /// A synthesizer for prompts that `layout` renders and `tokenizer` counts, both from [`crate::tokenize::load`].
    ///
    /// # Errors
    /// Where the tokenizer has too few stable words, or the template cannot be met; in words.
    pub fn new(_tokenizer: &Tokenizer, _layout: Box<dyn Layout>, _setup: Setup) -> Result<Self, PromptError> {
        Ok(Self {})
    }

    /// Plans the prompts of one scope: a session under scope `session`, else all sessions at once.
    ///
    /// # Errors
    /// Where a prefix request is not in the tree.
    pub fn tree<'a>(
        &self,
        _base: &mut TreeBase,
        _sessions: impl IntoIterator<Item = &'a Session>,
    ) -> Result<PromptTree, PromptError> {
        Ok(PromptTree {})
    }

    /// The prompt of the request with this row id.
    ///
    /// # Errors
    /// Where the request is too short for its template, or not in the tree.
    pub fn prompt(&mut self, _tree: &PromptTree, request: u64) -> Result<Prompt, PromptError> {
        Err(PromptError::OutsideTree { request })
    }

    /// Tells what the endpoint answered to a request, for [`History::Generated`].
    pub fn answered(&mut self, _tree: &mut PromptTree, _request: u64, _answer: &str) {}

    /// Tokens that the template puts before every prompt's own.
    pub fn head_tokens(&self) -> u32 {
        0
    }
}
