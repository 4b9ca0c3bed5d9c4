//! [`Stream`]: one prompt, from the plan to messages, text or tokens.
//!
//! Invariant: messages and tokens come from the same spans; rendering the messages gives the tokens.

use std::sync::Arc;

use crate::tokenize::{Role, Token};

use super::content::{Content, Cursor};
use super::layout::{Mark, PromptTree, Real};
use super::recent::Made;
use super::wrapping::Wrapping;
use super::{ChatMessage, History};

/// What one message says.
#[derive(Clone, Debug)]
struct Span {
    role: Role,
    from: u32,
    to: u32,
    real: Option<Arc<Real>>,
}

impl Span {
    fn is(&self, other: &Self) -> bool {
        let real = match (&self.real, &other.real) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (one, two) => one.is_none() && two.is_none(),
        };
        real && (self.role, self.from, self.to) == (other.role, other.from, other.to)
    }
}

/// What the messages of a prompt follow from.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    spans: Vec<Span>,
    /// Who owns its blocks.
    owners: Vec<(u32, usize)>,
}

impl Shape {
    /// How many leading messages are the same in another prompt of the tree.
    fn alike(&self, other: &Self, block_size: u32) -> usize {
        let (one, two) = (&self.owners, &other.owners);
        let same = one.iter().zip(two).take_while(|(one, two)| one == two).count();
        let parts = [one, two].into_iter().filter_map(|owners| owners.get(same)).map(|(block, _)| *block).min();
        let to = parts.unwrap_or(u32::MAX).saturating_mul(block_size);
        self.spans.iter().zip(&other.spans).take_while(|(one, two)| one.is(two) && one.to <= to).count()
    }
}

/// A planned prompt.
pub(super) struct Stream<'a> {
    tree: &'a PromptTree,
    node: usize,
    shape: Shape,
    /// Answers in it that were not as long as the trace says, or could not be put in.
    pub(super) corrected: u32,
}

impl<'a> Stream<'a> {
    pub(super) fn new(tree: &'a PromptTree, node: usize, history: History) -> Self {
        let lengths = tree.lengths;
        let end = tree.end(node);
        let shape = Shape { spans: Vec::new(), owners: tree.block_owners(node) };
        let mut stream = Self { tree, node, shape, corrected: 0 };
        let spans = &mut stream.shape.spans;
        let mut from = lengths.head;
        let marks = marks(tree, node);
        for (at, &(mark, heir_to)) in marks.iter().enumerate() {
            let next = marks.get(at + 1).map_or(end, |(next, _)| next.at);
            spans.push(Span { role: Role::User, from, to: mark.at, real: None });
            let open = mark.at + lengths.open;
            let mut turn = mark.turn(lengths).min(next);
            let real = mark.real.as_ref().filter(|_| history == History::Generated);
            // A real answer must end where the path still follows the one that it belongs to, and leave room for the user.
            let fits = real.and_then(|real| {
                let ends = open.checked_add(u32::try_from(real.tokens.len()).ok()?)?;
                let room = ends + lengths.turn + lengths.least <= next;
                (room && heir_to.is_some_and(|to| ends <= to)).then_some((real, ends))
            });
            stream.corrected += u32::from(real.is_some() && fits.is_none_or(|(_, ends)| ends != turn));
            turn = fits.map_or(turn, |(_, ends)| ends);
            let real = fits.map(|(real, _)| Arc::clone(real));
            spans.push(Span { role: Role::Assistant, from: open, to: turn, real });
            from = turn + lengths.turn;
        }
        spans.push(Span { role: Role::User, from, to: end, real: None });
        stream
    }

    /// Its length in tokens, as rendered.
    pub(super) fn length(&self) -> u32 {
        self.tree.node(self.node).map_or(0, |node| node.length)
    }

    pub(super) fn node(&self) -> usize {
        self.node
    }

    /// What its messages follow from.
    pub(super) fn shape(&self) -> Shape {
        self.shape.clone()
    }

