//! Ids that a run gives its sessions and agents, as an agent harness would send them.
//!
//! Invariant: an id depends on the run and on places in the trace; runs with other keys share none.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::trace::Session;

/// Makes the ids of a run.
#[derive(Clone, Debug)]
pub struct Identity {
    run: [u8; 32],
    affinity: Option<HeaderName>,
}

impl Identity {
    /// Ids of the run with this key. `affinity` names a header that carries the session's id beside those of the harness.
    pub fn new(run: [u8; 32], affinity: Option<HeaderName>) -> Self {
        Self { run, affinity }
    }

    /// The headers of a request of session `number`.
    pub fn headers(&self, number: u32, session: &Session, agent: u32, request: u32) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(8);
        let at = |agent: u32| usize::try_from(agent).ok().and_then(|agent| session.agents.get(agent));
        let own = self.id("session", number, 0);
        if let Some(name) = &self.affinity {
            headers.insert(name, own.clone());
        }
        headers.insert("x-request-id", self.id("request", number, request));
        headers.insert("x-claude-code-session-id", own);
        if agent > 0 {
            headers.insert("x-claude-code-agent-id", self.id("agent", number, agent));
        }
        if let Some(parent) = at(agent).and_then(|agent| agent.parent_agent).filter(|parent| *parent > 0) {
            headers.insert("x-claude-code-parent-agent-id", self.id("agent", number, parent));
        }
        headers
    }

    fn id(&self, what: &str, session: u32, number: u32) -> HeaderValue {
        let mut hasher = blake3::Hasher::new_keyed(&self.run);
        hasher.update(what.as_bytes()).update(&session.to_le_bytes()).update(&number.to_le_bytes());
        let hex = hasher.finalize().to_hex();
        let part = |from, to| hex.get(from..to).unwrap_or_default();
        // In the form of a random UUID, which is what harnesses send.
        let id = format!("{}-{}-4{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32));
        HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("0"))
    }
}
