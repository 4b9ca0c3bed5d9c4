//! The open set of log formats: the [`LogReader`] trait, the [`READERS`], and how an input finds its reader.
//!
//! Invariant: a reader is chosen by content, never by name. An error says which input and which formats are known.

use std::io::{self, Cursor, Read};
use std::path::Path;

use zeroize::Zeroizing;

use super::claude_tap::ClaudeTap;
use super::claude_trace::ClaudeTrace;
use super::database::{Database, is_database};
use super::decompress::decompress;
use super::envoy::Envoy;
use super::exchange::{Exchange, LogError, SkipReason};
use super::har::Har;
use super::input::Input;
use super::litellm::LiteLlm;
use super::mitmproxy::Mitmproxy;
use super::native::Native;
use super::nginx::Nginx;
use super::router::Router;
use super::seifghazi::Seifghazi;
use super::text::Text;
use super::transcript::Transcript;

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
    /// Bytes of bodies to keep for each input, so that a record whose body begins like one of them is parsed from where they part; 0 parses
    /// each record whole, which gives the same exchanges and takes longer. By default 256 MiB.
    pub kept_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { record_bytes: 1 << 30, body_bytes: 512 << 20, depth: 128, kept_bytes: 256 << 20 }
    }
}

impl Limits {
    /// A body, unless it is too large.
    pub(super) fn check(self, body: Text) -> Result<Text, SkipReason> {
        let fits = u64::try_from(body.len()).is_ok_and(|length| length <= self.body_bytes);
        if fits { Ok(body) } else { Err(SkipReason::TooLarge) }
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
    /// The same of a log that lies at `path`, for formats that keep more in files beside it.
    fn read_file(&self, _path: &Path, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        self.read(source, limits, input)
    }
    /// Whether a database is of this format.
    fn sniff_database(&self, _database: &Database) -> bool {
        false
    }
    /// The records of a database of this format.
    fn read_database(&self, _database: Database, _limits: Limits, _input: u32) -> Records {
        Box::new(std::iter::empty())
    }
}

/// Every log format that is read.
pub static READERS: &[&dyn LogReader] =
    &[&Native, &ClaudeTrace, &Har, &ClaudeTap, &Mitmproxy, &Seifghazi, &LiteLlm, &Router, &Transcript, &Envoy, &Nginx];

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
    let log = Log::open(raw(input)?, input.path(), number)?;
    let reader = log.reader().ok_or(OpenError::Unknown { input: number })?;
    Ok((reader, log.read(reader, limits)))
}

/// Opens an input as [`open`] does. What is read of it, decompressed, is read through what `through` makes of it.
///
/// # Errors
/// As of [`open`].
pub fn open_through(
    input: &Input,
    limits: Limits,
    through: impl FnOnce(Box<dyn Read + Send>) -> Box<dyn Read + Send>,
) -> Result<(&'static dyn LogReader, Records), OpenError> {
    let number = input.number();
    let log = Log::open_through(raw(input)?, input.path(), number, through)?;
    let reader = log.reader().ok_or(OpenError::Unknown { input: number })?;
    Ok((reader, log.read(reader, limits)))
}

/// Opens an input for a reader that was named, whatever it holds.
pub fn open_as(input: &Input, reader: &dyn LogReader, limits: Limits) -> Result<Records, OpenError> {
    Ok(Log::open(raw(input)?, input.path(), input.number())?.read(reader, limits))
}

/// Finds the reader of a stream, which may be compressed. `input` is the number that errors and positions name.
pub fn open_stream(
    raw: Box<dyn Read + Send>,
    input: u32,
    limits: Limits,
) -> Result<(&'static dyn LogReader, Records), OpenError> {
    let log = Log::open(raw, None, input)?;
    let reader = log.reader().ok_or(OpenError::Unknown { input })?;
    Ok((reader, log.read(reader, limits)))
}

fn raw(input: &Input) -> Result<Box<dyn Read + Send>, OpenError> {
    input.open().map_err(|error| OpenError::Unreadable { input: input.number(), kind: error.kind() })
}

/// A log whose start has been looked at.
struct Log<'a> {
    content: Content,
    path: Option<&'a Path>,
    input: u32,
}

