//! What the messages that are new in a request bring: results of tools, notifications, and whether a person wrote.
//!
//! Invariant: harness marks count only in their places; see [`super::markers`].

use crate::wire::anthropic::{Block, ContentBlock, Message, Role};

use super::draft::{Notice, Tally, ToolResult};
use super::key::Tagger;
use super::markers;

/// What is new.
#[derive(Default)]
pub(super) struct News {
    pub(super) results: Vec<ToolResult>,
    pub(super) notices: Vec<Notice>,
    /// A person wrote something.
    pub(super) user_text: bool,
}

impl News {
    /// Of the messages from number `first` on: those that no request had before (from `seen` on), and in any case those after the
    /// last answer (from `answered` on).
    pub(super) fn of(
        messages: &[Message<'_>],
        first: usize,
        seen: usize,
        answered: usize,
        tagger: &Tagger,
        mut count: impl FnMut(&str) -> u32,
    ) -> Self {
        let mut news = Self::default();
        let (mut interrupted, mut returned) = (false, false);
        let new =
            (first..).zip(messages).filter(|(at, message)| *at >= seen.min(answered) && message.role == Role::User);
        for (at, block) in new.flat_map(|(at, message)| message.blocks.iter().map(move |block| (at, block))) {
            match block {
                Block::ToolResult { id, is_error, content } => {
                    returned |= at >= answered;
                    let found = markers::agent_result(content_texts(content));
                    news.results.push(ToolResult {
                        call: tagger.text(id),
                        is_error: *is_error,
                        outcome: found.outcome,
                        agent: found.agent.map(|agent| tagger.text(agent)),
                        tally: Tally { total_tokens: found.total_tokens, tool_calls: found.tool_calls },
                        tokens: content_texts(content).map(&mut count).fold(0, u32::saturating_add),
                    });
                }
                Block::Content(ContentBlock::Text(text)) => {
                    let notices = markers::notifications(text);
                    let by_harness = !notices.is_empty() || markers::is_reminder(text) || markers::is_interrupt(text);
                    interrupted |= markers::is_interrupt(text);
                    news.user_text |= at >= answered && !by_harness;
                    news.notices.extend(notices.into_iter().map(|notice| Notice {
                        task: tagger.text(notice.task),
                        call: notice.call.map(|call| tagger.text(call)),
                        failed: notice.failed,
                        tally: Tally { total_tokens: notice.total_tokens, tool_calls: notice.tool_calls },
                    }));
                }
                Block::Content(_) => news.user_text |= at >= answered,
                Block::Thinking(_) | Block::ToolUse { .. } => {}
            }
        }
        // Text beside tool results is the harness's reminder, unless the user stopped the tools.
        news.user_text &= interrupted || !returned;
        news
    }
}

fn content_texts<'a>(blocks: &'a [ContentBlock<'a>]) -> impl Iterator<Item = &'a str> {
    blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(&**text),
        ContentBlock::Image(_) | ContentBlock::Document(_) | ContentBlock::Other(_) => None,
    })
}
