//! `manifest.v1.json`: the JSON Schema of `manifest.json`.
//!
//! Invariant: every member is declared and required, and no string is free: it is a word of a vocabulary or a sha256.

use super::Node;
use crate::format::manifest::SHARED_BLOCK_SIZE;
use crate::trace::manifest::FORMAT_VERSION;
use crate::trace::vocab::{
    KUnit, Keep, License, Loss, Normalizer, Profile, PromptScale, Scope, SourceFormat, Table, TemplateName,
    TokenizerName, Vocabulary,
};

/// `schemas/manifest.v1.json`.
pub fn manifest_json() -> String {
    let mut members = vec![
        ("$schema", Node::text("https://json-schema.org/draft/2020-12/schema")),
        ("title", Node::text("manifest.json of a trace, version 1")),
    ];
    if let Node::Object(object) = object(members_of_manifest()) {
        members.extend(object);
    }
    let scope = |word: Scope| Node::Object(vec![("const", Node::text(word.word()))]);
    let properties = |members| Node::Object(vec![("properties", Node::Object(members))]);
    let null = || Node::Object(vec![("type", Node::text("null"))]);
    let not_null = || Node::Object(vec![("not", null())]);
    members.extend([
        ("if", properties(vec![("scope", scope(Scope::Shared))])),
        (
            "then",
            properties(vec![
                ("block_size", Node::Object(vec![("minimum", Node::Number(SHARED_BLOCK_SIZE.into()))])),
                ("k", not_null()),
                ("k_unit", not_null()),
            ]),
        ),
        ("else", properties(vec![("k", null()), ("k_unit", null())])),
    ]);
    Node::Object(members).file()
}

fn members_of_manifest() -> Vec<(&'static str, Node)> {
    let version = vec![("const", Node::Number(FORMAT_VERSION.into()))];
    vec![
        ("format_version", say("Version of the trace format.", Node::Object(version))),
        ("tool", say("What wrote the trace.", tool())),
        ("profile", say("The rule set that it was written under.", word::<Profile>())),
        ("kept", say("Items moved over from the private profile.", list(word::<Keep>()))),
        ("block_size", say("Tokens per block.", number(1, u32::MAX.into()))),
        ("scope", say("Which prompts share block ids.", word::<Scope>())),
        ("k", say("How many must hold a block under scope shared.", or_null(number(1, u32::MAX.into())))),
        ("k_unit", say("What k counts.", or_null(word::<KUnit>()))),
        ("tokenizer", say("What counted the tokens.", named::<TokenizerName>())),
        ("chat_template", say("What laid the prompt out.", named::<TemplateName>())),
        ("normalizers", say("What was rewritten before tokens were counted.", list(word::<Normalizer>()))),
        ("quanta", say("The steps that numbers are multiples of; 1 is exact, 0 is not rounded on purpose.", quanta())),
        ("prompt_scale", say("What prompt lengths mean.", word::<PromptScale>())),
        ("source_formats", say("Formats that it came from.", list(word::<SourceFormat>()))),
        ("totals", say("Sums over the tables.", totals())),
        ("loss", say("What an import could not carry.", list(word::<Loss>()))),
        ("skip_counts", say("Counts of the conversion.", or_null(skip_counts()))),
        ("license", say("Licence of the dataset (SPDX).", or_null(word::<License>()))),
        ("files", say("The tables' files, by table, then part.", files())),
    ]
}

fn tool() -> Node {
    let part = || number(0, u16::MAX.into());
    let name = Node::Object(vec![("const", Node::text("tracecloak"))]);
    object(vec![("name", name), ("major", part()), ("minor", part()), ("patch", part())])
}

fn quanta() -> Node {
    numbers(&["input_tokens", "output_tokens", "machine_ms", "user_ms"], u32::MAX.into())
}

fn totals() -> Node {
    let names = ["sessions", "agents", "requests", "edges", "tools", "input_tokens", "output_tokens"];
    numbers(&[names.as_slice(), &["blocks", "unique_blocks"]].concat(), u64::MAX)
}

fn skip_counts() -> Node {
    numbers(&["records", "skipped"], u64::MAX)
}

fn files() -> Node {
    let file = vec![
        ("table", word::<Table>()),
        ("part", number(0, u32::MAX.into())),
        ("parts", number(1, u32::MAX.into())),
        ("rows", number(0, u64::MAX)),
        ("sha256", sha256()),
    ];
    list(object(file))
}

fn named<V: Vocabulary>() -> Node {
    object(vec![("name", word::<V>()), ("sha256", or_null(sha256()))])
}

fn sha256() -> Node {
    Node::Object(vec![("type", Node::text("string")), ("pattern", Node::text("^[0-9a-f]{64}$"))])
}

fn word<V: Vocabulary>() -> Node {
    Node::Object(vec![("enum", Node::words(V::ALL.iter().map(|member| member.word())))])
}

fn number(minimum: u64, maximum: u64) -> Node {
    let bounds = [("minimum", minimum), ("maximum", maximum)].map(|(name, bound)| (name, Node::Number(bound)));
    Node::Object([vec![("type", Node::text("integer"))], bounds.to_vec()].concat())
}

fn numbers(names: &[&'static str], maximum: u64) -> Node {
    object(names.iter().map(|name| (*name, number(0, maximum))).collect())
}

fn list(item: Node) -> Node {
    let unique = ("uniqueItems", Node::Bool(true));
    Node::Object(vec![("type", Node::text("array")), ("items", item), unique])
}

fn object(members: Vec<(&'static str, Node)>) -> Node {
    let names = Node::words(members.iter().map(|(name, _)| *name));
    Node::Object(vec![
        ("type", Node::text("object")),
        ("properties", Node::Object(members)),
        ("required", names),
        ("additionalProperties", Node::Bool(false)),
    ])
}

fn or_null(schema: Node) -> Node {
    match schema {
        Node::Object(mut members) => {
            for (name, value) in &mut members {
                match (*name, value) {
                    ("enum", Node::List(words)) => words.push(Node::Null),
                    ("type", kind) => *kind = Node::List(vec![kind.clone(), Node::text("null")]),
                    _ => (),
                }
            }
            Node::Object(members)
        }
        other => other,
    }
}

fn say(description: &str, schema: Node) -> Node {
    match schema {
        Node::Object(members) => Node::Object([vec![("description", Node::text(description))], members].concat()),
        other => other,
    }
}
