//! One table being read, row by row over its parts.
//!
//! Invariant: a row that comes out fits its columns; only one batch of rows and one page a column are in memory; a damaged or
//! hostile file ends in an error.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::ColumnReader;
use parquet::file::metadata::ParquetMetaData;
use sha2::Digest;

use super::columns;
use super::pages::{self, Pages, contained};
use super::schema::{Row, parquet_type};
use crate::format::{Fault, FileName, FormatError, count};
use crate::trace::manifest::TableFile;

/// Rows that are decoded at a time.
const BATCH: usize = 4096;

/// A table being read.
pub(crate) struct Cursor<R> {
    directory: PathBuf,
    verify: bool,
    files: VecDeque<TableFile>,
    open: Option<Open>,
    /// Decoded cells by column, and how many rows of them are taken.
    batch: Vec<Vec<Option<u64>>>,
    taken: usize,
    /// Row id of the next row.
    row: u64,
    next: Option<R>,
    kind: PhantomData<R>,
}

struct Open {
    name: FileName,
    file: Arc<Pages>,
    metadata: ParquetMetaData,
    /// The next row group.
    group: usize,
    columns: Vec<ColumnReader>,
    /// Rows left in the current row group.
    left: usize,
}

impl<R: Row> Cursor<R> {
    pub(crate) fn new(directory: &Path, files: &[TableFile], verify: bool) -> Self {
        Self {
            directory: directory.to_owned(),
            verify,
            files: files.iter().filter(|file| file.table == R::TABLE).copied().collect(),
            open: None,
            batch: Vec::new(),
            taken: 0,
            row: 0,
            next: None,
            kind: PhantomData,
        }
    }

    /// Takes the next row if it is one of these.
    pub(crate) fn take_if(&mut self, belongs: impl Fn(&R) -> bool) -> Result<Option<R>, FormatError> {
        if self.next.is_none() {
            self.next = self.read()?;
        }
        let taken = self.next.take_if(|row| belongs(row));
        if taken.is_some() {
            self.row += 1;
        }
        Ok(taken)
    }

    /// The error for the row that was taken last.
    pub(crate) fn error(&self, column: &'static str, fault: Fault) -> FormatError {
        FormatError::Value { table: R::TABLE, row: self.row.saturating_sub(1), column, fault }
    }

    fn read(&mut self) -> Result<Option<R>, FormatError> {
        let decoded = self.batch.first().map_or(0, Vec::len);
        if self.taken >= decoded && !self.fill()? {
            return Ok(None);
        }
        let at = self.taken;
        self.taken += 1;
        let mut columns = self.batch.iter();
        let row = R::get(&mut || columns.next()?.get(at).copied());
        row.map(Some).ok_or_else(|| FormatError::Value {
            table: R::TABLE,
            row: self.row,
            column: R::COLUMNS.first().map_or("", |column| column.name),
            fault: Fault::Domain,
        })
    }

    /// Decodes the next batch; false at the end of the table.
    fn fill(&mut self) -> Result<bool, FormatError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(file) = self.files.pop_front() else { return Ok(false) };
                self.open = Some(self.open_file(file)?);
                continue;
            };
            let error = |fault| FormatError::File { file: open.name, fault };
            if open.left > 0 {
                let rows = open.left.min(BATCH);
                open.left -= rows;
                self.batch.clear();
                self.taken = 0;
                for (reader, column) in open.columns.iter_mut().zip(R::COLUMNS) {
                    let read = contained(|| Ok(columns::read(reader, column, rows))).map_err(error)?;
                    self.batch.push(read.map_err(|(fine, fault)| FormatError::Value {
                        table: R::TABLE,
                        row: self.row + count(fine),
                        column: column.name,
                        fault,
                    })?);
                }
                return Ok(true);
            }
            if open.group < open.metadata.num_row_groups() {
                open.columns = pages::columns(&open.file, &open.metadata, open.group).map_err(error)?;
                let rows = open.metadata.row_group(open.group).num_rows();
                open.left = usize::try_from(rows).map_err(|_| error(Fault::NotParquet))?;
                open.group += 1;
            } else {
                self.open = None;
            }
        }
    }

    fn open_file(&self, file: TableFile) -> Result<Open, FormatError> {
        let name = FileName::Table { table: file.table, part: file.part, parts: file.parts };
        let path = self.directory.join(name.to_string());
        let error = |fault| FormatError::File { file: name, fault };
        // Anything else might never end.
        if !fs::metadata(&path).map_err(FormatError::io(name))?.is_file() {
            return Err(error(Fault::NotParquet));
        }
        let mut source = File::open(path).map_err(FormatError::io(name))?;
        if self.verify {
            let mut hash = sha2::Sha256::new();
            io::copy(&mut source, &mut hash).map_err(FormatError::io(name))?;
            if <[u8; 32]>::from(hash.finalize()) != file.sha256.0 {
                return Err(error(Fault::Sha256));
            }
        }
        let metadata = pages::footer(&source).map_err(error)?;
        let schema = parquet_type(R::TABLE).map_err(|_| error(Fault::Columns))?;
        if metadata.file_metadata().schema() != &*schema {
            return Err(error(Fault::Columns));
        }
        let mut rows = 0u64;
        for group in metadata.row_groups() {
            rows = u64::try_from(group.num_rows())
                .ok()
                .and_then(|more| rows.checked_add(more))
                .filter(|_| group.num_columns() == R::COLUMNS.len())
                .ok_or(error(Fault::NotParquet))?;
        }
        if rows != file.rows {
            return Err(error(Fault::Rows));
        }
        Ok(Open { name, file: Arc::new(Pages(source)), metadata, group: 0, columns: Vec::new(), left: 0 })
    }
}
