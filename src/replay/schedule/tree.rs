//! One session as the schedule sees it: what is sent, what each request waits for, and what waits for it.
//!
//! Invariant: a request that is left out is bridged, so that those after it are due as if it had taken its recorded time (a
//! retried attempt: no time); every node is reachable from the session's start.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pacing::{Loop, Pacing};
use crate::trace::vocab::{DelayKind, RequestKind, Status, Trigger};
use crate::trace::{Request, Session};

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// For triggers.
    Waiting,
    /// Its due time is known.
    Ready,
    /// Sent.
    InFlight,
    /// Ended, or never to be sent.
    Final,
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Its row in the session.
    pub(super) request: u32,
    /// One token only, to fill the cache before the session begins in the middle.
    pub(super) prime: bool,
    /// Triggers that have not come yet.
    pub(super) waits: usize,
    /// The latest trigger + delay so far.
    pub(super) due: Duration,
    /// Who waits: node, for which moment, and how long after it.
    pub(super) next: Vec<(usize, Trigger, Duration)>,
    /// After this time the client closes the connection, as recorded.
    pub(super) cancel_after: Option<Duration>,
    pub(super) state: State,
}

/// The requests of a session that are sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Nodes that are not final.
    pub(super) left: usize,
}

/// What a request waits for: a request (none: the session's start), its moment, and a delay.
type Waits = BTreeMap<(Option<usize>, Trigger), Duration>;

impl Tree {
    /// Plans a session that starts at `start`.
    pub(super) fn new(number: u32, session: &Session, pacing: &Pacing, start: Duration) -> Self {
        let sent = sent(session, pacing);
        let begin = pacing.share(number).map(|share| {
            let last = session.requests.iter().map(ended).max().unwrap_or(0);
            // Rounded to the millisecond: shares are from 0 to 1.
            u64::try_from(Duration::from_millis(last).mul_f64(share).as_millis()).unwrap_or(u64::MAX)
        });
        let before = |request: &Request| begin.is_some_and(|begin| request.start_ms.unwrap_or(0) < begin);
        let mut waits = waits(session, pacing, &sent);
        if let Some(begin) = begin {
            waits = cut(session, pacing, &waits, begin);
        }
        let mut tree = Self::default();
        for row in primed(session, &sent, &before) {
            tree.add(row, true, None);
        }
        let primes = tree.nodes.len();
        let mut places = vec![None; session.requests.len()];
        for (row, request) in session.requests.iter().enumerate() {
            if !sent.get(row).is_some_and(|sent| *sent) || before(request) {
                continue;
            }
            let cancelled = request.status == Status::ClientCancelled;
            let cancel_after = request.duration_ms.filter(|_| cancelled).map(|after| pacing.time(after.into()));
            let node = tree.add(row, false, cancel_after);
            if let Some(place) = places.get_mut(row) {
                *place = Some(node);
            }
            for ((from, trigger), delay) in waits.get(row).into_iter().flatten() {
                match from.map(|from| places.get(from).copied().flatten()) {
                    Some(Some(from)) => tree.wait(from, *trigger, *delay, node),
                    // After the priming, or from the start.
                    _ if primes > 0 => {
                        (0..primes).for_each(|prime| tree.wait(prime, Trigger::Completion, *delay, node));
                    }
                    _ => tree.at_least(node, start.saturating_add(*delay)),
                }
            }
        }
        for node in tree.nodes.iter_mut().filter(|node| node.waits == 0) {
            node.due = node.due.max(start);
            node.state = State::Ready;
        }
        tree
    }

    fn add(&mut self, row: usize, prime: bool, cancel_after: Option<Duration>) -> usize {
        let request = u32::try_from(row).unwrap_or(u32::MAX);
        let (waits, due, next, state) = (0, Duration::ZERO, Vec::new(), State::Waiting);
        self.nodes.push(Node { request, prime, waits, due, next, cancel_after, state });
        self.left += 1;
        self.nodes.len() - 1
    }

    fn wait(&mut self, from: usize, trigger: Trigger, delay: Duration, node: usize) {
        if let Some(from) = self.nodes.get_mut(from) {
            from.next.push((node, trigger, delay));
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.waits += 1;
        }
    }

    fn at_least(&mut self, node: usize, due: Duration) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.due = node.due.max(due);
        }
    }

    /// A moment of `node` came at `at`: gives who is ready now, and when.
    pub(super) fn fire(&mut self, node: usize, moment: Trigger, at: Duration) -> Vec<(usize, Duration)> {
        let next = self.nodes.get(node).map(|node| node.next.clone()).unwrap_or_default();
        let mut ready = Vec::new();
        for (place, _, delay) in next.into_iter().filter(|(_, trigger, _)| *trigger == moment) {
            let Some(node) = self.nodes.get_mut(place) else { continue };
            node.waits -= 1;
            node.due = node.due.max(at.saturating_add(delay));
            if node.waits == 0 && node.state == State::Waiting {
                node.state = State::Ready;
                ready.push((place, node.due));
            }
        }
        ready
    }
}

