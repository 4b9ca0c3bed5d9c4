//! [`Wrapping`]: the tokens that a chat template puts around what is said, found by rendering probes.
//!
//! Invariant: for every conversation, user first and last, the rendered tokens are `head`, then what is said, with `open` before
//! each answer, `turn` after it, and `end` at the end. A template of which that is not true is refused.

use crate::tokenize::{Block, Content, Layout, LayoutError, Message, Prompt, Role, Token, Tokenizer};

use super::vocabulary::Vocabulary;

/// What a chat template does that prompts of exact shape cannot be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It raised an error.
    #[error(
        "the chat template refuses a plain conversation of user and assistant; send token ids or plain text instead"
    )]
    Refuses,
    /// What was said is not in the rendered prompt as it was.
    #[error(
        "the chat template changes what is said, so that no exact prompt can be laid out; send token ids or plain text"
    )]
    Changes,
    /// The same kind of turn is rendered in different ways.
    #[error("the chat template rewrites earlier turns as a conversation grows; send token ids or plain text instead")]
    Rewrites,
}

impl From<LayoutError> for TemplateError {
    fn from(_: LayoutError) -> Self {
        Self::Refuses
    }
}

/// The template's own tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wrapping {
    /// Before the first message's content: every prompt begins with them.
    pub head: Vec<Token>,
    /// Between what the user and what the assistant says.
    pub open: Vec<Token>,
    /// Between what the assistant and what the user says.
    pub turn: Vec<Token>,
    /// After the last message's content.
    pub end: Vec<Token>,
    /// How many of the last tokens of `end` are not repeated in `open`, when the answer has come to stand behind it: later
    /// prompts cannot share them.
    pub forgotten: u32,
    /// What answers in history begin with, so that a generation prompt that the template would forget is repeated.
    pub echo: String,
    /// Whether the template shows the reasoning of earlier answers.
    pub keeps_thinking: bool,
}

/// Lengths of the parts of a [`Wrapping`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) head: u32,
    pub(super) open: u32,
    pub(super) turn: u32,
    pub(super) end: u32,
    pub(super) forgotten: u32,
    /// The least that a message says.
    pub(super) least: u32,
}

impl Lengths {
    /// What lies between the end of a prompt and the end of the next, at least.
    pub(super) fn step(self) -> u32 {
        self.open + self.least + self.turn + self.least
    }
}

impl Wrapping {
    /// No template; `head` tokens that the endpoint puts in front.
    pub(super) fn plain(head: u32) -> Self {
        Self { head: zeros(head), ..Self::default() }
    }

    /// A template of which only lengths are known.
    pub(super) fn counted(head: u32, open: u32, turn: u32, end: u32) -> Self {
        let [head, open, turn, end] = [head, open, turn, end].map(zeros);
        Self { head, open, turn, end, ..Self::default() }
    }

    /// Whether there is nothing between messages.
    pub(super) fn is_plain(&self) -> bool {
        self.open.is_empty() && self.turn.is_empty() && self.end.is_empty()
    }

    pub(super) fn lengths(&self) -> Lengths {
        let count = |part: &Vec<Token>| u32::try_from(part.len()).unwrap_or(u32::MAX);
        Lengths {
            head: count(&self.head),
            open: count(&self.open),
            turn: count(&self.turn),
            end: count(&self.end),
            forgotten: self.forgotten,
            least: u32::from(!self.is_plain()),
        }
    }

    /// Finds the template's own tokens.
    ///
    /// # Errors
    /// Where the template does not lay out every turn alike.
    pub(super) fn probe(
        layout: &mut dyn Layout,
        tokenizer: &Tokenizer,
        words: &Vocabulary,
    ) -> Result<Self, TemplateError> {
        let mut found = Self::with_echo(layout, words, "")?;
        if found.forgotten > 0 {
            // The generation prompt says more than history does: let answers say it.
            let kept = found.end.len().saturating_sub(usize::try_from(found.forgotten).unwrap_or(0));
            let echo = tokenizer.decode(found.end.get(kept..).unwrap_or_default());
            if let Ok(echoing) = Self::with_echo(layout, words, &echo)
                && echoing.forgotten == 0
            {
                found = echoing;
            }
        }
        found.keeps_thinking = keeps_thinking(layout, words);
        Ok(found)
    }

    /// The tokens of an answer where it stands in a prompt; none if the template shows something else around it.
    pub(super) fn answer(&self, layout: &mut dyn Layout, words: &Vocabulary, answer: &str) -> Option<Vec<Token>> {
        let [asked, next] = [Said::new(words, 0), Said::new(words, 2)];
        let texts = [asked.text, format!("{}{answer}", self.echo), next.text];
        let laid = lay_turns(layout, &texts).ok()?;
        let rest = laid.strip_prefix(&*self.head)?.strip_prefix(&*asked.tokens)?.strip_prefix(&*self.open)?;
        let rest = rest.strip_suffix(&*self.end)?.strip_suffix(&*next.tokens)?.strip_suffix(&*self.turn)?;
        Some(rest.to_vec())
    }