enum Content {
    /// Decompressed bytes: those looked at, and all.
    Stream(Zeroizing<Vec<u8>>, Box<dyn Read + Send>),
    Database(Database),
}

impl<'a> Log<'a> {
    fn open(raw: Box<dyn Read + Send>, path: Option<&'a Path>, input: u32) -> Result<Self, OpenError> {
        Self::open_through(raw, path, input, |source| source)
    }

    fn open_through(
        raw: Box<dyn Read + Send>,
        path: Option<&'a Path>,
        input: u32,
        through: impl FnOnce(Box<dyn Read + Send>) -> Box<dyn Read + Send>,
    ) -> Result<Self, OpenError> {
        let (plain, source) = decompress(raw).map_err(|error| OpenError::Unreadable { input, kind: error.kind() })?;
        let mut source = through(source);
        let mut head = Zeroizing::new(Vec::with_capacity(64 << 10));
        let failed = source.by_ref().take(HEAD).read_to_end(&mut head).err();
        if head.trim_ascii().is_empty() || head.as_slice() == b"\xef\xbb\xbf" {
            return Err(match failed.map(|error| error.kind()) {
                None => OpenError::Empty { input },
                Some(io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) => OpenError::Broken { input },
                Some(kind) => OpenError::Unreadable { input, kind },
            });
        }
        let database = is_database(&head);
        let whole = Cursor::new(head.clone()).chain(Failed(failed)).chain(source);
        let content = if database {
            let database = Database::open(path.filter(|_| plain), whole);
            Content::Database(database.map_err(|error| OpenError::Unreadable { input, kind: error.kind() })?)
        } else {
            Content::Stream(head, Box::new(whole))
        };
        Ok(Self { content, path, input })
    }

