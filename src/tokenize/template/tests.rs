//! The layout of a chat template against the oracle on the rendered text.
//!
//! Invariant: the template is a fixture of our own, the tokenizer the builtin one.

use std::path::Path;

use proptest::prelude::*;

use super::super::oracle::Oracle;
use super::super::{Block, Content, Message, Role, TokenizerSpec, Tool, load};
use super::*;

fn tagged() -> ChatTemplate {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tokenizer/tagged");
    ChatTemplate::from_dir(&dir, Tokenizer::builtin().unwrap()).unwrap()
}

fn text(text: &str) -> Content<'_> {
    Content::Text(text.into())
}

fn message<'a>(role: Role, blocks: impl Into<Vec<Block<'a>>>) -> Message<'a> {
    Message { role, blocks: blocks.into() }
}

/// A conversation with a call, in which `words` are what is said.
fn conversation(words: &[String; 4]) -> Prompt<'_> {
    let [asked, thought, result, said] = words;
    Prompt {
        tools: vec![Tool { name: "look", description: asked, schema: r#"{"type":"object","b":1,"a":[]}"# }],
        system: vec![text("Be kind."), text(said)],
        messages: vec![
            message(Role::User, [Block::Content(text(asked)), Block::Content(text("now"))]),
            message(
                Role::Assistant,
                [
                    Block::Thinking(thought),
                    Block::Content(text(said)),
                    Block::ToolUse { name: "look", input: r#"{"where":"here","n":1}"# },
                ],
            ),
            message(Role::User, [Block::ToolResult(vec![text(result)])]),
        ],
    }
}

fn words(words: [&str; 4]) -> [String; 4] {
    words.map(str::to_owned)
}

#[test]
fn a_prompt_is_rendered_as_the_template_says() {
    let words = words(["Where?", "\nHm.\n", " There. ", "See."]);
    let layout = tagged();
    let mut guard = Guard::new(layout.tokenizer.specials());
    let rendered = layout.render(&conversation(&words), layout.shape, true, &mut guard).unwrap();
    assert_eq!(
        rendered.as_str(),
        "<SOS><META_START>tools\n\
        {\"type\": \"function\", \"function\": {\"name\": \"look\", \"description\": \"Where?\", \
        \"parameters\": {\"type\": \"object\", \"b\": 1, \"a\": []}}}<META_END>\n\
        <META_START>system\nBe kind.\nSee.<META_END>\n\
        <META_START>user\nWhere?\nnow<META_END>\n\
        <META_START>assistant\n(thinks)Hm.(/thinks)\nSee.\n(call)look {\"where\": \"here\", \"n\": 1}(/call)<META_END>\n\
        <META_START>result\nThere.<META_END>\n\
        <META_START>assistant\n"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn tokens_are_those_of_the_rendered_text(words in prop::array::uniform4("[ -;=-~\n]{0,30}|[é汉👍\u{F5A0F}-\u{F5A13}]{0,5}")) {
        thread_local! {
            static BOTH: std::cell::RefCell<(ChatTemplate, Oracle)> = (tagged(), Oracle::builtin()).into();
        }
        BOTH.with_borrow_mut(|(layout, oracle)| {
            let prompt = conversation(&words);
            let laid = layout.lay(&prompt).unwrap();
            let tokenizer = layout.tokenizer.clone();
            let mut guard = Guard::new(tokenizer.specials());
            let rendered = layout.render(&prompt, layout.shape, true, &mut guard).unwrap();
            let plain: String = guard.pieces(&rendered).into_iter().map(|piece| match piece {
                Piece::Text(text) => text.into_owned(),
                Piece::Media { .. } => unreachable!("there are none"),
            }).collect();
            assert_eq!(laid.tokens, oracle.with_specials(&plain));
            assert_eq!(layout.lay(&prompt).unwrap(), laid, "from memory");
        });
    }

    #[test]
    fn special_looking_content_yields_no_special_token(
        words in prop::array::uniform4("(<META_END>|<META_START>|<EOT>|<SOS>|<MET|A_END>|[a <]){0,6}")
    ) {
        let plain = ["a", "b", "c", "d"].map(str::to_owned);
        let mut layout = tagged();
        let specials: Vec<Token> =
            layout.tokenizer.special_literals().into_iter().filter_map(|literal| layout.tokenizer.special(literal)).collect();
        let mut count = |words| {
            let tokens = layout.lay(&conversation(words)).unwrap().tokens;
            tokens.into_iter().filter(|token| specials.contains(token)).collect::<Vec<_>>()
        };
        prop_assert_eq!(count(&words), count(&plain));
    }
}

#[test]
fn special_looking_content_is_decoded_as_it_was() {
    let words = words(["<META_END>", "<EOT> hm", "x<META_START>y", "<SOS>"]);
    let mut layout = tagged();
    let tokens = layout.lay(&conversation(&words)).unwrap().tokens;
    let decoded = layout.tokenizer.decode(&tokens);
    assert!(decoded.contains("user\n<META_END>\nnow<META_END>"));
    assert!(decoded.contains("result\nx<META_START>y<META_END>"));
}

#[test]
fn media_become_pseudo_tokens_in_their_place() {
    let prompt = |key| Prompt {
        messages: vec![message(Role::User, [Block::Content(Content::Media { key: [key; 16], tokens: 9 })])],
        ..Prompt::default()
    };
    let mut layout = tagged();
    let [one, other] = [1, 2].map(|key| layout.lay(&prompt(key)).unwrap().tokens);
    let pseudo = |tokens: &[Token]| tokens.iter().filter(|token| **token >= 0x8000_0000).count();
    assert_eq!((pseudo(&one), pseudo(&other), one.len()), (9, 9, other.len()));
    assert_ne!(one, other);
    assert_eq!(layout.lay(&prompt(1)).unwrap().tokens, one);
}

#[test]
fn the_fixture_drops_earlier_thinking_and_keeps_the_rest() {
    assert_eq!(tagged().history(), History { text: Some(true), thinking: Some(false), tools: Some(true) });
}

fn folder(template: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("chat_template.jinja"), template).unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), zstd::decode_all(super::super::engine::BUILTIN).unwrap())
        .unwrap();
    dir
}

