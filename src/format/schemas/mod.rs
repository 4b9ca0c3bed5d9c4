//! The published schemas, made from the declarations that the reader and the writer use.
//!
//! Invariant: the files in `schemas/` are what these functions give, byte for byte; a test compares them.

mod manifest;
mod trace;

pub use manifest::manifest_json;
pub use trace::{columns_markdown, trace_json, trace_markdown};

use serde::ser::{Serialize, SerializeMap, Serializer};

/// JSON whose members stay in the order they were declared.
#[derive(Clone, Debug)]
enum Node {
    Null,
    Bool(bool),
    Number(u64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(value) => serializer.serialize_u64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                members.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
                map.end()
            }
        }
    }
}

impl Node {
    fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    fn words<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Self {
        Self::List(words.into_iter().map(Self::text).collect())
    }

    /// As a file: indented, a newline at the end.
    fn file(&self) -> String {
        // A tree of strings and numbers always serializes.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