    fn with_echo(layout: &mut dyn Layout, words: &Vocabulary, echo: &str) -> Result<Self, TemplateError> {
        let said: Vec<Said> = (0..7).map(|number| Said::new(words, number)).collect();
        let mut lay = |turns: usize| -> Result<Vec<Vec<Token>>, TemplateError> {
            let texts: Vec<String> = said
                .iter()
                .take(turns)
                .enumerate()
                .map(|(at, said)| if at % 2 == 1 { format!("{echo}{}", said.text) } else { said.text.clone() })
                .collect();
            split(&lay_turns(layout, &texts)?, said.get(..turns).unwrap_or_default()).ok_or(TemplateError::Changes)
        };
        let [one, two, long] = [lay(1)?, lay(3)?, lay(7)?];
        let part = |at: usize| two.get(at).cloned().unwrap_or_default();
        let [head, open, turn, end] = [part(0), part(1), part(2), part(3)];
        let (first, last) = (std::slice::from_ref(&head), std::slice::from_ref(&end));
        let turns = [open.clone(), turn.clone()];
        let regular = |turns: &[Vec<Token>]| [first, turns, last].concat();
        if one != regular(&[]) || long != regular(&[&turns[..], &turns[..], &turns[..]].concat()) {
            return Err(TemplateError::Rewrites);
        }
        let kept = end.iter().zip(&open).take_while(|(end, open)| end == open).count();
        let forgotten = u32::try_from(end.len() - kept).unwrap_or(u32::MAX);
        Ok(Self { head, open, turn, end, forgotten, echo: echo.to_owned(), keeps_thinking: true })
    }
}

fn zeros(count: u32) -> Vec<Token> {
    vec![0; usize::try_from(count).unwrap_or(0)]
}

/// A text of a few words, none of which another one has.
struct Said {
    text: String,
    tokens: Vec<Token>,
}

impl Said {
    /// From the end of the vocabulary, whose words no template writes. Odd ones are as short as can be.
    fn new(words: &Vocabulary, number: usize) -> Self {
        let at = |place: usize| words.size().saturating_sub(1 + 4 * number + place);
        let more = if number % 2 == 1 { 1..1 } else { 1..4 };
        let rest = more.clone().filter_map(|place| words.word(at(place)));
        let tokens = words.starter(at(0)).into_iter().chain(rest).map(|word| word.id).collect();
        Self { text: words.text(std::iter::once(at(0)).chain(more.map(at))), tokens }
    }
}

/// The rendered tokens of a conversation, user first.
pub(super) fn lay_turns(layout: &mut dyn Layout, texts: &[impl AsRef<str>]) -> Result<Vec<Token>, LayoutError> {
    let messages = texts.iter().enumerate().map(|(at, text)| Message {
        role: if at % 2 == 1 { Role::Assistant } else { Role::User },
        blocks: vec![Block::Content(Content::Text(text.as_ref().into()))],
    });
    Ok(layout.lay(&Prompt { messages: messages.collect(), ..Prompt::default() })?.tokens)
}

/// What stands around the texts, one part more than there are texts.
fn split(tokens: &[Token], said: &[Said]) -> Option<Vec<Vec<Token>>> {
    let mut parts = Vec::new();
    let mut rest = tokens;
    for said in said {
        let at = rest.windows(said.tokens.len()).position(|window| window == said.tokens)?;
        parts.push(rest.get(..at)?.to_vec());
        rest = rest.get(at + said.tokens.len()..)?;
    }
    parts.push(rest.to_vec());
    Some(parts)
}

fn keeps_thinking(layout: &mut dyn Layout, words: &Vocabulary) -> bool {
    let [asked, thought, answered] = [0, 2, 4].map(|number| Said::new(words, number));
    let text = |said: &Said| Block::Content(Content::Text(said.text.clone().into()));
    let messages = vec![
        Message { role: Role::User, blocks: vec![text(&asked)] },
        Message { role: Role::Assistant, blocks: vec![Block::Thinking(&thought.text), text(&answered)] },
        Message { role: Role::User, blocks: vec![text(&asked)] },
    ];
    let laid = layout.lay(&Prompt { messages, ..Prompt::default() });
    laid.is_ok_and(|laid| laid.tokens.windows(thought.tokens.len()).any(|window| window == thought.tokens))
}
