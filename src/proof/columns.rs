//! The decoded values of a proved table: each column's numbers in row order.
//!
//! Invariant: only tables that [`crate::format`] has read as a whole come here; their strings are vocabulary words and left out.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::ProofError;
use super::residual::Piece;

/// Values taken over from one row group to the next, so that what spans both is seen.
const OVERLAP: usize = 64;

/// Calls `visit` with the numbers of each column, row group by row group.
pub(super) fn each(place: &Arc<str>, path: &Path, visit: &mut dyn FnMut(Piece<'_>)) -> Result<(), ProofError> {
    let file = File::open(path).map_err(|error| ProofError::io(&error))?;
    let reader = SerializedFileReader::new(file).map_err(|_| ProofError::Unreadable)?;
    let names: Vec<String> = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    for (number, name) in names.iter().enumerate() {
        let place: Arc<str> = format!("{place}: {name}").into();
        let mut values: Vec<u64> = Vec::new();
        for group in 0..reader.num_row_groups() {
            values.drain(..values.len().saturating_sub(OVERLAP));
            let group = reader.get_row_group(group).map_err(|_| ProofError::Unreadable)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            read(&*group, number, rows, &mut values).ok_or(ProofError::Unreadable)?;
            visit(Piece::Numbers { place: &place, values: &values });
        }
    }
    Ok(())
}

fn read(group: &dyn RowGroupReader, column: usize, rows: usize, out: &mut Vec<u64>) -> Option<()> {
    match group.get_column_reader(column).ok()? {
        ColumnReader::Int32ColumnReader(reader) => all(reader, rows, |value| value.cast_unsigned().into(), out),
        ColumnReader::Int64ColumnReader(reader) => all(reader, rows, |value| value.cast_unsigned(), out),
        ColumnReader::BoolColumnReader(reader) => {
            let mut bits = Vec::new();
            all(reader, rows, |value| u64::from(*value), &mut bits)?;
            // Eight of them spell a byte, in either order.
            out.extend(bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit)));
            out.extend(bits.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | bit)));
            Some(())
        }
        _ => Some(()),
    }
}

fn all<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    number: impl Fn(&T::T) -> u64,
    out: &mut Vec<u64>,
) -> Option<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    reader.read_records(rows, Some(&mut levels), None, &mut values).ok()?;
    out.extend(values.iter().map(number));
    Some(())
}
