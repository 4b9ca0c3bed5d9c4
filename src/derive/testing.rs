//! Sessions and traces in memory, for the tests of this module.
//!
//! Invariant: nothing here is compiled outside tests.

use std::cell::RefCell;
use std::rc::Rc;

use crate::format::foreign::session::request;
use crate::format::{Checker, FormatError, TraceSink, TraceSource};
use crate::trace::manifest::{ToolName, ToolVersion};
use crate::trace::vocab::{DelayKind, Evidence, Harness, Relation, Scope, Trigger};
use crate::trace::{Edge, Manifest, PrefixTree, Request, Session};

use super::linear::MAIN;

pub(super) fn manifest(block_size: u32) -> Manifest {
    let tool = ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 1, patch: 0 };
    Manifest::imported(tool, block_size, Scope::Session)
}

/// A session of one agent at 64-token blocks: per request its length and the request that it extends, which it waits for.
pub(super) fn session_of(rows: &[(u32, Option<u32>)]) -> Session {
    let mut tree = PrefixTree::new();
    let mut requests = Vec::new();
    for (turn, &(input_tokens, before)) in (0u32..).zip(rows) {
        let shared = before.map_or(0, |before| rows[before as usize].0 / 64);
        let mut prefix = tree.insert(before.map(u64::from), shared, input_tokens / 64);
        prefix.extends = prefix.request.is_some() && prefix.request == before.map(u64::from);
        requests.push(Request { turn, prefix, ..request(input_tokens, Some(400)) });
    }
    let edges = (1..u32::try_from(rows.len()).unwrap().max(1)).map(|to| Edge {
        to,
        from: to - 1,
        relation: Relation::Sequence,
        trigger: Trigger::Completion,
        delay_ms: 100,
        delay_kind: DelayKind::None,
        evidence: Evidence::Stated,
    });
    Session {
        start_ms: None,
        harness: Harness::Other,
        source_number: None,
        agents: vec![MAIN],
        edges: edges.collect(),
        requests,
        tools: Vec::new(),
    }
}

/// The linear session of the fixtures.
pub(super) fn four_turns() -> Session {
    let mut session = session_of(&[(8000, None), (8800, Some(0)), (9600, Some(1)), (10_400, Some(2))]);
    for (edge, delay) in session.edges.iter_mut().zip([1200, 800, 1000]) {
        edge.delay_ms = delay;
    }
    session
}

/// A trace in memory.
#[derive(Clone)]
pub(super) struct Memory(Rc<RefCell<Vec<Session>>>, Manifest);

impl Memory {
    pub(super) fn sinks(parts: usize, manifest: &Manifest) -> Vec<Self> {
        (0..parts).map(|_| Self(Rc::default(), manifest.clone())).collect()
    }

    pub(super) fn sink(&self) -> Box<dyn TraceSink> {
        Box::new(Checked(self.clone(), Checker::new(&self.1)))
    }

    pub(super) fn sessions(&self) -> Vec<Session> {
        self.0.borrow().clone()
    }

    pub(super) fn source(sessions: &[Session], manifest: &Manifest) -> Box<dyn TraceSource> {
        Box::new(Read(Vec::from(sessions).into_iter(), manifest.clone()))
    }
}

struct Checked(Memory, Checker);

impl TraceSink for Checked {
    fn session(&mut self, session: &Session) -> Result<(), FormatError> {
        self.1.check(session)?;
        self.0.0.borrow_mut().push(session.clone());
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Manifest, FormatError> {
        Ok(self.0.1)
    }
}

struct Read(std::vec::IntoIter<Session>, Manifest);

impl Iterator for Read {
    type Item = Result<Session, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Ok)
    }
}

impl TraceSource for Read {
    fn manifest(&self) -> &Manifest {
        &self.1
    }
}
