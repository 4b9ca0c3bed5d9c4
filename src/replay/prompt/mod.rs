//! Prompts without text: token streams that relate to one another exactly as the prefix tree says.
//!
//! Invariant: a prompt is a function of the tree, the seed, the tokenizer and the template (and, with [`History::Generated`],
//! of the answers given); its rendered length is exactly `input_tokens`, or the request is named. It is never silently longer.

mod calibrate;
mod content;
mod layout;
mod reach;
mod recent;
mod stream;
mod text;
mod verify;
mod vocabulary;
mod wrapping;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::tokenize::{Encoder, Layout, Role, Token, Tokenizer};
use crate::trace::Session;

use self::content::Content;
use self::layout::{Real, Row};
use self::recent::{Made, Recent};
use self::stream::Stream;

pub use self::calibrate::{Calibration, Sample, probes};
pub use self::layout::PromptTree;
pub use self::text::Text;
pub use self::verify::{Found, Named, Verifier, VerifyReport};
pub use self::vocabulary::{Vocabulary, VocabularyError};
pub use self::wrapping::{TemplateError, Wrapping};

/// An answer of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// What it said, reasoning left out.
    pub text: &'a str,
    /// Its token ids, where the endpoint gives them.
    pub tokens: Option<&'a [Token]>,
}

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

/// A message of a chat prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said: plain words, none of which needs escaping in JSON (a real answer may).
    pub content: Text,
}

