//! What is kept of an exchange once its text is gone.
//!
//! Invariant: counts, times, words of vocabularies, nodes and tags; no text. Everything after [`super::extract`] sees only this.

use crate::capture::{Position, Trust};
use crate::trace::vocab::{AgentKind, AgentType, Harness, Status, Stop, ToolClass};
use crate::trace::{Model, Parts, Usage};

use super::chains::{Node, Prompt};
use super::key::Tag;

/// What the request alone shows of its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    /// A conversation with tools.
    Thread,
    /// A form that only side requests have.
    Side,
    /// No tools.
    Bare,
    /// A thread plus the instruction to summarize it.
    Compaction,
    /// A thread plus the instruction to recap it.
    Recap,
    /// The count_tokens path.
    CountTokens,
}

/// A model as named by a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ModelName {
    /// A public one.
    Listed(Model),
    /// Another one.
    Unlisted(Tag),
}

/// A tool call that an answer made.
pub(super) struct Call {
    pub(super) id: Tag,
    /// The answer named it.
    pub(super) has_id: bool,
    pub(super) class: ToolClass,
    /// Of a call that starts an agent.
    pub(super) spawn: Option<SpawnCall>,
    /// Of a call that speaks to an agent: that agent.
    pub(super) to: Option<Tag>,
    /// When it was whole, in microseconds since the request was sent.
    pub(super) whole_us: Option<u64>,
    pub(super) input_tokens: u32,
}

/// A call that starts an agent or a workflow.
pub(super) struct SpawnCall {
    /// The prompt it gives; for a workflow, each text that its script quotes.
    pub(super) prompts: Vec<Tag>,
    pub(super) agent_type: AgentType,
    pub(super) kind: AgentKind,
}

/// How an agent did, as its harness counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) total_tokens: Option<u32>,
    pub(super) tool_calls: Option<u32>,
}

/// What a tool result says of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The call returned.
    #[default]
    Returned,
    /// Only that an agent was started.
    Launched,
    /// Told to a fork: that it is one.
    ForkStarted,
    /// The user stopped it.
    Interrupted,
}

/// A tool result that a request carries.
pub(super) struct ToolResult {
    pub(super) call: Tag,
    pub(super) is_error: bool,
    pub(super) outcome: Outcome,
    /// The agent that it names.
    pub(super) agent: Option<Tag>,
    pub(super) tally: Tally,
    pub(super) tokens: u32,
}

/// A notification that a task made progress or ended.
pub(super) struct Notice {
    pub(super) task: Tag,
    pub(super) call: Option<Tag>,
    pub(super) failed: bool,
    pub(super) tally: Tally,
}

/// Which parts of an exchange were recorded.
#[derive(Clone, Copy)]
pub(super) struct Recorded {
    pub(super) system: bool,
    pub(super) tools: bool,
    /// Something of its answer.
    pub(super) answer: bool,
}

/// What a request's messages show of an answer that came before it.
pub(super) struct Told {
    /// The last message that the answer followed.
    pub(super) asked: Node,
    pub(super) calls: Vec<Call>,
    pub(super) parts: Parts,
}

/// One exchange.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
pub(super) struct Draft {
    pub(super) position: Position,
    pub(super) session: Option<Tag>,
    pub(super) agent: Option<Tag>,
    pub(super) parent_agent: Option<Tag>,
    /// Of harnesses whose agents have sessions of their own: the session of the agent that started this one.
    pub(super) parent_session: Option<Tag>,
    /// The call that started the agent, where the recorder says so.
    pub(super) spawn_call: Option<Tag>,
    /// Tells the same exchange from another, where the recorder kept an id.
    pub(super) identity: Option<Tag>,
    /// What the provider called it: request and message.
    pub(super) names: Vec<Tag>,
    pub(super) trust: Trust,
    pub(super) recorded: Recorded,
    pub(super) told: Vec<Told>,
    pub(super) harness: Harness,
    pub(super) shape: Shape,
    pub(super) model: ModelName,
    /// The system prompt.
    pub(super) system: Tag,
    /// Its session or agent was named in a header.
    pub(super) by_header: bool,

    /// Microseconds since 1970; wall clock, for order only.
    pub(super) start_us: i64,
    /// Microseconds since the start.
    pub(super) duration_us: Option<u64>,
    /// Microseconds since the start.
    pub(super) ttft_us: Option<u64>,

    pub(super) prompt: Prompt,
    pub(super) tools_tokens: u32,
    pub(super) system_tokens: u32,
    /// The last message, in the tree of messages.
    pub(super) thread: Node,
    pub(super) messages: u32,
    pub(super) streaming: Option<bool>,
    pub(super) max_tokens: Option<u32>,
    pub(super) input_parts: Parts,

    pub(super) status: Status,
    /// The response ended early and nobody recorded on which side.
    pub(super) cut_by_unknown: bool,
    pub(super) stop: Option<Stop>,
    pub(super) usage: Usage,
    pub(super) output_parts: Parts,

    pub(super) calls: Vec<Call>,
    pub(super) results: Vec<ToolResult>,
    pub(super) notices: Vec<Notice>,
    /// A person wrote something new.
    pub(super) user_text: bool,
    /// The thread starts from a summary.
    pub(super) continues: bool,
    /// The last text of the first user message: equals the prompt of the call that started the agent.
    pub(super) opening: Option<Tag>,
    /// The task that a fork or a workflow agent was given.
    pub(super) directive: Option<(AgentKind, Tag)>,
}

impl Draft {
    /// Microseconds since 1970 of the last byte; of the start where no end is known.
    pub(super) fn end_us(&self) -> i64 {
        self.start_us.saturating_add(i64::try_from(self.duration_us.unwrap_or(0)).unwrap_or(i64::MAX))
    }
}
