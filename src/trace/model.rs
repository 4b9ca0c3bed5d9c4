//! Names of models: a public name from a closed list, or `other-n` within the session.
//!
//! Invariant: a name outside the list never survives; two unlisted names of a session stay distinguishable by number only.

use std::fmt;

/// A model, by its code: the place in [`Model::public_names`] or, from [`Model::OTHER`] on, an unlisted one of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Model(u16);

impl Model {
    /// Codes from here on stand for unlisted models: `OTHER` is `other-1`.
    pub const OTHER: u16 = 1 << 15;

    /// The `n`-th unlisted model of a session, counted from 0.
    pub fn other(n: u16) -> Self {
        Self(Self::OTHER.saturating_add(n))
    }

    /// The model with this name: a public one, or `other-n` with n from 1.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("other-") {
            if number.starts_with('0') || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let number = number.parse::<u16>().ok()?;
            return (1..=Self::OTHER).contains(&number).then(|| Self::other(number - 1));
        }
        let code = PUBLIC.iter().position(|public| *public == name)?;
        u16::try_from(code).ok().map(Self)
    }

    /// The model that a request named, reduced to a public name: provider prefixes, context markers, `-latest` and unlisted
    /// dates are left off. `None` for a name that the list does not know.
    pub fn recognize(raw: &str) -> Option<Self> {
        let name = raw.rsplit('/').next().unwrap_or(raw);
        let name = name.split_once("anthropic.").map_or(name, |(_, rest)| rest);
        let name = name.split(['[', '@', ':']).next().unwrap_or(name);
        let name = name.trim_end_matches("-v1").trim_end_matches("-latest");
        Self::public(name).or_else(|| {
            let (stem, date) = name.rsplit_once('-')?;
            let is_date = date.len() == 8 && date.starts_with("20") && date.bytes().all(|byte| byte.is_ascii_digit());
            is_date.then(|| Self::public(stem))?
        })
    }

    fn public(name: &str) -> Option<Self> {
        Self::parse(name).filter(|model| model.0 < Self::OTHER)
    }

    /// Every public name, in code order.
    pub fn public_names() -> &'static [&'static str] {
        PUBLIC
    }

    /// The code: the place in [`Model::public_names`], or [`Model::OTHER`] and the number of an unlisted model.
    pub fn code(self) -> u16 {
        self.0
    }

    /// The model with this code; `None` if no model has it.
    pub fn from_code(code: u16) -> Option<Self> {
        (code >= Self::OTHER || usize::from(code) < PUBLIC.len()).then_some(Self(code))
    }

    /// The public name, or `None` for an unlisted model.
    pub fn name(self) -> Option<&'static str> {
        PUBLIC.get(usize::from(self.0)).copied()
    }

    /// The number of an unlisted model of its session, from 0.
    pub fn other_number(self) -> Option<u16> {
        self.0.checked_sub(Self::OTHER)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.other_number()) {
            (Some(name), _) => formatter.write_str(name),
            (None, number) => write!(formatter, "other-{}", u32::from(number.unwrap_or(0)) + 1),
        }
    }
}

