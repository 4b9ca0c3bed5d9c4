//! [`Tokenizer`]: the engine behind [`Encoder`], the `tokenizers` crate's 1.0 line.
//!
//! Invariant: `encode` yields the ids that the 0.23 line gives with `encode_special_tokens` on and nothing added around the text.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};
use tokenizers::{ConvertError, canonicalize_value, from_json};

use super::special::{Special, Specials};
use super::{Encoder, SEPARATOR_BASE, Token, TokenizerError};

/// Stands for a piece of text that the vocabulary cannot express where it has no unknown token either.
const INEXPRESSIBLE: Token = SEPARATOR_BASE - 1;

/// The embedded `tokenizer.json`; see `builtin/LICENSE.claude-legacy`.
pub(super) const BUILTIN: &[u8] = include_bytes!("builtin/claude-legacy.json.zst");

/// A tokenizer read from a Hugging Face `tokenizer.json`. Cheap to clone.
#[derive(Clone)]
pub struct Tokenizer(Arc<Inner>);

struct Inner {
    engine: PipelineTokenizer,
    /// The same for text that does not open the sequence, where that makes a difference (Metaspace, prepend scheme `first`).
    inside: Option<PipelineTokenizer>,
    options: EncodeOptions,
    specials: Specials,
    sha256: [u8; 32],
    size: Token,
}

impl Tokenizer {
    /// The embedded tokenizer: a real BPE vocabulary of 65,000 entries, MIT licence, of 2023.
    ///
    /// # Errors
    /// None in practice: the embedded file is tested.
    pub fn builtin() -> Result<Self, TokenizerError> {
        static ONCE: OnceLock<Result<Tokenizer, TokenizerError>> = OnceLock::new();
        ONCE.get_or_init(|| {
            let bytes = zstd::decode_all(BUILTIN).map_err(|_| TokenizerError::NotTokenizer { line: 0, column: 0 })?;
            Self::from_bytes(&bytes)
        })
        .clone()
    }

    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// If it cannot be read, is not a `tokenizer.json`, or needs what this build does not have.
    pub fn from_file(path: &Path) -> Result<Self, TokenizerError> {
        Self::from_bytes(&std::fs::read(path).map_err(|error| TokenizerError::Unreadable(error.kind()))?)
    }

    /// Reads the bytes of a `tokenizer.json`, of the current or an older format.
    ///
    /// # Errors
    /// If they are not a `tokenizer.json`, or need what this build does not have.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let mut json: Value = serde_json::from_slice(bytes)
            .map_err(|error| TokenizerError::NotTokenizer { line: error.line(), column: error.column() })?;
        canonicalize_value(&mut json).map_err(|error| match error {
            ConvertError::NotAnObject { .. } | ConvertError::MissingModel | ConvertError::ModelNotObject { .. } => {
                TokenizerError::NotTokenizer { line: 1, column: 1 }
            }
            _ => TokenizerError::Unsupported,
        })?;
        let engine = build(&json)?;
        let specials = Specials::new(
            engine
                .get_added_vocabulary()
                .get_added_tokens_decoder()
                .into_iter()
                .filter(|(_, token)| token.special)
                .map(|(id, token)| (token.content, Special { id, lstrip: token.lstrip, rstrip: token.rstrip })),
        );
        let size = size(&json);
        let inside = forget_first(&mut json).then(|| build(&json)).transpose()?;
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: true,
            padding: Override::Off,
            truncation: Override::Off,
        };
        Ok(Self(Arc::new(Inner { engine, inside, options, specials, sha256: Sha256::digest(bytes).into(), size })))
    }

    /// SHA-256 of the bytes of its `tokenizer.json`.
    pub fn sha256(&self) -> [u8; 32] {
        self.0.sha256
    }

    /// One more than its highest id.
    pub fn vocab_size(&self) -> Token {
        self.0.size
    }

    /// The id of a special token, by its literal.
    pub fn special(&self, literal: &str) -> Option<Token> {
        self.0.specials.get(literal).map(|special| special.id)
    }

    /// The literals of its special tokens, sorted.
    pub fn special_literals(&self) -> Vec<&str> {
        self.0.specials.literals()
    }

    /// The text of `tokens`, special ones by their literals; ids outside the vocabulary give nothing.
    pub fn decode(&self, tokens: &[Token]) -> String {
        self.0.engine.decode(tokens, false).unwrap_or_default()
    }

    /// Finds special tokens in text.
    pub(super) fn specials(&self) -> &Specials {
        &self.0.specials
    }

    /// As [`Encoder::encode`], for text that follows a special token.
    pub(super) fn encode_inside(&self, text: &str, out: &mut Vec<Token>) {
        self.encode_with(self.0.inside.as_ref().unwrap_or(&self.0.engine), text, out);
    }

    fn encode_with(&self, engine: &PipelineTokenizer, text: &str, out: &mut Vec<Token>) {
        let mut tokens: Vec<PipelineToken> = Vec::with_capacity(text.len() / 3 + 1);
        if engine.encode_into(text, &self.0.options, &mut tokens).is_ok() {
            out.extend_from_slice(PipelineToken::cast_slice(&tokens));
            return;
        }
        // A text beyond 4 GiB, or a model without an unknown token: smaller pieces, down to the culprit.
        let middle = text.ceil_char_boundary(text.len() / 2);
        match text.split_at_checked(middle) {
            Some((left, right)) if !left.is_empty() && !right.is_empty() => {
                self.encode_with(engine, left, out);
                self.encode_with(engine, right, out);
            }
            _ => out.push(INEXPRESSIBLE),
        }
    }
}

