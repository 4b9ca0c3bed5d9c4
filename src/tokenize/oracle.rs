//! The engine against the 0.23 line of `tokenizers`, id for id.
//!
//! Invariant: tokenizers that may not be committed are tested where they lie in `~/.cache/trace-tools/tok/<name>/`, and
//! skipped in words elsewhere.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::engine::BUILTIN;
use super::{Encoder, Token, Tokenizer};

/// The plain reference.
pub(super) struct Oracle(tokenizers_oracle::Tokenizer);

impl Oracle {
    fn new(bytes: &[u8]) -> Self {
        Self(tokenizers_oracle::Tokenizer::from_bytes(bytes).unwrap())
    }

    pub(super) fn builtin() -> Self {
        Self::new(&zstd::decode_all(BUILTIN).unwrap())
    }

    /// What Hugging Face gives by default: literals of special tokens are special tokens.
    pub(super) fn with_specials(&self, text: &str) -> Vec<Token> {
        self.0.encode_fast(text, false).unwrap().get_ids().to_vec()
    }

    fn plain(mut self) -> Self {
        self.0.set_encode_special_tokens(true);
        self
    }
}

/// Characters whose properties both lines know alike: the older one has the tables of Unicode 12.
const SETTLED: &str = "[\0-\u{7ff}\u{900}-\u{97f}\u{e00}-\u{e7f}\u{1e00}-\u{206f}\u{2070}-\u{27bf}\u{3000}-\u{32fe}\u{3300}-\u{9fea}\u{ac00}-\u{d7a3}\
    \u{e000}-\u{fad9}\u{fe00}-\u{ffff}\u{1f300}-\u{1f64f}\u{20000}-\u{2a6d6}\u{f0000}-\u{10ffff}]{0,12}";

/// Pieces that mix badly: code, prose, CJK, emoji, white space, control characters, decomposed letters, and `literals`.
fn mixed(literals: Vec<String>) -> impl Strategy<Value = String> {
    let fixed = [
        "fn main() {\n    let x = \"a\\tb\";\n}\n",
        "def f(x):\n\treturn x**2 # why?\n",
        "don't we'll I'M",
        "  \n\n  \t \r\n",
        "汉字かなカナ한국어",
        "👩\u{200d}👩\u{200d}👧🏽🇩🇪",
        "e\u{301}ﬁ①Å",
        "\0\u{1}\u{7f}\u{85}\u{a0}\u{2028}\u{feff}\u{fffd}",
        "1234567890.12e-7",
        "https://example.org/a?b=c&d#e",
        "{\"k\": [1, null]}",
        "</think>",
        "<|im_end|>",
        "<｜User｜>",
        "<",
        "|>",
        "     1\tuse std;",
        "ÜBER straße",
        "नमस्ते",
        "العربية",
    ];
    let piece = prop_oneof![
        4 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        2 => prop::sample::select(literals),
        2 => "[ -~]{0,12}",
        2 => "[a-z ]{0,20}",
        1 => "[ \n\t\r]{1,6}",
        1 => SETTLED,
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn agree(bytes: &[u8], cases: u32) {
    let tokenizer = Tokenizer::from_bytes(bytes).unwrap();
    let (oracle, plain) = (Oracle::new(bytes), Oracle::new(bytes).plain());
    let literals: Vec<String> = tokenizer.special_literals().into_iter().take(40).map(str::to_owned).collect();
    for literal in &literals {
        assert_eq!(oracle.with_specials(literal), [tokenizer.special(literal).unwrap()]);
    }
    let corpus = [include_str!("engine.rs"), include_str!("prompt.rs"), include_str!("../../Cargo.toml")];
    let check = |text: &str| {
        let mut ids = Vec::new();
        tokenizer.encode(text, &mut ids);
        assert_eq!(ids, plain.with_specials(text), "{text:?}");
    };
    corpus.into_iter().for_each(check);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&mixed(literals), |text| {
            check(&text);
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_builtin_tokenizer_agrees_with_the_oracle() {
    agree(&zstd::decode_all(BUILTIN).unwrap(), 2_000);
}

#[test]
fn other_tokenizers_agree_with_the_oracle_where_they_are_present() {
    for name in ["qwen3", "deepseek_v3", "gptoss"] {
        let file =
            std::env::home_dir().unwrap_or_default().join(".cache/trace-tools/tok").join(name).join("tokenizer.json");
        match std::fs::read(file) {
            Ok(bytes) => agree(&bytes, 1_000),
            Err(_) => println!("{name}: not present, skipped"),
        }
    }
}

#[test]
fn text_after_a_special_token_does_not_open_the_sequence() {
    let json = r#"{"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true,"single_word":false,"lstrip":false,
        "rstrip":false,"normalized":false}],"normalizer":null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁",
        "prepend_scheme":"first","split":true},"post_processor":null,"decoder":null,"truncation":null,"padding":null,
        "model":{"type":"BPE","vocab":{"▁":0,"a":1,"▁a":2},"merges":[["▁","a"]]}}"#;
    let tokenizer = Tokenizer::from_bytes(json.as_bytes()).unwrap();
    let mut tokens = Vec::new();
    tokenizer.encode("a", &mut tokens);
    tokens.extend(tokenizer.special("<s>"));
    tokenizer.encode_inside("a a", &mut tokens);
    assert_eq!(tokens, Oracle::new(json.as_bytes()).with_specials("a<s>a a"));
}
