//! Reading a flat file.
//!
//! Invariant: rows of a session stand together; a column that is missing has its plain value, but `session`, `input_tokens` and
//! `hash_ids` must be there. Damaged bytes end in an error, not in a panic.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::columns::{BLOCK_SIZE, HASH_IDS, Place, SCOPE, implied, listed, places};
use crate::format::foreign::session::fingerprint;
use crate::format::foreign::{
    ForeignError, Frame, Ids, ImportOptions, ImportReport, Refused, RowError, RowFault, Source, Take, TreeFromIds,
};
use crate::format::parquet::{
    AgentRow, Base, EdgeRow, Kind, RequestRow, Row, SessionRow, ToolRow, Unit, columns, contained,
};
use crate::format::{Fault, count};
use crate::trace::manifest::Totals;
use crate::trace::vocab::{AgentKind, Anomaly, Inferred, Scope, Table, Vocabulary};
use crate::trace::{Model, Session};

/// Rows that are decoded at a time.
const BATCH: usize = 256;
/// What is taken where the file does not say.
const DEFAULT_BLOCK_SIZE: u32 = 64;

/// Places of columns in their tables; a test holds them to it.
const REQUEST: usize = 0;
const SESSION: usize = 1;
const AGENT: usize = 2;
const EXTENDS: usize = 6;
const INPUT_TOKENS: usize = 8;
const AGENT_KIND: usize = 4;

/// A row, cell by cell.
#[derive(Default)]
struct FlatRow {
    cells: BTreeMap<(u8, usize), Vec<Option<u64>>>,
    ids: Ids,
    block_size: Option<u32>,
    scope: Option<Scope>,
}

/// Reads the files.
pub(super) fn import(sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
    let mut state = State {
        places: places(),
        options,
        frame: None,
        tree: TreeFromIds::new(),
        totals: Totals::default(),
        seen: HashSet::new(),
        report: ImportReport::default(),
    };
    for source in sources {
        let mut content = Vec::new();
        source.read()?.read_to_end(&mut content).map_err(|error| source.refused(&error))?;
        let damaged = |_| ForeignError::Damaged(source.number);
        let content = Bytes::from(content);
        let batches = contained(|| {
            let reader = ParquetRecordBatchReaderBuilder::try_new(content).map_err(|_| Fault::NotParquet)?;
            reader.with_batch_size(BATCH).build().map_err(|_| Fault::NotParquet)
        });
        let mut batches = batches.map_err(damaged)?;
        let mut open: Vec<FlatRow> = Vec::new();
        let mut row = 0;
        loop {
            let batch = contained(|| batches.next().transpose().map_err(|_| Fault::NotParquet)).map_err(damaged)?;
            let Some(batch) = batch else { break };
            let rows = state.rows(&batch).map_err(|(at, error)| error.at(source.number, row + count(at) + 1))?;
            for next in rows {
                let other = open.first().is_some_and(|first| first.session() != next.session());
                if other {
                    state.session(std::mem::take(&mut open), take).map_err(|error| error.at(source.number, row))?;
                }
                row += 1;
                open.push(next);
            }
        }
        if !open.is_empty() {
            state.session(open, take).map_err(|error| error.at(source.number, row))?;
        }
        state.report.rows += row;
    }
    Ok(state.report)
}

struct State {
    places: Vec<Place>,
    options: ImportOptions,
    frame: Option<Frame>,
    tree: TreeFromIds,
    totals: Totals,
    seen: HashSet<u64>,
    report: ImportReport,
}

/// The number of a table, as a key.
fn key(table: Table) -> u8 {
    match table {
        Table::Requests => 0,
        Table::Sessions => 1,
        Table::Agents => 2,
        Table::Edges => 3,
        Table::Tools => 4,
    }
}

