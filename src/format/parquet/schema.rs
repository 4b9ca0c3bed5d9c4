//! Every column of every table, declared once: the writer, the reader and the published schema follow from it.
//!
//! Invariant: a column holds unsigned integers, booleans or words of a closed vocabulary; there is no other kind.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

use super::cell::{Cell, Kind};
use crate::trace::vocab::{
    AgentKind, AgentStatus, AgentType, DelayKind, Evidence, Harness, Relation, RequestKind, Status, Stop, Table,
    ToolClass, Trigger, Vocabulary,
};
use crate::trace::{Model, Parts};

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it can be null.
    pub nullable: bool,
    /// What its numbers count.
    pub unit: Unit,
    /// What it means, in a sentence.
    pub meaning: &'static str,
}

/// What the numbers of a column count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A row id of this table, dataset-wide.
    Row(Table),
    /// Tokens.
    Tokens,
    /// Full blocks.
    Blocks,
    /// Milliseconds.
    Milliseconds,
    /// Things, or a place among them.
    Count,
    /// A bit set.
    Bits,
    /// A number that means nothing by itself.
    Code,
    /// Not a number.
    None,
}

impl Unit {
    /// Its name in the schema.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Row(_) => Some("row"),
            Self::Tokens => Some("tokens"),
            Self::Blocks => Some("blocks"),
            Self::Milliseconds => Some("ms"),
            Self::Count => Some("count"),
            Self::Bits => Some("bits"),
            Self::Code => Some("code"),
            Self::None => None,
        }
    }
}

/// What a row of a table is, in a sentence.
pub fn meaning(table: Table) -> &'static str {
    match table {
        Sessions => "All requests that one user task caused.",
        Agents => "A conversation: the main agent of a session, or a subagent.",
        Requests => "An LLM call.",
        Table::Edges => "A dependency: to_request goes out at the latest of (trigger + delay_ms) over its edges.",
        Table::Tools => "A tool call that an answer made.",
    }
}

/// The bits of `input_parts` and `output_parts`.
pub const PARTS: [(&str, Parts); 7] = [
    ("text", Parts::TEXT),
    ("thinking", Parts::THINKING),
    ("tool_use", Parts::TOOL_USE),
    ("tool_result", Parts::TOOL_RESULT),
    ("image", Parts::IMAGE),
    ("document", Parts::DOCUMENT),
    ("other", Parts::OTHER),
];

/// The columns of a table, in file order.
pub fn columns(table: Table) -> &'static [Column] {
    match table {
        Sessions => SessionRow::COLUMNS,
        Agents => AgentRow::COLUMNS,
        Requests => RequestRow::COLUMNS,
        Table::Edges => EdgeRow::COLUMNS,
        Table::Tools => ToolRow::COLUMNS,
    }
}

/// The Parquet schema of a table.
pub(crate) fn parquet_type(table: Table) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Unsigned(64) => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Unsigned(bits) => (Physical::INT32, Some(LogicalType::integer(bits.cast_signed(), false))),
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Word(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = columns(table).iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder(table.word()).with_fields(fields).build().map(Arc::new)
}

/// A row of a table.
pub(crate) trait Row: Copy {
    /// Its table.
    const TABLE: Table;
    /// Its columns, in file order.
    const COLUMNS: &'static [Column];
    /// Hands out its cells in column order.
    fn put(self, sink: &mut impl FnMut(Option<u64>));
    /// Takes its cells in column order; `None` if one does not fit.
    fn get(source: &mut impl FnMut() -> Option<Option<u64>>) -> Option<Self>;
}