    /// Its messages, each with where the writing stands behind it. Those that it shares with a prompt that was made `before` are
    /// that one's; says whether they are all of that one's.
    pub(super) fn messages(
        &self,
        wrapping: &Wrapping,
        content: &Content,
        before: Option<&Made>,
    ) -> (Vec<(ChatMessage, Cursor)>, bool) {
        let Shape { spans, owners } = &self.shape;
        let alike = before.map_or(0, |before| self.shape.alike(&before.shape, self.tree.block_size));
        let taken = before.and_then(|before| before.messages.get(..alike)).unwrap_or_default();
        let mut cursor = taken.last().map_or_else(Cursor::default, |(_, cursor)| *cursor);
        let mut messages = Vec::with_capacity(spans.len());
        messages.extend_from_slice(taken);
        for (at, span) in spans.iter().enumerate().skip(taken.len()) {
            let mut text = Vec::new();
            if span.role == Role::Assistant {
                text.extend_from_slice(wrapping.echo.as_bytes());
            }
            if let Some(real) = &span.real {
                text.extend_from_slice(real.text.as_bytes());
            } else {
                text.reserve(content.room(span.to.saturating_sub(span.from)));
                let opens = at == 0 || !wrapping.is_plain();
                let places = (span.from, span.to);
                content.write(self.tree, owners, places, opens, &mut cursor, |word| word.append(&mut text));
            }
            let content = String::from_utf8(text)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
                .into();
            messages.push((ChatMessage { role: span.role, content }, cursor));
        }
        (messages, before.is_some_and(|before| taken.len() == before.messages.len()))
    }

    /// The tokens of the rendered prompt.
    pub(super) fn tokens(&self, wrapping: &Wrapping, content: &Content) -> Vec<Token> {
        self.tokens_within(0, u32::MAX, wrapping, content)
    }

    /// Those from `from`, where a block begins, to before `to`.
    fn tokens_within(&self, from: u32, to: u32, wrapping: &Wrapping, content: &Content) -> Vec<Token> {
        let mut out = Vec::new();
        let mut cursor = Cursor::default();
        let known = |out: &mut Vec<Token>, place: u32, tokens: &[Token]| {
            let inside = |(at, _): &(u32, &Token)| (from..to).contains(at);
            out.extend((place..).zip(tokens).filter(inside).map(|(_, token)| *token));
        };
        known(&mut out, 0, &wrapping.head);
        for (at, span) in self.shape.spans.iter().enumerate() {
            let before: &[Token] = match (at, span.role) {
                (0, _) => &[],
                (_, Role::Assistant) => &wrapping.open,
                _ => &wrapping.turn,
            };
            known(&mut out, span.from.saturating_sub(u32::try_from(before.len()).unwrap_or(0)), before);
            if let Some(real) = &span.real {
                known(&mut out, span.from, &real.tokens);
            } else {
                let opens = (at == 0 || !wrapping.is_plain()) && span.from >= from;
                let places = (span.from.max(from), span.to.min(to));
                content.write(self.tree, &self.shape.owners, places, opens, &mut cursor, |word| out.push(word.id));
            }
        }
        known(&mut out, self.tree.end(self.node), &wrapping.end);
        out
    }

    /// How many leading tokens this prompt shares with another one of the tree. They are alike up to where their paths part;
    /// what follows is compared.
    pub(super) fn shared_with(&self, other: &Self, wrapping: &Wrapping, content: &Content) -> u32 {
        let mut alike = 0;
        for (one, two) in self.tree.path(self.node).iter().zip(&self.tree.path(other.node)) {
            if one.node != two.node {
                break;
            }
            alike = one.to.min(two.to);
            if one.to != two.to {
                break;
            }
        }
        let size = self.tree.block_size;
        let from = alike.min(self.tree.end(self.node)).min(self.tree.end(other.node)) / size * size;
        let to = from.saturating_add(4 * size + 4 * u32::try_from(wrapping.open.len()).unwrap_or(0));
        let [one, two] = [self, other].map(|stream| stream.tokens_within(from, to, wrapping, content));
        let common = one.iter().zip(&two).take_while(|(one, two)| one == two).count();
        from + u32::try_from(common).unwrap_or(0)
    }
}

/// The marks that a prompt goes on behind, and up to where its path is that of the mark's heir, if it is.
fn marks(tree: &PromptTree, node: usize) -> Vec<(&Mark, Option<u32>)> {
    let end = tree.end(node);
    let path = tree.path(node);
    let mut marks = Vec::new();
    for piece in &path {
        let Some(own) = tree.node(piece.node) else { continue };
        let seen = PromptTree::seen(own, piece.to);
        for mark in own.marks.iter().take(seen).filter(|mark| mark.at < end) {
            // Nodes stand behind those above them.
            let heir = mark.heir.and_then(|heir| path.get(path.binary_search_by_key(&heir, |piece| piece.node).ok()?));
            let place = mark.at + tree.lengths.open;
            // The last piece may go on to the end of the prompt.
            marks.push((mark, heir.filter(|heir| (heir.from..=heir.to).contains(&place)).map(|heir| heir.to)));
        }
    }
    marks
}
