//! Writing a flat file.
//!
//! Invariant: no more than some sessions' cells are held at a time.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder, ListBuilder, StringBuilder, UInt64Builder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::columns::{BLOCK_SIZE, HASH_IDS, Place, SCOPE, listed, places};
use crate::format::foreign::outgoing::Blocks;
use crate::format::foreign::output::Output;
use crate::format::foreign::{ExportOptions, ExportReport, ForeignError};
use crate::format::parquet::{Base, Kind, Row};
use crate::format::{TraceSource, count};
use crate::trace::manifest::Totals;
use crate::trace::vocab::{Loss, Scope, Table, Vocabulary};
use crate::trace::{Manifest, Session};

/// Ids and rows that are gathered before they are written.
const BATCH: usize = 1 << 20;
/// Rows of a row group.
const ROW_GROUP: usize = 1 << 16;

/// A row of a table as cells.
type Cells = Vec<Option<u64>>;

/// Writes the trace.
pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    if options.block_size.is_some_and(|size| size != manifest.block_size) {
        return Err(ForeignError::Unfit("flat keeps the block size of the trace"));
    }
    let output = Output::file(target, options.replace)?;
    let mut report = ExportReport::default();
    let mut blocks = Blocks::new(manifest.scope, manifest.block_size);
    let mut file = Flat::create(&output, &manifest)?;
    let mut totals = Totals::default();
    for session in &mut *trace {
        let session = session?;
        let lists = blocks.session(&session)?;
        let base = Base::after(&totals);
        file.session(&session, base, lists)?;
        let mut used: Vec<u32> = session.requests.iter().map(|request| request.agent).collect();
        used.sort_unstable();
        used.dedup();
        report.lost.add(Loss::Agents, count(session.agents.len() - used.len()));
        report.sessions += 1;
        report.requests += count(session.requests.len());
        totals.sessions += 1;
        totals.agents += count(session.agents.len());
        totals.requests += count(session.requests.len());
    }
    file.finish()?;
    output.publish()?;
    Ok(report)
}

struct Flat {
    writer: ArrowWriter<BufWriter<File>>,
    schema: SchemaRef,
    places: Vec<Place>,
    block_size: i64,
    scope: Scope,
    rows: Vec<FlatRow>,
    held: usize,
}

/// A request, and the rows of the other tables that belong to it.
struct FlatRow {
    session: Arc<Cells>,
    agent: Arc<Cells>,
    request: Cells,
    edges: Vec<Cells>,
    tools: Vec<Cells>,
    ids: Vec<(u64, u32)>,
}

impl FlatRow {
    /// The rows of a table.
    fn of(&self, table: Table) -> &[Cells] {
        match table {
            Table::Sessions => std::slice::from_ref(&*self.session),
            Table::Agents => std::slice::from_ref(&*self.agent),
            Table::Requests => std::slice::from_ref(&self.request),
            Table::Edges => &self.edges,
            Table::Tools => &self.tools,
        }
    }
}

fn cells(row: impl Row) -> Cells {
    let mut cells = Vec::new();
    row.put(&mut |cell| cells.push(cell));
    cells
}

