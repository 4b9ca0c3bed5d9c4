//! The files of an import, and their rows: one JSON object after the other, on lines of their own or not.
//!
//! Invariant: no more than one row, and what was read ahead of the next, is in memory; a file is known by its number.

use std::borrow::Cow;
use std::io::{self, BufReader, Cursor, Read};

use super::csv::Table;
use super::error::{ForeignError, Refused, RowError, RowFault};
use super::json::{Object, blank, keys, value_length};
use super::report::ImportReport;

/// Bytes read at a time.
const CHUNK: usize = 256 << 10;
/// No row is larger.
const ROW_BYTES: usize = 1 << 30;
/// What a format can be told by.
const HEAD: u64 = 64 << 10;
/// The largest window that zstd can ask for.
const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// Takes a row, its number and the report.
pub trait ReadRow: FnMut(&Object<'_>, u64, &mut ImportReport) -> Result<(), Refused> {}

impl<F: FnMut(&Object<'_>, u64, &mut ImportReport) -> Result<(), Refused>> ReadRow for F {}

type Opener = Box<dyn Fn() -> io::Result<Box<dyn Read + Send>>>;

/// A file to be imported.
pub struct Source {
    /// Its number, from 0.
    pub number: u32,
    /// Whether the user named it, rather than a folder around it.
    pub named: bool,
    open: Opener,
}

impl Source {
    /// A file whose bytes, compressed or not, `open` gives.
    pub fn new(number: u32, named: bool, open: impl Fn() -> io::Result<Box<dyn Read + Send>> + 'static) -> Self {
        Self { number, named, open: Box::new(open) }
    }

    /// Opens it, decompressed.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn read(&self) -> Result<Box<dyn Read + Send>, ForeignError> {
        (self.open)().and_then(decompress).map_err(|error| self.refused(&error))
    }

    /// Its first bytes, decompressed.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn head(&self) -> Result<Vec<u8>, ForeignError> {
        let mut head = Vec::new();
        self.read()?.take(HEAD).read_to_end(&mut head).map_err(|error| self.refused(&error))?;
        Ok(head)
    }

    fn rows(&self) -> Result<Rows, ForeignError> {
        Ok(Rows { number: self.number, input: self.read()?, buffer: Vec::new(), at: 0, row: 0, ended: false })
    }

    /// Reads its rows one by one, which are counted. `read` gets each with its number, from 1.
    ///
    /// # Errors
    /// Those of `read`, placed, and those of the file.
    pub fn each(&self, report: &mut ImportReport, mut read: impl ReadRow) -> Result<(), ForeignError> {
        let mut rows = self.rows()?;
        let mut number = 0;
        while let Some(bytes) = rows.advance()? {
            number += 1;
            self.one(bytes, number, report, &mut read)?;
        }
        Ok(())
    }

    /// The same, where the file may be a table with a head line instead of JSON.
    ///
    /// # Errors
    /// As [`Self::each`].
    pub fn each_or_line(&self, report: &mut ImportReport, mut read: impl ReadRow) -> Result<(), ForeignError> {
        if self.head()?.trim_ascii_start().starts_with(b"{") {
            return self.each(report, read);
        }
        let mut table = Table::open(self)?;
        let mut number = 0;
        while let Some(bytes) = table.advance()? {
            number += 1;
            self.one(bytes, number, report, &mut read)?;
        }
        Ok(())
    }

    fn one(
        &self,
        bytes: &[u8],
        number: u64,
        report: &mut ImportReport,
        read: &mut impl ReadRow,
    ) -> Result<(), ForeignError> {
        let object = Object::parse(bytes).map_err(|fault| Refused::from(RowError::new("", fault)));
        object.and_then(|object| read(&object, number, report)).map_err(|refused| refused.at(self.number, number))?;
        report.rows += 1;
        Ok(())
    }

    /// The error for what the operating system said.
    pub(crate) fn refused(&self, error: &io::Error) -> ForeignError {
        ForeignError::Read { file: self.number, kind: error.kind() }
    }
}

/// The beginning of a file, for [`Importer::sniff`](super::Importer::sniff).
pub struct Head<'a> {
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// The keys of its first JSON object, as far as the bytes reach.
    pub keys: Vec<Cow<'a, str>>,
}

impl<'a> Head<'a> {
    /// Looks at the first bytes of a file.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, keys: keys(bytes) }
    }

    /// Whether the first object has all of these members.
    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.keys.iter().any(|key| key == name))
    }

    /// The first line, for tables with a head line.
    pub fn first_line(&self) -> &[u8] {
        self.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii()
    }
}

