//! [`Memo`]: tokens by the hash of their text, so that a growing conversation is tokenized once.
//!
//! Invariant: it holds hashes and tokens, never text, and at most twice its limit of tokens.

use std::collections::HashMap;

use super::Token;

/// Tokens in each of the two generations: 16 MiB.
const LIMIT: usize = 1 << 22;

/// What an entry costs beside its tokens, in tokens.
const OVERHEAD: usize = 16;

type Generation = HashMap<[u8; 32], Box<[Token]>>;

/// A bounded map from text to tokens. What was not asked for since the last generation is forgotten.
pub(super) struct Memo {
    key: [u8; 32],
    young: Generation,
    old: Generation,
    held: usize,
    limit: usize,
}

impl Memo {
    pub(super) fn new() -> Self {
        Self::with_limit(LIMIT)
    }

    fn with_limit(limit: usize) -> Self {
        let mut key = [0; 32];
        // The hash is collision-safe without a key; the key only makes hashes in memory say nothing about text.
        if getrandom::fill(&mut key).is_err() {
            key = [0; 32];
        }
        Self { key, young: HashMap::new(), old: HashMap::new(), held: 0, limit }
    }

    /// How many tokens `text` has, if it is known.
    pub(super) fn length(&self, kind: u8, text: &str) -> Option<usize> {
        let hash = self.hash(kind, text);
        self.young.get(&hash).or_else(|| self.old.get(&hash)).map(|tokens| tokens.len())
    }

    fn hash(&self, kind: u8, text: &str) -> [u8; 32] {
        *blake3::Hasher::new_keyed(&self.key).update(&[kind]).update(text.as_bytes()).finalize().as_bytes()
    }

    /// Appends the tokens of `text`, which `encode` finds if they are not known. One `kind` of text is encoded in one way.
    pub(super) fn append(&mut self, kind: u8, text: &str, out: &mut Vec<Token>, encode: impl FnOnce(&mut Vec<Token>)) {
        if text.is_empty() {
            return;
        }
        let hash = self.hash(kind, text);
        if let Some(tokens) = self.young.get(&hash) {
            out.extend_from_slice(tokens);
            return;
        }
        let start = out.len();
        let tokens = if let Some(tokens) = self.old.remove(&hash) {
            out.extend_from_slice(&tokens);
            tokens
        } else {
            encode(out);
            out.get(start..).unwrap_or_default().into()
        };
        self.held += tokens.len() + OVERHEAD;
        self.young.insert(hash, tokens);
        if self.held > self.limit {
            self.old = std::mem::take(&mut self.young);
            self.held = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(memo: &mut Memo, text: &str, calls: &mut u32) -> Vec<Token> {
        let mut out = vec![7];
        memo.append(0, text, &mut out, |out| {
            *calls += 1;
            out.extend(text.bytes().map(Token::from));
        });
        out
    }

    #[test]
    fn a_text_is_encoded_once() {
        let (mut memo, mut calls) = (Memo::new(), 0);
        assert_eq!(append(&mut memo, "ab", &mut calls), [7, 97, 98]);
        assert_eq!(append(&mut memo, "ab", &mut calls), [7, 97, 98]);
        assert_eq!(append(&mut memo, "", &mut calls), [7]);
        assert_eq!((memo.length(0, "ab"), memo.length(1, "ab"), memo.length(0, "")), (Some(2), None, None));
        assert_eq!(calls, 1);
    }

    #[test]
    fn kinds_are_kept_apart() {
        let (mut memo, mut out) = (Memo::new(), Vec::new());
        memo.append(0, "x", &mut out, |out| out.push(1));
        memo.append(1, "x", &mut out, |out| out.push(2));
        assert_eq!(out, [1, 2]);
    }

    #[test]
    fn what_is_in_use_outlives_what_is_not_and_the_rest_is_bounded() {
        let (mut memo, mut calls) = (Memo::with_limit(10 * (OVERHEAD + 2)), 0);
        for n in 10..90 {
            append(&mut memo, "in use", &mut calls);
            append(&mut memo, &n.to_string(), &mut calls);
            assert!(memo.young.len() + memo.old.len() <= 22, "bounded");
        }
        assert_eq!(calls, 81, "each was encoded once");
        append(&mut memo, "10", &mut calls);
        assert_eq!(calls, 82, "the first was forgotten");
    }
}
