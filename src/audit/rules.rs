//! Shapes of secrets, as data: our own short list, or a file in gitleaks' TOML form.
//!
//! Invariant: rules run on strings that no vocabulary proved, and on nothing else; a match is a class, never a value.

use std::collections::BTreeMap;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// One shape.
#[derive(Debug)]
struct Rule {
    regex: Regex,
    /// One of these stands in every match, in lower case; none: the regex alone decides.
    keywords: Vec<String>,
    /// Bits a byte that the secret has at least.
    entropy: f64,
    group: usize,
}

/// Rules in use.
#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

/// Why a rule file was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// Not TOML, or not of this form.
    #[error("not a rule file in gitleaks' form")]
    Form,
    /// A pattern that this program's regex engine does not know.
    #[error("rule {0} has a pattern that can't be compiled")]
    Pattern(usize),
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    rules: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    regex: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    entropy: f64,
    #[serde(default, rename = "secretGroup")]
    group: usize,
}

impl Rules {
    /// The rules that come with the program.
    pub fn builtin() -> Self {
        Self::parse(include_str!("rules.toml")).unwrap_or_default()
    }

    /// Rules of a file. Rules without a pattern (they look at paths) are left out.
    ///
    /// # Errors
    /// If it is not of this form, or a pattern can't be compiled; by number, from 1.
    pub fn parse(toml: &str) -> Result<Self, RulesError> {
        let file: File = toml::from_str(toml).map_err(|_| RulesError::Form)?;
        let rule = |(number, entry): (usize, Entry)| {
            let pattern = entry.regex?;
            let regex =
                RegexBuilder::new(&pattern).size_limit(1 << 26).build().map_err(|_| RulesError::Pattern(number + 1));
            let keywords = entry.keywords.iter().map(|word| word.to_ascii_lowercase()).collect();
            Some(regex.map(|regex| Rule { regex, keywords, entropy: entry.entropy, group: entry.group }))
        };
        file.rules.into_iter().enumerate().filter_map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them matches.
    pub fn any_match(&self, text: &[u8]) -> bool {
        let lower = text.to_ascii_lowercase();
        self.0.iter().any(|rule| {
            let keyword = rule.keywords.is_empty()
                || rule.keywords.iter().any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some());
            keyword
                && rule.regex.captures_iter(text).any(|found| {
                    let secret = found.get(rule.group).or(found.get(0));
                    secret.is_some_and(|secret| entropy(secret.as_bytes()) >= rule.entropy)
                })
        })
    }
}

/// Bits a byte.
fn entropy(bytes: &[u8]) -> f64 {
    let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
    bytes.iter().for_each(|byte| *counts.entry(*byte).or_default() += 1);
    super::detect::entropy(counts.values().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_compiles_and_well_known_shapes_match() {
        let rules = Rules::builtin();
        assert!(rules.len() >= 15);
        let body = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5";
        for text in [format!("x ghp_{body}"), "key AKIAABCDEFGHIJKLMNOP".to_owned(), format!("sk-ant-api03-{body}")] {
            assert!(rules.any_match(text.as_bytes()), "{}", text.len());
        }
        for text in ["", "claude-opus-4", "the token count is fine", "sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
            assert!(!rules.any_match(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_rule_file_of_another_form_is_refused_by_place() {
        assert_eq!(Rules::parse("rules = 3").unwrap_err(), RulesError::Form);
        assert_eq!(Rules::parse("[[rules]]\nid = \"x\"\nregex = '''('''").unwrap_err(), RulesError::Pattern(1));
        assert!(Rules::parse("title = \"x\"\n[[rules]]\nid = \"x\"\npath = '''y'''").unwrap().is_empty());
    }
}