/// Published names of hosted and open models. A name may be added; none may be removed or moved.
const PUBLIC: &[&str] = &[
    "claude-2",
    "claude-2.1",
    "claude-instant-1.2",
    "claude-3-opus",
    "claude-3-opus-20240229",
    "claude-3-sonnet",
    "claude-3-sonnet-20240229",
    "claude-3-haiku",
    "claude-3-haiku-20240307",
    "claude-3-5-sonnet",
    "claude-3-5-sonnet-20240620",
    "claude-3-5-sonnet-20241022",
    "claude-3-5-haiku",
    "claude-3-5-haiku-20241022",
    "claude-3-7-sonnet",
    "claude-3-7-sonnet-20250219",
    "claude-opus-4",
    "claude-opus-4-20250514",
    "claude-sonnet-4",
    "claude-sonnet-4-20250514",
    "claude-opus-4-1",
    "claude-opus-4-1-20250805",
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "claude-haiku-4-5",
    "claude-haiku-4-5-20251001",
    "claude-opus-4-5",
    "claude-opus-4-5-20251101",
    "claude-opus-4-6",
    "claude-sonnet-4-6",
    "claude-haiku-4-6",
    "claude-opus-4-7",
    "claude-sonnet-4-7",
    "claude-haiku-4-7",
    "claude-opus-4-8",
    "claude-sonnet-4-8",
    "claude-haiku-4-8",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-haiku-5",
    "claude-opus-5-1",
    "claude-sonnet-5-1",
    "claude-haiku-5-1",
    "claude-opus-5-5",
    "claude-fable-5",
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-6",
    "claude-sonnet-6",
    "claude-haiku-6",
    "gpt-4",
    "gpt-4-turbo",
    "gpt-4o",
    "gpt-4o-mini",
    "gpt-4.1",
    "gpt-4.1-mini",
    "gpt-4.1-nano",
    "gpt-5",
    "gpt-5-mini",
    "gpt-5-nano",
    "gpt-5-codex",
    "gpt-5.1",
    "gpt-5.1-codex",
    "gpt-5.2",
    "gpt-5.2-codex",
    "gpt-5.3",
    "gpt-5.3-codex",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "o1",
    "o1-mini",
    "o3",
    "o3-mini",
    "o4-mini",
    "codex-mini",
    "gemini-1.5-pro",
    "gemini-1.5-flash",
    "gemini-2.0-flash",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
    "gemini-3-pro",
    "gemini-3-flash",
    "deepseek-chat",
    "deepseek-reasoner",
    "deepseek-v3",
    "deepseek-v3.1",
    "deepseek-v3.2",
    "deepseek-r1",
    "deepseek-v4",
    "qwen2.5-coder-32b-instruct",
    "qwen3-coder",
    "qwen3-coder-plus",
    "qwen3-coder-480b-a35b-instruct",
    "qwen3-235b-a22b",
    "qwen3-32b",
    "qwen3-max",
    "kimi-k2",
    "kimi-k2-thinking",
    "kimi-k2.5",
    "glm-4.5",
    "glm-4.5-air",
    "glm-4.6",
    "glm-4.7",
    "glm-5",
    "minimax-m1",
    "minimax-m2",
    "minimax-m2.1",
    "llama-3.1-8b-instruct",
    "llama-3.1-70b-instruct",
    "llama-3.1-405b-instruct",
    "llama-3.3-70b-instruct",
    "llama-4-scout",
    "llama-4-maverick",
    "mistral-large",
    "mistral-medium",
    "mistral-small",
    "codestral",
    "devstral",
    "grok-3",
    "grok-4",
    "grok-code-fast-1",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_public_name_reads_back_and_stands_once() {
        for (code, name) in PUBLIC.iter().enumerate() {
            let model = Model::parse(name).unwrap();
            assert_eq!(usize::from(model.0), code, "{name} stands twice");
            assert_eq!(model.to_string(), *name);
        }
    }

    #[test]
    fn decorations_of_a_public_name_are_left_off() {
        for raw in [
            "claude-opus-5-5",
            "claude-opus-5-5[1m]",
            "anthropic/claude-opus-5-5",
            "us.anthropic.claude-opus-5-5-v1:0",
            "claude-opus-5-5-20261001",
            "claude-opus-5-5-latest",
            "claude-opus-5-5@20261001",
        ] {
            assert_eq!(
                Model::recognize(raw).map(|model| model.to_string()).as_deref(),
                Some("claude-opus-5-5"),
                "{raw}"
            );
        }
        assert_eq!(Model::recognize("claude-opus-4-5-20251101").unwrap().to_string(), "claude-opus-4-5-20251101");
    }

    #[test]
    fn an_unlisted_name_is_not_recognized() {
        for raw in ["acme-internal", "ft:gpt-4o:acme", "other-1", "", "claude-opus-5-5-acme", "other-0"] {
            assert_eq!(Model::recognize(raw), None, "{raw}");
        }
        assert_eq!(Model::parse("other-3"), Some(Model::other(2)));
        assert_eq!(Model::other(2).to_string(), "other-3");
        assert_eq!(Model::parse("other-03"), None);
    }
}
