//! Columns of cells to Parquet and back.
//!
//! Invariant: a code that comes out is in the domain of its column; a row group is written from whole columns, so its bytes
//! depend on its rows alone.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;

use super::cell::Kind;
use super::schema::{Column, columns};
use crate::format::Fault;
use crate::trace::vocab::Table;

/// Rows of a row group; only the last of a file has fewer.
pub(crate) const ROW_GROUP: usize = 1 << 16;

/// The zstd level.
const LEVEL: i32 = 9;

/// How a table is written.
pub(crate) fn properties(table: Table) -> Result<Arc<WriterProperties>, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by("tracecloak".to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_dictionary_enabled(false)
        .set_write_batch_size(ROW_GROUP)
        // One page a column and row group: pages this small need no index.
        .set_data_page_row_count_limit(ROW_GROUP)
        .set_data_page_size_limit(1 << 30);
    for column in columns(table) {
        let path = ColumnPath::from(column.name);
        properties = match column.kind {
            Kind::Unsigned(_) => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Kind::Bool => properties.set_column_encoding(path, Encoding::PLAIN),
            Kind::Word(_) => properties.set_column_dictionary_enabled(path, true),
        };
    }
    Ok(Arc::new(properties.build()))
}

/// Cells of one column that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    codes: Vec<u64>,
    /// For a nullable column: 1 where there is a value.
    levels: Vec<i16>,
}

impl Buffer {
    pub(crate) fn push(&mut self, nullable: bool, cell: Option<u64>) {
        self.codes.extend(cell);
        if nullable {
            self.levels.push(cell.is_some().into());
        }
    }

    /// Writes the cells as a column of a row group, and forgets them.
    pub(crate) fn write(&mut self, column: &Column, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let misfit = || ParquetError::General("a cell does not fit its column".to_owned());
        let codes = std::mem::take(&mut self.codes);
        let levels = std::mem::take(&mut self.levels);
        let levels = column.nullable.then_some(levels.as_slice());
        match (writer, column.kind) {
            (ColumnWriter::Int64ColumnWriter(writer), Kind::Unsigned(_)) => {
                let values: Vec<i64> = codes.into_iter().map(u64::cast_signed).collect();
                writer.write_batch(&values, levels, None)
            }
            (ColumnWriter::Int32ColumnWriter(writer), Kind::Unsigned(_)) => {
                let narrow = |code| u32::try_from(code).map(u32::cast_signed).map_err(|_| misfit());
                let values = codes.into_iter().map(narrow).collect::<Result<Vec<_>, _>>()?;
                writer.write_batch(&values, levels, None)
            }
            (ColumnWriter::BoolColumnWriter(writer), Kind::Bool) => {
                let values: Vec<bool> = codes.into_iter().map(|code| code != 0).collect();
                writer.write_batch(&values, levels, None)
            }
            (ColumnWriter::ByteArrayColumnWriter(writer), Kind::Word(words)) => {
                let mut known = BTreeMap::new();
                let mut values = Vec::with_capacity(codes.len());
                for code in codes {
                    let word = match known.entry(code) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(new) => new.insert((words.word)(code).ok_or_else(misfit)?.as_ref().into()),
                    };
                    values.push(ByteArray::clone(word));
                }
                writer.write_batch(&values, levels, None)
            }
            _ => Err(misfit()),
        }
        .map(drop)
    }
}

/// Reads the next `rows` cells of a column.
///
/// # Errors
/// The first broken rule, and how many rows before it are fine.
pub(crate) fn read(
    reader: &mut ColumnReader,
    column: &Column,
    rows: usize,
) -> Result<Vec<Option<u64>>, (usize, Fault)> {
    let domain = |code: u64| if column.kind.holds(code) { Ok(code) } else { Err(Fault::Domain) };
    match (reader, column.kind) {
        (ColumnReader::Int64ColumnReader(reader), Kind::Unsigned(_)) => {
            cells(reader, column, rows, |value| domain(value.cast_unsigned()))
        }
        (ColumnReader::Int32ColumnReader(reader), Kind::Unsigned(_)) => {
            cells(reader, column, rows, |value| domain(value.cast_unsigned().into()))
        }
        (ColumnReader::BoolColumnReader(reader), Kind::Bool) => {
            cells(reader, column, rows, |value| Ok(u64::from(*value)))
        }
        (ColumnReader::ByteArrayColumnReader(reader), Kind::Word(words)) => {
            // Few words recur, so each is looked up once; only listed words are kept.
            let mut known: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
            cells(reader, column, rows, |value| {
                if let Some(code) = known.get(value.data()) {
                    return Ok(*code);
                }
                let word = std::str::from_utf8(value.data()).map_err(|_| Fault::Word)?;
                let code = (words.code)(word).ok_or(Fault::Word)?;
                known.insert(value.data().to_vec(), code);
                Ok(code)
            })
        }
        _ => Err((0, Fault::Columns)),
    }
}

fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    column: &Column,
    rows: usize,
    mut code: impl FnMut(&T::T) -> Result<u64, Fault>,
) -> Result<Vec<Option<u64>>, (usize, Fault)> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let read = reader.read_records(rows, column.nullable.then_some(&mut levels), None, &mut values);
    let (records, _, _) = read.map_err(|_| (0, Fault::NotParquet))?;
    if !column.nullable {
        levels.resize(records, 1);
    }
    if records != rows || levels.len() != rows {
        return Err((records, Fault::Rows));
    }
    let mut values = values.iter();
    let cell = |(row, level)| match level {
        0 => Ok(None),
        _ => values.next().ok_or(Fault::Null).and_then(&mut code).map(Some).map_err(|fault| (row, fault)),
    };
    levels.into_iter().enumerate().map(cell).collect()
}
