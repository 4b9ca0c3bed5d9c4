//! [`Vocabulary`]: words that stay the tokens they are, whatever stands beside them.
//!
//! Invariant: the text of any starter and the words after it encodes to just their tokens, at the beginning of a text and after
//! a line break or a special token; none of them is special. It is checked, not assumed: each alone, each word beside each.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::tokenize::{Encoder, Token, Tokenizer};
use crate::trace::manifest::Sha256;

/// Words in use; fewer where a tokenizer has fewer.
const WANTED: usize = 4096;
/// With fewer, texts would be too much alike.
const NEEDED: usize = 256;
/// Letters of a word: shorter ones are fragments, and no longer ones are needed.
const LETTERS: std::ops::RangeInclusive<usize> = 3..=12;
/// Words of at most so many letters are taken first: text and code have about four bytes a token, and every byte is sent, parsed
/// and encoded.
const SHORT: usize = 4;

/// Bytes that a word has room for: a space and its letters.
const ROOM: usize = 16;

/// A word and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) id: Token,
    length: u8,
    bytes: [u8; ROOM],
}

impl Word {
    /// `None` if it has no room.
    fn new(id: Token, text: &str) -> Option<Self> {
        let mut bytes = [b' '; ROOM];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { id, length: u8::try_from(text.len()).ok()?, bytes })
    }

    fn text(&self) -> &str {
        self.bytes.get(..usize::from(self.length)).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
    }

    fn spaced(&self) -> bool {
        self.bytes.first() == Some(&b' ')
    }

    /// Appends its text. A copy of fixed length is several times as fast as one of the right length.
    pub(super) fn append(&self, out: &mut Vec<u8>) {
        let end = out.len() + usize::from(self.length);
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

/// The tokenizer has too few words that stay one token wherever they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tokenizer has {found} stable words of lower-case letters; {NEEDED} are needed to write prompts of exact length"
)]
pub struct VocabularyError {
    /// How many it has.
    pub found: usize,
}

/// Stable words of a tokenizer: as many with a space before them as without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<Word>,
    starters: Vec<Word>,
}

/// What is kept between runs.
#[derive(Serialize, Deserialize)]
struct Cached {
    words: Vec<Token>,
    starters: Vec<Token>,
}

impl Vocabulary {
    /// The stable words of a tokenizer, from `cache_dir` if they were found before (by the tokenizer's sha256).
    ///
    /// # Errors
    /// If there are too few.
    pub fn load(tokenizer: &Tokenizer, cache_dir: Option<&Path>) -> Result<Self, VocabularyError> {
        let Some(dir) = cache_dir else { return Self::find(tokenizer) };
        let path = dir.join(format!("vocabulary-2-{}.json", Sha256(tokenizer.sha256())));
        if let Some(found) = std::fs::read(&path).ok().and_then(|bytes| Self::recall(tokenizer, &bytes)) {
            return Ok(found);
        }
        let found = Self::find(tokenizer)?;
        // A cache that cannot be written costs time, nothing else.
        let _unwritten = found.keep(&path);
        Ok(found)
    }

    /// The stable words of the builtin tokenizer: plain words, which other tokenizers mostly hold as one token too.
    ///
    /// # Errors
    /// None in practice.
    pub fn builtin(cache_dir: Option<&Path>) -> Result<Self, VocabularyError> {
        Tokenizer::builtin()
            .map_err(|_| VocabularyError { found: 0 })
            .and_then(|tokenizer| Self::load(&tokenizer, cache_dir))
    }

    /// Finds them: half a second.
    ///
    /// # Errors
    /// If there are too few.
    pub fn find(tokenizer: &Tokenizer) -> Result<Self, VocabularyError> {
        let found = (0..tokenizer.vocab_size()).filter_map(|id| candidate(tokenizer, id));
        let (mut words, mut starters): (Vec<_>, Vec<_>) = found.partition(Word::spaced);
        for kind in [&mut words, &mut starters] {
            // The common ones have low ids.
            kind.sort_by_key(|word| word.text().trim_start().len() > SHORT);
            kind.truncate(WANTED);
        }
        let unstable = unstable(tokenizer, &words);
        words.retain(|word| unstable.binary_search(&word.id).is_err());
        let beside: Vec<_> = words.iter().take(4).copied().collect();
        starters.retain(|starter| beside.iter().all(|word| joins(tokenizer, starter, word)));
        Self { words, starters }.evened()
    }

    /// As many of both.
    fn evened(mut self) -> Result<Self, VocabularyError> {
        let found = self.words.len().min(self.starters.len());
        self.words.truncate(found);
        self.starters.truncate(found);
        if found < NEEDED { Err(VocabularyError { found }) } else { Ok(self) }
    }

    fn recall(tokenizer: &Tokenizer, bytes: &[u8]) -> Option<Self> {
        let cached: Cached = serde_json::from_slice(bytes).ok()?;
        let read = |ids: Vec<Token>, spaced| {
            let word = |id| candidate(tokenizer, id).filter(|word| word.spaced() == spaced);
            ids.into_iter().map(word).collect::<Option<Vec<_>>>()
        };
        Self { words: read(cached.words, true)?, starters: read(cached.starters, false)? }.evened().ok()
    }

