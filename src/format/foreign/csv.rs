//! Tables with commas and a head line, row by row, as JSON objects: so the same readers read both.
//!
//! Invariant: no more than one row is in memory; a cell that is a number, a list or an object stands as it is, an empty one is left
//! out, any other is a string.

use std::io::{BufRead, BufReader, Read};

use super::{ForeignError, RowError, RowFault, Source};

/// No row is longer.
const ROW_BYTES: u64 = 1 << 26;

/// The rows of a table.
pub(super) struct Table {
    number: u32,
    input: BufReader<Box<dyn Read + Send>>,
    columns: Vec<String>,
    line: Vec<u8>,
    object: Vec<u8>,
    row: u64,
}

impl Table {
    /// Opens a table and reads its head line.
    pub(super) fn open(source: &Source) -> Result<Self, ForeignError> {
        let input = BufReader::new(source.read()?);
        let (columns, line, object) = Default::default();
        let mut table = Self { number: source.number, input, columns, line, object, row: 0 };
        table.fill()?;
        let cells = table.cells()?;
        table.columns = cells.into_iter().map(|cell| String::from_utf8_lossy(&cell).trim().to_owned()).collect();
        Ok(table)
    }

    /// The error for the row that came last. Rows count from 1, the head line left out.
    pub(super) fn error(&self, error: RowError) -> ForeignError {
        error.at(self.number, self.row)
    }

    /// The next row.
    pub(super) fn advance(&mut self) -> Result<Option<&[u8]>, ForeignError> {
        loop {
            if !self.fill()? {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        self.row += 1;
        let cells = self.cells()?;
        if cells.len() != self.columns.len() {
            return Err(self.error(RowError::new("", RowFault::Disagrees)));
        }
        self.object.clear();
        self.object.push(b'{');
        for (name, cell) in self.columns.iter().zip(&cells) {
            let cell = cell.trim_ascii();
            if cell.is_empty() {
                continue;
            }
            if self.object.len() > 1 {
                self.object.push(b',');
            }
            let quoted = |text: &str| serde_json::to_vec(text).unwrap_or_default();
            self.object.extend_from_slice(&quoted(name));
            self.object.push(b':');
            match cell.first() {
                Some(b'0'..=b'9' | b'-' | b'{' | b'[') => self.object.extend_from_slice(cell),
                _ => self.object.extend_from_slice(&quoted(&String::from_utf8_lossy(cell))),
            }
        }
        self.object.push(b'}');
        Ok(Some(&self.object))
    }

    /// Reads a line, and those that follow within quotes. False at the end.
    fn fill(&mut self) -> Result<bool, ForeignError> {
        self.line.clear();
        let mut whole = false;
        while !whole {
            let read = self.input.by_ref().take(ROW_BYTES).read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| ForeignError::Read { file: self.number, kind: error.kind() })?;
            let odd = memchr::memchr_iter(b'"', &self.line).count() % 2 == 1;
            if (read == 0 && odd) || self.line.len() > usize::try_from(ROW_BYTES).unwrap_or(usize::MAX) {
                self.row += 1;
                return Err(self.error(RowError::new("", RowFault::CutOff)));
            }
            whole = !odd;
        }
        Ok(!self.line.is_empty())
    }

    /// The cells of the line.
    fn cells(&self) -> Result<Vec<Vec<u8>>, ForeignError> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (mut cells, mut cell, mut quoted) = (Vec::new(), Vec::new(), false);
        let mut bytes = line.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            match (byte, quoted) {
                (b'"', true) if bytes.next_if_eq(&b'"').is_some() => cell.push(b'"'),
                (b'"', true) => quoted = false,
                (b'"', false) if cell.is_empty() => quoted = true,
                (b'"', false) => return Err(self.error(RowError::new("", RowFault::Type))),
                (b',', false) => cells.push(std::mem::take(&mut cell)),
                (byte, _) => cell.push(byte),
            }
        }
        cells.push(cell);
        Ok(cells)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn rows(text: &'static str) -> Result<Vec<String>, ForeignError> {
        let source = Source::new(0, true, move || Ok(Box::new(Cursor::new(text.as_bytes()))));
        let mut table = Table::open(&source)?;
        let mut rows = Vec::new();
        while let Some(row) = table.advance()? {
            rows.push(String::from_utf8(row.to_vec()).unwrap());
        }
        Ok(rows)
    }

    #[test]
    fn a_row_becomes_an_object() {
        let text = "a,b,c\r\n1,\"{\"\"x\"\": [1, 2]}\",\n\n-2.5,\"line\nbreak, comma\",x\n";
        assert_eq!(
            rows(text).unwrap(),
            [r#"{"a":1,"b":{"x": [1, 2]}}"#, r#"{"a":-2.5,"b":"line\nbreak, comma","c":"x"}"#]
        );
    }

    #[test]
    fn a_broken_row_is_named() {
        assert_eq!(rows("a,b\n1,2\n1\n").unwrap_err(), RowError::new("", RowFault::Disagrees).at(0, 2));
        assert_eq!(rows("a\n\"1\n").unwrap_err(), RowError::new("", RowFault::CutOff).at(0, 1));
        assert_eq!(rows("a\nx\"y\"\n").unwrap_err(), RowError::new("", RowFault::Type).at(0, 1));
    }
}
