//! `counters.parquet`: what the server's own counters were, page by page.
//!
//! Invariant: one row a value: a counter's increase since the first page, or a gauge as it was; times are those of the records.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use parquet::arrow::ArrowWriter;

use super::scrape::Sample;
use super::table::{RecordError, properties};

/// Writes a file of samples, also of none.
///
/// # Errors
/// If it can't be written.
pub fn write_samples(file: impl Write + Send, samples: &[Sample]) -> Result<(), RecordError> {
    let at = |sample: &Sample| u64::try_from(sample.at.as_micros()).unwrap_or(u64::MAX);
    let at: ArrayRef = Arc::new(UInt64Array::from_iter_values(samples.iter().map(at)));
    let measure: ArrayRef = Arc::new(StringArray::from_iter_values(samples.iter().map(|sample| sample.measure.word())));
    let value: ArrayRef = Arc::new(Float64Array::from_iter_values(samples.iter().map(|sample| sample.value)));
    let batch = RecordBatch::try_from_iter([("at_us", at), ("measure", measure), ("value", value)]);
    let batch = batch.map_err(|_| RecordError)?;
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties()?))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}
