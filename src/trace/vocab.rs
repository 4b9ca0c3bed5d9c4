//! The closed vocabularies: every word that a trace may hold, as enums.
//!
//! Invariant: a word that is not listed here cannot be written; a reader that meets another word reports it by place, not by value.

use std::fmt;

/// A closed set of words. Implemented by the enums of this module only.
pub trait Vocabulary: Copy + Eq + fmt::Debug + Sized + 'static {
    /// Its name.
    const NAME: &'static str;
    /// Every member, in code order.
    const ALL: &'static [Self];
    /// The word as it stands in a file.
    fn word(self) -> &'static str;
    /// The member with this word.
    fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|member| member.word() == word)
    }
}

macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$member_doc])* $member),+ }

        impl Vocabulary for $name {
            const NAME: &'static str = stringify!($name);
            const ALL: &'static [Self] = &[$(Self::$member),+];
            fn word(self) -> &'static str {
                match self { $(Self::$member => $word),+ }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.word())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(WordVisitor::<Self>(std::marker::PhantomData))
            }
        }
    };
}

/// Reads a vocabulary word; its error never quotes what it read.
struct WordVisitor<V>(std::marker::PhantomData<V>);

impl<V: Vocabulary> serde::de::Visitor<'_> for WordVisitor<V> {
    type Value = V;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a word of the closed vocabulary")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<V, E> {
        V::parse(word).ok_or_else(|| E::custom("a word outside the closed vocabulary"))
    }
}

mod foreign;

pub use foreign::{Anomaly, Inferred, Loss, SourceFormat};

vocabulary! {
    /// What a request was for.
    RequestKind {
        /// A turn of an agent's conversation.
        Turn = "turn",
        /// A side request of the harness: title, topic, classifier, web search, hook and the like.
        Auxiliary = "auxiliary",
        /// The whole thread plus one instruction to sum up where things stand; the thread goes on unchanged.
        Recap = "recap",
        /// The whole thread plus one instruction to summarize it; the thread starts again from the answer.
        Compaction = "compaction",
        /// A token count; prefills nothing.
        CountTokens = "count_tokens",
    }
}

vocabulary! {
    /// How a request ended.
    Status {
        /// The answer came whole.
        Ok = "ok",
        /// The client closed the connection before the answer was whole.
        ClientCancelled = "client_cancelled",
        /// The server said it is overloaded (529, 503, or an error event in the stream).
        Overloaded = "overloaded",
        /// The server said too many requests (429).
        RateLimited = "rate_limited",
        /// Any other 5xx or error event.
        ServerError = "server_error",
        /// Any other 4xx.
        ClientError = "client_error",
        /// The connection broke or no response was recorded.
        NetworkError = "network_error",
    }
}

vocabulary! {
    /// Why the model stopped.
    Stop {
        /// It had said what it wanted.
        EndTurn = "end_turn",
        /// The limit asked for was reached.
        MaxTokens = "max_tokens",
        /// It called tools.
        ToolUse = "tool_use",
        /// A stop sequence occurred.
        StopSequence = "stop_sequence",
        /// It refused.
        Refusal = "refusal",
        /// It paused a long turn.
        PauseTurn = "pause_turn",
        /// The context window was full.
        ContextWindow = "model_context_window_exceeded",
        /// A filter cut the answer.
        ContentFilter = "content_filter",
        /// A reason that this vocabulary does not know.
        Other = "other",
    }
}

vocabulary! {
    /// What one request was to another.
    Relation {
        /// The next turn of the same agent.
        Sequence = "sequence",
        /// The request whose answer started the agent, to that agent's first request.
        Spawn = "spawn",
        /// An agent's last request, to the request that carries its result back.
        Join = "join",
        /// Any other request that had to end first.
        Barrier = "barrier",
    }
}

vocabulary! {
    /// Which moment of the earlier request the later one waited for.
    Trigger {
        /// Its last byte.
        Completion = "completion",
        /// Its sending.
        Dispatch = "dispatch",
    }
}

vocabulary! {
    /// What the delay of an edge was spent on.
    DelayKind {
        /// Tools ran.
        Tool = "tool",
        /// A person thought or typed.
        User = "user",
        /// An agent was started or its result handed over.
        Agent = "agent",
        /// The client waited before it tried again.
        Retry = "retry",
        /// Nothing that is known.
        None = "none",
    }
}

