//! [`Neutral`]: the layout without a chat template. Every part stands between separators, so that parts tokenize
//! independently and exactly.
//!
//! Invariant: prompts that share their leading parts share exactly the tokens of those parts, and prompts that differ in
//! where one field ends and the next begins differ in their tokens.

use super::memo::Memo;
use super::{Block, Content, Encoder, Laid, Layout, LayoutError, Prompt, Role, SEPARATOR_BASE, Token};

/// The separator that opens each kind of part.
mod separator {
    use super::{SEPARATOR_BASE, Token};

    pub(super) const TOOL: Token = SEPARATOR_BASE;
    pub(super) const DESCRIPTION: Token = SEPARATOR_BASE + 1;
    pub(super) const SCHEMA: Token = SEPARATOR_BASE + 2;
    pub(super) const SYSTEM: Token = SEPARATOR_BASE + 3;
    pub(super) const ROLE_SYSTEM: Token = SEPARATOR_BASE + 4;
    pub(super) const ROLE_USER: Token = SEPARATOR_BASE + 5;
    pub(super) const ROLE_ASSISTANT: Token = SEPARATOR_BASE + 6;
    pub(super) const TEXT: Token = SEPARATOR_BASE + 7;
    pub(super) const MEDIA: Token = SEPARATOR_BASE + 8;
    pub(super) const THINKING: Token = SEPARATOR_BASE + 9;
    pub(super) const TOOL_USE: Token = SEPARATOR_BASE + 10;
    pub(super) const INPUT: Token = SEPARATOR_BASE + 11;
    pub(super) const TOOL_RESULT: Token = SEPARATOR_BASE + 12;
    pub(super) const RESULT_TEXT: Token = SEPARATOR_BASE + 13;
    pub(super) const RESULT_MEDIA: Token = SEPARATOR_BASE + 14;
    pub(super) const OTHER: Token = SEPARATOR_BASE + 15;
}

/// The kind of text, for the memory: all parts are encoded alike.
const PLAIN: u8 = 0;

/// Lays prompts out with separators of its own.
pub struct Neutral<E> {
    encoder: E,
    memo: Memo,
}

impl<E: Encoder> Neutral<E> {
    /// A layout over `encoder`, with an empty memory.
    pub fn new(encoder: E) -> Self {
        Self { encoder, memo: Memo::new() }
    }

    fn part(&mut self, separator: Token, text: &str, out: &mut Vec<Token>) {
        out.push(separator);
        self.memo.append(PLAIN, text, out, |out| self.encoder.encode(text, out));
    }

    fn content(&mut self, separators: (Token, Token), content: &Content<'_>, out: &mut Vec<Token>) {
        match content {
            Content::Text(text) => self.part(separators.0, text, out),
            Content::Media { key, tokens } => {
                out.push(separators.1);
                media(*key, *tokens, out);
            }
        }
    }

    fn block(&mut self, block: &Block<'_>, out: &mut Vec<Token>) {
        match block {
            Block::Content(content) => self.content((separator::TEXT, separator::MEDIA), content, out),
            Block::Thinking(text) => self.part(separator::THINKING, text, out),
            Block::ToolUse { name, input } => {
                self.part(separator::TOOL_USE, name, out);
                self.part(separator::INPUT, input, out);
            }
            Block::ToolResult(contents) => {
                out.push(separator::TOOL_RESULT);
                for content in contents {
                    self.content((separator::RESULT_TEXT, separator::RESULT_MEDIA), content, out);
                }
            }
            Block::Other(json) => self.part(separator::OTHER, json, out),
        }
    }
}

impl<E: Encoder> Layout for Neutral<E> {
    fn is_additive(&self) -> bool {
        true
    }

    fn known_length(&self, text: &str) -> Option<usize> {
        self.memo.length(PLAIN, text)
    }

    fn lay(&mut self, prompt: &Prompt<'_>) -> Result<Laid, LayoutError> {
        let mut tokens = Vec::new();
        for tool in &prompt.tools {
            self.part(separator::TOOL, tool.name, &mut tokens);
            self.part(separator::DESCRIPTION, tool.description, &mut tokens);
            self.part(separator::SCHEMA, tool.schema, &mut tokens);
        }
        let tools = tokens.len();
        for content in &prompt.system {
            self.content((separator::SYSTEM, separator::MEDIA), content, &mut tokens);
        }
        let system = tokens.len() - tools;
        for message in &prompt.messages {
            tokens.push(match message.role {
                Role::System => separator::ROLE_SYSTEM,
                Role::User => separator::ROLE_USER,
                Role::Assistant => separator::ROLE_ASSISTANT,
            });
            for block in &message.blocks {
                self.block(block, &mut tokens);
            }
        }
        let count = |length| u32::try_from(length).unwrap_or(u32::MAX);
        Ok(Laid { tools: count(tools), system: count(system), tokens })
    }
}

/// Appends `count` pseudo-tokens that follow from `key`: ids from 2³¹ to 3·2³⁰ − 1, which no vocabulary and no separator has.
pub(super) fn media(key: [u8; 16], count: u32, out: &mut Vec<Token>) {
    let mut stream = blake3::Hasher::new().update(&key).finalize_xof();
    out.extend((0..count).map(|_| {
        let mut bytes = [0; 4];
        stream.fill(&mut bytes);
        0x8000_0000 | (Token::from_le_bytes(bytes) & 0x3FFF_FFFF)
    }));
}

