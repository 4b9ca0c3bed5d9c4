//! From rows that name each other to the rows of a session: order, agents, turns.
//!
//! Invariant: an edge leads to a later row; agents are numbered by their first request, which stands below their parent's.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::session::{agent, ended};
use crate::trace::vocab::{AgentKind, Relation, Trigger};
use crate::trace::{Agent, Edge, Request};

/// An order in which every row follows those it waits for, and stays where it was otherwise. `None` if rows wait for each other
/// in a circle.
pub(super) fn order(waits_for: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut open: Vec<usize> = waits_for.iter().map(Vec::len).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); waits_for.len()];
    for (row, earlier) in waits_for.iter().enumerate() {
        for &earlier in earlier {
            followers.get_mut(earlier)?.push(row);
        }
    }
    let ready = open.iter().enumerate().filter(|(_, open)| **open == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(|(row, _)| Reverse(row)).collect();
    let mut order = Vec::with_capacity(waits_for.len());
    while let Some(Reverse(row)) = ready.pop() {
        order.push(row);
        for &next in followers.get(row)? {
            let open = open.get_mut(next)?;
            *open -= 1;
            if *open == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    (order.len() == waits_for.len()).then_some(order)
}

/// `places[old]` is the new row of each row in `order`.
pub(super) fn places(order: &[usize]) -> Vec<u32> {
    let mut places = vec![0; order.len()];
    for (place, &row) in (0_u32..).zip(order) {
        if let Some(slot) = places.get_mut(row) {
            *slot = place;
        }
    }
    places
}

/// Numbers the agents of requests that stand in order by their first request, counts their turns, and links them by spawn and
/// join edges.
pub(super) fn agents(requests: &mut [Request], edges: &[Edge]) -> Vec<Agent> {
    let mut known = std::collections::HashMap::new();
    let (mut agents, mut turns, mut ends): (Vec<Agent>, Vec<u32>, Vec<(u32, u32)>) = Default::default();
    for (row, request) in (0_u32..).zip(requests.iter_mut()) {
        let number = *known.entry(request.agent).or_insert_with(|| {
            let kind = if agents.is_empty() { AgentKind::Main } else { AgentKind::Subagent };
            agents.push(agent(kind));
            turns.push(0);
            ends.push((row, row));
            agents.len() - 1
        });
        request.agent = u32::try_from(number).unwrap_or(u32::MAX);
        if let (Some(turn), Some((_, last))) = (turns.get_mut(number), ends.get_mut(number)) {
            request.turn = *turn;
            *turn += 1;
            *last = row;
        }
    }
    for number in 1..agents.len() {
        let Some(&(first, last)) = ends.get(number) else { break };
        let spawn = edges.iter().rfind(|edge| edge.to == first && edge.relation == Relation::Spawn);
        let join = edges.iter().rfind(|edge| edge.from == last && edge.relation == Relation::Join);
        let parent =
            spawn.and_then(|spawn| requests.get(usize::try_from(spawn.from).ok()?)).map_or(0, |from| from.agent);
        let depth = usize::try_from(parent).ok().and_then(|parent| agents.get(parent)).map_or(0, |parent| parent.depth);
        if let Some(agent) = agents.get_mut(number) {
            agent.parent_agent = spawn.map(|_| parent);
            agent.depth = if spawn.is_some() { depth + 1 } else { 1 };
            agent.spawn_request = spawn.map(|spawn| spawn.from);
            agent.join_request = join.map(|join| join.to);
        }
    }
    agents
}

/// Gives each request's pause to the edge whose trigger came last, and the others none. Edges stand in their order.
pub(super) fn carry(requests: &[Request], edges: &mut [Edge]) {
    let at = |row: u32| usize::try_from(row).ok().and_then(|row| requests.get(row));
    for edges in edges.chunk_by_mut(|one, next| one.to == next.to) {
        let moment = |edge: &Edge| match edge.trigger {
            Trigger::Completion => at(edge.from).and_then(ended),
            Trigger::Dispatch => at(edge.from).and_then(|request| request.start_ms),
        };
        let start = edges.first().and_then(|edge| at(edge.to)?.start_ms).unwrap_or(0);
        let last = edges.iter().map(|edge| moment(edge).unwrap_or(0)).enumerate().max_by_key(|(_, moment)| *moment);
        for (place, edge) in edges.iter_mut().enumerate() {
            edge.delay_ms = match last {
                Some((latest, moment)) if latest == place => start.saturating_sub(moment),
                _ => 0,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stay_in_place_unless_they_wait_for_a_later_one() {
        assert_eq!(order(&[vec![], vec![0], vec![0]]), Some(vec![0, 1, 2]));
        assert_eq!(order(&[vec![2], vec![], vec![1]]), Some(vec![1, 2, 0]));
        assert_eq!(places(&[1, 2, 0]), [2, 0, 1]);
        assert_eq!(order(&[vec![1], vec![0]]), None);
        assert_eq!(order(&[vec![0]]), None);
    }
}