    /// Writes beside and renames, so that another run never reads half a file.
    fn keep(&self, path: &Path) -> std::io::Result<()> {
        let ids = |words: &[Word]| words.iter().map(|word| word.id).collect();
        let bytes = serde_json::to_vec(&Cached { words: ids(&self.words), starters: ids(&self.starters) })?;
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir)?;
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        std::fs::write(&beside, bytes)?;
        std::fs::rename(&beside, path)
    }

    /// How many words there are, and as many starters.
    pub fn size(&self) -> usize {
        self.words.len()
    }

    /// The mean length of a word, in thousandths of a byte.
    pub(super) fn permille(&self) -> usize {
        let sum: usize = self.words.iter().map(|word| usize::from(word.length)).sum();
        (1000 * sum).checked_div(self.words.len()).unwrap_or(0)
    }

    /// The text of the words or starters with these indexes, the first of them a starter.
    pub(super) fn text(&self, indexes: impl IntoIterator<Item = usize>) -> String {
        let word = |(at, index)| if at == 0 { self.starter(index) } else { self.word(index) };
        indexes.into_iter().enumerate().filter_map(word).map(Word::text).collect()
    }

    /// The word at `index`.
    pub(super) fn word(&self, index: usize) -> Option<&Word> {
        self.words.get(index)
    }

    /// The word at `index` of those that open a text: it has no space before it.
    pub(super) fn starter(&self, index: usize) -> Option<&Word> {
        self.starters.get(index)
    }
}

/// A token that is a word and stays itself when it stands alone. Decoded twice over, since some decoders strip the first space.
fn candidate(tokenizer: &Tokenizer, id: Token) -> Option<Word> {
    let twice = tokenizer.decode(&[id, id]);
    let text = match twice.trim_start().split_once(' ') {
        Some((one, other)) if one == other => format!(" {one}"),
        Some(_) => return None,
        None => twice.get(..twice.len() / 2).filter(|half| twice.get(twice.len() / 2..) == Some(half))?.to_owned(),
    };
    let letters = text.trim_start();
    let plain = LETTERS.contains(&letters.len()) && letters.bytes().all(|byte| byte.is_ascii_lowercase());
    let mut tokens = Vec::new();
    if plain {
        tokenizer.encode(&text, &mut tokens);
    }
    (tokens == [id]).then(|| Word::new(id, &text))?
}

fn joins(tokenizer: &Tokenizer, one: &Word, other: &Word) -> bool {
    let mut tokens = Vec::new();
    tokenizer.encode(&format!("\n{}{}", one.text(), other.text()), &mut tokens);
    tokens.ends_with(&[one.id, other.id])
}

/// Words that do not stay themselves beside another one, by id. Every ordered pair stands in the stream `a b a c a d …` of its
/// earlier word; the streams are shared out between two threads.
fn unstable(tokenizer: &Tokenizer, words: &[Word]) -> Vec<Token> {
    let check = |from: usize| {
        let (mut text, mut ids, mut tokens, mut bad) = (String::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, word) in words.iter().enumerate().skip(from).step_by(2) {
            text.clear();
            ids.clear();
            tokens.clear();
            for other in words.get(at..).unwrap_or_default() {
                for word in [word, other] {
                    text.push_str(word.text());
                    ids.push(word.id);
                }
            }
            tokenizer.encode(&text, &mut tokens);
            if tokens != ids {
                bad.push(word.id);
            }
        }
        bad
    };
    let mut bad = std::thread::scope(|scope| {
        let other = scope.spawn(|| check(1));
        let mut bad = check(0);
        bad.extend(other.join().unwrap_or_else(|_| words.iter().map(|word| word.id).collect()));
        bad
    });
    bad.sort_unstable();
    bad
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn builtin() -> (Tokenizer, Vocabulary) {
        static ONCE: std::sync::OnceLock<Vocabulary> = std::sync::OnceLock::new();
        let tokenizer = Tokenizer::builtin().unwrap();
        let vocabulary = ONCE.get_or_init(|| Vocabulary::find(&tokenizer).unwrap()).clone();
        (tokenizer, vocabulary)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_sequence_of_words_encodes_to_their_tokens(numbers in prop::collection::vec(0..WANTED, 1..200), before in "|\n|\n\n") {
            let (tokenizer, vocabulary) = builtin();
            let words: Vec<_> = numbers.iter().enumerate().map(|(at, &number)| {
                (if at == 0 { vocabulary.starter(number) } else { vocabulary.word(number) }).unwrap()
            }).collect();
            let text: String = words.iter().map(|word| word.text()).collect();
            let mut tokens = Vec::new();
            tokenizer.encode(&(before.clone() + &text), &mut tokens);
            prop_assert!(tokens.ends_with(&words.iter().map(|word| word.id).collect::<Vec<_>>()), "{}", before);
        }
    }

    #[test]
    fn the_builtin_tokenizer_has_as_many_as_are_wanted() {
        let (_, vocabulary) = builtin();
        assert_eq!(vocabulary.size(), WANTED);
        let mut ids: Vec<_> = vocabulary.words.iter().chain(&vocabulary.starters).map(|word| word.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 2 * WANTED, "all different");
    }

    #[test]
    fn what_was_found_is_kept_and_what_is_broken_is_found_again() {
        let (tokenizer, vocabulary) = builtin();
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("new");
        assert_eq!(Vocabulary::load(&tokenizer, Some(&inside)), Ok(vocabulary.clone()));
        let file = std::fs::read_dir(&inside).unwrap().next().unwrap().unwrap().path();
        assert_eq!(Vocabulary::recall(&tokenizer, &std::fs::read(&file).unwrap()), Some(vocabulary.clone()));
        for broken in ["", "{}", r#"{"words":[1],"starters":[1]}"#] {
            std::fs::write(&file, broken).unwrap();
            assert_eq!(Vocabulary::load(&tokenizer, Some(&inside)), Ok(vocabulary.clone()));
        }
    }

    #[test]
    fn a_tokenizer_without_words_is_refused() {
        let json = r#"{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
            "model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]}}"#;
        let tokenizer = Tokenizer::from_bytes(json.as_bytes()).unwrap();
        assert_eq!(Vocabulary::find(&tokenizer), Err(VocabularyError { found: 0 }));
    }
}
