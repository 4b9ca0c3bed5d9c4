//! What can be wrong with a file of another format.
//!
//! Invariant: a message says where (file by number, row, field) and which rule was broken, never what stands there.

use std::fmt;
use std::io;

use crate::format::FormatError;

/// A rule that a row breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowFault {
    /// Broken JSON.
    #[error("not JSON")]
    NotJson,
    /// The file ends within the row.
    #[error("cut off")]
    CutOff,
    /// Larger than any row may be.
    #[error("too large")]
    TooLarge,
    /// Another kind of value.
    #[error("not the kind of value that must stand here")]
    Type,
    /// A number outside its domain.
    #[error("a number outside its domain")]
    Domain,
    /// A word that the format does not know.
    #[error("a word outside its vocabulary")]
    Word,
    /// A member that must be there is not.
    #[error("missing")]
    Missing,
    /// A member stands twice.
    #[error("stands twice")]
    Twice,
    /// It does not agree with the rest of its row or with earlier rows.
    #[error("does not agree with the rest")]
    Disagrees,
    /// It names nothing that is there.
    #[error("names nothing that is there")]
    Dangling,
    /// Nothing where something must stand.
    #[error("empty")]
    Empty,
    /// Too many to be counted.
    #[error("too many")]
    TooMany,
}

/// A field of a row and the rule that it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowError {
    /// The lists it lies in, from outside: name and place from 0.
    pub within: [Option<(&'static str, usize)>; 2],
    /// Its name; empty for the row as a whole.
    pub field: &'static str,
    /// Which rule.
    pub fault: RowFault,
}

impl RowError {
    /// An error of a field.
    pub fn new(field: &'static str, fault: RowFault) -> Self {
        Self { within: [None; 2], field, fault }
    }

    /// The same, lying in item `place` of the list `name`.
    #[must_use]
    pub fn within(self, name: &'static str, place: usize) -> Self {
        Self { within: [Some((name, place)), self.within[0]], ..self }
    }

    /// The same, in a row of a file.
    pub fn at(self, file: u32, row: u64) -> ForeignError {
        ForeignError::Row { file, row, error: self }
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, place) in self.within.iter().flatten() {
            write!(formatter, "{name}[{place}]")?;
            if !self.field.is_empty() {
                formatter.write_str(".")?;
            }
        }
        let space = if self.field.is_empty() && self.within[0].is_none() { "" } else { ": " };
        write!(formatter, "{}{space}{}", self.field, self.fault)
    }
}

/// Why another format could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// The operating system refused, or compressed data is broken.
    #[error("file {}: {kind}", u64::from(*file) + 1)]
    Read {
        /// The file's number, from 0; shown from 1.
        file: u32,
        /// Why.
        kind: io::ErrorKind,
    },
    /// No format is known that looks so.
    #[error("file {}: no trace format that is known", u64::from(*.0) + 1)]
    Unrecognized(u32),
    /// Files of two formats, or of two block sizes or scopes.
    #[error("file {}: not of the same kind as the files before it", u64::from(*.0) + 1)]
    Mixed(u32),
    /// Not readable as Parquet at all.
    #[error("file {}: not readable as Parquet", u64::from(*.0) + 1)]
    Damaged(u32),
    /// A row breaks a rule.
    #[error("file {}, row {row}, {error}", u64::from(*file) + 1)]
    Row {
        /// The file's number, from 0; shown from 1.
        file: u32,
        /// The row's number, from 1.
        row: u64,
        /// Which field, which rule.
        error: RowError,
    },
    /// The files hold no request.
    #[error("no request in any file")]
    Nothing,
    /// What was asked for cannot be done with this trace or format.
    #[error("{0}")]
    Unfit(&'static str),
    /// Something is at the target already.
    #[error("the target exists and was not to be replaced")]
    Exists,
    /// What is at the target is nothing that this format writes.
    #[error("the target to replace is not what this format writes")]
    NotReplaceable,
    /// The target can't be written.
    #[error("the target: {0}")]
    Write(io::ErrorKind),
    /// A session breaks a rule of our own format.
    #[error(transparent)]
    Trace(#[from] FormatError),
}

/// What stops the reading of a row: a rule that it breaks, or what was done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Without its place.
    Row(RowError),
    /// As it is to be reported.
    Whole(ForeignError),
}

impl Refused {
    /// The error, as it came about in a row of a file.
    pub fn at(self, file: u32, row: u64) -> ForeignError {
        match self {
            Self::Row(error) => error.at(file, row),
            Self::Whole(error) => error,
        }
    }
}

impl From<RowError> for Refused {
    fn from(error: RowError) -> Self {
        Self::Row(error)
    }
}

impl From<ForeignError> for Refused {
    fn from(error: ForeignError) -> Self {
        Self::Whole(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_file_row_and_field() {
        let error = RowError::new("hash_ids", RowFault::Domain).within("requests", 3).within("requests", 12);
        assert_eq!(
            error.at(0, 7).to_string(),
            "file 1, row 7, requests[12].requests[3].hash_ids: a number outside its domain"
        );
        assert_eq!(RowError::new("", RowFault::NotJson).at(1, 2).to_string(), "file 2, row 2, not JSON");
        let whole = RowError::new("", RowFault::Type).within("requests", 0);
        assert_eq!(
            whole.at(1, 2).to_string(),
            "file 2, row 2, requests[0]: not the kind of value that must stand here"
        );
    }
}
