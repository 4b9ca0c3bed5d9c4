//! The columns of a flat file, worked out from those of the tables.
//!
//! Invariant: a column of a table stands here under its own name, or under that of its table before it; the columns that tie
//! tables together, and those of the prefix tree, are replaced by the row itself and its block ids.

use std::borrow::Cow;

use crate::format::parquet::{Column, Kind, columns};
use crate::trace::vocab::Table;

/// Tokens per block.
pub(super) const BLOCK_SIZE: &str = "block_size";
/// Which prompts share block ids.
pub(super) const SCOPE: &str = "hash_id_scope";
/// The block ids of a prompt.
pub(super) const HASH_IDS: &str = "hash_ids";

/// A column of a table in a flat file.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) table: Table,
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    pub(super) nullable: bool,
    /// Where it stands in its table.
    pub(super) at: usize,
}

/// Whether the columns of a table are lists.
pub(super) fn listed(table: Table) -> bool {
    matches!(table, Table::Edges | Table::Tools)
}

/// What the tables' own columns need not repeat.
pub(super) fn implied(table: Table, name: &str) -> bool {
    match table {
        Table::Sessions => name == "session",
        Table::Agents => matches!(name, "agent" | "session"),
        Table::Requests => matches!(name, "prefix_request" | "shared_blocks" | "first_block"),
        Table::Edges => matches!(name, "session" | "to_request"),
        Table::Tools => name == "request",
    }
}

/// Every column that comes from a table, requests first.
pub(super) fn places() -> Vec<Place> {
    let tables = [Table::Requests, Table::Sessions, Table::Agents, Table::Edges, Table::Tools];
    let of = |table: Table| {
        let columns = columns(table).iter().enumerate();
        columns
            .filter(move |(_, column)| !implied(table, column.name))
            .map(move |(at, column)| place(table, at, column))
    };
    tables.into_iter().flat_map(of).collect()
}

fn place(table: Table, at: usize, column: &Column) -> Place {
    let name = match table {
        Table::Requests => column.name.into(),
        Table::Sessions => format!("session_{}", column.name).into(),
        Table::Agents => format!("agent_{}", column.name).into(),
        Table::Edges => format!("edge_{}", column.name).into(),
        Table::Tools => format!("tool_{}", column.name).into(),
    };
    Place { table, name, kind: column.kind, nullable: column.nullable, at }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<_> = places().into_iter().map(|place| place.name).collect();
        names.extend([BLOCK_SIZE, SCOPE, HASH_IDS].map(Into::into));
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(
            names.iter().any(|name| name == "edge_from_request") && names.iter().any(|name| name == "input_tokens")
        );
    }
}