impl Flat {
    fn create(output: &Output, manifest: &Manifest) -> Result<Self, ForeignError> {
        let places = places();
        let list = |kind| DataType::List(Arc::new(Field::new("item", kind, true)));
        let mut fields: Vec<Field> = places
            .iter()
            .map(|place| {
                let kind = match place.kind {
                    Kind::Unsigned(64) => DataType::UInt64,
                    Kind::Unsigned(_) => DataType::Int64,
                    Kind::Bool => DataType::Boolean,
                    Kind::Word(_) => DataType::Utf8,
                };
                let kind = if listed(place.table) { list(kind) } else { kind };
                Field::new(place.name.clone(), kind, place.nullable && !listed(place.table))
            })
            .collect();
        fields.push(Field::new(HASH_IDS, list(DataType::Int64), false));
        fields.push(Field::new(BLOCK_SIZE, DataType::Int64, false));
        fields.push(Field::new(SCOPE, DataType::Utf8, false));
        let schema = Arc::new(Schema::new(fields));
        let ids = ColumnPath::new(vec![HASH_IDS.to_owned(), "list".to_owned(), "element".to_owned()]);
        let properties = WriterProperties::builder()
            .set_created_by("tracecloak".to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(9).map_err(|error| refusal(&error))?))
            .set_column_dictionary_enabled(ids.clone(), false)
            .set_column_encoding(ids, Encoding::DELTA_BINARY_PACKED)
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .set_coerce_types(true)
            .build();
        let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(output.create("")?, Arc::clone(&schema), options);
        Ok(Self {
            writer: writer.map_err(|error| refusal(&error))?,
            schema,
            places,
            block_size: manifest.block_size.into(),
            scope: manifest.scope,
            rows: Vec::new(),
            held: 0,
        })
    }

    fn session(&mut self, session: &Session, base: Base, lists: Vec<Vec<(u64, u32)>>) -> Result<(), ForeignError> {
        let own = Arc::new(cells(base.session_row(session)));
        let agents: Vec<Arc<Cells>> =
            (0..).zip(&session.agents).map(|(row, agent)| Arc::new(cells(base.agent_row(row, agent)))).collect();
        let mut edges = session.edges.iter().peekable();
        let mut tools = session.tools.iter().peekable();
        for ((row, request), ids) in (0_u32..).zip(&session.requests).zip(lists) {
            let mut waits = Vec::new();
            while let Some(edge) = edges.next_if(|edge| edge.to <= row) {
                waits.push(cells(base.edge_row(edge)));
            }
            let mut calls = Vec::new();
            while let Some(tool) = tools.next_if(|tool| tool.request <= row) {
                calls.push(cells(base.tool_row(tool)));
            }
            let at = usize::try_from(request.agent).unwrap_or(usize::MAX);
            let Some(agent) = agents.get(at) else { continue };
            self.held += 64 + ids.iter().map(|(_, count)| usize::try_from(*count).unwrap_or(usize::MAX)).sum::<usize>();
            self.rows.push(FlatRow {
                session: Arc::clone(&own),
                agent: Arc::clone(agent),
                request: cells(base.request_row(usize::try_from(row).unwrap_or(usize::MAX), request)),
                edges: waits,
                tools: calls,
                ids,
            });
            if self.held >= BATCH {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ForeignError> {
        let rows = std::mem::take(&mut self.rows);
        self.held = 0;
        if rows.is_empty() {
            return Ok(());
        }
        let mut arrays: Vec<ArrayRef> = self.places.iter().map(|place| array(place, &rows)).collect();
        let mut ids = ListBuilder::new(Int64Builder::new());
        for row in &rows {
            for &(first, count) in &row.ids {
                (0..u64::from(count)).for_each(|at| ids.values().append_value((first + at).cast_signed()));
            }
            ids.append(true);
        }
        arrays.push(Arc::new(ids.finish()));
        arrays.push(Arc::new(Int64Array::from(vec![self.block_size; rows.len()])));
        arrays.push(Arc::new(StringArray::from(vec![self.scope.word(); rows.len()])));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        let batch = batch.map_err(|error| match error {
            ArrowError::IoError(_, error) => ForeignError::Write(error.kind()),
            _ => ForeignError::Write(std::io::ErrorKind::InvalidData),
        })?;
        self.writer.write(&batch).map_err(|error| refusal(&error))
    }

    fn finish(mut self) -> Result<(), ForeignError> {
        self.flush()?;
        self.writer.close().map(drop).map_err(|error| refusal(&error))
    }
}

/// One column of some rows.
fn array(place: &Place, rows: &[FlatRow]) -> ArrayRef {
    let cells = rows.iter().map(|row| row.of(place.table).iter().map(|cells| cells.get(place.at).copied().flatten()));
    let word = |code: Option<u64>| match place.kind {
        Kind::Word(words) => code.and_then(words.word),
        _ => None,
    };
    let number = |code: Option<u64>| code.map(u64::cast_signed);
    match (listed(place.table), place.kind) {
        (false, Kind::Unsigned(64)) => Arc::new(cells.flatten().collect::<UInt64Array>()),
        (false, Kind::Unsigned(_)) => Arc::new(cells.flatten().map(number).collect::<Int64Array>()),
        (false, Kind::Word(_)) => Arc::new(cells.flatten().map(word).collect::<StringArray>()),
        (false, Kind::Bool) => {
            let mut builder = BooleanBuilder::new();
            cells.flatten().for_each(|code| builder.append_option(code.map(|code| code != 0)));
            Arc::new(builder.finish())
        }
        (true, Kind::Unsigned(64)) => {
            let mut builder = ListBuilder::new(UInt64Builder::new());
            for row in cells {
                row.for_each(|code| builder.values().append_option(code));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        (true, Kind::Unsigned(_)) => {
            let mut builder = ListBuilder::new(Int64Builder::new());
            for row in cells {
                row.for_each(|code| builder.values().append_option(number(code)));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        (true, Kind::Word(_)) => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for row in cells {
                row.for_each(|code| builder.values().append_option(word(code)));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        (true, Kind::Bool) => {
            let mut builder = ListBuilder::new(BooleanBuilder::new());
            for row in cells {
                row.for_each(|code| builder.values().append_option(code.map(|code| code != 0)));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
    }
}

/// Reduces an error of the Parquet library to the operating system's reason.
fn refusal(error: &ParquetError) -> ForeignError {
    let kind = match error {
        ParquetError::External(error) => error.downcast_ref().map(std::io::Error::kind),
        _ => None,
    };
    ForeignError::Write(kind.unwrap_or(std::io::ErrorKind::Other))
}