    fn reader(&self) -> Option<&'static dyn LogReader> {
        match &self.content {
            Content::Stream(head, _) => choose(head),
            Content::Database(database) => READERS.iter().copied().find(|reader| reader.sniff_database(database)),
        }
    }

    fn read(self, reader: &dyn LogReader, limits: Limits) -> Records {
        match (self.content, self.path) {
            (Content::Stream(_, source), Some(path)) => reader.read_file(path, source, limits, self.input),
            (Content::Stream(_, source), None) => reader.read(source, limits, self.input),
            (Content::Database(database), _) => reader.read_database(database, limits, self.input),
        }
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::capture::testing::{gzip, zstd};

    const NATIVE: &str =
        r#"{"method":"POST","headers":[["a","b"]],"body":"{\"log\":{}}","status":200,"tracecloak_capture":1}"#;
    const CLAUDE_TRACE: &str = r#"{"request":{"timestamp":1.5,"method":"POST","url":"/v1/messages","headers":{},"body":{"log":{"version":1}}},"response":{"timestamp":2.5,"status_code":200,"body_raw":"x"},"logged_at":"2023-11-14T22:13:21.750Z"}"#;
    const HAR: &str = r#"{"log":{"version":"1.2","entries":[{"startedDateTime":"2023-11-14T22:13:20Z","request":{"method":"GET","url":"/v1/models","headers":[]}}]}}"#;
    const BY_NAME: [(&str, &str); 3] = [("tracecloak-capture", NATIVE), ("claude-trace", CLAUDE_TRACE), ("har", HAR)];

    fn opened(log: &[u8]) -> Result<(&'static str, Vec<Option<SkipReason>>), OpenError> {
        let (reader, records) = open_stream(Box::new(Cursor::new(log.to_vec())), 7, Limits::default())?;
        Ok((reader.name(), records.map(|record| record.err().map(|error| error.reason)).collect()))
    }

    #[test]
    fn each_format_is_known_by_its_content_and_by_no_other_reader() {
        for (name, log) in BY_NAME {
            for reader in READERS {
                let expected = if reader.name() == name { Sniff::Match } else { Sniff::Mismatch };
                assert_eq!(reader.sniff(log.as_bytes()), expected, "{name} by {}", reader.name());
            }
            for bytes in
                [log.as_bytes().to_vec(), format!("\u{feff}\n{log}").into(), gzip(log.as_bytes()), zstd(log.as_bytes())]
            {
                assert_eq!(opened(&bytes).unwrap(), (name, vec![None]));
            }
        }
    }

    #[test]
    fn a_head_that_is_cut_in_its_first_record_is_known() {
        let long = "x".repeat(200 << 10);
        let native = format!(r#"{{"body":"{long}","tracecloak_capture":1}}"#);
        let claude_trace = format!(r#"{{"request":{{"body":{{"a":"{long}"}},"url":"/","timestamp":1}}}}"#);
        let har = format!(r#"{{"log":{{"entries":[{{"comment":"{long}","request":{{"url":"/"}}}}]}}}}"#);
        let top = format!(r#"{{"entries":[{{"request":{{"headers":[],"url":"/","comment":"{long}"}}}}]}}"#);
        for (name, log) in [("tracecloak-capture", native), ("claude-trace", claude_trace), ("har", har), ("har", top)]
        {
            assert_eq!(opened(log.as_bytes()).unwrap(), (name, vec![None]));
        }
    }

    #[test]
    fn broken_first_lines_do_not_hide_the_format() {
        for (name, log) in &BY_NAME[..2] {
            let log = format!("cut\":1}}\n\u{1}{{]\n{log}\n");
            assert_eq!(
                opened(log.as_bytes()).unwrap(),
                (*name, vec![Some(SkipReason::Malformed), Some(SkipReason::Malformed), None])
            );
        }
    }

    #[test]
    fn what_no_reader_knows_is_an_error_that_shows_nothing_of_it() {
        for log in ["CANARY", r#"{"CANARY":1}"#, "[1,2]", "{", r#"{"entries":[{"CANARY":1}]}"#, "\0\0\u{feff}"] {
            let error = opened(log.as_bytes()).unwrap_err();
            assert!(matches!(error, OpenError::Unknown { input: 7 }));
            let named = "input 7 is of no known format (tracecloak-capture, claude-trace, har, ";
            assert!(error.to_string().starts_with(named));
            assert!(!format!("{error:?}").contains("CANARY"));
        }
    }

    #[test]
    fn empty_and_broken_inputs_are_told_apart() {
        for log in [&b""[..], b"\n \r\n", b"\xef\xbb\xbf", &gzip(b""), &zstd(b"\n")] {
            assert!(matches!(opened(log), Err(OpenError::Empty { input: 7 })));
        }
        assert!(matches!(opened(&gzip(b"CANARY")[..5]), Err(OpenError::Broken { input: 7 })));
        assert!(matches!(opened(b"\x28\xb5\x2f\xfdCANARY"), Err(OpenError::Broken { input: 7 })));
    }

    #[test]
    fn a_compressed_log_that_breaks_gives_what_came_before_and_one_error() {
        let line = format!("{NATIVE}\n");
        let log = line.repeat(3000);
        for compressed in [gzip(log.as_bytes()), zstd(log.as_bytes())] {
            let (name, reasons) = opened(&compressed[..compressed.len() - 5]).unwrap();
            let (last, good) = reasons.split_last().unwrap();
            assert_eq!((name, *last), ("tracecloak-capture", Some(SkipReason::Truncated)));
            assert!(good.iter().all(Option::is_none));
        }
        let mut broken = gzip(line.as_bytes());
        let at = broken.len() - 6;
        broken[at] ^= 1;
        assert_eq!(opened(&broken).unwrap(), ("tracecloak-capture", vec![None, Some(SkipReason::Decompression)]));
        let frames = [zstd(line.as_bytes()), gzip(line.as_bytes())].concat();
        assert_eq!(opened(&frames).unwrap().1, [None, Some(SkipReason::Decompression)]);
    }

    proptest! {
        #[test]
        fn no_log_makes_a_reader_panic(
            which in 0..3_usize,
            edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), any::<bool>()), 1..6),
        ) {
            let log = format!("{}\n", BY_NAME[which].1);
            let twice = if which == 2 { log } else { log.repeat(2) };
            prop_assert!(opened(twice.as_bytes()).unwrap().1.iter().all(Option::is_none));
            let mut log = twice.into_bytes();
            for (at, byte, cut) in edits {
                let at = at.index(log.len());
                if cut { log.truncate(at.max(1)) } else { log[at] = byte }
            }
            for reader in READERS {
                reader.sniff(&log);
                reader.read(Box::new(Cursor::new(log.clone())), Limits::default(), 0).for_each(drop);
            }
        }
    }
}
