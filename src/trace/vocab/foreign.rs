//! The words about other formats: their names, and what going from one to another loses, infers and finds wrong.
//!
//! Invariant: as in the module above, nothing but a listed word can be written.

use super::{Vocabulary, WordVisitor};

vocabulary! {
    /// Formats that a trace can come from: raw logs first, then trace formats.
    SourceFormat {
        /// Our own capture JSONL.
        Capture = "tracecloak-capture",
        /// claude-trace JSONL.
        ClaudeTrace = "claude-trace",
        /// HTTP Archive.
        Har = "har",
        /// claude-tap: JSONL, compact or lossy JSON, SQLite.
        ClaudeTap = "claude-tap",
        /// mitmproxy flow file.
        Mitmproxy = "mitmproxy",
        /// seifghazi/claude-code-proxy: SQLite or its API's JSON.
        Seifghazi = "claude-code-proxy",
        /// LiteLLM's StandardLoggingPayload.
        LiteLlmLog = "litellm-log",
        /// claude-code-router's log.
        Router = "claude-code-router",
        /// Claude Code transcript.
        Transcript = "claude-code-transcript",
        /// Envoy HTTP tap.
        Envoy = "envoy-tap",
        /// nginx access log as JSON.
        Nginx = "nginx",
        /// WEKA JSON of kv-cache-tester and AgentX.
        Weka = "weka",
        /// Mooncake JSONL.
        Mooncake = "mooncake",
        /// One row a request, in Parquet, with a list of block ids.
        Flat = "flat",
        /// Qwen-Bailian JSONL.
        Bailian = "bailian",
        /// Veeksha timed synthetic sessions, JSONL or CSV.
        Veeksha = "veeksha",
        /// Veeksha shared prefixes.
        VeekshaSharedPrefix = "veeksha-shared-prefix",
        /// Dynamo request trace, version 1.
        DynamoTrace = "dynamo-trace",
        /// Dynamo agentic Mooncake, version 2.
        Dynamo = "dynamo",
        /// TraceLab JSONL or CSV.
        TraceLab = "tracelab",
        /// ServeGen offline rows.
        ServeGen = "servegen",
        /// LiteLLM spend rows with block hashes.
        LiteLlm = "litellm",
    }
}

impl SourceFormat {
    /// Whether it is a format of raw logs, which `convert` reads; the others are trace formats, which `import` reads.
    pub fn is_log(self) -> bool {
        matches!(
            self,
            Self::Capture
                | Self::ClaudeTrace
                | Self::Har
                | Self::ClaudeTap
                | Self::Mitmproxy
                | Self::Seifghazi
                | Self::LiteLlmLog
                | Self::Router
                | Self::Transcript
                | Self::Envoy
                | Self::Nginx
        )
    }
}

vocabulary! {
    /// What a format cannot carry: of a trace when it is exported, of the source's world when it is imported.
    Loss {
        /// What waited for what, beyond the order in a conversation.
        Edges = "edges",
        /// Which requests belong to one session.
        Sessions = "sessions",
        /// Which requests belong to one agent.
        Agents = "agents",
        /// Agents below the first level.
        Depth = "depth",
        /// Tool calls.
        Tools = "tools",
        /// Whether the tail beyond the last full block is shared.
        PartialBlocks = "partial-blocks",
        /// Which blocks are equal.
        Blocks = "blocks",
        /// Equal prefixes of different sessions.
        Sharing = "sharing",
        /// Blocks known by their own content, wherever they stand: only prefixes stay equal.
        MovedBlocks = "moved-blocks",
        /// Token counts of the provider.
        Usage = "usage",
        /// Which model was asked.
        Models = "models",
        /// How long answers took.
        Durations = "durations",
        /// When requests were sent.
        Starts = "starts",
        /// When sessions began.
        Arrivals = "arrivals",
        /// How long answers were.
        Outputs = "outputs",
        /// What prompts and answers hold.
        Parts = "parts",
        /// Why the model stopped.
        Stops = "stops",
        /// Tokens of the tools and the system part.
        PartTokens = "part-tokens",
        /// What requests were for and how they ended: side requests, retries, failures.
        Kinds = "kinds",
        /// Streaming, limits, message counts.
        Settings = "settings",
        /// Types and end states of agents.
        AgentTypes = "agent-types",
        /// Names and identifiers of the source, renumbered.
        Identifiers = "identifiers",
        /// Times below a millisecond.
        Precision = "precision",
        /// Members that this program does not know.
        Unknown = "unknown-members",
        /// Exact lengths, where the format can only say them by others.
        Lengths = "lengths",
        /// The system prompt of some requests: the recorder kept none.
        SystemPrompt = "system-prompt",
        /// The tool definitions of some requests: the recorder kept none.
        ToolDefinitions = "tool-definitions",
        /// The answers to some requests: the recorder kept none.
        Answers = "answers",
    }
}

vocabulary! {
    /// What an import had to work out, since the source does not state it.
    Inferred {
        /// Sessions, from prompts that lead one another.
        Sessions = "sessions",
        /// Sequence edges without a stated delay, by time.
        Sequence = "sequence",
        /// Spawn edges, by time.
        Spawn = "spawn",
        /// Join edges, by time.
        Join = "join",
        /// That a prompt goes on from the tail of an earlier one.
        Tails = "tails",
        /// Starts of agents, from when they ended and how long they ran.
        AgentStarts = "agent-starts",
        /// Nested times, taken as counted from the session's beginning.
        AbsoluteTimes = "absolute-times",
        /// Nested times, taken as counted from the agent's start.
        RelativeTimes = "relative-times",
        /// Send times, moved so that the first is 0.
        Origin = "origin",
        /// Models outside the list, numbered.
        Models = "models",
        /// Blocks without ids, taken as new.
        Blocks = "blocks",
        /// Shared lengths, from what the provider counted as cached.
        Sharing = "sharing",
        /// Lengths, from block counts or usage.
        Lengths = "lengths",
    }
}

vocabulary! {
    /// What is odd in a source, found by an import.
    Anomaly {
        /// Sessions that repeat an earlier one, request for request.
        DuplicateSessions = "duplicate-sessions",
        /// Block ids that were left out of the numbering.
        IdGaps = "id-gaps",
        /// Agents whose stated time is their end.
        EndAsStart = "end-as-start",
        /// Requests sent before the one before them had ended.
        Overlap = "overlap",
        /// Negative times, taken as 0.
        Negative = "negative",
        /// Rows that are not in order of time.
        Unordered = "unordered",
        /// Answers without tokens.
        EmptyOutput = "empty-output",
        /// Rows that repeat one before them.
        DuplicateRows = "duplicate-rows",
        /// Ids of partial blocks that full blocks have too.
        PartialAsFull = "partial-as-full",
        /// Totals that disagree with the rows.
        Totals = "totals",
        /// Links that lead nowhere.
        DanglingLinks = "dangling-links",
    }
}