impl State {
    /// The rows of a batch.
    fn rows(&self, batch: &RecordBatch) -> Result<Vec<FlatRow>, (usize, RowError)> {
        let mut rows: Vec<FlatRow> = (0..batch.num_rows()).map(|_| FlatRow::default()).collect();
        let missing = |name| (0, RowError::new(name, RowFault::Missing));
        for place in &self.places {
            let Some(column) = batch.column_by_name(&place.name) else { continue };
            let name = name(place);
            for (at, row) in rows.iter_mut().enumerate() {
                let cells = if listed(place.table) {
                    let Some(items) = list(column, at) else { return Err((at, RowError::new(name, RowFault::Type))) };
                    (0..items.len()).map(|item| cell(&items, item, place.kind)).collect()
                } else {
                    cell(column, at, place.kind).map(|cell| vec![cell])
                };
                let cells: Vec<Option<u64>> = cells.map_err(|fault| (at, RowError::new(name, fault)))?;
                if !place.nullable && cells.contains(&None) {
                    return Err((at, RowError::new(name, RowFault::Empty)));
                }
                row.cells.insert((key(place.table), place.at), cells);
            }
        }
        for (name, at) in [("session", SESSION), ("input_tokens", INPUT_TOKENS)] {
            if rows.first().is_some_and(|row| !row.cells.contains_key(&(key(Table::Requests), at))) {
                return Err(missing(name));
            }
        }
        let ids = batch.column_by_name(HASH_IDS).ok_or_else(|| missing(HASH_IDS))?;
        for (at, row) in rows.iter_mut().enumerate() {
            let error = |fault| (at, RowError::new(HASH_IDS, fault));
            let items = list(ids, at).ok_or_else(|| error(RowFault::Type))?;
            for item in 0..items.len() {
                let id = cell(&items, item, Kind::Unsigned(64)).map_err(error)?;
                row.ids.push(id.ok_or_else(|| error(RowFault::Empty))?);
            }
            if let Some(sizes) = batch.column_by_name(BLOCK_SIZE) {
                let size =
                    cell(sizes, at, Kind::Unsigned(32)).map_err(|fault| (at, RowError::new(BLOCK_SIZE, fault)))?;
                row.block_size = size.and_then(|size| u32::try_from(size).ok());
            }
            if let Some(scopes) = batch.column_by_name(SCOPE) {
                let scope = text(scopes, at).and_then(Scope::parse);
                row.scope = Some(scope.ok_or((at, RowError::new(SCOPE, RowFault::Word)))?);
            }
        }
        Ok(rows)
    }

    /// Makes the session of its rows.
    fn session(&mut self, rows: Vec<FlatRow>, take: Take<'_>) -> Result<(), Refused> {
        let fault = |field, fault| Refused::Row(RowError::new(field, fault));
        let first = rows.first().ok_or(fault("session", RowFault::Empty))?;
        let size = first.block_size.or(self.options.block_size).unwrap_or(DEFAULT_BLOCK_SIZE);
        // Without a tree per contributor, `shared` is read as the scope that keeps all its equalities.
        let scope = match first.scope {
            Some(Scope::Session) => Scope::Session,
            _ => Scope::Dataset,
        };
        let frame = Frame { block_size: size, scope };
        if size == 0 || self.frame.is_some_and(|known| known != frame) {
            return Err(fault(BLOCK_SIZE, RowFault::Disagrees));
        }
        self.frame = Some(frame);
        if scope == Scope::Session {
            self.tree.begin_session();
        }
        let mut session = self.tables(&rows)?;
        let stated: Vec<bool> = session.requests.iter().map(|request| request.prefix.extends).collect();
        let known = first.cells.contains_key(&(key(Table::Requests), EXTENDS));
        let lists = rows.into_iter().map(|row| row.ids);
        let long = |(ids, request): (&Ids, &crate::trace::Request)| ids.len() > request.input_tokens.div_ceil(size);
        let lists: Vec<Ids> = lists.collect();
        if lists.iter().zip(&session.requests).any(long) {
            return Err(fault(HASH_IDS, RowFault::TooMany));
        }
        let tails = self.tree.fill(&mut session.requests, lists, size);
        if known {
            for (request, extends) in session.requests.iter_mut().zip(stated) {
                // Only where the blocks allow it.
                request.prefix.extends &= extends;
            }
        } else {
            self.report.inferred.add(Inferred::Tails, tails);
        }
        self.totals.sessions += 1;
        self.totals.agents += count(session.agents.len());
        self.totals.requests += count(session.requests.len());
        self.report.anomalies.note(Anomaly::DuplicateSessions, !self.seen.insert(fingerprint(&session)));
        Ok(take(frame, session)?)
    }

