//! Reading a trace directory, session by session.
//!
//! Invariant: a session that comes out has passed the [`Checker`], its row ids were dense and in order, and at the end the tables
//! held what the manifest says and no row more.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::cursor::Cursor;
use super::rows::Base;
use super::schema::{AgentRow, EdgeRow, RequestRow, Row, SessionRow, ToolRow};
use crate::format::check::SESSION_ROWS;
use crate::format::{Checker, Fault, FileName, FormatError, TraceSource, count, manifest};
use crate::trace::{Manifest, Session};

/// More than any manifest takes.
const MANIFEST_BYTES: u64 = 1 << 26;

/// A trace directory being read.
pub struct Reader {
    manifest: Manifest,
    checker: Checker,
    sessions: Cursor<SessionRow>,
    agents: Cursor<AgentRow>,
    requests: Cursor<RequestRow>,
    edges: Cursor<EdgeRow>,
    tools: Cursor<ToolRow>,
    ended: bool,
}

impl Reader {
    /// Opens the directory at `path`. With `verify`, each file's sha256 is compared with the manifest's before it is read.
    ///
    /// # Errors
    /// If there is no manifest, or members of it do not agree.
    pub fn open(path: &Path, verify: bool) -> Result<Self, FormatError> {
        let io = FormatError::io(FileName::Manifest);
        let mut json = Vec::new();
        let file = fs::File::open(path.join(FileName::Manifest.to_string())).map_err(&io)?;
        file.take(MANIFEST_BYTES).read_to_end(&mut json).map_err(&io)?;
        let manifest = manifest::from_json(&json)?;
        let files = &manifest.files;
        Ok(Self {
            checker: Checker::new(&manifest),
            sessions: Cursor::new(path, files, verify),
            agents: Cursor::new(path, files, verify),
            requests: Cursor::new(path, files, verify),
            edges: Cursor::new(path, files, verify),
            tools: Cursor::new(path, files, verify),
            manifest,
            ended: false,
        })
    }

    fn read(&mut self) -> Result<Option<Session>, FormatError> {
        let totals = self.checker.totals();
        let base = Base::after(&totals);
        let Some(row) = self.sessions.take_if(|_| true)? else { return self.end().map(|()| None) };
        if u64::from(row.session) != totals.sessions {
            return Err(self.sessions.error("session", Fault::NotDense));
        }
        let id = row.session;
        let agents = collect(
            &mut self.agents,
            |row| row.session == id,
            |local, row| {
                if u64::from(row.agent) != totals.agents + count(local) {
                    return Err(("agent", Fault::NotDense));
                }
                base.agent_of(row).map_err(outside)
            },
        )?;
        let requests = collect(
            &mut self.requests,
            |row| row.session == id,
            |local, row| {
                if row.request != totals.requests + count(local) {
                    return Err(("request", Fault::NotDense));
                }
                base.request_of(row).map_err(outside)
            },
        )?;
        let end = totals.requests + count(requests.len());
        let edges = collect(&mut self.edges, |row| row.session == id, |_, row| base.edge_of(row).map_err(outside))?;
        let tools = collect(&mut self.tools, |row| row.request < end, |_, row| base.tool_of(row).map_err(outside))?;
        let SessionRow { start_ms, harness, source_number, session: _ } = row;
        let session = Session { start_ms, harness, source_number, agents, requests, edges, tools };
        self.checker.check(&session)?;
        Ok(Some(session))
    }

    /// Checks that nothing is left over.
    fn end(&mut self) -> Result<(), FormatError> {
        orphan(&mut self.agents, "session")?;
        orphan(&mut self.requests, "session")?;
        orphan(&mut self.edges, "session")?;
        orphan(&mut self.tools, "request")?;
        if self.checker.totals() == self.manifest.totals {
            return Ok(());
        }
        Err(FormatError::Member { member: "totals", fault: Fault::Disagrees })
    }
}

impl Iterator for Reader {
    type Item = Result<Session, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let session = self.read().transpose();
        self.ended = !matches!(session, Some(Ok(_)));
        session
    }
}

impl TraceSource for Reader {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

fn outside(column: &'static str) -> (&'static str, Fault) {
    (column, Fault::OutOfSession)
}

fn collect<R: Row, T>(
    cursor: &mut Cursor<R>,
    belongs: impl Fn(&R) -> bool,
    make: impl Fn(usize, &R) -> Result<T, (&'static str, Fault)>,
) -> Result<Vec<T>, FormatError> {
    let mut rows = Vec::new();
    while let Some(row) = cursor.take_if(&belongs)? {
        if rows.len() >= SESSION_ROWS {
            return Err(cursor.error("session", Fault::TooMany));
        }
        rows.push(make(rows.len(), &row).map_err(|(column, fault)| cursor.error(column, fault))?);
    }
    Ok(rows)
}

fn orphan<R: Row>(cursor: &mut Cursor<R>, column: &'static str) -> Result<(), FormatError> {
    match cursor.take_if(|_| true)? {
        Some(_) => Err(cursor.error(column, Fault::Orphan)),
        None => Ok(()),
    }
}
