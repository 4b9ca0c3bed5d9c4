//! Traces of other formats in memory: imported from bytes, checked, compared, written in our own format.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use tracecloak::analyze::compare::{Comparison, compare};
use tracecloak::format::foreign::{ForeignError, Frame, ImportOptions, ImportReport, Source, importer};
use tracecloak::format::parquet::Directory;
use tracecloak::format::{Checker, FormatError, TraceFormat, TraceSource};
use tracecloak::trace::manifest::{ToolName, ToolVersion};
use tracecloak::trace::vocab::Scope;
use tracecloak::trace::{Manifest, Session};

/// A trace in memory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trace {
    pub(super) frame: Frame,
    pub(super) sessions: Vec<Session>,
}

impl Trace {
    pub(super) fn manifest(&self) -> Manifest {
        let tool = ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 1, patch: 0 };
        Manifest::imported(tool, self.frame.block_size, self.frame.scope)
    }

    pub(super) fn source(&self) -> InMemory {
        InMemory { manifest: self.manifest(), sessions: self.sessions.clone().into_iter() }
    }

    pub(super) fn check(&self) {
        let mut checker = Checker::new(&self.manifest());
        for session in &self.sessions {
            checker.check(session).unwrap();
        }
    }

    /// Writes it as a trace directory.
    pub(super) fn write(&self, target: &Path) {
        let mut sink = Directory.create(target, self.manifest(), false).unwrap();
        self.sessions.iter().for_each(|session| sink.session(session).unwrap());
        sink.finish().unwrap();
    }

    pub(super) fn compare(&self, other: &Self) -> Comparison {
        compare((&self.manifest(), &other.manifest()), self.source(), other.source()).unwrap()
    }
}

pub(super) struct InMemory {
    manifest: Manifest,
    sessions: std::vec::IntoIter<Session>,
}

impl Iterator for InMemory {
    type Item = Result<Session, FormatError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.sessions.next().map(Ok)
    }
}

impl TraceSource for InMemory {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

pub(super) fn sources(bytes: &[u8]) -> Vec<Source> {
    let bytes = bytes.to_vec();
    vec![Source::new(0, true, move || Ok(Box::new(Cursor::new(bytes.clone()))))]
}

pub(super) fn import(
    format: &str,
    bytes: &[u8],
    options: ImportOptions,
) -> Result<(Trace, ImportReport), ForeignError> {
    let mut trace = Trace { frame: Frame { block_size: 1, scope: Scope::Session }, sessions: Vec::new() };
    let report = importer(format).unwrap().import(&sources(bytes), options, &mut |frame, session| {
        trace.frame = frame;
        trace.sessions.push(session);
        Ok(())
    })?;
    trace.check();
    Ok((trace, report))
}

/// A file of `fixtures/trace`.
pub(super) fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/trace").join(name)).unwrap()
}
