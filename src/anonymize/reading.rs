//! A conversation read message by message: what is known after each one.
//!
//! Invariant: what is known after a message depends on what stands before the messages and on the messages up to it, so that a
//! body which begins like an earlier one can go on from there.

use crate::tokenize::{Layout, LayoutError};
use crate::trace::Parts;
use crate::trace::vocab::AgentKind;
use crate::wire::anthropic::{Block, ContentBlock, Message, Role};

use super::chains::{Blocks, Chains, Node, Prompt};
use super::key::{Tag, Tagger};
use super::prompt::{self, Normalized};
use super::{draft::Shape, markers};

/// What is known after some messages.
#[derive(Clone, Default)]
pub(super) struct Reading {
    /// The tokens so far; nothing where the layout needs the whole prompt at once.
    pub(super) prompt: Prompt,
    /// The last message, in the tree of messages.
    pub(super) thread: Node,
    /// How many parts each of its tool results has.
    results: Vec<usize>,
    /// How many messages.
    pub(super) messages: usize,
    /// Of those, how many up to the last answer.
    pub(super) answered: usize,
    pub(super) parts: Parts,
    /// The first message of the user, if there was one.
    pub(super) opening: Option<Opening>,
    /// Cache marks in a message: the last such message, and whether more blocks follow its last mark.
    pub(super) marked: Option<(usize, bool)>,
    /// `cache_control` and `signature` members.
    pub(super) dropped: Normalized,
}

/// What the first message of the user says of where a thread comes from.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    /// Its last text.
    pub(super) text: Option<Tag>,
    /// It is the summary of an earlier thread.
    pub(super) continues: bool,
    /// The task of a workflow agent.
    pub(super) task: Option<Tag>,
}

/// What reading a message needs.
pub(super) struct Reader<'a> {
    pub(super) tagger: &'a Tagger,
    pub(super) threads: &'a mut Chains,
    pub(super) blocks: &'a mut Blocks,
    /// Makes tokens message by message; none where the whole prompt is laid at once.
    pub(super) layout: Option<&'a mut dyn Layout>,
}

impl Reading {
    /// Reads the next message, whose bytes are `raw`; `known` is what was known after a message that was read in this place before.
    /// Tells whether no request before had this message in this place.
    pub(super) fn next(
        &mut self,
        message: &Message<'_>,
        raw: &[u8],
        known: Option<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<bool, LayoutError> {
        let (thread, new) = reader.threads.step(self.thread, prompt::message_tag(message, reader.tagger));
        self.thread = thread;
        self.results = prompt::parts_of_results(message);
        if let Some(mut known) = known.filter(|known| known.thread == thread && known.results == self.results) {
            self.prompt = std::mem::take(&mut known.prompt);
            self.dropped.media = known.dropped.media;
        } else {
            let laid = prompt::of_message(message, reader.tagger, &mut self.dropped);
            if let Some(layout) = &mut reader.layout {
                let laid = layout.lay(&laid)?;
                reader.blocks.extend(&mut self.prompt, &laid.tokens, reader.tagger);
            }
        }
        if let Some(mark) = message.last_mark {
            self.marked = Some((self.messages, mark + 1 < message.blocks.len()));
        }
        self.messages += 1;
        if message.role == Role::Assistant {
            self.answered = self.messages;
        }
        if message.role == Role::User && self.opening.is_none() {
            self.opening = Some(Opening {
                text: last_text(&message.blocks).map(|text| reader.tagger.text(text)),
                continues: texts(&message.blocks).any(markers::is_continuation),
                task: texts(&message.blocks)
                    .find_map(markers::workflow_directive)
                    .map(|task| reader.tagger.text(&task)),
            });
        }
        self.parts = message.blocks.iter().fold(self.parts, |parts, block| parts.with(part_of(block)));
        self.dropped.cache_control += count(raw, b"\"cache_control\"");
        self.dropped.thinking_signature += count(raw, b"\"signature\"");
        Ok(new)
    }

    /// Where a thread comes from: by the wrapping of its first message or, for a fork, of its latest, or by its system prompt, which
    /// may be that of a `workflow`.
    pub(super) fn directive(&self, latest: &[Block<'_>], workflow: bool, tagger: &Tagger) -> Option<(AgentKind, Tag)> {
        let fork = last_text(latest).and_then(markers::fork_directive).map(|task| (AgentKind::Fork, tagger.text(task)));
        fork.or_else(|| {
            let opening = self.opening?;
            opening.task.or(opening.text.filter(|_| workflow)).map(|task| (AgentKind::Workflow, task))
        })
    }

    /// What the messages show of the request's purpose: Claude Code marks the end of what a thread will go on from, so a text of the
    /// user (in message `asked`) behind the mark asks something beside it.
    pub(super) fn shape(&self, asked: usize, latest: &[Block<'_>], is_claude: bool) -> Shape {
        let text = last_text(latest).unwrap_or_default();
        let beside = self.marked.is_some_and(|(marked, more)| asked > marked || (asked == marked && more));
        match () {
            () if markers::is_compaction(text) => Shape::Compaction,
            () if markers::is_recap(text) || (is_claude && beside) => Shape::Recap,
            () => Shape::Thread,
        }
    }
}

/// How often a member of this name stands in JSON. Inside a string its quotes would be escaped.
pub(super) fn count(body: &[u8], name: &[u8]) -> u64 {
    u64::try_from(memchr::memmem::find_iter(body, name).count()).unwrap_or(u64::MAX)
}

pub(super) fn texts<'a>(blocks: &'a [Block<'a>]) -> impl DoubleEndedIterator<Item = &'a str> {
    blocks.iter().filter_map(|block| match block {
        Block::Content(ContentBlock::Text(text)) => Some(&**text),
        _ => None,
    })
}

fn last_text<'a>(blocks: &'a [Block<'a>]) -> Option<&'a str> {
    texts(blocks).next_back()
}

pub(super) fn part_of(block: &Block<'_>) -> Parts {
    match block {
        Block::Content(ContentBlock::Text(_)) => Parts::TEXT,
        Block::Content(ContentBlock::Image(_)) => Parts::IMAGE,
        Block::Content(ContentBlock::Document(_)) => Parts::DOCUMENT,
        Block::Content(ContentBlock::Other(_)) => Parts::OTHER,
        Block::Thinking(_) => Parts::THINKING,
        Block::ToolUse { .. } => Parts::TOOL_USE,
        Block::ToolResult { .. } => Parts::TOOL_RESULT,
    }
}
