//! Trace formats of other projects: from them ([`Importer`]) and to them ([`Exporter`]).
//!
//! Invariant: an import hands out sessions that the [`Checker`](super::Checker) accepts, in the order of the source, one at a
//! time; what it had to infer, what was odd and what was lost is counted, never hidden. An export says what it could not carry.
//! Nothing of a source but numbers and listed words is kept: its identifiers are renumbered.
//!
//! To add a format: one file with an [`Importer`] or [`Exporter`], one line in [`IMPORTERS`] or [`EXPORTERS`], its word in
//! [`SourceFormat`], one fixture. Helpers: [`json`] reads rows by field, [`tree`] makes prefix columns of id lists, [`session`]
//! makes sessions of rows, [`output`] writes files that appear whole or not at all.

mod bailian;
mod counting;
mod csv;
mod dynamo;
mod error;
mod flat;
mod graph;
pub mod json;
pub mod json_out;
mod litellm;
mod losses;
mod mooncake;
pub mod outgoing;
pub mod output;
pub mod report;
mod servegen;
pub mod session;
pub mod source;
#[cfg(test)]
mod tests;
mod tracelab;
pub mod tree;
mod veeksha;
mod weka;

use std::path::Path;

pub use error::{ForeignError, Refused, RowError, RowFault};
pub use report::{ExportReport, ImportReport, Tally};
pub use source::{Head, Source};
pub use tree::{Ids, TreeFromIds};

use super::TraceSource;
use crate::trace::Session;
use crate::trace::vocab::{Loss, Scope, SourceFormat, Vocabulary};

/// What is known of an imported trace before its sessions. The same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Tokens per block.
    pub block_size: u32,
    /// Which prompts share block ids.
    pub scope: Scope,
}

/// Takes the sessions of an import.
pub type Take<'a> = &'a mut dyn FnMut(Frame, Session) -> Result<(), ForeignError>;

/// What a user can say about an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Tokens per block, where the format does not say; else its usual number.
    pub block_size: Option<u32>,
}

/// A format that traces come from.
pub trait Importer: Sync {
    /// Its word.
    fn format(&self) -> SourceFormat;

    /// Whether a file that begins so is of this format.
    fn sniff(&self, head: &Head<'_>) -> bool;

    /// What traces of this format never hold: for the manifest.
    fn loss(&self) -> &'static [Loss];

    /// Reads the files, which are all of this format, as one trace.
    ///
    /// # Errors
    /// At the first row that breaks a rule of the format, by place.
    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError>;
}

/// The dialects of WEKA JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// kv-cache-tester: ids from 1, nested times since the agent's start, an agent that ended at its end.
    #[default]
    Tester,
    /// SemiAnalysis AgentX: ids from 0, nested times since the session's beginning.
    AgentX,
}

/// What a user can say about an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// Replace what is at the target.
    pub replace: bool,
    /// Which dialect, where the format has several.
    pub dialect: Dialect,
    /// Tokens per block: a multiple of the trace's.
    pub block_size: Option<u32>,
    /// Rows that name their session and wait for the turn before, where the format has such and others.
    pub sessions: bool,
    /// Only the sessions that the published rules of the AgentX dataset admit.
    pub select_agentx: bool,
}

/// A format that traces go to.
pub trait Exporter: Sync {
    /// Its word.
    fn format(&self) -> SourceFormat;

    /// What it never carries, whatever the trace.
    fn loss(&self) -> &'static [Loss];

    /// Writes the trace to `target`, which appears whole or not at all.
    ///
    /// # Errors
    /// If the trace lacks what the format needs, or the target exists or can't be written.
    fn export(
        &self,
        trace: &mut dyn TraceSource,
        target: &Path,
        options: &ExportOptions,
    ) -> Result<ExportReport, ForeignError>;
}

/// Every format that can be imported, the most telling first.
pub const IMPORTERS: &[&dyn Importer] = &[
    &weka::Weka,
    &dynamo::Dynamo,
    &dynamo::DynamoTrace,
    &litellm::LiteLlm,
    &tracelab::TraceLab,
    &veeksha::SharedPrefix,
    &veeksha::Veeksha,
    &bailian::Bailian,
    &servegen::ServeGen,
    &mooncake::Mooncake,
    &flat::Flat,
];

/// Every format that can be exported to.
pub const EXPORTERS: &[&dyn Exporter] = &[
    &weka::Weka,
    &dynamo::Dynamo,
    &veeksha::SharedPrefix,
    &veeksha::Veeksha,
    &bailian::Bailian,
    &mooncake::Mooncake,
    &flat::Flat,
];

/// The importer with this word.
pub fn importer(word: &str) -> Option<&'static dyn Importer> {
    IMPORTERS.iter().copied().find(|importer| importer.format().word() == word)
}

/// The exporter with this word.
pub fn exporter(word: &str) -> Option<&'static dyn Exporter> {
    EXPORTERS.iter().copied().find(|exporter| exporter.format().word() == word)
}

/// Tells the format of the files, and which of them are of it: those of a folder that no format knows are left out.
///
/// # Errors
/// If a file that the user named is of no known format, or files are of different ones.
pub fn recognize(sources: Vec<Source>) -> Result<(&'static dyn Importer, Vec<Source>), ForeignError> {
    let mut found: Option<&'static dyn Importer> = None;
    let mut kept = Vec::with_capacity(sources.len());
    for source in sources {
        let bytes = source.head()?;
        let head = Head::of(&bytes);
        match (IMPORTERS.iter().copied().find(|importer| importer.sniff(&head)), found) {
            (None, _) if source.named => return Err(ForeignError::Unrecognized(source.number)),
            (None, _) => continue,
            (Some(importer), Some(earlier)) if importer.format() != earlier.format() => {
                return Err(ForeignError::Mixed(source.number));
            }
            (Some(importer), _) => found = Some(importer),
        }
        kept.push(source);
    }
    found.map(|found| (found, kept)).ok_or(ForeignError::Nothing)
}
