//! Logs with one record a line: cutting them into lines, and parsing each.
//!
//! Invariant: no more than the limit of a line is ever held; one bad line loses only itself.

use std::io::Read;

use memchr::memchr;

use super::exchange::{Exchange, LogError, Position, SkipReason};
use super::familiar::{Familiar, Record};
use super::held::Held;
use super::reader::Limits;

/// Parses one record. A reason of `Truncated` means: not whole JSON.
pub(super) type Parse = fn(&Record<'_>, Position, Limits) -> Result<Exchange, SkipReason>;

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
    held: Held,
    /// How long the last line was, with its newline.
    passed: usize,
    limit: u64,
    input: u32,
    record: u64,
    done: bool,
}

impl Lines {
    /// The lines of `source`, none longer than `limit` bytes.
    pub(super) fn new(source: Box<dyn Read + Send>, limit: u64, input: u32) -> Self {
        Self { held: Held::new(source), passed: 0, limit, input, record: 0, done: false }
    }

    /// The next line that is not blank. An error of the input is the last item.
    pub(super) fn next(&mut self) -> Option<Result<Line<'_>, LogError>> {
        let (position, length, unended) = loop {
            if self.done {
                return None;
            }
            self.held.pass(std::mem::take(&mut self.passed));
            let position = Position { input: self.input, record: self.record + 1, offset: self.held.offset() };
            let (length, ended) = match self.end() {
                Ok(found) => found,
                Err(reason) => {
                    self.done = true;
                    return Some(Err(LogError { position, reason }));
                }
            };
            self.done = !ended;
            self.passed = length.unwrap_or(0) + usize::from(ended);
            let Some(length) = length else {
                self.record += 1;
                return Some(Err(LogError { position, reason: SkipReason::TooLarge }));
            };
            if !content(self.held.ahead().get(..length).unwrap_or_default(), position).is_empty() {
                self.record += 1;
                break (position, length, !ended);
            }
        };
        let line = self.held.ahead().get(..length).unwrap_or_default();
        Some(Ok(Line { bytes: content(line, position), position, unended }))
    }

    /// Finds the next newline; gives the length of the line, unless it is too large and was gone past, and whether there was a newline.
    fn end(&mut self) -> Result<(Option<usize>, bool), SkipReason> {
        let (mut looked, mut too_large) = (0, false);
        loop {
            let ahead = self.held.ahead();
            let newline = memchr(b'\n', ahead.get(looked..).unwrap_or_default()).map(|at| looked + at);
            let length = newline.unwrap_or(ahead.len());
            too_large |= u64::try_from(length).map_or(true, |length| length > self.limit);
            looked = if too_large { 0 } else { length };
            if too_large {
                self.held.pass(length);
            }
            if newline.is_some() || !self.held.hold(looked + 1)? {
                return Ok(((!too_large).then_some(length), newline.is_some()));
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
    familiar: Familiar,
}

impl LineRecords {
    /// Parses each line of `source` with `parse`; `body` is the name of the member that the body is, in quotes.
    pub(super) fn new(
        source: Box<dyn Read + Send>,
        limits: Limits,
        input: u32,
        body: &'static [u8],
        parse: Parse,
    ) -> Self {
        let lines = Lines::new(source, limits.record_bytes, input);
        Self { lines, parse, familiar: Familiar::new(body, limits) }
    }
}

impl Iterator for LineRecords {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.lines.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let parsed = self.familiar.parse(line.bytes, line.position, self.parse);
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