vocabulary! {
    /// What shows that an edge exists.
    Evidence {
        /// A header names the agent.
        Header = "header",
        /// A tool result names the agent or answers the call.
        ToolResult = "tool_result",
        /// A task notification names the agent or the call.
        Notification = "notification",
        /// The agent's first message equals the prompt of the call.
        Prompt = "prompt",
        /// The later prompt begins with the earlier one.
        Prefix = "prefix",
        /// Only the times fit: inferred.
        Time = "time",
        /// The source format states the edge.
        Stated = "stated",
    }
}

vocabulary! {
    /// The program that sent the requests of a session.
    Harness {
        /// Claude Code.
        ClaudeCode = "claude_code",
        /// Codex.
        Codex = "codex",
        /// OpenCode.
        OpenCode = "opencode",
        /// Another one, or not known.
        Other = "other",
    }
}

vocabulary! {
    /// How an agent came to be.
    AgentKind {
        /// The agent that the user talks to.
        Main = "main",
        /// Started by a tool call whose result waits for it.
        Subagent = "subagent",
        /// Started by a tool call that returns at once.
        Background = "background",
        /// Started with a copy of its parent's conversation.
        Fork = "fork",
        /// Started by a workflow script.
        Workflow = "workflow",
        /// A member of a team.
        Teammate = "teammate",
    }
}

vocabulary! {
    /// The built-in agent types; every other one is `custom`.
    AgentType {
        /// The main agent.
        Main = "main",
        /// Built in.
        GeneralPurpose = "general-purpose",
        /// Built in.
        Explore = "Explore",
        /// Built in.
        Plan = "Plan",
        /// Built in.
        StatuslineSetup = "statusline-setup",
        /// Built in.
        OutputStyleSetup = "output-style-setup",
        /// A fork of its parent.
        Fork = "fork",
        /// Run by a workflow.
        WorkflowSubagent = "workflow-subagent",
        /// Defined by the user, or not known.
        Custom = "custom",
    }
}

vocabulary! {
    /// How an agent ended.
    AgentStatus {
        /// Its result was handed over.
        Completed = "completed",
        /// It was started in the background; whether it ended is not stated.
        AsyncLaunched = "async_launched",
        /// The user or the harness stopped it.
        Interrupted = "interrupted",
        /// It ended with an error.
        Failed = "failed",
    }
}

vocabulary! {
    /// What a tool does, coarsely.
    ToolClass {
        /// Reads files.
        Read = "read",
        /// Changes files.
        Edit = "edit",
        /// Runs commands.
        Shell = "shell",
        /// Searches files or tools.
        Search = "search",
        /// Fetches or searches the web.
        Web = "web",
        /// Starts or talks to agents.
        Agent = "agent",
        /// An MCP tool.
        Mcp = "mcp",
        /// Anything else.
        Other = "other",
    }
}

vocabulary! {
    /// Which prompts share block ids.
    Scope {
        /// Each session has its own prefix tree.
        Session = "session",
        /// Tools and system heads that enough contributors hold keep one identity across sessions.
        Shared = "shared",
        /// One prefix tree for the whole dataset.
        Dataset = "dataset",
    }
}

vocabulary! {
    /// The rule set that a trace was written under.
    Profile {
        /// Rounded and reduced: the default.
        Public = "public",
        /// Exact lengths and machine times.
        Private = "private",
        /// Made from another format, with whatever it held.
        Imported = "imported",
    }
}

vocabulary! {
    /// Single items that `--keep` moves from the private to the public profile.
    Keep {
        /// `usage_*`.
        Usage = "usage",
        /// Exact `input_tokens`, `output_tokens` and `extends`.
        ExactLengths = "exact-lengths",
        /// `tools_tokens` and `system_tokens`.
        PartTokens = "part-tokens",
        /// `max_tokens` as asked for.
        MaxTokens = "max-tokens",
        /// Token sizes of tool calls and results.
        ToolSizes = "tool-sizes",
        /// Times of tool calls.
        ToolTimes = "tool-times",
        /// Machine times at 1 ms.
        MachineTimes = "machine-times",
        /// User delays as measured.
        UserDelays = "user-delays",
        /// count_tokens requests.
        CountTokens = "count-tokens",
        /// When each session began, since the first one.
        Arrivals = "arrivals",
        /// The sha256 of an unlisted tokenizer or template.
        TokenizerHash = "tokenizer-hash",
        /// Skip counts and residuals.
        SkipCounts = "skip-counts",
    }
}

