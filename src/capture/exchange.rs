//! One HTTP request and its response, as every reader hands it on.
//!
//! Invariant: bodies are decoded (base64, escapes, `content-encoding`) before they get here; times are wall-clock microseconds
//! and stay on the text side.

use super::text::Text;

/// Where a record stands in its source. Safe to show: it says where, never what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Which input, from 0, in the order in which they were given or found.
    pub input: u32,
    /// Which record of that input, from 1.
    pub record: u64,
    /// Byte offset of the record in the decompressed input.
    pub offset: u64,
}

/// A wall-clock time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Microseconds since 1970.
    pub unix_us: i64,
    /// How finely the recorder told it.
    pub precision: Precision,
}

/// How finely a time was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precision {
    /// Microseconds.
    Micro,
    /// Milliseconds.
    Milli,
    /// Whole seconds.
    Second,
}

/// Headers in the order recorded; names compare without case.
#[derive(Clone, Default)]
pub struct Headers(pub Vec<(Text, Text)>);

impl Headers {
    /// The first value of a header, if it is UTF-8. `name` in lower case.
    pub fn get<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.all(name).next()
    }

    /// Every UTF-8 value of a header. `name` in lower case.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(|(field, _)| field.as_bytes().eq_ignore_ascii_case(name.as_bytes()))
            .filter_map(|(_, value)| value.as_str())
    }
}

/// A request body.
#[derive(Clone, Default)]
pub enum Body {
    /// As sent, decoded.
    Bytes(Text),
    /// There was one, but the recorder did not keep it or kept only a part.
    Lost,
    /// None.
    #[default]
    Empty,
}

/// An earlier body of the same input, and what a body has in common with it.
#[derive(Clone)]
pub struct Alike {
    /// The earlier body.
    pub body: Text,
    /// How many leading bytes are known to be equal. They end behind an element of an array in the outermost object, or are none.
    pub length: usize,
    /// How many bytes at the end are known to be equal. They begin behind such an element, or are none.
    pub behind: usize,
}

/// A piece of a response body.
#[derive(Clone)]
pub struct Piece {
    /// When it came, in microseconds since the request was sent; where the recorder told.
    pub at_us: Option<u64>,
    /// Its bytes.
    pub text: Text,
}

/// A response body, decoded.
#[derive(Clone, Default)]
pub enum ResponseBody {
    /// In order; one piece without a time where the recorder kept only the whole. Whether it is JSON or SSE is told by content.
    Pieces(Vec<Piece>),
    /// There was one, but the recorder did not keep it.
    Lost,
    /// None.
    #[default]
    Empty,
}

/// What ended a response before it was whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The client closed the connection.
    Client,
    /// The server or the network did.
    Upstream,
    /// Someone did.
    Unknown,
}

/// How far a recorder's bodies can be trusted, the most trusted first. Of two records of one exchange the more trusted one decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// As they went over the wire.
    #[default]
    Wire,
    /// Put together by the client that sent or got them.
    Client,
    /// Written anew from what the recorder had understood: fields may be missing, but no part of the prompt.
    Reworded,
    /// Parts of the prompt are missing.
    Partial,
}

/// What a recorder did to an exchange, and what it knows beyond it.
#[derive(Clone, Default)]
pub struct Provenance {
    /// How far its bodies can be trusted.
    pub trust: Trust,
    /// It kept no system prompt.
    pub no_system: bool,
    /// It kept no tool definitions.
    pub no_tools: bool,
    /// Its agent belongs to a workflow.
    pub in_workflow: bool,
    /// The tool call that started the agent of this request, where the recorder says so.
    pub spawn_call: Option<Text>,
}

/// One HTTP request and its response.
#[derive(Clone, Default)]
pub struct Exchange {
    /// Where it was read.
    pub position: Position,
    /// Upper-case method; empty where the recorder does not keep it.
    pub method: Text,
    /// Path and query, without scheme and host.
    pub path: Text,
    /// Request headers.
    pub headers: Headers,
    /// Request body.
    pub body: Body,
    /// An earlier body that this one begins like, where the reader knows.
    pub alike: Option<Alike>,
    /// HTTP status; none where no response came.
    pub status: Option<u16>,
    /// Response headers.
    pub response_headers: Headers,
    /// Response body.
    pub response: ResponseBody,
    /// What cut the response, where the recorder told.
    pub cut: Option<Cut>,
    /// When the request was sent.
    pub start: Option<Moment>,
    /// When the first byte of the response (its headers) came.
    pub first_byte: Option<Moment>,
    /// When its last byte came, or when it was cut.
    pub end: Option<Moment>,
    /// What its recorder did to it.
    pub provenance: Provenance,
}

/// Why a record was not kept. A closed list: the summary counts by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkipReason {
    /// Not JSON, or not the JSON of the format.
    Malformed,
    /// The input ended inside the record.
    Truncated,
    /// Larger than the limit for one record.
    TooLarge,
    /// Not UTF-8 where it must be.
    NotUtf8,
    /// Nested deeper than the limit.
    TooDeep,
    /// The compressed input or body is broken, or grows beyond the limit.
    Decompression,
    /// The recorder did not keep the request body.
    BodyLost,
    /// The request body is not the JSON of its API.
    BadBody,
    /// An API that is not read (another path or method).
    OtherApi,
    /// No time at all.
    NoTime,
    /// The same exchange was read before.
    Duplicate,
    /// A count_tokens request, which the profile drops.
    CountTokens,
    /// An auxiliary request, dropped on demand.
    Auxiliary,
    /// The same exchange, as another recorder saw it; what it knew more was taken over.
    SeenTwice,
    /// Of a session, harness or time that was not asked for.
    NotSelected,
}

impl SkipReason {
    /// Every reason, in the order in which summaries list them.
    pub const ALL: &'static [Self] = &[
        Self::Malformed,
        Self::Truncated,
        Self::TooLarge,
        Self::NotUtf8,
        Self::TooDeep,
        Self::Decompression,
        Self::BodyLost,
        Self::BadBody,
        Self::OtherApi,
        Self::NoTime,
        Self::Duplicate,
        Self::CountTokens,
        Self::Auxiliary,
        Self::SeenTwice,
        Self::NotSelected,
    ];

    /// Its name in summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::TooLarge => "too_large",
            Self::NotUtf8 => "not_utf8",
            Self::TooDeep => "too_deep",
            Self::Decompression => "decompression",
            Self::BodyLost => "body_lost",
            Self::BadBody => "bad_body",
            Self::OtherApi => "other_api",
            Self::NoTime => "no_time",
            Self::Duplicate => "duplicate",
            Self::CountTokens => "count_tokens",
            Self::Auxiliary => "auxiliary",
            Self::SeenTwice => "seen_twice",
            Self::NotSelected => "not_selected",
        }
    }
}

/// A record that could not be read, or an input that could not be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {} at byte {}: {}", .position.record, .position.offset, .reason.name())]
pub struct LogError {
    /// Where.
    pub position: Position,
    /// Why.
    pub reason: SkipReason,
}
