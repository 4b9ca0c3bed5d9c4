//! The files in `schemas/` say what the program does.
//!
//! Invariant: they are generated; `TRACECLOAK_BLESS=1` writes them anew.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tracecloak::format::{FORMATS, FileName, schemas};
use tracecloak::metrics::summary_json;
use tracecloak::trace::Manifest;
use tracecloak::trace::manifest::{FORMAT_VERSION, Named, Quanta, Sha256, SkipCounts, ToolName, ToolVersion, Totals};
use tracecloak::trace::vocab::{
    KUnit, Keep, License, Loss, Normalizer, Profile, PromptScale, Scope, SourceFormat, Table, TemplateName,
    TokenizerName, Vocabulary,
};

#[expect(clippy::disallowed_methods, reason = "accepting generated files is for people, at the command line")]
fn blessed() -> bool {
    std::env::var("TRACECLOAK_BLESS").is_ok_and(|value| value == "1")
}

fn is_up_to_date(name: &str, generate: impl Fn(&str) -> String) -> std::io::Result<()> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name);
    let found = fs::read_to_string(&path).unwrap_or_default();
    let generated = generate(&found);
    if blessed() {
        return fs::write(path, generated);
    }
    assert!(found == generated, "schemas/{name} is not up to date: run scripts/bless");
    Ok(())
}

#[test]
fn the_schema_files_are_what_the_code_declares() {
    is_up_to_date("trace.v1.json", |_| schemas::trace_json()).unwrap();
    is_up_to_date("trace.v1.md", schemas::trace_markdown).unwrap();
    is_up_to_date("manifest.v1.json", |_| schemas::manifest_json()).unwrap();
    is_up_to_date("summary.v1.json", |_| summary_json()).unwrap();
}

fn manifest() -> Manifest {
    Manifest {
        format_version: FORMAT_VERSION,
        tool: ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 1, patch: 0 },
        profile: Profile::Public,
        kept: Keep::ALL.to_vec(),
        block_size: 64,
        scope: Scope::Shared,
        k: Some(3),
        k_unit: Some(KUnit::Contributor),
        tokenizer: Named { name: TokenizerName::Custom, sha256: Some(Sha256([0xa5; 32])) },
        chat_template: Named { name: TemplateName::Neutral, sha256: None },
        normalizers: Normalizer::ALL.to_vec(),
        quanta: Quanta { input_tokens: 64, output_tokens: 16, machine_ms: 10, user_ms: 1000 },
        prompt_scale: PromptScale::None,
        source_formats: SourceFormat::ALL.to_vec(),
        totals: Totals::default(),
        loss: Loss::ALL.to_vec(),
        skip_counts: Some(SkipCounts { records: 3, skipped: 1 }),
        license: Some(License::CcBy4),
        files: Vec::new(),
    }
}

#[test]
fn a_written_manifest_keeps_the_published_schema_and_other_ones_do_not() {
    let schema: Value = serde_json::from_str(&schemas::manifest_json()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let full = manifest();
    let plain =
        Manifest { scope: Scope::Session, k: None, k_unit: None, skip_counts: None, license: None, ..full.clone() };
    for head in [full, plain] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        let written = FORMATS[0].create(&path, head, false).unwrap().finish().unwrap();
        assert_eq!(written.files.len(), Table::ALL.len());
        let json = fs::read(path.join(FileName::Manifest.to_string())).unwrap();
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert!(validator.is_valid(&json), "{:?}", validator.iter_errors(&json).next());

        let valid_with = |member: &str, value: Value| {
            let mut json = json.clone();
            json[member] = value;
            validator.is_valid(&json)
        };
        assert!(!valid_with("comment", "text".into()));
        assert!(!valid_with("license", "text".into()));
        assert!(!valid_with("block_size", 0.into()));
        assert!(!valid_with("k", if written.k.is_some() { Value::Null } else { 3.into() }));
        for member in json.as_object().unwrap().keys() {
            let mut json = json.clone();
            json.as_object_mut().unwrap().remove(member);
            assert!(!validator.is_valid(&json), "{member} may be left out");
        }
    }
}

#[test]
fn the_trace_schema_declares_every_table_and_every_word() {
    let schema: Value = serde_json::from_str(&schemas::trace_json()).unwrap();
    let names: Vec<&str> =
        schema["tables"].as_array().unwrap().iter().filter_map(|table| table["name"].as_str()).collect();
    assert_eq!(names, Table::ALL.iter().map(|table| table.word()).collect::<Vec<_>>());
    for table in schema["tables"].as_array().unwrap() {
        for column in table["columns"].as_array().unwrap() {
            assert!(!column["meaning"].as_str().unwrap().is_empty());
            let declared =
                |word: &Value| schema["vocabularies"].as_array().unwrap().iter().any(|known| known["name"] == *word);
            assert!(column["type"] != "enum" || declared(&column["vocabulary"]));
        }
    }
}