vocabulary! {
    /// A rewriting of the prompt before it is tokenized.
    Normalizer {
        /// `cache_control` markers are dropped: they move every turn.
        CacheControl = "cache-control",
        /// The `x-anthropic-billing-header` system block is dropped: it may change on every request.
        BillingHeader = "billing-header",
        /// A string and a list of one text are the same.
        StringContent = "string-content",
        /// Signatures of thinking blocks are dropped.
        ThinkingSignature = "thinking-signature",
        /// Images and documents become pseudo-content of their estimated length, keyed by their hash.
        MediaContent = "media-content",
        /// JSON is taken without white space outside strings, however the recorder spaced it.
        JsonSpacing = "json-spacing",
        /// Text that looks like a special token is encoded as plain text.
        SpecialTokenText = "special-token-text",
    }
}

vocabulary! {
    /// Tokenizers that a manifest may name; every other one is `custom`.
    TokenizerName {
        /// The embedded one: the vocabulary of the first Claude models.
        Builtin = "builtin",
        /// Not listed.
        Custom = "custom",
    }
}

vocabulary! {
    /// Chat templates that a manifest may name.
    TemplateName {
        /// No template: parts in order, separated by special tokens.
        Neutral = "neutral",
        /// Not listed.
        Custom = "custom",
    }
}

vocabulary! {
    /// What lengths of the prompt mean.
    PromptScale {
        /// Counted by the tokenizer.
        None = "none",
        /// Scaled to what the provider counted.
        Usage = "usage",
    }
}

vocabulary! {
    /// What `k` counts under scope `shared`.
    KUnit {
        /// Labelled contributors.
        Contributor = "contributor",
    }
}

vocabulary! {
    /// Licences that a dataset card may name (SPDX).
    License {
        /// Apache License 2.0.
        Apache2 = "Apache-2.0",
        /// MIT.
        Mit = "MIT",
        /// Creative Commons Attribution 4.0.
        CcBy4 = "CC-BY-4.0",
        /// Creative Commons Zero 1.0.
        Cc0 = "CC0-1.0",
        /// Open Data Commons Attribution 1.0.
        OdcBy = "ODC-By-1.0",
        /// Community Data License Agreement, permissive, 2.0.
        CdlaPermissive = "CDLA-Permissive-2.0",
    }
}

vocabulary! {
    /// The tables of a trace directory.
    Table {
        /// One row per session.
        Sessions = "sessions",
        /// One row per agent.
        Agents = "agents",
        /// One row per request.
        Requests = "requests",
        /// What each request waited for.
        Edges = "edges",
        /// Tool calls.
        Tools = "tools",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_are_distinct_and_read_back<V: Vocabulary>() {
        for (at, member) in V::ALL.iter().enumerate() {
            assert_eq!(V::parse(member.word()), Some(*member));
            assert!(V::ALL[..at].iter().all(|earlier| earlier.word() != member.word()));
        }
        assert_eq!(V::parse("not a word"), None);
    }

    #[test]
    fn every_word_reads_back_as_its_member() {
        words_are_distinct_and_read_back::<RequestKind>();
        words_are_distinct_and_read_back::<Status>();
        words_are_distinct_and_read_back::<Stop>();
        words_are_distinct_and_read_back::<Evidence>();
        words_are_distinct_and_read_back::<Keep>();
        words_are_distinct_and_read_back::<AgentType>();
        words_are_distinct_and_read_back::<ToolClass>();
    }

    #[test]
    fn an_unknown_word_is_an_error_that_does_not_quote_it() {
        let error = serde_json::from_str::<Status>("\"sk-secret\"").unwrap_err();
        assert!(!error.to_string().contains("sk-secret"));
    }
}