fn ended(request: &Request) -> u64 {
    request.start_ms.unwrap_or(0) + u64::from(request.duration_ms.unwrap_or(0))
}

/// Which requests are sent, by row.
pub(super) fn sent(session: &Session, pacing: &Pacing) -> Vec<bool> {
    let mut sent: Vec<_> = session
        .requests
        .iter()
        .map(|request| match request.kind {
            RequestKind::CountTokens => false,
            RequestKind::Auxiliary => pacing.auxiliary,
            RequestKind::Turn | RequestKind::Recap | RequestKind::Compaction => true,
        })
        .collect();
    for edge in session.edges.iter().filter(|edge| edge.delay_kind == DelayKind::Retry && !pacing.retries) {
        if let Some(sent) = sent.get_mut(index(edge.from)) {
            *sent = false;
        }
    }
    sent
}

/// What each request waits for, by row, with requests that are not sent bridged.
fn waits(session: &Session, pacing: &Pacing, sent: &[bool]) -> Vec<Waits> {
    let mut all: Vec<Waits> = Vec::with_capacity(session.requests.len());
    let mut edges = session.edges.iter().peekable();
    for (row, request) in session.requests.iter().enumerate() {
        let mut waits = Waits::new();
        let mut add = |from, trigger, delay: Duration| {
            let latest = waits.entry((from, trigger)).or_default();
            *latest = delay.max(*latest);
        };
        while let Some(edge) = edges.next_if(|edge| index(edge.to) <= row) {
            let from = index(edge.from);
            if pacing.pacing == Loop::Open {
                continue;
            }
            if sent.get(from).is_some_and(|sent| *sent) {
                add(Some(from), edge.trigger, pacing.delay(edge.delay_ms));
                continue;
            }
            let retried = edge.delay_kind == DelayKind::Retry;
            let took = session.requests.get(from).and_then(|from| from.duration_ms).unwrap_or(0);
            let took = if edge.trigger == Trigger::Completion { pacing.time(took.into()) } else { Duration::ZERO };
            let extra = if retried { Duration::ZERO } else { took.saturating_add(pacing.delay(edge.delay_ms)) };
            for ((from, trigger), delay) in all.get(from).into_iter().flatten() {
                add(*from, *trigger, delay.saturating_add(extra));
            }
        }
        if waits.is_empty() {
            waits.insert((None, Trigger::Dispatch), pacing.time(request.start_ms.unwrap_or(0)));
        }
        all.push(waits);
    }
    all
}

/// The same from `begin` on: what was waited for before has come as recorded.
fn cut(session: &Session, pacing: &Pacing, waits: &[Waits], begin: u64) -> Vec<Waits> {
    let begin_at = pacing.time(begin);
    let rest = |((from, trigger), delay): (&(Option<usize>, Trigger), &Duration)| {
        let Some(earlier) = from.and_then(|from| session.requests.get(from)) else {
            return ((None, Trigger::Dispatch), delay.saturating_sub(begin_at));
        };
        if earlier.start_ms.unwrap_or(0) >= begin {
            return ((*from, *trigger), *delay);
        }
        let moment = match trigger {
            Trigger::Completion => ended(earlier),
            Trigger::Dispatch => earlier.start_ms.unwrap_or(0),
        };
        ((None, Trigger::Dispatch), pacing.time(moment).saturating_add(*delay).saturating_sub(begin_at))
    };
    let merge = |mut merged: Waits, (key, delay): ((Option<usize>, Trigger), Duration)| {
        let latest = merged.entry(key).or_default();
        *latest = delay.max(*latest);
        merged
    };
    waits.iter().map(|waits| waits.iter().map(rest).fold(Waits::new(), merge)).collect()
}

/// The last request before the beginning of every agent that goes on after it.
fn primed(session: &Session, sent: &[bool], before: &impl Fn(&Request) -> bool) -> Vec<usize> {
    let mut last = BTreeMap::new();
    let mut primed = Vec::new();
    for (row, request) in session.requests.iter().enumerate().filter(|(row, _)| sent.get(*row) == Some(&true)) {
        if before(request) {
            last.insert(request.agent, row);
        } else {
            primed.extend(last.remove(&request.agent));
        }
    }
    primed.sort_unstable();
    primed
}

/// A row as an index.
pub(super) fn index(row: u32) -> usize {
    usize::try_from(row).unwrap_or(usize::MAX)
}