/// JSON objects, one after the other.
struct Rows {
    number: u32,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Where the next row begins in the buffer.
    at: usize,
    row: u64,
    ended: bool,
}

impl Rows {
    /// The error for the row that came last.
    fn error(&self, error: RowError) -> ForeignError {
        error.at(self.number, self.row)
    }

    /// The next object; an error where there is something else.
    fn advance(&mut self) -> Result<Option<&[u8]>, ForeignError> {
        let mut wanted = CHUNK;
        loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            let begun = blank(rest);
            self.at += rest.len() - begun.len();
            let fault = match begun.first() {
                Some(b'{') => match value_length(begun) {
                    Ok(length) => {
                        self.row += 1;
                        let start = self.at;
                        self.at += length;
                        return Ok(self.buffer.get(start..self.at));
                    }
                    Err(fault) => fault,
                },
                Some(_) => RowFault::NotJson,
                None if self.ended => return Ok(None),
                None => RowFault::CutOff,
            };
            if fault != RowFault::CutOff || self.ended || begun.len() >= ROW_BYTES {
                self.row += 1;
                let fault = if fault == RowFault::CutOff && !self.ended { RowFault::TooLarge } else { fault };
                return Err(self.error(RowError::new("", fault)));
            }
            // A row that does not fit is looked at again only when the buffer has doubled.
            wanted = wanted.max(begun.len());
            self.fill(wanted)?;
        }
    }

    fn fill(&mut self, wanted: usize) -> Result<(), ForeignError> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let limit = u64::try_from(wanted).unwrap_or(u64::MAX);
        let read = self.input.by_ref().take(limit).read_to_end(&mut self.buffer);
        let read = read.map_err(|error| ForeignError::Read { file: self.number, kind: error.kind() })?;
        self.ended = read < wanted;
        Ok(())
    }
}

/// All members of a gzip file, all frames of a zstd file, anything else as it is.
fn decompress(mut raw: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::new();
    raw.by_ref().take(4).read_to_end(&mut magic)?;
    let kind = <[u8; 4]>::try_from(&magic[..]).ok();
    let whole = BufReader::with_capacity(CHUNK, Cursor::new(magic).chain(raw));
    Ok(match kind {
        Some([0x1f, 0x8b, ..]) => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
        Some([0x28, 0xb5, 0x2f, 0xfd]) => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(whole)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
        _ => Box::new(whole),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(content: &[u8]) -> Result<Vec<Vec<u8>>, ForeignError> {
        let content = content.to_vec();
        let source = Source::new(0, true, move || Ok(Box::new(Cursor::new(content.clone()))));
        let mut rows = source.rows().unwrap();
        let mut found = Vec::new();
        while let Some(row) = rows.advance()? {
            found.push(row.to_vec());
        }
        Ok(found)
    }

    #[test]
    fn rows_stand_on_lines_or_anyhow_and_may_be_compressed() {
        let plain = b"\n{\"a\":1}\r\n{\n  \"b\": [1,\n 2]\n}{}\n\n";
        let expected = [&b"{\"a\":1}"[..], b"{\n  \"b\": [1,\n 2]\n}", b"{}"];
        assert_eq!(rows(plain).unwrap(), expected);
        assert_eq!(rows(&zstd::encode_all(&plain[..], 1).unwrap()).unwrap(), expected);
        let mut gzip = flate2::read::GzEncoder::new(&plain[..], flate2::Compression::fast());
        let mut compressed = Vec::new();
        gzip.read_to_end(&mut compressed).unwrap();
        assert_eq!(rows(&compressed).unwrap(), expected);
    }

    #[test]
    fn a_row_larger_than_what_is_read_at_once_comes_whole() {
        let long = format!("{{\"a\":[{}]}}", "1,".repeat(CHUNK) + "1").into_bytes();
        assert_eq!(rows(&[&long[..], b"\n", &long].concat()).unwrap(), [long.clone(), long]);
    }

    #[test]
    fn a_broken_row_is_named_by_number() {
        assert_eq!(rows(b"{}\n{\"a\":").unwrap_err(), RowError::new("", RowFault::CutOff).at(0, 2));
        assert_eq!(rows(b"{}\n[1]").unwrap_err(), RowError::new("", RowFault::NotJson).at(0, 2));
        assert_eq!(rows(b"{}{}{\"a\":}").unwrap_err(), RowError::new("", RowFault::NotJson).at(0, 3));
    }
}
