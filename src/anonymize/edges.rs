//! What each request waited for, and how long after.
//!
//! Invariant: an edge leads from an earlier request to a later one; a request's send time is the latest of (trigger + delay) over
//! its edges, exactly.

use std::collections::BTreeMap;

use crate::trace::Edge;
use crate::trace::vocab::{DelayKind, Evidence, Relation, RequestKind, Stop, Trigger};

use super::draft::{Draft, Notice, Outcome};
use super::key::Tag;
use super::lineage::Lineage;
use super::threads::Threads;

/// When requests began and ended, in milliseconds since the session began.
pub(super) struct Times {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// The edges of a session, by `to`, then `from`; and how many requests but the first have none.
pub(super) fn find(drafts: &[Draft], threads: &Threads, lineage: &Lineage, times: &[Times]) -> (Vec<Edge>, u64) {
    let mut found: BTreeMap<(usize, usize, Relation), (Evidence, DelayKind)> = BTreeMap::new();
    for at in 0..drafts.len() {
        if let Some((from, evidence, kind)) = before(at, drafts, threads, lineage, times) {
            found.entry((at, from, Relation::Sequence)).or_insert((evidence, kind));
        }
    }
    for links in &lineage.agents {
        for spawn in &links.spawns {
            found.entry((spawn.to, spawn.call.request, Relation::Spawn)).or_insert((spawn.evidence, DelayKind::Agent));
        }
        for join in &links.joins {
            found.entry((join.to, join.from, Relation::Join)).or_insert((join.evidence, DelayKind::Agent));
        }
    }
    let found: Vec<_> = found.into_iter().collect();
    let mut edges = Vec::with_capacity(found.len());
    let mut without = u64::try_from(drafts.len().saturating_sub(1)).unwrap_or(u64::MAX);
    for group in found.chunk_by(|((one, ..), _), ((two, ..), _)| one == two) {
        let first = edges.len();
        for ((to, from, relation), (evidence, delay_kind)) in group {
            let (Some(waits), Some(waited)) = (times.get(*to), times.get(*from)) else { continue };
            // What carries the other's answer waits for it to be whole; what was merely set going by it need not.
            let holds_answer = *relation == Relation::Join || *evidence == Evidence::Prefix;
            let trigger =
                if holds_answer || waits.start >= waited.end { Trigger::Completion } else { Trigger::Dispatch };
            let narrow = |row: &usize| u32::try_from(*row).unwrap_or(u32::MAX);
            let since = waits.start.saturating_sub(triggered(waited, trigger));
            edges.push(Edge {
                to: narrow(to),
                from: narrow(from),
                relation: *relation,
                trigger,
                delay_ms: since,
                delay_kind: *delay_kind,
                evidence: *evidence,
            });
        }
        if let Some(group) = edges.get_mut(first..) {
            without -= u64::from(!group.is_empty());
            carry(group);
        }
    }
    (edges, without)
}

/// The moment of a request that a trigger names.
pub(super) fn triggered(waited: &Times, trigger: Trigger) -> u64 {
    match trigger {
        Trigger::Completion => waited.end,
        Trigger::Dispatch => waited.start,
    }
}

/// Leaves the delay to the edge whose trigger came last (of the shortest delay, that is), and to a person's pause.
fn carry(edges: &mut [Edge]) {
    let shortest = edges.iter().enumerate().rev().min_by_key(|(_, edge)| edge.delay_ms).map(|(at, _)| at);
    let paused =
        edges.iter().position(|edge| edge.relation == Relation::Sequence && edge.delay_kind == DelayKind::User);
    for (at, edge) in edges.iter_mut().enumerate() {
        if Some(at) != paused.or(shortest) {
            edge.delay_ms = 0;
        }
    }
}

/// The request that `at` came after in its thread, what shows it, and what the time between was spent on.
fn before(
    at: usize,
    drafts: &[Draft],
    threads: &Threads,
    lineage: &Lineage,
    times: &[Times],
) -> Option<(usize, Evidence, DelayKind)> {
    let (draft, plan) = (drafts.get(at)?, threads.requests.get(at)?);
    if let Some(failed) = plan.retries {
        return Some((failed, Evidence::Prefix, DelayKind::Retry));
    }
    let counted = |request| threads.counted(request, drafts, &lineage.answered);
    let thread = || {
        threads
            .agents
            .get(plan.agent)
            .into_iter()
            .flat_map(|agent| agent.requests.iter().rev())
            .copied()
            .filter(|before| *before < at)
    };
    let kind_of = |request: usize| threads.requests.get(request).map(|plan| plan.kind);
    if plan.kind != RequestKind::Turn {
        // A side request hangs off the last turn that had ended. It may repeat the thread up to there, or only most of it.
        let evidence = if plan.extends.is_some() { Evidence::Prefix } else { Evidence::Time };
        let start = times.get(at)?.start;
        let ended = thread().find(|before| {
            kind_of(*before) == Some(RequestKind::Turn) && times.get(*before).is_some_and(|times| times.end <= start)
        });
        return ended.map(|turn| (counted(turn), evidence, DelayKind::None));
    }
    let goes_on = thread().find(|before| match kind_of(*before) {
        Some(RequestKind::Turn) => true,
        Some(RequestKind::Compaction) => draft.continues || plan.extends.is_none(),
        _ => false,
    })?;
    let from = counted(goes_on);
    let same_messages = |one: usize| drafts.get(one).map(|draft| draft.thread);
    let evidence = match plan.extends {
        Some(extended) if same_messages(extended) == same_messages(goes_on) => Evidence::Prefix,
        _ if draft.by_header => Evidence::Header,
        _ => Evidence::Time,
    };
    let answers_agent = |call: &Tag| {
        drafts.get(from).is_some_and(|from| {
            from.calls.iter().any(|made| made.id == *call && (made.spawn.is_some() || made.to.is_some()))
        })
    };
    let tells_of_agent = |notice: &Notice| {
        threads.by_tag.contains_key(&notice.task) || notice.call.is_some_and(|call| lineage.spawning.contains(&call))
    };
    let interrupted = draft.results.iter().any(|result| result.outcome == Outcome::Interrupted);
    let kind = match draft {
        _ if lineage.starts.contains(&at) => DelayKind::Agent,
        _ if draft.user_text && interrupted => DelayKind::User,
        _ if draft.notices.iter().any(tells_of_agent)
            || draft.results.iter().any(|result| answers_agent(&result.call)) =>
        {
            DelayKind::Agent
        }
        _ if draft.user_text && drafts.get(from).is_none_or(|from| from.stop != Some(Stop::MaxTokens)) => {
            DelayKind::User
        }
        _ if !draft.results.is_empty() || !draft.notices.is_empty() => DelayKind::Tool,
        _ => DelayKind::None,
    };
    Some((from, evidence, kind))
}
