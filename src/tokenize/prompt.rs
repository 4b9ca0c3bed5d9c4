//! A prompt as a layout sees it: tools, system, messages, in the order in which the cache sees them.
//!
//! Invariant: everything is borrowed; a layout keeps tokens, never text.

/// What a request sends to the model.
#[derive(Clone, Default)]
pub struct Prompt<'a> {
    /// Tool definitions, in order.
    pub tools: Vec<Tool<'a>>,
    /// Texts of the system prompt, in order.
    pub system: Vec<Content<'a>>,
    /// Messages, in order.
    pub messages: Vec<Message<'a>>,
}

/// A tool definition.
#[derive(Clone)]
pub struct Tool<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its description; empty if it has none.
    pub description: &'a str,
    /// Its input schema (or, for a server tool, the whole definition) as JSON, as sent.
    pub schema: &'a str,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The harness, inside the conversation.
    System,
    /// The user, or a tool result on its behalf.
    User,
    /// The model.
    Assistant,
}

/// A message.
#[derive(Clone)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// Its blocks, in order.
    pub blocks: Vec<Block<'a>>,
}

/// A block of a message.
#[derive(Clone)]
pub enum Block<'a> {
    /// Text or media.
    Content(Content<'a>),
    /// The model's thinking.
    Thinking(&'a str),
    /// A tool call.
    ToolUse {
        /// The tool.
        name: &'a str,
        /// Its input as JSON, as sent.
        input: &'a str,
    },
    /// The result of a tool call.
    ToolResult(Vec<Content<'a>>),
    /// A block of another type, as JSON, as sent.
    Other(&'a str),
}

/// Text, or something that is not text.
#[derive(Clone)]
pub enum Content<'a> {
    /// Text.
    Text(std::borrow::Cow<'a, str>),
    /// An image or a document.
    Media {
        /// Tells it from others; equal for equal media.
        key: [u8; 16],
        /// How many tokens it is taken for.
        tokens: u32,
    },
}

/// A prompt as tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// The tokens of the whole prompt.
    pub tokens: Vec<super::Token>,
    /// How many of them are the leading tools part. 0 where a template mixes tools into the rest.
    pub tools: u32,
    /// How many of them are the system part after it. 0 where a template mixes it into the rest.
    pub system: u32,
}

/// Lays a prompt out as tokens.
pub trait Layout: Send {
    /// The tokens of `prompt`.
    ///
    /// # Errors
    /// Where a chat template refuses the prompt; the message never quotes it.
    fn lay(&mut self, prompt: &Prompt<'_>) -> Result<Laid, LayoutError>;

    /// Whether the tokens of a prompt are those of its tools and system, then those of each message, as if laid by itself.
    fn is_additive(&self) -> bool {
        false
    }

    /// How many tokens a text has by itself, if it was laid lately and so is known.
    fn known_length(&self, _text: &str) -> Option<usize> {
        None
    }
}

/// A chat template refused a prompt or could not be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chat template cannot render a prompt of this shape")]
pub struct LayoutError;