impl Encoder for Tokenizer {
    fn encode(&self, text: &str, out: &mut Vec<Token>) {
        self.encode_with(&self.0.engine, text, out);
    }
}

fn build(json: &Value) -> Result<PipelineTokenizer, TokenizerError> {
    from_json(&json.to_string()).map_err(|_| TokenizerError::Unsupported)
}

/// One more than the highest id of a canonical file.
fn size(json: &Value) -> Token {
    let vocab = match json.pointer("/model/vocab") {
        Some(Value::Object(entries)) => entries.values().filter_map(Value::as_u64).map(|id| id + 1).max().unwrap_or(0),
        Some(Value::Array(pieces)) => u64::try_from(pieces.len()).unwrap_or(0),
        _ => 0,
    };
    let added = json.get("added_tokens").and_then(Value::as_array).into_iter().flatten();
    let added = added.filter_map(|token| token.get("id").and_then(Value::as_u64)).map(|id| id + 1).max().unwrap_or(0);
    Token::try_from(vocab.max(added)).unwrap_or(Token::MAX)
}

/// Makes normalizers that prepend only to the start of a sequence prepend nothing. Says whether there were any.
fn forget_first(json: &mut Value) -> bool {
    let Some(normalizer) = json.get_mut("normalizer") else { return false };
    let mut found = false;
    let mut forget = |part: &mut Value| match part.get_mut("prepend") {
        Some(scheme) if scheme == "first" => {
            *scheme = Value::from("never");
            found = true;
        }
        _ => {}
    };
    forget(normalizer);
    normalizer.get_mut("normalizers").and_then(Value::as_array_mut).into_iter().flatten().for_each(forget);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(tokenizer: &Tokenizer, text: &str) -> Vec<Token> {
        let mut out = Vec::new();
        tokenizer.encode(text, &mut out);
        out
    }

    #[test]
    fn the_builtin_tokenizer_loads_and_goes_round() {
        let tokenizer = Tokenizer::builtin().unwrap();
        assert_eq!(tokenizer.vocab_size(), 65_000);
        let text = "fn main() {\n    println!(\"hello, 世界\");\n}\n";
        assert_eq!(tokenizer.decode(&encoded(&tokenizer, text)), text);
        assert!(encoded(&tokenizer, "").is_empty());
    }

    #[test]
    fn special_tokens_are_found_by_name_and_never_in_text() {
        let tokenizer = Tokenizer::builtin().unwrap();
        let literals = tokenizer.special_literals();
        assert!(literals.contains(&"<META_START>"), "the five of the file");
        for literal in literals {
            let id = tokenizer.special(literal).unwrap();
            let text = format!("a {literal} b{literal}");
            let tokens = encoded(&tokenizer, &text);
            assert!(!tokens.contains(&id), "{literal} is plain text");
            assert_eq!(tokenizer.decode(&tokens), text);
        }
        assert_eq!(tokenizer.special("<nothing>"), None);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_by_class() {
        let error = |bytes: &str| Tokenizer::from_bytes(bytes.as_bytes()).err().unwrap();
        assert_eq!(error("{\n 3"), TokenizerError::NotTokenizer { line: 2, column: 2 });
        assert_eq!(error("[]"), TokenizerError::NotTokenizer { line: 1, column: 1 });
        assert_eq!(error("{}"), TokenizerError::NotTokenizer { line: 1, column: 1 });
        assert_eq!(error(r#"{"model":{"type":"Odd","vocab":{}}}"#), TokenizerError::Unsupported);
        let missing = Tokenizer::from_file(Path::new("/nowhere/tokenizer.json")).err().unwrap();
        assert_eq!(missing, TokenizerError::Unreadable(std::io::ErrorKind::NotFound));
    }

    #[test]
    fn text_without_any_token_becomes_a_pseudo_token() {
        let json = r#"{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},
            "post_processor":null,"decoder":null,"truncation":null,"padding":null,
            "model":{"type":"WordLevel","vocab":{"a":0,"b":1},"unk_token":"<unk>"}}"#;
        let tokenizer = Tokenizer::from_bytes(json.as_bytes()).unwrap();
        assert_eq!(encoded(&tokenizer, "a b"), [0, 1]);
        assert!(encoded(&tokenizer, "a ü").contains(&INEXPRESSIBLE));
    }
}
