//! SQLite databases: rows are looked at, but free pages and gaps between cells are not, so a database is never clean.
//!
//! Invariant: a database ends as not audited, whatever its rows hold; rows and steps of the engine are bounded.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::FileView;
use super::collect::{Collector, Feed};
use super::fact::{Facts, Kind};
use crate::audit::finding::Place;

/// Most rows of all tables.
const ROWS: u64 = 1 << 20;

/// Most tables.
const TABLES: usize = 1 << 10;

/// Steps of the engine, in thousands: a hostile schema can make a query of one table never end.
const STEPS: u32 = 1 << 20;

/// Takes the rows of all tables.
pub(crate) fn read(input: &[u8], feed: &mut Feed<'_>) -> FileView {
    let mut facts = Facts::default();
    let message = "a database: what lies between its rows can't be accounted for";
    facts.add(Kind::Undecodable, Place::default(), message, Some(crate::audit::wide(input.len())));
    let mut to = Collector::new(feed, facts, None, false);
    if rows(input, &mut to).is_err() {
        to.view.facts.add(Kind::Undecodable, Place::default(), "a damaged database", None);
    }
    to.finish()
}

fn rows(input: &[u8], to: &mut Collector<'_, '_>) -> Result<()> {
    let mut connection = Connection::open_in_memory()?;
    // A log beside it is another file: what is read here is the file alone, in rollback mode.
    let mut image = input.to_vec();
    image.iter_mut().skip(18).take(2).for_each(|version| *version = 1);
    connection.deserialize_read_exact("main", image.as_slice(), image.len(), true)?;
    let mut steps = 0;
    connection.progress_handler(
        1000,
        Some(move || {
            steps += 1;
            steps > STEPS
        }),
    )?;
    let mut names = connection.prepare("SELECT name, sql, rootpage FROM sqlite_schema LIMIT 65536")?;
    let mut tables = Vec::new();
    let mut listed = names.query([])?;
    while let Some(row) = listed.next()? {
        let (name, sql, root) = (row.get_ref(0)?, row.get_ref(1)?, row.get_ref(2)?);
        if let ValueRef::Text(sql) = sql {
            // The text that made a table holds its comments too.
            to.text(0, sql, None);
        }
        if let (ValueRef::Text(name), ValueRef::Integer(1..)) = (name, root)
            && sql.as_str().is_ok_and(|sql| sql.get(..12).is_some_and(|head| head.eq_ignore_ascii_case("create table")))
            && tables.len() < TABLES
        {
            tables.push(name.to_vec());
        }
    }
    for table in tables {
        let Ok(table) = std::str::from_utf8(&table) else { continue };
        let node = to.nodes.child(0, table.as_bytes(), to.row);
        let mut select = connection.prepare(&format!("SELECT * FROM \"{}\"", table.replace('"', "\"\"")))?;
        let columns: Vec<usize> =
            select.column_names().map(|column| to.nodes.child(node, column.as_bytes(), 0)).collect();
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            if to.row >= ROWS {
                return Ok(());
            }
            for (at, column) in columns.iter().enumerate() {
                match row.get_ref(at)? {
                    ValueRef::Null => to.null(*column),
                    ValueRef::Integer(value) => to.int(*column, value, false, None),
                    ValueRef::Real(value) => to.float(*column, value, None),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => to.text(*column, bytes, None),
                }
            }
            to.end_record();
        }
    }
    Ok(())
}
