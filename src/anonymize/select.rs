//! Which sessions to keep.
//!
//! Invariant: of an exchange that is left out by its session or its time, the headers are read and nothing else, but for
//! `metadata.user_id` where no header names a session.

use std::collections::HashSet;

use crate::capture::{Body, Exchange};
use crate::trace::vocab::Harness;
use crate::wire::anthropic;

use super::markers;

/// What is asked for; by default everything.
#[derive(Clone, Default)]
pub struct Selection {
    /// Only sessions of these harnesses; all if there are none.
    pub harnesses: Vec<Harness>,
    /// Only requests sent at this time or later, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// Only requests sent before this time.
    pub until_us: Option<i64>,
    /// Only sessions whose ids, in lower case, are here. A session without an id is left out.
    pub consent: Option<HashSet<String>>,
}

impl Selection {
    /// Whether an exchange may be read further than its headers.
    pub(super) fn allows(&self, exchange: &Exchange) -> bool {
        let start = exchange.start.or(exchange.first_byte).or(exchange.end).map(|moment| moment.unix_us);
        let in_time = self.since_us.is_none_or(|since| start.is_some_and(|start| start >= since))
            && self.until_us.is_none_or(|until| start.is_some_and(|start| start < until));
        in_time && self.consent.as_ref().is_none_or(|consent| consents(exchange, consent))
    }

    /// Whether a session of a harness is kept.
    pub(super) fn allows_harness(&self, harness: Harness) -> bool {
        self.harnesses.is_empty() || self.harnesses.contains(&harness)
    }
}

/// Whether the session that the headers name, or the body where they name none, is listed; of an agent with a session of its own,
/// its parent's will do.
fn consents(exchange: &Exchange, consent: &HashSet<String>) -> bool {
    let is_listed = |id: &str| consent.contains(&id.to_ascii_lowercase());
    let header = |name| exchange.headers.get(name).filter(|id| !id.is_empty());
    let in_body = || match &exchange.body {
        Body::Bytes(body) => markers::session_of_user_id(&anthropic::user_id(body.as_bytes())?),
        Body::Lost | Body::Empty => None,
    };
    let mut others =
        markers::SESSION_HEADERS.iter().flat_map(|(own, parent)| [header(own), header(parent)]).flatten().peekable();
    match header("x-claude-code-session-id") {
        Some(id) => is_listed(id),
        None if others.peek().is_some() => others.any(is_listed),
        None => in_body().is_some_and(|id| is_listed(&id)),
    }
}