#[test]
fn a_template_that_wants_arguments_as_text_gets_them() {
    let source = "{% for m in messages %}{% if m.content is none %}{% for c in m.tool_calls %}\
        {{ c.function.name + ' ' + c.function.arguments }}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    let layout = ChatTemplate::from_dir(folder(source).path(), Tokenizer::builtin().unwrap()).unwrap();
    let mut guard = Guard::new(layout.tokenizer.specials());
    let rendered = layout.render(&messages::probe(), layout.shape, true, &mut guard).unwrap();
    assert!(rendered.contains(r#"probecall {"probekey":"probevalue"}"#));
}

#[test]
fn a_template_that_refuses_is_an_error_without_words() {
    let dir = folder("{{ raise_exception('no ' + messages[0].content) }}");
    let (_, mut layout, info) = load(&TokenizerSpec::Dir(dir.path().to_owned())).unwrap();
    assert_eq!(layout.lay(&conversation(&words(["a", "b", "c", "d"]))), Err(LayoutError));
    assert_eq!(info.tokenizer_sha256, Tokenizer::builtin().unwrap().sha256());
    assert!(info.template_sha256.is_some());
}

#[test]
fn real_templates_render_where_they_are_present() {
    for (name, thinking) in [("qwen3", false), ("deepseek_v3", true)] {
        let dir = std::env::home_dir().unwrap_or_default().join(".cache/trace-tools/tok").join(name);
        if !dir.is_dir() {
            println!("{name}: not present, skipped");
            continue;
        }
        let tokenizer = Tokenizer::from_file(&dir.join("tokenizer.json")).unwrap();
        let layout = ChatTemplate::from_dir(&dir, tokenizer).unwrap();
        let words = words(["Where?", "Hm.", "There.", "See."]);
        let mut guard = Guard::new(layout.tokenizer.specials());
        let rendered = layout.render(&conversation(&words), layout.shape, true, &mut guard).unwrap();
        assert!(["Where?", "See.", "There."].iter().all(|word| rendered.contains(word)), "{name}");
        assert_eq!(layout.history().thinking, Some(thinking), "{name}");
    }
}
