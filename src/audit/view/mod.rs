//! Files taken apart, down to the last byte.
//!
//! Invariant: every reader here is bounded in time and memory by [`Limits`], whatever the file claims; damage ends in a fact of
//! kind [`Kind::Undecodable`], never in a panic.

mod archive;
mod arrow;
mod choices;
mod collect;
mod compress;
mod content;
mod csv;
mod fact;
mod json;
mod lz4;
mod names;
mod node;
mod open;
mod parquet;
mod sink;
mod sqlite;
mod zip;

use std::ops::Range;

pub use collect::Feed;
pub use fact::{Fact, Facts, Kind};
pub use open::decode;
pub(crate) use open::{open, open_file};
pub use sink::Sink;

use super::rules::Rules;
use super::vocab::{Format, Role, Shape};

/// What no file may make this program exceed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one file, as it is or decompressed.
    pub bytes: usize,
    /// What a stream may grow by, beyond its first 64 MiB.
    pub ratio: usize,
    /// Containers in containers.
    pub depth: usize,
    /// Values of one column chunk.
    pub values: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 4 << 30, ratio: 1000, depth: 4, values: 1 << 26 }
    }
}

/// A file after everything in it has been seen.
#[derive(Debug, Default)]
pub struct FileView {
    /// What its readers saw.
    pub facts: Facts,
    /// The declared format it is of.
    pub format: Option<&'static Format>,
    /// Rows, records or documents.
    pub rows: u64,
    /// Bytes of strings that no closed vocabulary proved.
    pub open_bytes: u64,
    /// Fields that hold exact lengths.
    pub exact_lengths: bool,
    /// Fields that tell configurations apart.
    pub configuration: bool,
    /// Names of the files that a trace of ours declares.
    pub format_files: std::collections::BTreeSet<String>,
    /// Numbers of each column: label, how many, and bits of information (0 where not counted).
    pub columns: Vec<(String, u64, f64)>,
}

/// Numbers of one column, or a chunk of them.
#[derive(Debug)]
pub struct ColumnView<'a> {
    /// Its path.
    pub label: &'a str,
    /// Its declared type, if it is declared.
    pub shape: Option<&'static Shape>,
    /// What it means.
    pub role: Role,
    /// Row of the first value.
    pub row: u64,
    /// Integers, in row order, as signed 64-bit patterns.
    pub values: &'a [i64],
    /// Where each list (or row) ends in `values`.
    pub lists: &'a [usize],
    /// Numbers with a fraction, in row order.
    pub floats: &'a [f64],
    /// True and false, in row order.
    pub bits: &'a [bool],
    /// Whether values above 2^53 stand in JSON.
    pub json: bool,
    /// Answer tokens of the requests that the lists belong to, in order; empty where not known.
    pub outputs: &'a [u64],
}

/// A string that no closed vocabulary proved.
#[derive(Debug)]
pub struct TextView<'a> {
    /// Path of its column.
    pub label: &'a str,
    /// What was declared there.
    pub shape: Option<&'static Shape>,
    /// Its row.
    pub row: u64,
    /// Its first byte in the file, where known.
    pub offset: Option<usize>,
    /// The bytes. They stay in this struct: no finding keeps them.
    pub bytes: &'a [u8],
    /// The secret rules in use.
    pub rules: &'a Rules,
}

impl TextView<'_> {
    /// Where it is.
    pub fn place(&self) -> super::Place {
        let place = super::Place::column(self.label).row(self.row);
        match self.offset {
            Some(offset) => place.offset(offset),
            None => place,
        }
    }

    /// It as text, damaged bytes replaced.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

/// One request as the checks see it.
#[derive(Clone, Debug, Default)]
pub struct RequestView {
    /// Its block ids, as a range of [`SessionView::ids`].
    pub ids: Range<usize>,
    /// Prompt tokens.
    pub input: Option<u64>,
    /// Answer tokens.
    pub output: Option<u64>,
    /// Since the beginning of the trace, in the unit of the format.
    pub time: Option<f64>,
    /// Which session its row belongs to, as a number or a hash of the name.
    pub session: Option<u64>,
    /// Its row or record.
    pub row: u64,
}

/// The requests that share a space of block ids.
#[derive(Debug)]
pub struct SessionView<'a> {
    /// The declared format.
    pub format: Option<&'static Format>,
    /// Block ids of all requests, one after another.
    pub ids: &'a [u64],
    /// The requests, in file order.
    pub requests: &'a [RequestView],
    /// Tokens per block.
    pub block_size: u64,
    /// Whether a scope was stated, and whether it is local.
    pub scope: Option<bool>,
    /// First row.
    pub row: u64,
    /// Label of the column of ids.
    pub label: &'a str,
    /// Whether it stands in JSON.
    pub json: bool,
}

impl ColumnView<'_> {
    /// Where it is.
    pub fn place(&self) -> super::Place {
        super::Place::column(self.label).row(self.row)
    }
}

impl SessionView<'_> {
    /// Where its ids are.
    pub fn place(&self) -> super::Place {
        super::Place::column(self.label).row(self.row)
    }

    /// Whether its ids are numbered by first appearance, from 0 or 1: then they say no more than which prefixes are equal.
    pub fn is_canonical(&self) -> bool {
        let first = self.ids.first().copied().unwrap_or(0);
        let mut next = first;
        first <= 1
            && self.ids.iter().all(|id| {
                let new = *id == next;
                next += u64::from(new);
                new || (first..next).contains(id)
            })
    }

    /// The block ids of a request.
    pub fn ids_of(&self, request: &RequestView) -> &[u64] {
        self.ids.get(request.ids.clone()).unwrap_or_default()
    }
}

/// What is kept of all files, for checks across them and for the risk tables.
#[derive(Debug, Default)]
pub struct Dataset {
    /// Per session: its file, row, requests as (input, output), and its configuration.
    pub sessions: Vec<SessionDigest>,
    /// Per file: a sample of raw-looking ids (beyond 2^32), sorted.
    pub raw_ids: Vec<(String, Vec<u64>)>,
}

/// One session, reduced to what identifies it.
#[derive(Clone, Debug, Default)]
pub struct SessionDigest {
    /// The file it is in.
    pub file: String,
    /// Its first row.
    pub row: u64,
    /// Prompt and answer tokens of each request.
    pub lengths: Vec<(u64, u64)>,
    /// Lengths of tools and system, where stated.
    pub configuration: Vec<u64>,
}