/// A prompt as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptForm {
    /// Messages, the last of which is the user's.
    Chat(Vec<ChatMessage>),
    /// One text.
    Text(Text),
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
    /// Answers in it that the endpoint made longer or shorter than the trace says: what the user says next is corrected for it.
    pub corrected: u32,
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
    /// No vocabulary.
    #[error(transparent)]
    Vocabulary(#[from] VocabularyError),
    /// A template that cannot be met.
    #[error(transparent)]
    Template(#[from] TemplateError),
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
pub struct PromptSynthesizer {
    setup: Setup,
    wrapping: Wrapping,
    content: Content,
    recent: Recent,
    /// Trees planned so far.
    trees: AtomicU64,
    /// None where tokens cannot be counted.
    counter: Option<Counter>,
}

/// What counts tokens.
struct Counter {
    tokenizer: Tokenizer,
    /// Behind a lock only so that prompts can be made on several threads, none of which uses it.
    layout: Mutex<Box<dyn Layout>>,
}

impl PromptSynthesizer {
    /// A synthesizer for prompts that `layout` renders and `tokenizer` counts, both from [`crate::tokenize::load`].
    ///
    /// # Errors
    /// Where the tokenizer has too few stable words, or the template cannot be met; in words.
    pub fn new(tokenizer: &Tokenizer, mut layout: Box<dyn Layout>, setup: Setup) -> Result<Self, PromptError> {
        let vocabulary = Vocabulary::load(tokenizer, setup.cache_dir.as_deref())?;
        let wrapping = match setup.form {
            Form::Chat => Wrapping::probe(&mut *layout, tokenizer, &vocabulary)?,
            Form::Text => Wrapping::plain(setup.text_head),
            Form::Tokens => Wrapping::plain(0),
        };
        let content = Content::new(vocabulary, setup.seed, None);
        let counter = Some(Counter { tokenizer: tokenizer.clone(), layout: Mutex::new(layout) });
        Ok(Self { setup, wrapping, content, recent: Recent::default(), trees: AtomicU64::default(), counter })
    }

    /// A synthesizer without the endpoint's tokenizer: lengths are as good as the calibration. Token ids cannot be had.
    ///
    /// # Errors
    /// None in practice: the words are those of the builtin tokenizer.
    pub fn calibrated(calibration: &Calibration, mut setup: Setup) -> Result<Self, PromptError> {
        if setup.form == Form::Tokens {
            setup.form = Form::Text;
        }
        let wrapping = match setup.form {
            Form::Chat => calibration.wrapping(),
            _ => Wrapping::plain(calibration.fixed),
        };
        let vocabulary = Vocabulary::builtin(setup.cache_dir.as_deref())?;
        let content = Content::new(vocabulary, setup.seed, Some(calibration.rate));
        let (recent, trees) = (Recent::default(), AtomicU64::default());
        Ok(Self { setup, wrapping, content, recent, trees, counter: None })
    }

    /// Plans the prompts of one scope: a session under scope `session`, else all sessions at once.
    ///
    /// # Errors
    /// Where a prefix request is not in the tree.
    pub fn tree<'a>(
        &self,
        base: &mut TreeBase,
        sessions: impl IntoIterator<Item = &'a Session>,
    ) -> Result<PromptTree, PromptError> {
        let rows = sessions.into_iter().flat_map(|session| &session.requests).map(|request| Row {
            prefix: request.prefix,
            input: request.input_tokens,
            output: request.output_tokens.unwrap_or(0),
        });
        let mut tree = PromptTree::plan(self.wrapping.lengths(), self.setup.block_size, base, rows)?;
        tree.number = self.trees.fetch_add(1, Ordering::Relaxed);
        Ok(tree)
    }

    /// The prompt of the request with this row id.
    ///
    /// # Errors
    /// Where the request is too short for its template, or not in the tree.
    pub fn prompt(&self, tree: &PromptTree, request: u64) -> Result<Prompt, PromptError> {
        let (_, _, prefix) = tree.sent(request)?;
        self.prompt_beside(tree, request, prefix)
    }

    /// The same, with the most that it shares with the prompt of one of `others`, in place of its prefix request.
    ///
    /// # Errors
    /// As [`Self::prompt`].
    pub fn prompt_beside(
        &self,
        tree: &PromptTree,
        request: u64,
        others: impl IntoIterator<Item = u64>,
    ) -> Result<Prompt, PromptError> {
        let (stream, shortfall, _) = self.stream(tree, request)?;
        let shared = others.into_iter().filter_map(|other| {
            let (beside, ..) = self.stream(tree, other).ok()?;
            Some((stream.shared_with(&beside, &self.wrapping, &self.content), other))
        });
        let best = shared.max();
        let (planned_shared, other) =
            (best.map_or(self.head_tokens(), |(shared, _)| shared), best.map(|(_, other)| other));
        let form = match self.setup.form {
            Form::Tokens => PromptForm::Tokens(stream.tokens(&self.wrapping, &self.content)),
            Form::Chat => PromptForm::Chat(self.messages(tree, &stream, other)),
            Form::Text => {
                let messages = self.messages(tree, &stream, other);
                let texts: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
                PromptForm::Text(texts.concat().into())
            }
        };
        Ok(Prompt { form, tokens: stream.length(), planned_shared, corrected: stream.corrected, shortfall })
    }

    /// Tells what the endpoint answered to a request, for [`History::Generated`]: prompts made from now on repeat it, if they are
    /// the ones that go on with this answer. Says how many tokens it is in a prompt; none if it cannot be put into one.
    pub fn answered(&mut self, tree: &mut PromptTree, request: u64, answer: &Answer<'_>) -> Option<u32> {
        let counter = self.counter.as_mut()?;
        let tokens = match (self.setup.form, answer.tokens) {
            (Form::Tokens, Some(tokens)) => tokens.to_vec(),
            (Form::Chat, _) => {
                let vocabulary = self.content.vocabulary();
                let layout = counter.layout.get_mut().unwrap_or_else(PoisonError::into_inner);
                self.wrapping.answer(&mut **layout, vocabulary, answer.text)?
            }
            _ => {
                let mut tokens = Vec::new();
                counter.tokenizer.encode(answer.text, &mut tokens);
                tokens
            }
        };
        let length = u32::try_from(tokens.len()).ok().filter(|&length| length > 0)?;
        tree.own_mark(request)?.real = Some(Arc::new(Real { text: answer.text.to_owned(), tokens }));
        Some(length)
    }

    /// Lets go of what only counts tokens, which is large: prompts can no longer be rendered here, nor answers put into them.
    pub fn forget_tokenizer(&mut self) {
        self.counter = None;
        self.recent.clear();
    }

    /// Whether its prompts can be rendered here.
    pub fn can_render(&self) -> bool {
        self.counter.is_some()
    }

    /// What the template adds; empty where there is none.
    pub fn wrapping(&self) -> &Wrapping {
        &self.wrapping
    }

    /// Tokens that every prompt begins with.
    pub fn head_tokens(&self) -> u32 {
        self.wrapping.lengths().head
    }

    /// The messages of a prompt. Those that it shares with the one of `other`, or with one that its path leads through, are taken
    /// from there, if that is still kept.
    fn messages(&self, tree: &PromptTree, stream: &Stream<'_>, other: Option<u64>) -> Vec<ChatMessage> {
        let name = |node| (tree.number, node);
        let own = name(stream.node());
        let other = other.and_then(|other| tree.sent(other).ok()).map(|(node, ..)| name(node));
        let above = tree.path(stream.node()).into_iter().rev().map(|piece| name(piece.node));
        let before = self.recent.first([own].into_iter().chain(other).chain(above));
        let made_before = before.as_ref().map(|(_, made)| &**made);
        let (made, whole) = stream.messages(&self.wrapping, &self.content, made_before);
        let messages = made.iter().map(|(message, _)| message.clone()).collect();
        let made = Made { shape: stream.shape(), messages: made };
        self.recent.put(own, Arc::new(made), before.map(|(name, _)| name).filter(|_| whole));
        messages
    }

    fn stream<'a>(
        &self,
        tree: &'a PromptTree,
        request: u64,
    ) -> Result<(Stream<'a>, Option<Shortfall>, Option<u64>), PromptError> {
        let (node, shortfall, prefix) = tree.sent(request)?;
        Ok((Stream::new(tree, node, self.setup.history), shortfall, prefix))
    }
}
