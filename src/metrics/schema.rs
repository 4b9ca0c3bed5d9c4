//! `summary.v1.json`: the JSON Schema of `summary.json`, made from the declarations themselves.
//!
//! Invariant: every member is declared, described by its doc comment, and required; no other member may be there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A type that a schema describes. Structs are put into `defs` by name.
pub(super) trait Described {
    /// Its schema.
    fn schema(defs: &mut Map<String, Value>) -> Value;
}

/// Declares structs as they are written, and describes them.
macro_rules! described {
    ($( $(#[$($attribute:tt)*])* pub struct $name:ident { $( $(#[$($about:tt)*])* pub $field:ident : $type:ty, )* } )*) => { $(
        $(#[$($attribute)*])*
        pub struct $name { $( $(#[$($about)*])* pub $field: $type, )* }

        impl crate::metrics::schema::Described for $name {
            fn schema(defs: &mut serde_json::Map<String, serde_json::Value>) -> serde_json::Value {
                use crate::metrics::schema::{about, object};
                let says = [$(about!($($attribute)*)),*].concat();
                let members = vec![$(
                    (stringify!($field), [$(about!($($about)*)),*].concat(), <$type as crate::metrics::schema::Described>::schema(defs))
                ),*];
                object(defs, stringify!($name), &says, members)
            }
        }
    )* };
}

/// The text of a doc comment, nothing of any other attribute.
macro_rules! about {
    (doc = $text:literal) => {
        $text
    };
    ($($other:tt)*) => {
        ""
    };
}

pub(super) use {about, described};

/// `schemas/summary.v1.json`.
pub fn summary_json() -> String {
    let mut defs = Map::new();
    super::Summary::schema(&mut defs);
    let mut schema = defs.remove("Summary").unwrap_or_default();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema.insert("title".to_owned(), json!("tracecloak run summary, version 1"));
        schema.insert("$defs".to_owned(), defs.into());
    }
    if let Some(version) = schema.pointer_mut("/properties/version") {
        *version = json!({"const": 1, "description": "Of this format: 1."});
    }
    // A tree of strings and numbers always serializes.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

pub(super) fn object(
    defs: &mut Map<String, Value>,
    name: &str,
    about: &str,
    members: Vec<(&'static str, String, Value)>,
) -> Value {
    let required: Vec<_> = members.iter().map(|(name, ..)| *name).collect();
    let mut properties = Map::new();
    for (name, about, schema) in members {
        properties.insert(name.to_owned(), with(schema, "description", about.trim().into()));
    }
    let schema = json!({"type": "object", "description": about.trim(), "properties": properties, "required": required, "additionalProperties": false});
    defs.insert(name.to_owned(), schema);
    json!({"$ref": format!("#/$defs/{name}")})
}

fn with(mut schema: Value, name: &str, value: Value) -> Value {
    schema.as_object_mut().and_then(|members| members.insert(name.to_owned(), value));
    schema
}

impl Described for bool {
    fn schema(_: &mut Map<String, Value>) -> Value {
        json!({"type": "boolean"})
    }
}

impl Described for u32 {
    fn schema(_: &mut Map<String, Value>) -> Value {
        json!({"type": "integer", "minimum": 0})
    }
}

impl Described for u64 {
    fn schema(_: &mut Map<String, Value>) -> Value {
        json!({"type": "integer", "minimum": 0})
    }
}

impl Described for f64 {
    fn schema(_: &mut Map<String, Value>) -> Value {
        json!({"type": "number"})
    }
}

impl Described for String {
    fn schema(_: &mut Map<String, Value>) -> Value {
        json!({"type": "string"})
    }
}

impl<T: Described> Described for Option<T> {
    fn schema(defs: &mut Map<String, Value>) -> Value {
        let inner = T::schema(defs);
        match inner.get("type").cloned() {
            Some(kind) => with(inner, "type", json!([kind, "null"])),
            None => json!({"anyOf": [inner, {"type": "null"}]}),
        }
    }
}

impl<T: Described> Described for Vec<T> {
    fn schema(defs: &mut Map<String, Value>) -> Value {
        json!({"type": "array", "items": T::schema(defs)})
    }
}

impl<T: Described> Described for BTreeMap<String, T> {
    fn schema(defs: &mut Map<String, Value>) -> Value {
        json!({"type": "object", "additionalProperties": T::schema(defs)})
    }
}
