//! Which session a draft belongs to.
//!
//! Invariant: each draft is in one session; a session's drafts stand in send order; what no identifier names is put together by
//! what it says: the call that it answers, the thread that it goes on, or the call whose prompt it starts from.

use std::collections::HashMap;

use crate::trace::vocab::Status;

use super::chains::{Chains, Node};
use super::draft::Draft;
use super::key::Tag;
use super::waiting::Waiting;

/// The drafts of each session, sessions by their first record.
pub(super) fn group(mut drafts: Vec<Draft>, threads: &Chains) -> Vec<Vec<Draft>> {
    adopt(&mut drafts);
    drafts.sort_by_key(|draft| (draft.start_us, draft.position));
    let mut sessions: Vec<Vec<Draft>> = Vec::new();
    let mut named: HashMap<Tag, usize> = HashMap::new();
    // Equal messages under another system prompt are another conversation.
    let mut ends: HashMap<(Node, Tag), (usize, Status)> = HashMap::new();
    let mut calls: HashMap<Tag, usize> = HashMap::new();
    let mut waiting = Waiting::new();
    for draft in drafts {
        let next = sessions.len();
        let session = if let Some(tag) = draft.session {
            *named.entry(tag).or_insert(next)
        } else {
            waiting.end(&draft);
            let answers = draft.results.iter().find_map(|result| calls.get(&result.call)).copied();
            // What was answered is not sent again: the same beginning is that of another agent, if a call waits for one.
            let goes_on = threads.up(draft.thread).find_map(|node| Some((node, *ends.get(&(node, draft.system))?)));
            let goes_on = goes_on.filter(|(node, (_, status))| *node != draft.thread || *status != Status::Ok);
            let goes_on = answers.or(goes_on.map(|(_, (session, _))| session));
            let goes_on = goes_on.or_else(|| waiting.take(draft.opening?));
            goes_on.or_else(|| Some(ends.get(&(draft.thread, draft.system))?.0)).unwrap_or(next)
        };
        if draft.session.is_none() {
            ends.insert((draft.thread, draft.system), (session, draft.status));
            calls.extend(draft.calls.iter().filter(|call| call.has_id).map(|call| (call.id, session)));
            waiting.add(&draft, session);
        }
        match sessions.get_mut(session) {
            Some(session) => session.push(draft),
            None => sessions.push(vec![draft]),
        }
    }
    sessions
}

/// Where each agent has a session of its own that names the one above it, the topmost is the session and the others are its agents.
fn adopt(drafts: &mut [Draft]) {
    let above: HashMap<Tag, Tag> = drafts
        .iter()
        .filter_map(|draft| draft.session.zip(draft.parent_session))
        .filter(|(session, parent)| session != parent)
        .collect();
    for draft in drafts.iter_mut().filter(|draft| !above.is_empty() && draft.agent.is_none()) {
        let Some((own, parent)) = draft.session.and_then(|own| Some((own, *above.get(&own)?))) else { continue };
        // Sessions that name one another in a circle come to an end all the same.
        let top = std::iter::successors(Some(parent), |session| above.get(session).copied()).take(64).last();
        draft.agent = Some(own);
        draft.parent_agent = (top != Some(parent)).then_some(parent);
        draft.session = top;
    }
}
