//! Ids that a run gives its sessions and agents, as an agent harness would send them.
//!
//! Invariant: an id depends on the run and on places in the trace; runs with other keys share none.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::metrics::RequestId;
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
        let own = value(self.id("session", number, 0));
        if let Some(name) = &self.affinity {
            headers.insert(name, own.clone());
        }
        headers.insert("x-request-id", value(self.request(number, request)));
        headers.insert("x-claude-code-session-id", own);
        if agent > 0 {
            headers.insert("x-claude-code-agent-id", value(self.id("agent", number, agent)));
        }
        if let Some(parent) = at(agent).and_then(|agent| agent.parent_agent).filter(|parent| *parent > 0) {
            headers.insert("x-claude-code-parent-agent-id", value(self.id("agent", number, parent)));
        }
        headers
    }

    /// The id of a request.
    pub fn request(&self, session: u32, request: u32) -> RequestId {
        self.id("request", session, request)
    }

    fn id(&self, what: &str, session: u32, number: u32) -> RequestId {
        let mut hasher = blake3::Hasher::new_keyed(&self.run);
        hasher.update(what.as_bytes()).update(&session.to_le_bytes()).update(&number.to_le_bytes());
        let mut bytes = [0; 16];
        hasher.finalize_xof().fill(&mut bytes);
        RequestId(u128::from_be_bytes(bytes))
    }
}

fn value(id: RequestId) -> HeaderValue {
    HeaderValue::from_str(&id.to_string()).unwrap_or(HeaderValue::from_static("0"))
}
