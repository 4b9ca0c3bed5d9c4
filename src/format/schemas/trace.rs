//! The tables' schema: `trace.v1.json` for programs, the tables of `trace.v1.md` for people.
//!
//! Invariant: every column stands in both, with the type, unit and meaning that [`columns`] declares.

use super::Node;
use crate::format::parquet::{Column, Kind, PARTS, Unit, Words, columns, meaning};
use crate::trace::manifest::FORMAT_VERSION;
use crate::trace::vocab::{Table, Vocabulary};

/// `schemas/trace.v1.json`.
pub fn trace_json() -> String {
    let tables = Table::ALL.iter().map(|&table| {
        Node::Object(vec![
            ("name", Node::text(table.word())),
            ("row", Node::text(meaning(table))),
            ("columns", Node::List(columns(table).iter().map(column).collect())),
        ])
    });
    let vocabularies = vocabularies().into_iter().map(|words| {
        let mut members = vec![("name", Node::text(words.name)), ("words", Node::words(words.listed()))];
        members.extend(words.numbered.map(|pattern| ("numbered", Node::text(pattern))));
        Node::Object(members)
    });
    let bits = PARTS.iter().map(|&(name, parts)| (name, Node::Number(parts.0.into())));
    Node::Object(vec![
        ("format_version", Node::Number(FORMAT_VERSION.into())),
        ("tables", Node::List(tables.collect())),
        ("vocabularies", Node::List(vocabularies.collect())),
        ("bits", Node::Object(bits.collect())),
    ])
    .file()
}

fn column(column: &Column) -> Node {
    let mut members = vec![
        ("name", Node::text(column.name)),
        ("type", Node::text(column.kind.name())),
        ("nullable", Node::Bool(column.nullable)),
    ];
    if let Kind::Word(words) = column.kind {
        members.push(("vocabulary", Node::text(words.name)));
    }
    members.extend(column.unit.name().map(|unit| ("unit", Node::text(unit))));
    if let Unit::Row(table) = column.unit {
        members.push(("of", Node::text(table.word())));
    }
    members.push(("meaning", Node::text(column.meaning)));
    Node::Object(members)
}

/// Every vocabulary of a column, in order of first use.
fn vocabularies() -> Vec<Words> {
    let mut all: Vec<Words> = Vec::new();
    for column in Table::ALL.iter().flat_map(|&table| columns(table)) {
        if let Kind::Word(words) = column.kind
            && all.iter().all(|known| known.name != words.name)
        {
            all.push(words);
        }
    }
    all
}

/// The columns of a table as a Markdown table.
pub fn columns_markdown(table: Table) -> String {
    let row = |column: &Column| {
        let optional = if column.nullable { "?" } else { "" };
        let kind = match column.kind {
            Kind::Word(words) => format!("enum {}{optional}", words.name),
            _ => format!("{}{optional}", column.kind.name()),
        };
        let unit = match column.unit {
            Unit::Row(table) => format!("row of {}", table.word()),
            unit => unit.name().unwrap_or_default().to_owned(),
        };
        format!("| `{}` | {kind} | {unit} | {} |\n", column.name, column.meaning)
    };
    let rows = columns(table).iter().map(row);
    std::iter::once("| column | type | unit | meaning |\n|---|---|---|---|\n".to_owned()).chain(rows).collect()
}

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// `schemas/trace.v1.md`: the prose as it stands, its generated parts made anew. Such a part follows a line
/// `<!-- generated: NAME -->`, with NAME a table, `vocabularies` or `bits`, and ends at `<!-- end -->`.
pub fn trace_markdown(prose: &str) -> String {
    let (intro, parts) = prose.split_once(BEGIN).unwrap_or((prose, ""));
    let part = |part: &str| {
        let (name, rest) = part.split_once(" -->").unwrap_or((part, ""));
        let (_, rest) = rest.split_once(END).unwrap_or(("", rest));
        format!("{BEGIN}{name} -->\n\n{}\n{END}{rest}", generated(name))
    };
    let parts = parts.split_terminator(BEGIN).map(part);
    std::iter::once(intro.to_owned()).chain(parts).collect()
}

fn generated(name: &str) -> String {
    match (name, Table::parse(name)) {
        (_, Some(table)) => format!("{}\n\n{}", meaning(table), columns_markdown(table)),
        ("vocabularies", _) => vocabularies().iter().map(vocabulary).collect(),
        ("bits", _) => PARTS.map(|(name, parts)| format!("- {}: {name}\n", parts.0)).concat(),
        _ => String::new(),
    }
}

fn vocabulary(words: &Words) -> String {
    let listed: Vec<String> = words.listed().map(|word| format!("`{word}`")).collect();
    let numbered = words.numbered.map_or(String::new(), |pattern| format!(", and `{pattern}`"));
    format!("- **{}**: {}{numbered}\n", words.name, listed.join(", "))
}