    /// The tables' rows of a session.
    fn tables(&self, rows: &[FlatRow]) -> Result<Session, RowError> {
        let base = Base::after(&self.totals);
        let outside = |column| RowError::new(column, RowFault::Dangling);
        let numbers = Numbers::of(rows, &self.totals);
        let (mut requests, mut edges, mut tools) = (Vec::new(), Vec::new(), Vec::new());
        let mut agents: BTreeMap<u64, AgentRow> = BTreeMap::new();
        for (row, flat) in (self.totals.requests..).zip(rows) {
            let request: RequestRow = numbers.row(flat, 0, row)?;
            requests.push(base.request_of(&request).map_err(outside)?);
            let mut agent: AgentRow = numbers.row(flat, 0, row)?;
            if !flat.cells.contains_key(&(key(Table::Agents), AGENT_KIND))
                && u64::from(agent.agent) > self.totals.agents
            {
                agent.kind = AgentKind::Subagent;
            }
            agents.entry(agent.agent.into()).or_insert(agent);
            for item in 0..flat.length(Table::Edges) {
                edges.push(base.edge_of(&numbers.row::<EdgeRow>(flat, item, row)?).map_err(outside)?);
            }
            for item in 0..flat.length(Table::Tools) {
                tools.push(base.tool_of(&numbers.row::<ToolRow>(flat, item, row)?).map_err(outside)?);
            }
        }
        let first = rows.first().ok_or(RowError::new("session", RowFault::Empty))?;
        let SessionRow { start_ms, harness, source_number, .. } = numbers.row(first, 0, self.totals.requests)?;
        let agents = agents.values().map(|agent| base.agent_of(agent)).collect::<Result<_, _>>().map_err(outside)?;
        Ok(Session { start_ms, harness, source_number, agents, requests, edges, tools })
    }
}

/// From the row numbers of the file to ours.
struct Numbers {
    session: u64,
    /// The first request of the session: in the file, and here.
    request: (u64, u64),
    agents: BTreeMap<u64, u64>,
}

impl Numbers {
    fn of(rows: &[FlatRow], totals: &Totals) -> Self {
        let known: std::collections::BTreeSet<u64> = rows.iter().map(FlatRow::agent).collect();
        let first = rows.first().and_then(|row| row.cell(Table::Requests, REQUEST, 0)).unwrap_or(0);
        Self {
            session: totals.sessions,
            request: (first, totals.requests),
            agents: known.into_iter().zip(totals.agents..).collect(),
        }
    }

    /// The row of a table, for the request with this number.
    fn row<R: Row>(&self, flat: &FlatRow, item: usize, request: u64) -> Result<R, RowError> {
        let mut cells = Vec::with_capacity(R::COLUMNS.len());
        for (at, column) in R::COLUMNS.iter().enumerate() {
            let stated = flat.cell(R::TABLE, at, item);
            let implied = !Self::stands(R::TABLE, at);
            let cell = match column.unit {
                Unit::Row(Table::Sessions) => Some(self.session),
                Unit::Row(Table::Agents) if R::TABLE == Table::Requests || implied => {
                    self.agents.get(&flat.agent()).copied()
                }
                // An agent without a request is in no row.
                Unit::Row(Table::Agents) => stated.and_then(|agent| self.agents.get(&agent).copied()),
                Unit::Row(Table::Requests) if column.name == "prefix_request" => None,
                Unit::Row(Table::Requests) if implied || (R::TABLE == Table::Requests && at == REQUEST) => {
                    Some(request)
                }
                Unit::Row(Table::Requests) => {
                    let moved = |row: u64| (row.checked_sub(self.request.0)?).checked_add(self.request.1);
                    let moved = stated.map(|row| moved(row).ok_or(RowError::new(column.name, RowFault::Dangling)));
                    moved.transpose()?
                }
                _ => stated.or(if column.nullable { None } else { Some(plain(column.kind)) }),
            };
            cells.push(cell);
        }
        let mut cells = cells.into_iter();
        R::get(&mut || cells.next()).ok_or(RowError::new("", RowFault::Domain))
    }