#[cfg(test)]
mod tests {
    use super::super::{Message, Tokenizer, Tool};
    use super::*;
    use proptest::prelude::*;

    fn builtin() -> Neutral<Tokenizer> {
        Neutral::new(Tokenizer::builtin().unwrap())
    }

    fn said(role: Role, texts: &[String]) -> Message<'_> {
        let blocks = texts.iter().map(|text| Block::Content(Content::Text(text.into()))).collect();
        Message { role, blocks }
    }

    fn prompt(texts: &[Vec<String>]) -> Prompt<'_> {
        Prompt { messages: texts.iter().map(|texts| said(Role::User, texts)).collect(), ..Prompt::default() }
    }

    fn texts() -> impl Strategy<Value = Vec<Vec<String>>> {
        prop::collection::vec(prop::collection::vec("<META_END>|[ab \n]{0,6}", 0..3), 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_longer_conversation_begins_with_the_tokens_of_the_shorter(texts in texts(), more in texts()) {
            let mut layout = builtin();
            let short = layout.lay(&prompt(&texts)).unwrap().tokens;
            let whole = [texts, more].concat();
            prop_assert!(layout.lay(&prompt(&whole)).unwrap().tokens.starts_with(&short));
        }

        #[test]
        fn prompts_share_exactly_their_common_leading_blocks(a in texts(), b in texts()) {
            let mut layout = builtin();
            let laid = [&a, &b].map(|texts| builtin().lay(&prompt(texts)).unwrap().tokens);
            prop_assert_eq!(a == b, laid[0] == laid[1]);
            let shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            let head = layout.lay(&prompt(&a[..shared])).unwrap().tokens;
            prop_assert!(laid.iter().all(|tokens| tokens.starts_with(&head)));
        }
    }

    #[test]
    fn a_prompt_is_the_sum_of_its_messages() {
        let texts = [vec!["one ".to_owned(), "two".to_owned()], vec![], vec!["three\n".to_owned()]];
        let whole = builtin().lay(&prompt(&texts)).unwrap().tokens;
        let parts: Vec<Token> =
            texts.iter().flat_map(|text| builtin().lay(&prompt(std::slice::from_ref(text))).unwrap().tokens).collect();
        assert!(builtin().is_additive() && whole == parts);
    }

    #[test]
    fn every_part_is_encoded_alone_and_lengths_add_up() {
        let input = Prompt {
            tools: vec![Tool { name: "look", description: "Looks.", schema: "{}" }],
            system: vec![Content::Text("Be kind.".into())],
            messages: vec![Message {
                role: Role::Assistant,
                blocks: vec![Block::Thinking("Hm."), Block::ToolUse { name: "look", input: "{}" }, Block::Other("{}")],
            }],
        };
        let laid = builtin().lay(&input).unwrap();
        let tokenizer = Tokenizer::builtin().unwrap();
        let mut expected = Vec::new();
        let mut part = |separator, text: &str| {
            expected.push(separator);
            tokenizer.encode(text, &mut expected);
            u32::try_from(expected.len()).unwrap()
        };
        part(separator::TOOL, "look");
        part(separator::DESCRIPTION, "Looks.");
        let tools = part(separator::SCHEMA, "{}");
        let system = part(separator::SYSTEM, "Be kind.") - tools;
        part(separator::ROLE_ASSISTANT, "");
        part(separator::THINKING, "Hm.");
        part(separator::TOOL_USE, "look");
        part(separator::INPUT, "{}");
        part(separator::OTHER, "{}");
        assert_eq!(laid, Laid { tokens: expected, tools, system });
    }

    #[test]
    fn fields_do_not_flow_into_each_other() {
        let tool =
            |name, description| Prompt { tools: vec![Tool { name, description, schema: "" }], ..Prompt::default() };
        assert_ne!(builtin().lay(&tool("ab", "c")), builtin().lay(&tool("a", "bc")));
        let result = |inside: &[&'static str], after: &[&'static str]| {
            let text = |text: &&'static str| Content::Text((*text).into());
            let blocks = std::iter::once(Block::ToolResult(inside.iter().map(text).collect()));
            let blocks = blocks.chain(after.iter().map(text).map(Block::Content)).collect();
            Prompt { messages: vec![Message { role: Role::User, blocks }], ..Prompt::default() }
        };
        assert_ne!(builtin().lay(&result(&["a", "b"], &[])), builtin().lay(&result(&["a"], &["b"])));
    }

    #[test]
    fn equal_media_share_and_different_ones_part_at_once() {
        let media = |key, tokens| Prompt { system: vec![Content::Media { key, tokens }], ..Prompt::default() };
        let lay = |key, tokens| builtin().lay(&media(key, tokens)).unwrap().tokens;
        assert_eq!(lay([1; 16], 40), lay([1; 16], 40));
        assert_eq!(lay([1; 16], 40)[..21], lay([1; 16], 20)[..]);
        assert_ne!(lay([1; 16], 1), lay([2; 16], 1));
        assert!(lay([1; 16], 999)[1..].iter().all(|token| (0x8000_0000..SEPARATOR_BASE).contains(token)));
    }
}
