//! From a request body to the prompt that a layout sees: the normalizers.
//!
//! Invariant: what moves from turn to turn without changing what the model reads (cache markers, the billing block, the form of a
//! message) leaves no trace in the prompt; each rewriting is counted.

use std::borrow::Cow;

use crate::tokenize::{self, Content};
use crate::wire::anthropic::{Block, ContentBlock, Message, MessagesRequest, Role};

use super::key::{Tag, Tagger};

impl Normalized {
    /// Adds up.
    pub(super) fn add(&mut self, other: &Self) {
        self.cache_control += other.cache_control;
        self.billing_header += other.billing_header;
        self.thinking_signature += other.thinking_signature;
        self.media += other.media;
    }
}

/// The block that Claude Code puts first, which may change on every request.
pub(super) const BILLING: &str = "x-anthropic-billing-header";

/// How often each rewriting was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Normalized {
    /// `cache_control` markers dropped.
    pub cache_control: u64,
    /// Billing blocks dropped.
    pub billing_header: u64,
    /// Signatures of thinking dropped.
    pub thinking_signature: u64,
    /// Images and documents replaced by pseudo-content.
    pub media: u64,
}

/// What stands before the messages of a request: its tools and its system prompt.
pub(super) fn head<'a>(
    request: &'a MessagesRequest<'a>,
    tagger: &Tagger,
    counts: &mut Normalized,
) -> tokenize::Prompt<'a> {
    let tools = request.tools.iter();
    let tools =
        tools.map(|tool| tokenize::Tool { name: &tool.name, description: &tool.description, schema: &tool.schema });
    let system = request.system.iter().filter_map(content_of);
    let (billing, system): (Vec<_>, Vec<_>) = system.partition(|block| is_billing(block));
    counts.billing_header += u64::try_from(billing.len()).unwrap_or(u64::MAX);
    let system = system.into_iter().map(|block| content(block, tagger, counts)).collect();
    tokenize::Prompt { tools: tools.collect(), system, messages: Vec::new() }
}

/// A prompt of one message.
pub(super) fn of_message<'a>(
    message: &'a Message<'a>,
    tagger: &Tagger,
    counts: &mut Normalized,
) -> tokenize::Prompt<'a> {
    tokenize::Prompt { messages: vec![laid_message(message, tagger, counts)], ..tokenize::Prompt::default() }
}

/// A message as a layout sees it.
pub(super) fn laid_message<'a>(
    message: &'a Message<'a>,
    tagger: &Tagger,
    counts: &mut Normalized,
) -> tokenize::Message<'a> {
    tokenize::Message {
        role: match message.role {
            Role::User => tokenize::Role::User,
            Role::Assistant => tokenize::Role::Assistant,
            Role::System => tokenize::Role::System,
        },
        blocks: message
            .blocks
            .iter()
            .map(|block| match block {
                Block::Content(ContentBlock::Other(raw)) => tokenize::Block::Other(raw),
                Block::Content(block) => tokenize::Block::Content(content(block, tagger, counts)),
                Block::Thinking(text) => tokenize::Block::Thinking(text),
                Block::ToolUse { name, input, .. } => tokenize::Block::ToolUse { name, input },
                Block::ToolResult { content: blocks, .. } => {
                    tokenize::Block::ToolResult(blocks.iter().map(|block| content(block, tagger, counts)).collect())
                }
            })
            .collect(),
    }
}

fn content<'a>(block: &'a ContentBlock<'a>, tagger: &Tagger, counts: &mut Normalized) -> Content<'a> {
    match block {
        ContentBlock::Text(text) | ContentBlock::Other(text) => Content::Text(Cow::Borrowed(text)),
        ContentBlock::Image(source) => {
            counts.media += 1;
            Content::Media { key: tagger.text(source).0, tokens: image_tokens(source) }
        }
        ContentBlock::Document(source) => {
            counts.media += 1;
            Content::Media { key: tagger.text(source).0, tokens: document_tokens(source) }
        }
    }
}

/// How many parts each tool result of a message has: what of its form [`message_tag`] does not tell, but a prompt shows.
pub(super) fn parts_of_results(message: &Message<'_>) -> Vec<usize> {
    let parts = message.blocks.iter().filter_map(|block| match block {
        Block::ToolResult { content, .. } => Some(content.len()),
        Block::Content(_) | Block::Thinking(_) | Block::ToolUse { .. } => None,
    });
    parts.collect()
}

/// Tells a message from others in its place: who speaks, and every block; a text beside a tool result is as one in it.
pub(super) fn message_tag(message: &Message<'_>, tagger: &Tagger) -> Tag {
    let mut fields: Vec<Cow<'_, [u8]>> = vec![Cow::Borrowed(match message.role {
        Role::User => &b"user"[..],
        Role::Assistant => b"assistant",
        Role::System => b"system",
    })];
    for block in &message.blocks {
        match block {
            Block::Content(block) => push_content(&mut fields, block),
            Block::Thinking(text) => fields.extend([Cow::Borrowed(&b"thinking"[..]), text_bytes(text)]),
            Block::ToolUse { id, name, input } => {
                fields.extend([Cow::Borrowed(&b"call"[..]), text_bytes(id), text_bytes(name), text_bytes(input)]);
            }
            Block::ToolResult { id, content, is_error } => {
                fields.extend([Cow::Borrowed(&b"result"[..]), text_bytes(id), Cow::Owned(vec![u8::from(*is_error)])]);
                for block in content {
                    push_content(&mut fields, block);
                }
            }
        }
    }
    tagger.tag(fields.iter().map(|field| &**field))
}

fn push_content<'a>(fields: &mut Vec<Cow<'a, [u8]>>, block: &'a ContentBlock<'_>) {
    let (kind, text): (&'static [u8], _) = match block {
        ContentBlock::Text(text) => (b"text", text),
        ContentBlock::Image(text) => (b"image", text),
        ContentBlock::Document(text) => (b"document", text),
        ContentBlock::Other(text) => (b"other", text),
    };
    fields.extend([Cow::Borrowed(kind), text_bytes(text)]);
}

fn text_bytes(text: &str) -> Cow<'_, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

fn content_of<'a>(block: &'a Block<'a>) -> Option<&'a ContentBlock<'a>> {
    match block {
        Block::Content(content) => Some(content),
        Block::Thinking(_) | Block::ToolUse { .. } | Block::ToolResult { .. } => None,
    }
}

fn is_billing(block: &ContentBlock<'_>) -> bool {
    matches!(block, ContentBlock::Text(text) if text.starts_with(BILLING))
}

/// About what providers count for an image: its area over 750, from the size in a PNG header, else by its bytes; 1,600 at most.
fn image_tokens(source: &str) -> u32 {
    let data = base64_data(source);
    let png = data.starts_with("iVBORw0KGgo").then(|| png_area(data)).flatten();
    png.map_or_else(|| length(data) / 700, |area| area / 750).clamp(64, 1600)
}

/// About what providers count for a document: a page is some 2,000 tokens and 40 kB.
fn document_tokens(source: &str) -> u32 {
    (length(base64_data(source)) / 27).clamp(256, 200_000)
}

fn base64_data(source: &str) -> &str {
    let data = source.split_once("\"data\":\"").map_or(source, |(_, data)| data);
    data.split_once('"').map_or(data, |(data, _)| data)
}

fn png_area(data: &str) -> Option<u32> {
    use base64::Engine;
    let head = base64::engine::general_purpose::STANDARD.decode(data.get(..32)?).ok()?;
    let side = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    Some(side(16)?.saturating_mul(side(20)?))
}

fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}
