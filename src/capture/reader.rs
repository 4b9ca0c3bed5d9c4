//! The open set of log formats: the [`LogReader`] trait, the [`READERS`], and how an input finds its reader.
//!
//! Invariant: a reader is chosen by content, never by name. An error says which input and which formats are known.

use std::io::{self, Cursor, Read};

use zeroize::Zeroizing;

use super::claude_trace::ClaudeTrace;
use super::decompress::decompress;
use super::exchange::{Exchange, LogError};
use super::har::Har;
use super::input::Input;
use super::native::Native;

/// Decompressed bytes that a reader is chosen by.
const HEAD: u64 = 64 << 10;

/// How much of a log is taken in; what is larger or deeper is skipped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one record, decompressed. By default 1 GiB.
    pub record_bytes: u64,
    /// Bytes of one decoded body. By default 512 MiB.
    pub body_bytes: u64,
    /// Levels of arrays and objects. By default 128.
    pub depth: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { record_bytes: 1 << 30, body_bytes: 512 << 20, depth: 128 }
    }
}

/// What a reader says of the start of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sniff {
    /// Not its format.
    Mismatch,
    /// It may be its format; too little is seen.
    Unsure,
    /// Its format.
    Match,
}

/// The records of an input, in its order.
pub type Records = Box<dyn Iterator<Item = Result<Exchange, LogError>> + Send>;

/// A log format.
pub trait LogReader: Sync {
    /// Its name: a word of `trace::SourceFormat`.
    fn name(&self) -> &'static str;
    /// Whether a log that begins with `head` is of this format. `head` is decompressed and may be cut anywhere.
    fn sniff(&self, head: &[u8]) -> Sniff;
    /// The records of a decompressed log. An error of the source is the last item.
    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records;
}

/// Every log format that is read.
pub static READERS: &[&dyn LogReader] = &[&Native, &ClaudeTrace, &Har];

/// Why an input could not be read at all. Inputs are named by their number.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or read.
    #[error("input {input} cannot be read: {kind}")]
    Unreadable {
        /// Which input, from 0.
        input: u32,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// Compressed, but broken from its start.
    #[error("input {input} is a broken compressed file")]
    Broken {
        /// Which input, from 0.
        input: u32,
    },
    /// Nothing but white space.
    #[error("input {input} is empty")]
    Empty {
        /// Which input, from 0.
        input: u32,
    },
    /// No reader knows it.
    #[error("input {input} is of no known format ({})", known())]
    Unknown {
        /// Which input, from 0.
        input: u32,
    },
}

/// The names of the known formats.
fn known() -> String {
    READERS.iter().map(|reader| reader.name()).collect::<Vec<_>>().join(", ")
}

/// Opens an input and finds its reader.
pub fn open(input: &Input, limits: Limits) -> Result<(&'static dyn LogReader, Records), OpenError> {
    let number = input.number();
    let raw = input.open().map_err(|error| OpenError::Unreadable { input: number, kind: error.kind() })?;
    open_stream(raw, number, limits)
}

/// Finds the reader of a stream, which may be compressed. `input` is the number that errors and positions name.
pub fn open_stream(
    raw: Box<dyn Read + Send>,
    input: u32,
    limits: Limits,
) -> Result<(&'static dyn LogReader, Records), OpenError> {
    let mut source = decompress(raw).map_err(|error| OpenError::Unreadable { input, kind: error.kind() })?;
    let mut head = Zeroizing::new(Vec::with_capacity(64 << 10));
    let failed = source.by_ref().take(HEAD).read_to_end(&mut head).err();
    if head.trim_ascii().is_empty() || head.as_slice() == b"\xef\xbb\xbf" {
        return Err(match failed.map(|error| error.kind()) {
            None => OpenError::Empty { input },
            Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => OpenError::Broken { input },
            Some(kind) => OpenError::Unreadable { input, kind },
        });
    }
    let reader = choose(&head).ok_or(OpenError::Unknown { input })?;
    let whole = Cursor::new(head).chain(Failed(failed)).chain(source);
    Ok((reader, reader.read(Box::new(whole), limits, input)))
}

/// The reader that is sure, else the only one that may be right.
fn choose(head: &[u8]) -> Option<&'static dyn LogReader> {
    let said = |sniff| READERS.iter().copied().filter(move |reader| reader.sniff(head) == sniff);
    let mut unsure = said(Sniff::Unsure);
    said(Sniff::Match).next().or_else(|| unsure.next().filter(|_| unsure.next().is_none()))
}

/// Fails once, in its place, with an error that came while reading ahead.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}
