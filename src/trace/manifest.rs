//! What a reader must know before the tables.
//!
//! Invariant: every member is a number, a word from a closed vocabulary or a sha256; there is no free text.

use serde::{Deserialize, Serialize};

use super::vocab::{
    KUnit, Keep, License, Loss, Normalizer, Profile, PromptScale, Scope, SourceFormat, Table, TemplateName,
    TokenizerName,
};

/// The version of the trace format that this program writes.
pub const FORMAT_VERSION: u32 = 1;

/// A sha256, shown as 64 hexadecimal digits in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sha256(pub [u8; 32]);

/// The program that wrote the trace, by version; its name is fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolVersion {
    /// Always `tracecloak`.
    pub name: ToolName,
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Patch version.
    pub patch: u16,
}

/// The name of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolName {
    /// This program.
    #[serde(rename = "tracecloak")]
    Tracecloak,
}

/// A tokenizer or a chat template: its name, and its sha256 where the profile keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named<N> {
    /// A listed name, else `custom`.
    pub name: N,
    /// Of the file; only with `--keep tokenizer-hash`.
    pub sha256: Option<Sha256>,
}

/// The steps that numbers of the trace are multiples of; 0 means not rounded on purpose, 1 is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quanta {
    /// Tokens: `input_tokens` is floored to it.
    pub input_tokens: u32,
    /// Tokens: `output_tokens` is rounded up to it.
    pub output_tokens: u32,
    /// Milliseconds: `duration_ms`, `ttft_ms` and delays that no person caused.
    pub machine_ms: u32,
    /// Milliseconds: delays that a person caused, up to a minute; ten times this up to ten minutes, sixty times beyond,
    /// and nothing above an hour. 1 means exact.
    pub user_ms: u32,
}

/// Sums over the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Rows of `sessions`.
    pub sessions: u64,
    /// Rows of `agents`.
    pub agents: u64,
    /// Rows of `requests`.
    pub requests: u64,
    /// Rows of `edges`.
    pub edges: u64,
    /// Rows of `tools`.
    pub tools: u64,
    /// Sum of `input_tokens`.
    pub input_tokens: u64,
    /// Sum of `output_tokens`, nulls left out.
    pub output_tokens: u64,
    /// Full blocks of all prompts.
    pub blocks: u64,
    /// Distinct blocks: one more than the highest block id.
    pub unique_blocks: u64,
}

/// Counts of the conversion; written only with `--keep skip-counts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkipCounts {
    /// Records read.
    pub records: u64,
    /// Records not kept, for any reason.
    pub skipped: u64,
}

/// One file of the trace directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    /// Its table.
    pub table: Table,
    /// Which of the table's files it is, from 0.
    pub part: u32,
    /// How many files the table has.
    pub parts: u32,
    /// Its rows.
    pub rows: u64,
    /// Of its bytes.
    pub sha256: Sha256,
}

/// `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// What wrote the trace.
    pub tool: ToolVersion,
    /// The rule set.
    pub profile: Profile,
    /// Items moved over from the private profile, in vocabulary order.
    pub kept: Vec<Keep>,
    /// Tokens per block.
    pub block_size: u32,
    /// Which prompts share block ids.
    pub scope: Scope,
    /// How many contributors must hold a block under scope `shared`.
    pub k: Option<u32>,
    /// What `k` counts.
    pub k_unit: Option<KUnit>,
    /// What counted the tokens.
    pub tokenizer: Named<TokenizerName>,
    /// What laid the prompt out.
    pub chat_template: Named<TemplateName>,
    /// What was rewritten first, in vocabulary order.
    pub normalizers: Vec<Normalizer>,
    /// What numbers are rounded to.
    pub quanta: Quanta,
    /// What prompt lengths mean.
    pub prompt_scale: PromptScale,
    /// Where the trace came from, in vocabulary order.
    pub source_formats: Vec<SourceFormat>,
    /// Sums.
    pub totals: Totals,
    /// What an import could not carry.
    pub loss: Vec<Loss>,
    /// Counts of the conversion.
    pub skip_counts: Option<SkipCounts>,
    /// The licence of the dataset.
    pub license: Option<License>,
    /// The tables' files.
    pub files: Vec<TableFile>,
}

impl Manifest {
    /// That of a trace that another program wrote and `tool` imported, as long as nothing more is known.
    pub fn imported(tool: ToolVersion, block_size: u32, scope: Scope) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            tool,
            profile: Profile::Imported,
            kept: Vec::new(),
            block_size,
            scope,
            k: None,
            k_unit: None,
            tokenizer: Named { name: TokenizerName::Custom, sha256: None },
            chat_template: Named { name: TemplateName::Custom, sha256: None },
            normalizers: Vec::new(),
            quanta: Quanta { input_tokens: 0, output_tokens: 0, machine_ms: 0, user_ms: 0 },
            prompt_scale: PromptScale::None,
            source_formats: Vec::new(),
            totals: Totals::default(),
            loss: Vec::new(),
            skip_counts: None,
            license: None,
            files: Vec::new(),
        }
    }
}

impl Serialize for Sha256 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self}"))
    }
}

impl std::fmt::Display for Sha256 {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl<'de> Deserialize<'de> for Sha256 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Sha256;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("64 hexadecimal digits")
            }
            fn visit_str<E: serde::de::Error>(self, digits: &str) -> Result<Sha256, E> {
                let invalid = || E::custom("not 64 lower-case hexadecimal digits");
                let digits = digits.as_bytes();
                let mut bytes = [0; 32];
                if digits.len() != 64 {
                    return Err(invalid());
                }
                for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
                    for digit in pair {
                        let value = match digit {
                            b'0'..=b'9' => digit - b'0',
                            b'a'..=b'f' => digit - b'a' + 10,
                            _ => return Err(invalid()),
                        };
                        *byte = *byte << 4 | value;
                    }
                }
                Ok(Sha256(bytes))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
