//! A problem and where it is.
//!
//! Invariant: a finding holds a check's id, a place, a length and sentences of this program; never the value, and never a name
//! that no vocabulary knows.

use serde::Serialize;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// What remains, stated in numbers or words.
    Info,
    /// It tells more than a trace must.
    Warning,
    /// Text, or something from the source, is or may be in the file.
    Error,
}

impl Severity {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// The severity with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Info, Self::Warning, Self::Error].into_iter().find(|severity| severity.word() == word)
    }
}

/// Where something is, inside one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Row or record, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// Path of the column or field; names that no vocabulary knows are shown as `?` and a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Page of the column or entry of the archive, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// First byte of the file (or of what the file decompresses to).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

impl Place {
    /// A column as a whole.
    pub fn column(label: &str) -> Self {
        Self { column: Some(label.to_owned()), ..Self::default() }
    }

    /// A byte of the file.
    pub fn at(offset: usize) -> Self {
        Self { offset: Some(crate::audit::wide(offset)), ..Self::default() }
    }

    /// The same place, in this row.
    #[must_use]
    pub fn row(mut self, row: u64) -> Self {
        self.row = Some(row);
        self
    }

    /// The same place, in this page or entry.
    #[must_use]
    pub fn page(mut self, page: u64) -> Self {
        self.page = Some(page);
        self
    }

    /// The same place, from this byte on.
    #[must_use]
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = Some(crate::audit::wide(offset));
        self
    }
}

/// A problem and where it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The check, such as `L070`.
    pub id: &'static str,
    /// How bad.
    pub severity: Severity,
    /// The file, relative to what was asked for; a name that no vocabulary knows is shown as its number.
    pub file: String,
    /// Where in the file, the first time.
    #[serde(flatten)]
    pub place: Place,
    /// What is there: a class, never a value.
    pub message: &'static str,
    /// Bytes (or digits, or values) concerned, where that says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// How often, in this file and column.
    pub count: u64,
    /// What to do.
    pub remedy: &'static str,
}

impl Finding {
    /// Where it is, in words.
    pub fn place_text(&self) -> String {
        let Place { row, column, page, offset } = &self.place;
        let number = |name: &str, value: &Option<u64>| value.map(|value| format!("{name} {value}"));
        let parts = [column.clone(), number("row", row), number("part", page), number("byte", offset)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// What a baseline keeps of it: the check, the file and the column.
    pub fn key(&self) -> String {
        format!("{}:{}:{}", self.id, self.file, self.place.column.as_deref().unwrap_or_default())
    }
}
