//! What a declared format may hold: names, types, domains, words.
//!
//! Invariant: a declaration is static; a value that fits one is a number of its domain or a word of its list, and what a
//! declaration leaves open (an opaque id) is marked, so that checks can look at it.

mod agents;
pub(crate) mod closed;
mod dynamo;
mod flat;
mod rows;
mod tracelab;
pub mod words;

/// What a value may be. Null is always allowed.
#[derive(Debug)]
pub enum Shape {
    /// An object with these members and no other.
    Object(&'static [Field]),
    /// An object that is one LLM request.
    Request(&'static [Field]),
    /// A list of equal things.
    List(&'static Self),
    /// An integer from 0 to this.
    Int(u64),
    /// An integer from -1 to this.
    Signed(u64),
    /// A number, not negative, at most this.
    Number(u64),
    /// True or false.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A word of a vocabulary of ours.
    Listed(fn(&str) -> bool),
    /// A public model name.
    Model,
    /// This prefix and a few digits.
    Numbered(&'static str),
    /// An id of the source's own making: letters, digits, `_` and `-`. Looked at by the checks.
    Opaque,
    /// The name of a built-in tool.
    Tool,
    /// A date and time, which is a finding wherever it stands.
    Instant,
}

/// What a value means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nothing that a check asks for.
    #[default]
    Plain,
    /// Block ids of a request.
    Ids,
    /// Prompt tokens.
    Input,
    /// Answer tokens.
    Output,
    /// Since the beginning of the trace.
    Time,
    /// Wall clock.
    WallClock,
    /// Lengths in characters or bytes.
    Characters,
    /// Tells one machine's configuration from another's.
    Configuration,
    /// Tokens per block.
    BlockSize,
    /// Which prompts share ids.
    Scope,
    /// Which session a row belongs to.
    Session,
}

/// A member of an object or a column.
#[derive(Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it may be.
    pub shape: Shape,
    /// What it means.
    pub role: Role,
}

/// Whether a partial last block has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// It has none: ⌊in/B⌋ ids.
    Dropped,
    /// It has one: ⌈in/B⌉ ids.
    Kept,
    /// The format says nothing.
    Free,
}

/// A declared format: what one record (one document, one row) may be.
#[derive(Debug)]
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// One record.
    pub record: Shape,
    /// Members that a record of it always has: how it is recognised.
    pub required: &'static [&'static str],
    /// Whether each record has its own space of ids.
    pub local: bool,
    /// Tokens per block, where records do not say.
    pub block_size: u64,
    /// What it does with a partial last block.
    pub partial: Partial,
}

/// Every declared format; the first whose required members are all there is taken.
pub static FORMATS: &[&Format] = &[
    &agents::WEKA,
    &agents::WEKA_AGENTX,
    &dynamo::AGENTIC_HEADER,
    &dynamo::AGENTIC_ROW,
    &dynamo::AGENTIC_ROW_V1,
    &dynamo::REQUEST_TRACE,
    &tracelab::ROUNDS,
    &tracelab::CSV,
    &rows::BAILIAN,
    &rows::VEEKSHA,
    &rows::VEEKSHA_PREFIX,
    &rows::MOONCAKE,
    &flat::FLAT,
    &rows::SERVEGEN,
];

impl Format {
    /// The format that a record with these members is of.
    pub fn recognise(keys: &[&[u8]]) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| format.required.iter().all(|name| keys.contains(&name.as_bytes())))
    }
}

impl Shape {
    /// Members, if it is an object.
    pub fn fields(&self) -> Option<&'static [Field]> {
        match self {
            Self::Object(fields) | Self::Request(fields) => Some(fields),
            _ => None,
        }
    }
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, role: Role::Plain }
}

const fn with(name: &'static str, shape: Shape, role: Role) -> Field {
    Field { name, shape, role }
}

/// More tokens than a prompt has.
const TOKENS: u64 = 1 << 31;
/// Milliseconds of some thirty years: wall clocks are beyond.
const MILLIS: u64 = 946_000_000_000;
/// Seconds of some thirty years.
const SECONDS: u64 = 946_000_000;
/// Integers that every JSON reader keeps exact.
const EXACT: u64 = 1 << 53;
