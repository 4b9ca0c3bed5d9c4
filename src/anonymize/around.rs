//! What a body says outside its messages; and tools and system prompts that were seen before.
//!
//! Invariant: what is known of tools and system prompt is used again only where both are equal, byte for byte.

use std::collections::VecDeque;

use crate::capture::Text;
use crate::trace::Model;
use crate::wire::anthropic::{MessagesRequest, Outline};

use super::chains::Prompt;
use super::draft::{ModelName, Shape};
use super::key::{Tag, Tagger};
use super::markers;
use super::prompt::{self, Normalized};
use super::reading::texts;

/// What a body says outside its messages.
#[derive(Clone)]
pub(super) struct Around {
    pub(super) model: ModelName,
    pub(super) session: Option<Tag>,
    pub(super) shape: Shape,
    pub(super) system: Tag,
    /// The system prompt is that of a workflow's agent.
    pub(super) workflow: bool,
    pub(super) max_tokens: Option<u32>,
    pub(super) stream: bool,
    pub(super) tools_tokens: u32,
    pub(super) system_tokens: u32,
    pub(super) dropped: Normalized,
}

impl Around {
    /// What a request says; the lengths of its tools and system prompt come with its layout.
    pub(super) fn of(request: &MessagesRequest<'_>, tagger: &Tagger) -> Self {
        let serves_search = request.tools.iter().any(|tool| tool.kind.starts_with("web_search"));
        let system = texts(&request.system).filter(|text| !text.starts_with(prompt::BILLING)).map(str::as_bytes);
        let session = request.user_id.as_deref().and_then(markers::session_of_user_id);
        Self {
            model: Model::recognize(&request.model)
                .map_or_else(|| ModelName::Unlisted(tagger.text(&request.model)), ModelName::Listed),
            session: session.map(|session| tagger.session(&session.to_ascii_lowercase())),
            shape: match () {
                () if texts(&request.system).any(markers::is_summarizer) => Shape::Compaction,
                () if serves_search && request.tools.iter().all(|tool| !tool.kind.is_empty()) => Shape::Side,
                () if request.tools.is_empty() => Shape::Bare,
                () => Shape::Thread,
            },
            system: tagger.tag(system),
            workflow: texts(&request.system).any(markers::is_workflow_agent),
            max_tokens: request.max_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            stream: request.stream == Some(true),
            tools_tokens: 0,
            system_tokens: 0,
            dropped: Normalized::default(),
        }
    }

    /// The same with what follows from the tools and the system prompt of another request.
    pub(super) fn with_head_of(self, other: &Self) -> Self {
        let Self { model, session, max_tokens, stream, .. } = self;
        Self { model, session, max_tokens, stream, ..other.clone() }
    }
}

/// The latest tools and system prompts.
pub(super) struct Heads {
    /// The latest first.
    known: VecDeque<Head>,
    most: usize,
}

struct Head {
    tools: Text,
    system: Text,
    around: Around,
    /// The prompt up to its messages.
    begin: Prompt,
}

/// Main agent, subagents of a few kinds, side requests; of two or three sessions.
const HEADS: usize = 16;

/// Larger ones are not kept.
const LARGEST: usize = 1 << 20;

impl Heads {
    /// Keeps none if `reuse` is 0.
    pub(super) fn new(reuse: usize) -> Self {
        Self { known: VecDeque::new(), most: if reuse == 0 { 0 } else { HEADS } }
    }

    /// What is known of the tools and system prompt of a request.
    pub(super) fn find(&self, outline: &Outline<'_>) -> Option<(&Around, &Prompt)> {
        let (tools, system) = parts(outline)?;
        let is_known = |head: &&Head| head.tools.as_bytes() == tools && head.system.as_bytes() == system;
        self.known.iter().find(is_known).map(|head| (&head.around, &head.begin))
    }

    /// Keeps what became known of them.
    pub(super) fn keep(&mut self, outline: &Outline<'_>, around: &Around, begin: &Prompt) {
        // One with a billing block never comes again.
        let lasts = self.most > 0 && around.dropped.billing_header == 0;
        let fits = |(tools, system): &(&[u8], &[u8])| lasts && tools.len() + system.len() <= LARGEST;
        if let Some((tools, system)) = parts(outline).filter(fits) {
            let text = |bytes: &[u8]| Text::from(bytes.to_vec());
            let head = Head { tools: text(tools), system: text(system), around: around.clone(), begin: begin.clone() };
            self.known.truncate(self.most - 1);
            self.known.push_front(head);
        }
    }
}

/// Tools and system prompt as they stand in a body.
fn parts<'a>(outline: &Outline<'a>) -> Option<(&'a [u8], &'a [u8])> {
    outline.messages?;
    let bytes = |part: Option<&'a serde_json::value::RawValue>| part.map_or(&b""[..], |raw| raw.get().as_bytes());
    Some((bytes(outline.tools), bytes(outline.system)))
}
