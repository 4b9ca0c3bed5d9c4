//! What can be wrong with a trace's files, and the names those files may have.
//!
//! Invariant: a message says where (file, table, row, column, member) and which rule was broken, never the value.

use std::fmt;
use std::io;

use crate::trace::TreeError;
use crate::trace::vocab::{Table, Vocabulary};

/// A file of a trace directory. No other name can occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// The directory itself.
    Directory,
    /// `manifest.json`.
    Manifest,
    /// `README.md`.
    Card,
    /// A table, or one part of it.
    Table {
        /// Which table.
        table: Table,
        /// Which part, from 0.
        part: u32,
        /// Of how many.
        parts: u32,
    },
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Directory => formatter.write_str("the trace directory"),
            Self::Manifest => formatter.write_str("manifest.json"),
            Self::Card => formatter.write_str("README.md"),
            Self::Table { table, parts: 1, .. } => write!(formatter, "{}.parquet", table.word()),
            Self::Table { table, part, parts } => {
                write!(formatter, "{}-{part:05}-of-{parts:05}.parquet", table.word())
            }
        }
    }
}

impl FileName {
    /// The file with this name, if a trace can have one. A directory has no name.
    pub fn parse(name: &str) -> Option<Self> {
        let file = match name {
            "manifest.json" => Self::Manifest,
            "README.md" => Self::Card,
            _ => {
                let stem = name.strip_suffix(".parquet")?;
                let (table, part, parts) = match stem.split_once('-') {
                    None => (stem, 0, 1),
                    Some((table, numbers)) => {
                        let (part, parts) = numbers.split_once("-of-")?;
                        (table, part.parse().ok()?, parts.parse().ok()?)
                    }
                };
                Self::Table { table: Table::parse(table)?, part, parts }
            }
        };
        (file.to_string() == name).then_some(file)
    }
}

/// A rule that a trace breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not a file of this kind at all, or damaged.
    #[error("not readable as Parquet")]
    NotParquet,
    /// Columns differ from the declared ones in name, order or type.
    #[error("columns are not the declared ones")]
    Columns,
    /// A row group or a page is larger than a writer makes it.
    #[error("a row group or a page is too large")]
    TooLarge,
    /// Compressed other than by zstd, in one frame.
    #[error("not compressed as declared")]
    Compression,
    /// Rows are not as many as stated.
    #[error("rows are not as many as stated")]
    Rows,
    /// The file's bytes are others than the manifest says.
    #[error("sha256 is not the manifest's")]
    Sha256,
    /// A number beyond the type of its column.
    #[error("a number outside its domain")]
    Domain,
    /// A word that no vocabulary knows.
    #[error("a word outside its vocabulary")]
    Word,
    /// Null in a column that has none.
    #[error("null where a value must stand")]
    Null,
    /// Row ids are not dense and in row order.
    #[error("row ids are not dense and in order")]
    NotDense,
    /// A row id that names no row of the same session.
    #[error("names no row of this session")]
    OutOfSession,
    /// Rows stand in another order than the declared one, or twice.
    #[error("rows are not in their order")]
    Order,
    /// A later row is named where only an earlier one can stand, or the other way round.
    #[error("earlier and later are the wrong way round")]
    Direction,
    /// A row after the last session.
    #[error("belongs to no session")]
    Orphan,
    /// The first agent is not a main agent, or another one is.
    #[error("the first agent of a session, and only it, is the main agent")]
    MainAgent,
    /// A session without requests.
    #[error("a session without requests")]
    Empty,
    /// More rows than the format can number.
    #[error("more rows than the format can number")]
    TooMany,
    /// `extends` without the whole of an earlier prompt of the session before it.
    #[error("extends, but the whole of the earlier prompt does not lead this one")]
    Extends,
    /// Prefix columns contradict each other.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A version that this program does not know.
    #[error("an unknown format version")]
    Version,
    /// Members that do not agree with each other or with the tables.
    #[error("does not agree with the rest")]
    Disagrees,
}

/// Why a trace could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The operating system refused.
    #[error("{file}: {kind}")]
    Io {
        /// Where.
        file: FileName,
        /// Why.
        kind: io::ErrorKind,
    },
    /// Something is there already.
    #[error("the target exists and was not to be replaced")]
    Exists,
    /// What would be replaced is not a trace.
    #[error("the target to replace is not a trace directory")]
    NotATrace,
    /// `manifest.json` does not parse.
    #[error("manifest.json: {category} at line {line}, column {column}")]
    Json {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong, in a word.
        category: &'static str,
    },
    /// A member of the manifest breaks a rule.
    #[error("manifest.json: {member}: {fault}")]
    Member {
        /// Which.
        member: &'static str,
        /// Which rule.
        fault: Fault,
    },
    /// A file as a whole breaks a rule.
    #[error("{file}: {fault}")]
    File {
        /// Which.
        file: FileName,
        /// Which rule.
        fault: Fault,
    },
    /// A value breaks a rule.
    #[error("{}, row {row}, {column}: {fault}", table.word())]
    Value {
        /// The table it stands in.
        table: Table,
        /// Its row, dataset-wide from 0.
        row: u64,
        /// Its column.
        column: &'static str,
        /// Which rule.
        fault: Fault,
    },
    /// A sink was used on after an error.
    #[error("writing was given up after an earlier error")]
    Abandoned,
}

impl FormatError {
    /// Names the file at which the operating system refused.
    pub(crate) fn io(file: FileName) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { file, kind: error.kind() }
    }

    /// Reduces a JSON error to its place: its own message may quote the document.
    pub(crate) fn json(error: &serde_json::Error) -> Self {
        let category = match error.classify() {
            serde_json::error::Category::Io => "not readable",
            serde_json::error::Category::Syntax => "not JSON",
            serde_json::error::Category::Data => "an undeclared member or value",
            serde_json::error::Category::Eof => "cut off",
        };
        Self::Json { line: error.line(), column: error.column(), category }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_file_names_are_known() {
        for name in ["manifest.json", "README.md", "requests.parquet", "edges-00003-of-00012.parquet"] {
            assert_eq!(FileName::parse(name).unwrap().to_string(), name);
        }
        for name in
            ["Requests.parquet", "requests-0-of-2.parquet", "requests-00000-of-00001.parquet", "users.parquet", ""]
        {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }
}
