//! Send times from edges, and the order that follows from them.
//!
//! Invariant: afterwards requests stand in send order, edges lead from an earlier one to a later one, and a start is the latest of
//! (trigger + delay), or there are none: where the source had none, or lacks a duration that others follow from.

use crate::trace::vocab::Trigger;
use crate::trace::{Edge, Request, Session};

use super::at;
use super::draft::Draft;

/// Works out when each request goes out, and puts the rows in that order. Every edge has to lead to a later row.
pub(super) fn settle(draft: &mut Draft) {
    let before: Vec<Option<u64>> = draft.session.requests.iter().map(|request| request.start_ms).collect();
    let starts = if before.contains(&None) { None } else { starts(&draft.session) };
    for (row, request) in draft.session.requests.iter_mut().enumerate() {
        request.start_ms = starts.as_ref().and_then(|starts| starts.get(row).copied());
    }
    for tool in &mut draft.session.tools {
        let moved = |start: u64| {
            let row = at(tool.request);
            let after = starts.as_ref()?.get(row)?;
            start.checked_sub(before.get(row).copied()??)?.checked_add(*after)
        };
        tool.start_ms = tool.start_ms.and_then(moved);
    }
    let mut order: Vec<usize> = (0..draft.session.requests.len()).collect();
    if let Some(starts) = &starts {
        order.sort_by_key(|&row| starts.get(row));
    }
    reorder(draft, &order);
}

/// The start of each request, where all that they follow from is known.
fn starts(session: &Session) -> Option<Vec<u64>> {
    let mut starts: Vec<u64> = Vec::with_capacity(session.requests.len());
    let mut edges = session.edges.iter().peekable();
    for row in 0..session.requests.len() {
        let mut start = 0;
        while let Some(edge) = edges.next_if(|edge| at(edge.to) <= row) {
            let sent = starts.get(at(edge.from)).copied()?;
            let trigger = match edge.trigger {
                Trigger::Dispatch => sent,
                Trigger::Completion => sent + u64::from(session.requests.get(at(edge.from))?.duration_ms?),
            };
            start = start.max(trigger + edge.delay_ms);
        }
        starts.push(start);
    }
    Some(starts)
}

/// Puts row `order[n]` in place n, and renames rows wherever they are named.
fn reorder(draft: &mut Draft, order: &[usize]) {
    let mut place = vec![0; order.len()];
    for (to, &from) in (0u32..).zip(order) {
        if let Some(slot) = place.get_mut(from) {
            *slot = to;
        }
    }
    let moved = |row: u32| place.get(at(row)).copied().unwrap_or(row);
    let session = &mut draft.session;
    session.requests = order.iter().filter_map(|&row| session.requests.get(row)).copied().collect::<Vec<Request>>();
    draft.prompts = order.iter().filter_map(|&row| draft.prompts.get_mut(row).map(std::mem::take)).collect();
    for agent in &mut session.agents {
        agent.spawn_request = agent.spawn_request.map(moved);
        agent.join_request = agent.join_request.map(moved);
    }
    for edge in &mut session.edges {
        *edge = Edge { to: moved(edge.to), from: moved(edge.from), ..*edge };
    }
    for tool in &mut session.tools {
        tool.request = moved(tool.request);
        tool.consumer_request = tool.consumer_request.map(moved);
    }
    session.edges.sort_unstable();
    session.tools.sort_by_key(|tool| (tool.request, tool.index));
}