macro_rules! table {
    ($(#[$doc:meta])* $row:ident in $table:ident {
        $($name:literal $field:ident: $type:ty, $unit:expr, $meaning:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $row { $(#[doc = $meaning] pub(crate) $field: $type),+ }

        impl Row for $row {
            const TABLE: Table = Table::$table;
            const COLUMNS: &'static [Column] = &[$(Column {
                name: $name,
                kind: <$type as Cell>::KIND,
                nullable: <$type as Cell>::NULLABLE,
                unit: $unit,
                meaning: $meaning,
            }),+];
            fn put(self, sink: &mut impl FnMut(Option<u64>)) {
                $(sink(Cell::code(self.$field));)+
            }
            fn get(source: &mut impl FnMut() -> Option<Option<u64>>) -> Option<Self> {
                Some(Self { $($field: Cell::from_code(source()?)?),+ })
            }
        }
    };
}

use Table::{Agents, Requests, Sessions};
use Unit::{Bits, Blocks, Code, Count, Milliseconds, Row as Id, Tokens};

table! {
    /// One user task.
    SessionRow in Sessions {
        "session" session: u32, Id(Sessions), "Row id.";
        "start_ms" start_ms: Option<u64>, Milliseconds, "When it began, since the first session of the dataset; only where arrivals are kept.";
        "harness" harness: Harness, Unit::None, "The program that sent it.";
        "source_number" source_number: Option<u32>, Code, "The number that a public source gave it; only in imports of numbered public traces.";
    }
}

table! {
    /// One conversation: a session's main agent, or a subagent.
    AgentRow in Agents {
        "agent" agent: u32, Id(Agents), "Row id. The first of a session is its main agent.";
        "session" session: u32, Id(Sessions), "Its session.";
        "parent_agent" parent_agent: Option<u32>, Id(Agents), "The agent that started it; null for a main agent and where it is not known.";
        "depth" depth: u16, Count, "How many agents stand above it.";
        "kind" kind: AgentKind, Unit::None, "How it came to be.";
        "type" agent_type: AgentType, Unit::None, "Its built-in type, else custom.";
        "status" status: Option<AgentStatus>, Unit::None, "How it ended; null where nothing tells.";
        "spawn_request" spawn_request: Option<u64>, Id(Requests), "The request whose answer started it (its first start, where it was continued).";
        "join_request" join_request: Option<u64>, Id(Requests), "The request that carried its (last) result back.";
        "total_tokens" total_tokens: Option<u32>, Tokens, "Tokens it used, as its harness counted them.";
        "tool_calls" tool_calls: Option<u32>, Count, "Tool calls it made, as its harness counted them.";
    }
}

table! {
    /// One LLM call.
    RequestRow in Requests {
        "request" request: u64, Id(Requests), "Row id; within a session in send order.";
        "session" session: u32, Id(Sessions), "Its session.";
        "agent" agent: u32, Id(Agents), "Its agent.";
        "turn" turn: u32, Count, "Its place in its agent's thread, from 0.";
        "prefix_request" prefix_request: Option<u64>, Id(Requests), "The earlier request that shares the most leading full blocks with this one (ties: the latest); null if none shares any.";
        "shared_blocks" shared_blocks: u32, Blocks, "How many leading full blocks are shared with prefix_request.";
        "extends" extends: bool, Unit::None, "This prompt begins with the whole of that one, its partial last block included.";
        "first_block" first_block: u64, Blocks, "Block id of the first full block that is new here: the running count of new blocks so far.";
        "input_tokens" input_tokens: u32, Tokens, "Length of the prompt.";
        "output_tokens" output_tokens: Option<u32>, Tokens, "Length of the answer; null where nothing tells.";
        "start_ms" start_ms: Option<u64>, Milliseconds, "Send time since the session's first request; null where the source has none.";
        "duration_ms" duration_ms: Option<u32>, Milliseconds, "From sending until the last byte.";
        "ttft_ms" ttft_ms: Option<u32>, Milliseconds, "From sending until the first content.";
        "kind" kind: RequestKind, Unit::None, "What it was for.";
        "model" model: Model, Unit::None, "The model asked for: a public name, else other-1, other-2 and so on, numbered by first appearance in the session.";
        "stop" stop: Option<Stop>, Unit::None, "Why the model stopped.";
        "status" status: Status, Unit::None, "How the request ended.";
        "attempt" attempt: u8, Count, "0, or which retry of the same request it is.";
        "streaming" streaming: Option<bool>, Unit::None, "Whether the answer was asked for as a stream.";
        "max_tokens" max_tokens: Option<u32>, Tokens, "The limit asked for.";
        "usage_input" usage_input: Option<u32>, Tokens, "Prompt tokens neither read from nor written to the cache, as the provider counted them.";
        "usage_cache_read" usage_cache_read: Option<u32>, Tokens, "Prompt tokens read from the cache, as the provider counted them.";
        "usage_cache_write_5m" usage_cache_write_5m: Option<u32>, Tokens, "Prompt tokens written to the cache for 5 minutes, as the provider counted them.";
        "usage_cache_write_1h" usage_cache_write_1h: Option<u32>, Tokens, "Prompt tokens written to the cache for 1 hour, as the provider counted them.";
        "usage_output" usage_output: Option<u32>, Tokens, "Tokens of the answer, as the provider counted them.";
        "usage_reasoning" usage_reasoning: Option<u32>, Tokens, "Of those, tokens of hidden reasoning.";
        "tools_tokens" tools_tokens: Option<u32>, Tokens, "Length of the leading tools part of the prompt.";
        "system_tokens" system_tokens: Option<u32>, Tokens, "Length of the system part of the prompt.";
        "messages" messages: Option<u16>, Count, "Messages in the prompt.";
        "input_parts" input_parts: Parts, Bits, "What the prompt holds.";
        "output_parts" output_parts: Parts, Bits, "What the answer holds.";
    }
}

table! {
    /// A dependency: `to_request` goes out at the latest of (trigger + delay_ms) over its edges.
    EdgeRow in Edges {
        "session" session: u32, Id(Sessions), "The session of both requests.";
        "from_request" from_request: u64, Id(Requests), "The request that is waited for.";
        "to_request" to_request: u64, Id(Requests), "The request that waits; always later.";
        "relation" relation: Relation, Unit::None, "What they are to each other.";
        "trigger" trigger: Trigger, Unit::None, "Which moment of from_request counts.";
        "delay_ms" delay_ms: u64, Milliseconds, "Time between the trigger and the sending of to_request.";
        "delay_kind" delay_kind: DelayKind, Unit::None, "What that time was spent on.";
        "evidence" evidence: Evidence, Unit::None, "What shows that the edge exists.";
    }
}

table! {
    /// A tool call that an answer made.
    ToolRow in Tools {
        "request" request: u64, Id(Requests), "The request whose answer made it.";
        "index" index: u16, Count, "Its place among the calls of that answer, from 0.";
        "class" class: ToolClass, Unit::None, "What the tool does.";
        "is_error" is_error: Option<bool>, Unit::None, "Whether its result was an error; null where no result was seen.";
        "consumer_request" consumer_request: Option<u64>, Id(Requests), "The request that carried its result back; always later.";
        "child_agent" child_agent: Option<u32>, Id(Agents), "The agent it started or spoke to.";
        "start_ms" start_ms: Option<u64>, Milliseconds, "When it began, since the session's first request.";
        "duration_ms" duration_ms: Option<u32>, Milliseconds, "How long it ran.";
        "input_tokens" input_tokens: Option<u32>, Tokens, "Length of its input.";
        "output_tokens" output_tokens: Option<u32>, Tokens, "Length of its result.";
    }
}
