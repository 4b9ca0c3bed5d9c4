//! Writing a trace directory.
//!
//! Invariant: sessions are checked before a row of them is written; the directory appears whole, with its manifest and its card,
//! or not at all.

use std::path::Path;

use super::rows::Base;
use super::schema::{AgentRow, EdgeRow, RequestRow, SessionRow, ToolRow};
use super::table::{Limits, TableWriter};
use crate::format::staging::Staged;
use crate::format::{Checker, FileName, FormatError, TraceSink, card, manifest};
use crate::trace::{Manifest, Session};

/// A trace directory being written.
pub struct Writer {
    /// Gone after an error.
    staged: Option<Staged>,
    manifest: Manifest,
    checker: Checker,
    sessions: TableWriter<SessionRow>,
    agents: TableWriter<AgentRow>,
    requests: TableWriter<RequestRow>,
    edges: TableWriter<EdgeRow>,
    tools: TableWriter<ToolRow>,
}

impl Writer {
    /// Begins a directory at `path`; see [`create`](crate::format::TraceFormat::create).
    ///
    /// # Errors
    /// If the target exists and may not be replaced, can't be written, or members of the manifest do not agree.
    pub fn create(path: &Path, manifest: Manifest, replace: bool, limits: Limits) -> Result<Self, FormatError> {
        manifest::check_head(&manifest)?;
        let staged = Staged::create(path, replace)?;
        let directory = staged.path();
        Ok(Self {
            checker: Checker::new(&manifest),
            manifest,
            sessions: TableWriter::new(directory, limits),
            agents: TableWriter::new(directory, limits),
            requests: TableWriter::new(directory, limits),
            edges: TableWriter::new(directory, limits),
            tools: TableWriter::new(directory, limits),
            staged: Some(staged),
        })
    }

    fn add(&mut self, session: &Session) -> Result<(), FormatError> {
        let base = Base::after(&self.checker.totals());
        self.checker.check(session)?;
        self.sessions.push(base.session_row(session))?;
        for (local, agent) in session.agents.iter().enumerate() {
            self.agents.push(base.agent_row(local, agent))?;
        }
        for (local, request) in session.requests.iter().enumerate() {
            self.requests.push(base.request_row(local, request))?;
        }
        for edge in &session.edges {
            self.edges.push(base.edge_row(edge))?;
        }
        for tool in &session.tools {
            self.tools.push(base.tool_row(tool))?;
        }
        Ok(())
    }
}

impl TraceSink for Writer {
    fn session(&mut self, session: &Session) -> Result<(), FormatError> {
        if self.staged.is_none() {
            return Err(FormatError::Abandoned);
        }
        let added = self.add(session);
        if added.is_err() {
            self.staged = None;
        }
        added
    }

    fn finish(self: Box<Self>) -> Result<Manifest, FormatError> {
        let this = *self;
        let staged = this.staged.ok_or(FormatError::Abandoned)?;
        let tables = [
            this.sessions.finish()?,
            this.agents.finish()?,
            this.requests.finish()?,
            this.edges.finish()?,
            this.tools.finish()?,
        ];
        let manifest = Manifest { totals: this.checker.totals(), files: tables.concat(), ..this.manifest };
        for (file, content) in
            [(FileName::Card, card::render(&manifest)), (FileName::Manifest, manifest::to_json(&manifest)?)]
        {
            std::fs::write(staged.path().join(file.to_string()), content).map_err(FormatError::io(file))?;
        }
        staged.publish()?;
        Ok(manifest)
    }
}
