//! Logs with one record a line: cutting them into lines, and parsing each.
//!
//! Invariant: no more than the limit of a line is ever held; one bad line loses only itself.

use std::io::Read;

use memchr::memchr;

use super::buffer::{Buffer, Source};
use super::exchange::{Exchange, LogError, Position, SkipReason};
use super::reader::Limits;

/// Parses one record. A reason of `Truncated` means: not whole JSON.
pub(super) type Parse = fn(&str, Position, Limits) -> Result<Exchange, SkipReason>;

/// A line that is not blank.
pub(super) struct Line<'a> {
    /// Without white space around it.
    pub(super) bytes: &'a [u8],
    /// Where it begins.
    pub(super) position: Position,
    /// Whether the input ends in it, without a newline.
    pub(super) unended: bool,
}

/// The lines of an input.
pub(super) struct Lines {
    source: Source,
    buffer: Buffer,
    limit: u64,
    input: u32,
    record: u64,
    done: bool,
}

impl Lines {
    /// The lines of `source`, none longer than `limit` bytes.
    pub(super) fn new(source: Box<dyn Read + Send>, limit: u64, input: u32) -> Self {
        Self { source: Source::new(source), buffer: Buffer::default(), limit, input, record: 0, done: false }
    }

    /// The next line that is not blank. An error of the input is the last item.
    pub(super) fn next(&mut self) -> Option<Result<Line<'_>, LogError>> {
        let (position, unended) = loop {
            if self.done {
                return None;
            }
            let position = Position { input: self.input, record: self.record + 1, offset: self.source.offset() };
            let (length, ended) = match self.fill() {
                Ok(filled) => filled,
                Err(reason) => {
                    self.done = true;
                    return Some(Err(LogError { position, reason }));
                }
            };
            self.done = !ended;
            let too_large = length > self.limit;
            if too_large || !content(self.buffer.as_slice(), position).is_empty() {
                self.record += 1;
                if too_large {
                    return Some(Err(LogError { position, reason: SkipReason::TooLarge }));
                }
                break (position, !ended);
            }
        };
        Some(Ok(Line { bytes: content(self.buffer.as_slice(), position), position, unended }))
    }

    /// Reads up to the next newline; gives the length of the line and whether there was a newline.
    fn fill(&mut self) -> Result<(u64, bool), SkipReason> {
        self.buffer.clear();
        let start = self.source.offset();
        loop {
            let held = self.source.offset() - start;
            let chunk = self.source.chunk()?;
            if chunk.is_empty() {
                return Ok((held, false));
            }
            let newline = memchr(b'\n', chunk);
            let part = chunk.get(..newline.unwrap_or(chunk.len())).unwrap_or_default();
            let length = held + u64::try_from(part.len()).unwrap_or(u64::MAX);
            if length <= self.limit {
                self.buffer.push(part);
            } else {
                self.buffer.clear();
            }
            let passed = part.len() + usize::from(newline.is_some());
            self.source.consume(passed);
            if newline.is_some() {
                return Ok((length, true));
            }
        }
    }
}

/// A line without white space around it, and without the byte order mark that some editors put at the start of a file.
fn content(line: &[u8], position: Position) -> &[u8] {
    let line = if position.offset == 0 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    line.trim_ascii()
}

/// The records of a log with one record a line.
pub(super) struct LineRecords {
    lines: Lines,
    parse: Parse,
    limits: Limits,
}

impl LineRecords {
    /// Parses each line of `source` with `parse`.
    pub(super) fn new(source: Box<dyn Read + Send>, limits: Limits, input: u32, parse: Parse) -> Self {
        Self { lines: Lines::new(source, limits.record_bytes, input), parse, limits }
    }
}

impl Iterator for LineRecords {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.lines.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let parsed = match std::str::from_utf8(line.bytes) {
            Ok(text) => (self.parse)(text, line.position, self.limits),
            Err(error) if error.error_len().is_none() => Err(SkipReason::Truncated),
            Err(_) => Err(SkipReason::NotUtf8),
        };
        Some(parsed.map_err(|reason| LogError {
            position: line.position,
            reason: match reason {
                SkipReason::Truncated if !line.unended => SkipReason::Malformed,
                reason => reason,
            },
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor};

    use super::*;
    use crate::capture::testing::gzip;

    /// Bytes, record number, offset, and whether the line is unended.
    type Seen = (Vec<u8>, u64, u64, bool);

    fn lines(bytes: &[u8], limit: u64) -> Vec<Result<Seen, SkipReason>> {
        let mut lines = Lines::new(Box::new(Cursor::new(bytes.to_vec())), limit, 0);
        let mut out = Vec::new();
        while let Some(line) = lines.next() {
            out.push(
                line.map(|line| (line.bytes.to_vec(), line.position.record, line.position.offset, line.unended))
                    .map_err(|error| error.reason),
            );
        }
        out
    }

    #[test]
    fn blank_lines_are_no_records_and_offsets_count_every_byte() {
        let expected = vec![Ok((b"a".to_vec(), 1, 0, false)), Ok((b"b".to_vec(), 2, 9, true))];
        assert_eq!(lines(b"\xef\xbb\xbfa\r\n\n \nb", 10), expected);
        assert_eq!(lines(b"", 10), vec![]);
        assert_eq!(lines(b"\n \n\r\n", 10), vec![]);
    }

    #[test]
    fn an_over_long_line_is_skipped_and_counted() {
        let expected = vec![
            Ok((b"1234".to_vec(), 1, 0, false)),
            Err(SkipReason::TooLarge),
            Ok((b"12".to_vec(), 3, 11, false)),
            Err(SkipReason::TooLarge),
        ];
        assert_eq!(lines(b"1234\n12345\n12\n12345", 4), expected);
    }

    #[test]
    fn a_bomb_is_never_held() {
        let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::copy(&mut io::repeat(b'x').take(64 << 20), &mut compressed).unwrap();
        let bomb = [compressed.finish().unwrap(), gzip(b"\ngood\n")].concat();
        let source = super::super::decompress::decompress(Box::new(Cursor::new(bomb))).unwrap().1;
        let mut lines = Lines::new(source, 1 << 20, 0);
        assert_eq!(lines.next().unwrap().err().unwrap().reason, SkipReason::TooLarge);
        assert_eq!(lines.next().unwrap().ok().unwrap().bytes, b"good");
        assert!(lines.next().is_none());
        assert!(lines.buffer.capacity() <= 2 << 20);
    }

    #[test]
    fn an_input_that_fails_ends_with_one_error() {
        let whole = gzip(&b"one\ntwo\nthree, which is cut".repeat(20));
        let source =
            super::super::decompress::decompress(Box::new(Cursor::new(whole[..whole.len() - 9].to_vec()))).unwrap().1;
        let mut lines = Lines::new(source, 100, 0);
        let mut last = None;
        while let Some(line) = lines.next() {
            assert!(last.is_none(), "nothing follows the error");
            last = line.err();
        }
        assert_eq!(last.unwrap().reason, SkipReason::Truncated);
    }
}
