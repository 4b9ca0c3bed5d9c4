//! The files of a model's folder that say how its prompts are written.
//!
//! Invariant: a file that is absent is as if empty; one that is broken is an error that says where.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::super::TokenizerError;
use super::jinja::{DEFAULT, TOOL_USE};

/// What the files say.
pub(super) struct Config {
    /// Sources by name; `default` is among them.
    pub(super) templates: Vec<(String, String)>,
    /// `bos_token` and its like, with their literals.
    pub(super) roles: Vec<(String, String)>,
    /// SHA-256 of the sources, in order of their names.
    pub(super) sha256: [u8; 32],
}

impl Config {
    pub(super) fn read(dir: &Path) -> Result<Self, TokenizerError> {
        let config = object(dir, "tokenizer_config.json")?;
        let mut templates = BTreeMap::new();
        collect(config.get("chat_template"), &mut templates);
        collect(object(dir, "chat_template.json")?.get("chat_template"), &mut templates);
        if let Some(bytes) = bytes(dir, "chat_template.jinja")? {
            let bad = |_| TokenizerError::BadConfig { file: "chat_template.jinja", line: 1, column: 1 };
            templates.insert(DEFAULT.to_owned(), String::from_utf8(bytes).map_err(bad)?);
        }
        // Hugging Face's choice: a lone template under another name is not the default.
        templates.retain(|name, _| name == DEFAULT || name == TOOL_USE);
        if !templates.contains_key(DEFAULT) {
            return Err(TokenizerError::NoTemplate);
        }
        let mut roles = BTreeMap::new();
        for source in [&object(dir, "special_tokens_map.json")?, &config] {
            let literals = source.iter().filter(|(role, _)| role.ends_with("_token"));
            roles.extend(literals.filter_map(|(role, token)| Some((role.clone(), literal(token)?.to_owned()))));
        }
        let mut hash = Sha256::new();
        for source in templates.values() {
            hash.update(source);
        }
        let sha256 = hash.finalize().into();
        Ok(Self { templates: templates.into_iter().collect(), roles: roles.into_iter().collect(), sha256 })
    }
}

/// A template, or a list of named ones.
fn collect(template: Option<&Value>, out: &mut BTreeMap<String, String>) {
    match template {
        Some(Value::String(source)) => {
            out.insert(DEFAULT.to_owned(), source.clone());
        }
        Some(Value::Array(named)) => out.extend(named.iter().filter_map(|entry| {
            let text = |key| entry.get(key).and_then(Value::as_str).map(str::to_owned);
            Some((text("name")?, text("template")?))
        })),
        _ => {}
    }
}

/// A token is given by its literal or by an object that holds it.
fn literal(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token.get("content")?.as_str())
}

fn bytes(dir: &Path, file: &'static str) -> Result<Option<Vec<u8>>, TokenizerError> {
    match std::fs::read(dir.join(file)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(TokenizerError::BadConfig { file, line: 0, column: 0 }),
    }
}

fn object(dir: &Path, file: &'static str) -> Result<Map<String, Value>, TokenizerError> {
    let Some(bytes) = bytes(dir, file)? else { return Ok(Map::new()) };
    serde_json::from_slice(&bytes).map_err(|error| TokenizerError::BadConfig {
        file,
        line: error.line(),
        column: error.column(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<Config, TokenizerError> {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        Config::read(dir.path())
    }

    #[test]
    fn a_template_file_goes_before_the_configuration() {
        let inline =
            ("tokenizer_config.json", r#"{"chat_template":"a","bos_token":{"content":"<s>"},"pad_token":null}"#);
        let map =
            ("special_tokens_map.json", r#"{"bos_token":"<x>","eos_token":"</s>","additional_special_tokens":[]}"#);
        let config = read(&[inline, map]).unwrap();
        assert_eq!(config.templates, [("default".to_owned(), "a".to_owned())]);
        let role = |role: &str, token: &str| (role.to_owned(), token.to_owned());
        assert_eq!(config.roles, [role("bos_token", "<s>"), role("eos_token", "</s>")]);
        let both = read(&[inline, ("chat_template.jinja", "b")]).unwrap();
        assert_eq!(both.templates, [("default".to_owned(), "b".to_owned())]);
        assert_ne!(config.sha256, both.sha256);
    }

    #[test]
    fn named_templates_are_told_apart() {
        let list = r#"{"chat_template":[{"name":"default","template":"a"},{"name":"rag","template":"x"},
            {"name":"tool_use","template":"b"}]}"#;
        let config = read(&[("tokenizer_config.json", list)]).unwrap();
        assert_eq!(config.templates.iter().map(|(_, source)| source.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn what_is_missing_or_broken_is_told() {
        assert_eq!(read(&[]).err(), Some(TokenizerError::NoTemplate));
        let broken = TokenizerError::BadConfig { file: "tokenizer_config.json", line: 2, column: 1 };
        assert_eq!(read(&[("tokenizer_config.json", "{\nx")]).err(), Some(broken));
    }
}