    fn stands(table: Table, at: usize) -> bool {
        columns(table).get(at).is_some_and(|column| !implied(table, column.name))
    }
}

/// What stands for a column that a file does not have.
fn plain(kind: Kind) -> u64 {
    match kind {
        Kind::Word(words) if words.name == "Model" => Model::OTHER.into(),
        _ => 0,
    }
}

impl FlatRow {
    fn cell(&self, table: Table, at: usize, item: usize) -> Option<u64> {
        self.cells.get(&(key(table), at)).and_then(|cells| cells.get(item).copied().flatten())
    }

    fn session(&self) -> Option<u64> {
        self.cell(Table::Requests, SESSION, 0)
    }

    fn agent(&self) -> u64 {
        self.cell(Table::Requests, AGENT, 0).unwrap_or(0)
    }

    /// How many items the lists of a table have: the shortest counts.
    fn length(&self, table: Table) -> usize {
        let lists = self.cells.iter().filter(|((of, _), _)| *of == key(table));
        lists.map(|(_, cells)| cells.len()).min().unwrap_or(0)
    }
}

/// The items of a list.
fn list(column: &ArrayRef, at: usize) -> Option<ArrayRef> {
    match column.data_type() {
        DataType::List(_) => Some(column.as_list::<i32>().value(at)),
        DataType::LargeList(_) => Some(column.as_list::<i64>().value(at)),
        _ => None,
    }
}

fn text(column: &ArrayRef, at: usize) -> Option<&str> {
    match column.data_type() {
        _ if column.is_null(at) => None,
        DataType::Utf8 => Some(column.as_string::<i32>().value(at)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(at)),
        _ => None,
    }
}

/// The code of a value.
fn cell(column: &ArrayRef, at: usize, kind: Kind) -> Result<Option<u64>, RowFault> {
    if column.is_null(at) {
        return Ok(None);
    }
    let signed = |value: i64| u64::try_from(value).map_err(|_| RowFault::Domain);
    let code = match (kind, column.data_type()) {
        (Kind::Word(words), _) => {
            let word = text(column, at).ok_or(RowFault::Type)?;
            return (words.code)(word).map(Some).ok_or(RowFault::Word);
        }
        (Kind::Bool, DataType::Boolean) => column.as_boolean().value(at).into(),
        (Kind::Unsigned(_), DataType::Int8) => signed(column.as_primitive::<Int8Type>().value(at).into())?,
        (Kind::Unsigned(_), DataType::Int16) => signed(column.as_primitive::<Int16Type>().value(at).into())?,
        (Kind::Unsigned(_), DataType::Int32) => signed(column.as_primitive::<Int32Type>().value(at).into())?,
        (Kind::Unsigned(_), DataType::Int64) => signed(column.as_primitive::<Int64Type>().value(at))?,
        (Kind::Unsigned(_), DataType::UInt8) => column.as_primitive::<UInt8Type>().value(at).into(),
        (Kind::Unsigned(_), DataType::UInt16) => column.as_primitive::<UInt16Type>().value(at).into(),
        (Kind::Unsigned(_), DataType::UInt32) => column.as_primitive::<UInt32Type>().value(at).into(),
        (Kind::Unsigned(_), DataType::UInt64) => column.as_primitive::<UInt64Type>().value(at),
        _ => return Err(RowFault::Type),
    };
    if kind.holds(code) { Ok(Some(code)) } else { Err(RowFault::Domain) }
}

/// The name of a column, for errors: that of its table's column.
fn name(place: &Place) -> &'static str {
    columns(place.table).get(place.at).map_or("", |column| column.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_that_are_known_by_place_stand_there() {
        let named = |table, at: usize| columns(table)[at].name;
        for (at, name) in [
            (REQUEST, "request"),
            (SESSION, "session"),
            (AGENT, "agent"),
            (EXTENDS, "extends"),
            (INPUT_TOKENS, "input_tokens"),
        ] {
            assert_eq!(named(Table::Requests, at), name);
        }
        assert_eq!(named(Table::Agents, AGENT_KIND), "kind");
    }
}
