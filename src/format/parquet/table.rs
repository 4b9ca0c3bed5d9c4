//! One table being written: rows fill a row group, row groups a part, parts a table.
//!
//! Invariant: where a row group or a part ends depends on the number of rows before it alone; no more than one row group of
//! cells is kept.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use sha2::Digest;

use super::columns::{Buffer, ROW_GROUP, properties};
use super::schema::{Row, parquet_type};
use crate::format::{FileName, FormatError, count};
use crate::trace::manifest::{Sha256, TableFile};

/// Where tables are cut.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of a row group; at most the default.
    pub row_group: usize,
    /// Row groups of a part.
    pub groups: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { row_group: ROW_GROUP, groups: 64 }
    }
}

/// A table being written.
pub(crate) struct TableWriter<R> {
    directory: PathBuf,
    limits: Limits,
    buffers: Vec<Buffer>,
    buffered: usize,
    part: Option<Part>,
    /// Rows and sha256 of the parts that are whole.
    done: Vec<(u64, Sha256)>,
    row: PhantomData<R>,
}

struct Part {
    writer: SerializedFileWriter<Hashed>,
    groups: usize,
    rows: u64,
}

impl<R: Row> TableWriter<R> {
    pub(crate) fn new(directory: &Path, limits: Limits) -> Self {
        Self {
            directory: directory.to_owned(),
            limits,
            buffers: R::COLUMNS.iter().map(|_| Buffer::default()).collect(),
            buffered: 0,
            part: None,
            done: Vec::new(),
            row: PhantomData,
        }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: R) -> Result<(), FormatError> {
        let mut places = self.buffers.iter_mut().zip(R::COLUMNS);
        row.put(&mut |cell| {
            if let Some((buffer, column)) = places.next() {
                buffer.push(column.nullable, cell);
            }
        });
        self.buffered += 1;
        if self.buffered >= self.limits.row_group.min(ROW_GROUP) { self.flush() } else { Ok(()) }
    }

    /// Writes the rest, gives every part its name, and lists them.
    pub(crate) fn finish(mut self) -> Result<Vec<TableFile>, FormatError> {
        self.flush()?;
        if self.done.is_empty() && self.part.is_none() {
            self.part = Some(self.open()?);
        }
        self.close()?;
        let numbers = 0..u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        let parts = numbers.end;
        let rename = |(part, &(rows, sha256))| {
            let name = FileName::Table { table: R::TABLE, part, parts };
            std::fs::rename(self.staged(part), self.directory.join(name.to_string())).map_err(FormatError::io(name))?;
            Ok(TableFile { table: R::TABLE, part, parts, rows, sha256 })
        };
        numbers.zip(&self.done).map(rename).collect()
    }

    /// Where a part lies while nobody knows how many there will be.
    fn staged(&self, part: u32) -> PathBuf {
        self.directory.join(FileName::Table { table: R::TABLE, part, parts: 0 }.to_string())
    }

    fn name(&self) -> FileName {
        FileName::Table { table: R::TABLE, part: u32::try_from(self.done.len()).unwrap_or(u32::MAX), parts: 0 }
    }

    fn open(&self) -> Result<Part, FormatError> {
        let name = self.name();
        let file = File::create_new(self.directory.join(name.to_string())).map_err(FormatError::io(name))?;
        let file = Hashed { file: BufWriter::new(file), hash: sha2::Sha256::new() };
        let writer = parquet_type(R::TABLE)
            .and_then(|schema| SerializedFileWriter::new(file, schema, properties(R::TABLE)?))
            .map_err(refusal(name))?;
        Ok(Part { writer, groups: 0, rows: 0 })
    }

    fn flush(&mut self) -> Result<(), FormatError> {
        if self.buffered == 0 {
            return Ok(());
        }
        let name = self.name();
        let mut part = match self.part.take() {
            Some(part) => part,
            None => self.open()?,
        };
        write_group(&mut part.writer, &mut self.buffers, R::COLUMNS).map_err(refusal(name))?;
        part.groups += 1;
        part.rows += count(std::mem::take(&mut self.buffered));
        let full = part.groups >= self.limits.groups;
        self.part = Some(part);
        if full { self.close() } else { Ok(()) }
    }

    fn close(&mut self) -> Result<(), FormatError> {
        let Some(part) = self.part.take() else { return Ok(()) };
        let name = self.name();
        // This writes the footer.
        let mut hashed = part.writer.into_inner().map_err(refusal(name))?;
        hashed.flush().map_err(FormatError::io(name))?;
        self.done.push((part.rows, Sha256(hashed.hash.finalize().into())));
        Ok(())
    }
}

fn write_group(
    writer: &mut SerializedFileWriter<Hashed>,
    buffers: &mut [Buffer],
    columns: &[super::Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for (buffer, column) in buffers.iter_mut().zip(columns) {
        if let Some(mut writer) = group.next_column()? {
            buffer.write(column, writer.untyped())?;
            writer.close()?;
        }
    }
    group.close().map(drop)
}

/// Reduces an error of the Parquet library to the operating system's reason.
fn refusal(file: FileName) -> impl Fn(ParquetError) -> FormatError {
    move |error| {
        let kind = match error {
            ParquetError::External(error) => error.downcast_ref().map(io::Error::kind),
            _ => None,
        };
        FormatError::Io { file, kind: kind.unwrap_or(io::ErrorKind::Other) }
    }
}

/// A file that is hashed as it is written.
struct Hashed {
    file: BufWriter<File>,
    hash: sha2::Sha256,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(bytes.get(..written).unwrap_or(bytes));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
