//! [`Counter`]: from prompts to tokens and block names, and the words of answers.
//!
//! Invariant: text is borrowed; what stays is hashes under a seed of this run. An answer of n tokens is n tokens to the same
//! tokenizer when it is sent back.

use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use super::options::Counting;
use super::pool::BlockHash;
use crate::tokenize::{Encoder, Layout, LayoutError, Neutral, Prompt, Token, Tokenizer, TokenizerError, load};

/// Words that most vocabularies hold as one token with a space before.
const WORDS: [&str; 24] = [
    " the", " of", " and", " to", " in", " is", " that", " for", " was", " on", " with", " as", " it", " be", " at",
    " by", " this", " from", " or", " an", " are", " not", " but", " all",
];

/// Every word, with the white space before it, is a token.
#[derive(Clone, Copy)]
struct Words;

impl Encoder for Words {
    fn encode(&self, text: &str, out: &mut Vec<Token>) {
        // Below 2³¹, where separators and media begin.
        let token = |word: &str| Token::try_from(xxh3_64_with_seed(word.as_bytes(), 0) >> 33).unwrap_or_default();
        out.extend(text.split_ascii_whitespace().map(token));
    }
}

/// Counts tokens.
pub(super) struct Counter {
    encoder: Box<dyn Encoder>,
    layout: Mutex<Box<dyn Layout>>,
    /// Words for answers, each one token wherever it stands among them.
    words: Vec<(&'static str, Token)>,
    /// Whether an answer follows the prompt directly when it is sent back, so that its blocks can be found.
    continues: bool,
    block_size: usize,
    seed: u64,
}

impl Counter {
    pub(super) fn new(counting: &Counting, block_size: u32) -> Result<Self, TokenizerError> {
        let (encoder, layout, continues): (Box<dyn Encoder>, Box<dyn Layout>, bool) = match counting {
            Counting::Words => (Box::new(Words), Box::new(Neutral::new(Words)), false),
            Counting::Tokenizer(spec) => {
                let (tokenizer, layout, info): (Tokenizer, _, _) = load(spec)?;
                (Box::new(tokenizer), layout, info.template_sha256.is_some())
            }
        };
        let mut seed = [0; 8];
        // Without randomness block names are the same in every run; they are shown nowhere.
        getrandom::fill(&mut seed).ok();
        let words = stable(&*encoder);
        let block_size = usize::try_from(block_size.max(1)).unwrap_or(usize::MAX);
        Ok(Self { encoder, layout: Mutex::new(layout), words, continues, block_size, seed: u64::from_le_bytes(seed) })
    }

    /// Tokens of plain text.
    pub(super) fn plain(&self, text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        self.encoder.encode(text, &mut tokens);
        tokens
    }

    /// Tokens of a conversation.
    pub(super) fn lay(&self, prompt: &Prompt<'_>) -> Result<Vec<Token>, LayoutError> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner).lay(prompt).map(|laid| laid.tokens)
    }

    /// Names of the full blocks of `prompt` and of the `answer` behind it, and how many are of the prompt alone.
    pub(super) fn blocks(&self, prompt: &[Token], answer: &[Token]) -> (Vec<BlockHash>, usize) {
        let of_prompt = prompt.len() / self.block_size;
        let whole = (prompt.len() + answer.len()) / self.block_size;
        let mut tokens = prompt.iter().chain(answer);
        let (mut hash, mut bytes) = (0_u128, Vec::with_capacity(self.block_size.min(1 << 16) * 4 + 16));
        let hashes = (0..whole).map(|_| {
            bytes.clear();
            bytes.extend_from_slice(&hash.to_le_bytes());
            tokens.by_ref().take(self.block_size).for_each(|token| bytes.extend_from_slice(&token.to_le_bytes()));
            hash = xxh3_128_with_seed(&bytes, self.seed).max(1);
            hash
        });
        (hashes.collect(), of_prompt)
    }

    /// An answer of `count` tokens that follows from `seed`: its words and, where they can be found again, its tokens.
    pub(super) fn answer(&self, seed: u64, count: u32) -> (Vec<&'static str>, Vec<Token>) {
        let modulus = u64::try_from(self.words.len()).unwrap_or(1).max(1);
        let pick = |at: u32| {
            let at = xxh3_64_with_seed(&at.to_le_bytes(), seed) % modulus;
            usize::try_from(at).ok().and_then(|at| self.words.get(at)).copied().unwrap_or((" the", 0))
        };
        let (words, tokens): (Vec<_>, Vec<_>) = (0..count).map(pick).unzip();
        (words, if self.continues { tokens } else { Vec::new() })
    }
}

/// Words that are one token each, also side by side.
fn stable(encoder: &dyn Encoder) -> Vec<(&'static str, Token)> {
    let tokens = |text: &str| {
        let mut tokens = Vec::new();
        encoder.encode(text, &mut tokens);
        tokens
    };
    let mut kept: Vec<(&'static str, Token)> = Vec::new();
    for word in WORDS {
        let [token] = tokens(word)[..] else { continue };
        let fits = |(other, of_other): &(&str, Token)| {
            tokens(&format!("{word}{other}")) == [token, *of_other]
                && tokens(&format!("{other}{word}")) == [*of_other, token]
        };
        if kept.iter().chain([&(word, token)]).all(fits) {
            kept.push((word, token));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::{Block, Content, Message, Role};

    #[test]
    fn an_answer_has_the_tokens_it_was_asked_for() {
        for counting in [Counting::default(), Counting::Words] {
            let counter = Counter::new(&counting, 16).unwrap();
            let (words, _) = counter.answer(7, 100);
            assert_eq!(counter.plain(&words.concat()).len(), 100, "{counting:?}");
            assert_eq!(counter.answer(7, 100).0, words);
            assert_ne!(counter.answer(8, 100).0, words);
        }
    }

    #[test]
    fn equal_prefixes_and_nothing_else_have_equal_blocks() {
        let counter = Counter::new(&Counting::Words, 4).unwrap();
        let (one, _) = counter.blocks(&[1, 2, 3, 4, 5, 6, 7, 8, 9], &[]);
        let (two, _) = counter.blocks(&[1, 2, 3, 4, 5, 6, 7, 0, 9], &[]);
        assert_eq!((one.len(), one[0] == two[0], one[1] == two[1]), (2, true, false));
        let (moved, _) = counter.blocks(&[0, 0, 0, 0, 1, 2, 3, 4], &[]);
        assert_ne!(moved[1], one[0]);
        assert_eq!(counter.blocks(&[1, 2, 3, 4, 5], &[6, 7, 8]), (one, 1));
    }

    #[test]
    fn a_conversation_is_laid_out() {
        let counter = Counter::new(&Counting::Words, 4).unwrap();
        let blocks = vec![Block::Content(Content::Text("one two three".into()))];
        let prompt = Prompt { messages: vec![Message { role: Role::User, blocks }], ..Prompt::default() };
        assert_eq!(counter.lay(&prompt).unwrap().len(), 5, "a role, a text and three words");
    }
}
