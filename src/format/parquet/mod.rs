//! Our own format: a directory of Parquet tables, one row a session, agent, request, edge or tool call.
//!
//! Invariant: the same sessions and manifest give the same bytes, however they were fed; what a reader accepts, the writer
//! writes again.

mod cell;
mod columns;
mod cursor;
mod pages;
mod read;
mod rows;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod write;

use std::path::Path;

pub use cell::{Kind, Words};
pub(crate) use pages::contained;
pub use read::Reader;
pub(crate) use rows::Base;
pub(crate) use schema::{AgentRow, EdgeRow, RequestRow, Row, SessionRow, ToolRow};
pub use schema::{Column, PARTS, Unit, columns, meaning};
pub use table::Limits;
pub use write::Writer;

use super::{FormatError, TraceFormat, TraceSink, TraceSource};
use crate::trace::Manifest;
use crate::trace::vocab::Loss;

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Directory;

impl TraceFormat for Directory {
    fn name(&self) -> &'static str {
        "tracecloak"
    }

    fn open(&self, path: &Path) -> Result<Box<dyn TraceSource>, FormatError> {
        Ok(Box::new(Reader::open(path, true)?))
    }

    fn create(&self, path: &Path, manifest: Manifest, replace: bool) -> Result<Box<dyn TraceSink>, FormatError> {
        Ok(Box::new(Writer::create(path, manifest, replace, Limits::default())?))
    }

    fn loss(&self) -> &'static [Loss] {
        &[]
    }
}
