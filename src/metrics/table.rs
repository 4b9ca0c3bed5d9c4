//! `records.parquet`: one row a request.
//!
//! Invariant: rows are written in the order in which requests ended, some thousand at a time, so that memory stays bounded.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::RequestRecord;

/// Rows that are held before they are written.
const BATCH: usize = 1 << 14;

type Values = fn(&[RequestRecord]) -> ArrayRef;

/// A column: name, type, whether it may be null, and its values.
struct Column(&'static str, DataType, bool, Values);

macro_rules! column {
    ($name:literal, $array:ident, $kind:ident, some $get:expr) => {
        Column($name, DataType::$kind, true, |rows| Arc::new(rows.iter().map($get).collect::<$array>()))
    };
    ($name:literal, $array:ident, $kind:ident, $get:expr) => {
        Column($name, DataType::$kind, false, |rows| Arc::new(rows.iter().map($get).map(Some).collect::<$array>()))
    };
}

const COLUMNS: &[Column] = &[
    column!("session", UInt32Array, UInt32, |row| row.session),
    column!("request", UInt32Array, UInt32, |row| row.request),
    column!("agent", UInt32Array, UInt32, |row| row.agent),
    column!("turn", UInt32Array, UInt32, |row| row.turn),
    column!("id", StringArray, Utf8, |row| row.id.to_string()),
    column!("prime", BooleanArray, Boolean, |row| row.prime),
    column!("ending", StringArray, Utf8, |row| row.ending.word()),
    column!("status", UInt32Array, UInt32, some | row | row.status.map(u32::from)),
    column!("attempts", UInt32Array, UInt32, |row| row.attempts),
    column!("rate_limited", UInt32Array, UInt32, |row| row.rate_limited),
    column!("due_us", UInt64Array, UInt64, some | row | row.due_us),
    column!("held_us", UInt64Array, UInt64, |row| row.held_us),
    column!("sent_us", UInt64Array, UInt64, some | row | row.sent_us),
    column!("resent_us", UInt64Array, UInt64, some | row | row.resent_us),
    column!("first_byte_us", UInt64Array, UInt64, some | row | row.first_byte_us),
    column!("first_content_us", UInt64Array, UInt64, some | row | row.first_content_us),
    column!("last_content_us", UInt64Array, UInt64, some | row | row.last_content_us),
    column!("last_byte_us", UInt64Array, UInt64, some | row | row.last_byte_us),
    column!("lag_us", UInt64Array, UInt64, some RequestRecord::lag_us),
    column!("events", UInt32Array, UInt32, |row| row.events),
    column!("input_tokens", UInt32Array, UInt32, |row| row.input_tokens),
    column!("output_tokens", UInt32Array, UInt32, some | row | row.output_tokens),
    column!("sent_tokens", UInt32Array, UInt32, some | row | row.sent_tokens),
    column!("max_tokens", UInt32Array, UInt32, |row| row.max_tokens),
    column!("planned_cached", UInt32Array, UInt32, some | row | row.planned_cached),
    column!("short_blocks", UInt32Array, UInt32, some | row | row.short_blocks),
    column!("corrected", UInt32Array, UInt32, |row| row.corrected),
    column!("prompt_tokens", UInt64Array, UInt64, some | row | row.prompt_tokens),
    column!("cached_tokens", UInt64Array, UInt64, some | row | row.cached_tokens),
    column!("answer_tokens", UInt64Array, UInt64, some | row | row.answer_tokens),
    column!("worker", UInt32Array, UInt32, some | row | row.worker),
];

/// Names of the columns, in file order.
pub fn columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.iter().map(|column| column.0)
}

/// Writes records.
pub struct RecordWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    rows: Vec<RequestRecord>,
}

/// Records could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the records cannot be written")]
pub struct RecordError;

impl From<ParquetError> for RecordError {
    fn from(_: ParquetError) -> Self {
        Self
    }
}

impl<W: Write + Send> RecordWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn new(file: W) -> Result<Self, RecordError> {
        let fields: Vec<_> =
            COLUMNS.iter().map(|Column(name, kind, nullable, _)| Field::new(*name, kind.clone(), *nullable)).collect();
        let schema = Arc::new(Schema::new(fields));
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties()?))?;
        Ok(Self { writer, schema, rows: Vec::new() })
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn push(&mut self, record: RequestRecord) -> Result<(), RecordError> {
        self.rows.push(record);
        if self.rows.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn finish(mut self) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.close()?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RecordError> {
        let columns = COLUMNS.iter().map(|column| column.3(&self.rows)).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|_| RecordError)?;
        self.rows.clear();
        self.writer.write(&batch)?;
        // A row group of its own, so that nothing more is held.
        Ok(self.writer.flush()?)
    }
}

/// How the files of a run are compressed.
pub(super) fn properties() -> Result<WriterProperties, ParquetError> {
    Ok(WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?)).build())
}
