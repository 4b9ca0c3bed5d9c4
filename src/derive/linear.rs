//! `--linearize`: the same requests, one after another.
//!
//! Invariant: prompts, answers and pauses stay; there is one agent, and each request waits for the one before it.

use crate::trace::vocab::{AgentKind, AgentType, DelayKind, Evidence, Relation, Trigger};
use crate::trace::{Agent, Edge, Session};

use super::draft::Draft;
use super::{at, clock};

/// The main agent alone.
pub(super) const MAIN: Agent = Agent {
    parent_agent: None,
    depth: 0,
    kind: AgentKind::Main,
    agent_type: AgentType::Main,
    status: None,
    spawn_request: None,
    join_request: None,
    total_tokens: None,
    tool_calls: None,
};

/// The session without anything at the same time.
pub(super) fn linearize(mut draft: Draft) -> Draft {
    let pauses = pauses(&draft.session);
    let session = &mut draft.session;
    session.agents = vec![MAIN];
    for (turn, request) in (0..).zip(&mut session.requests) {
        (request.agent, request.turn) = (0, turn);
    }
    for tool in &mut session.tools {
        tool.child_agent = None;
    }
    session.edges = (1..)
        .zip(pauses.iter().skip(1))
        .map(|(to, &(delay_ms, delay_kind))| Edge {
            to,
            from: to - 1,
            relation: Relation::Sequence,
            trigger: Trigger::Completion,
            delay_ms,
            delay_kind,
            evidence: Evidence::Stated,
        })
        .collect();
    clock::settle(&mut draft);
    draft
}

/// For each request, the longest delay that one of its edges carries.
pub(super) fn pauses(session: &Session) -> Vec<(u64, DelayKind)> {
    let mut pauses = vec![(0, DelayKind::None); session.requests.len()];
    for edge in &session.edges {
        if let Some(pause) = pauses.get_mut(at(edge.to))
            && edge.delay_ms > pause.0
        {
            *pause = (edge.delay_ms, edge.delay_kind);
        }
    }
    pauses
}

#[cfg(test)]
mod tests {
    use super::super::draft::{Loader, Press};
    use super::super::scale::Scale;
    use super::super::testing::{manifest, session_of};
    use super::*;

    #[test]
    fn nothing_runs_at_the_same_time_and_prompts_stay() {
        let manifest = manifest(64);
        // Two subagents hang on request 0, and request 3 waits for both.
        let mut session = session_of(&[(640, None), (700, Some(0)), (800, Some(0)), (960, Some(2))]);
        for (row, start, took) in [(0, 0, 1000), (1, 1500, 4000), (2, 1500, 2000), (3, 6000, 500)] {
            session.requests[row].start_ms = Some(start);
            session.requests[row].duration_ms = Some(took);
        }
        let edge = session.edges[0];
        session.edges = vec![
            Edge { to: 1, from: 0, relation: Relation::Spawn, delay_ms: 500, ..edge },
            Edge { to: 2, from: 0, relation: Relation::Spawn, delay_ms: 500, ..edge },
            Edge { to: 3, from: 1, relation: Relation::Join, delay_ms: 500, ..edge },
            Edge { to: 3, from: 2, relation: Relation::Join, delay_ms: 0, ..edge },
        ];
        session = Press::new(&manifest).plant(Loader::new(&manifest, Scale::ONE).load(session));
        let linear = Press::new(&manifest).plant(linearize(Loader::new(&manifest, Scale::ONE).load(session.clone())));
        assert_eq!(
            linear.requests.iter().map(|request| request.start_ms.unwrap()).collect::<Vec<_>>(),
            [0, 1500, 6000, 8500]
        );
        assert!(linear.edges.iter().all(|edge| edge.from + 1 == edge.to && edge.delay_ms == 500));
        for (one, other) in session.requests.iter().zip(&linear.requests) {
            assert_eq!((one.prefix, one.input_tokens), (other.prefix, other.input_tokens));
        }
    }
}
