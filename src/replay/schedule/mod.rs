//! Which request is due when: a pure value that is told the time and what ended.
//!
//! Invariant: nothing is handed out before its due time or twice; each request of a session that began is handed out or named
//! as never sent; the same calls give the same answers.
//!
//! The dispatcher asks [`Schedule::pop`] and reports with [`Schedule::complete`]. Closed and open loop, scaling, caps, bounds,
//! arrivals, failures and beginning in the middle are all states of this value. Times are since the replay began. Inside, they
//! run on a clock that jumps over idle time (`idle_cap`), so that shortening a pause moves everything after it alike.

mod pacing;
#[cfg(test)]
pub(super) mod reference;
mod tree;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use pacing::{Arrival, Loop, OnError, Pacing, ScheduleError};

use crate::trace::Session;
use crate::trace::vocab::Trigger;
use tree::{State, Tree, index};

/// Names a request of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its session, by place in the list.
    pub session: u32,
    node: u32,
    /// Its row in the session.
    pub request: u32,
    /// Sent with one token of output, to fill the cache; not a part of what is measured.
    pub prime: bool,
}

/// A request and the earliest time to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Which.
    pub id: Id,
    /// When it was due.
    pub due: Duration,
    /// How long the bound on requests in flight kept it back after that.
    pub held: Duration,
    /// After this time the client closes the connection, as recorded.
    pub cancel_after: Option<Duration>,
}

/// Why a request is never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// An earlier request of its session failed.
    SessionFailed,
    /// The replay was stopped.
    Stopped,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this.
    Send(Due),
    /// This will never be sent.
    Skip(Id, Why),
    /// Nothing until this time, unless something ends before.
    At(Duration),
    /// Nothing until something ends.
    Wait,
    /// Nothing any more.
    Done,
}

/// How a request ended, for those that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Fine,
    /// Not so.
    Failed,
}

/// The schedule of a replay.
#[derive(Clone, Debug)]
pub struct Schedule {
    sessions: Arc<[(u32, Session)]>,
    pacing: Pacing,
    /// Sessions that have not begun, by arrival.
    pending: VecDeque<(Duration, u32)>,
    /// When each free slot became free; none without a bound.
    slots: Option<BinaryHeap<Reverse<Duration>>>,
    running: BTreeMap<u32, Tree>,
    /// Requests whose due time is known.
    ready: BTreeSet<(Duration, Id)>,
    /// Of those, the ones that [`Schedule::upcoming`] has named.
    named: BTreeSet<Id>,
    skipped: VecDeque<(Id, Why)>,
    in_flight: usize,
    /// When the bound on requests in flight last let go.
    let_go: Duration,
    /// When the last request ended.
    idle_since: Duration,
    /// Idle time cut so far.
    jumped: Duration,
    stopped: bool,
}

impl Schedule {
    /// A schedule of `sessions`, each with its number in the trace, in rising order.
    ///
    /// # Errors
    /// Where the pacing cannot be kept for these sessions.
    pub fn new(sessions: Arc<[(u32, Session)]>, pacing: Pacing) -> Result<Self, ScheduleError> {
        pacing.check(&sessions)?;
        let mut pending: Vec<_> = pacing.arrivals(&sessions).into_iter().zip(0..).collect();
        pending.sort_unstable();
        Ok(Self {
            pending: pending.into(),
            slots: pacing.concurrency.map(|slots| vec![Reverse(Duration::ZERO); slots].into()),
            sessions,
            pacing,
            running: BTreeMap::new(),
            ready: BTreeSet::new(),
            named: BTreeSet::new(),
            skipped: VecDeque::new(),
            in_flight: 0,
            let_go: Duration::ZERO,
            idle_since: Duration::ZERO,
            jumped: Duration::ZERO,
            stopped: false,
        })
    }

    /// The sessions, each with its number in the trace.
    pub fn sessions(&self) -> &Arc<[(u32, Session)]> {
        &self.sessions
    }

    /// Requests sent and not ended.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// What to do at `now`. A request that is handed out counts as sent now.
    pub fn pop(&mut self, now: Duration) -> Next {
        self.admit(now + self.jumped);
        while self.jump() {
            self.admit(now + self.jumped);
        }
        let time = now + self.jumped;
        if let Some((id, why)) = self.skipped.pop_front() {
            return Next::Skip(id, why);
        }
        let full = self.pacing.max_in_flight.is_some_and(|most| self.in_flight >= most);
        match self.ready.first() {
            Some(_) if full => Next::Wait,
            Some((due, id)) if *due <= time => {
                let (due, id) = (*due, *id);
                self.send(due, id, time)
            }
            _ => match self.wake() {
                Some(wake) => Next::At(wake.saturating_sub(self.jumped)),
                None if self.in_flight > 0 => Next::Wait,
                None => Next::Done,
            },
        }
    }

    /// Requests that will be due by `until`, to be made ready for sending: the first few that the bound on requests in flight will
    /// let go. Each is named once.
    pub fn upcoming(&mut self, until: Duration) -> Vec<Id> {
        const AHEAD: usize = 64;
        let until = until + self.jumped;
        let free = self.pacing.max_in_flight.map_or(AHEAD, |most| most.saturating_sub(self.in_flight) + 1);
        let due = self.ready.iter().take(free.min(AHEAD)).take_while(|(due, _)| *due <= until).map(|(_, id)| *id);
        let new: Vec<_> = due.filter(|id| !self.named.contains(id)).collect();
        self.named.extend(&new);
        new
    }

    /// A request that was handed out ended at `at`.
    pub fn complete(&mut self, id: Id, at: Duration, outcome: Outcome) {
        let at = at + self.jumped;
        let place = index(id.node);
        let Some(tree) = self.running.get_mut(&id.session) else { return };
        match tree.nodes.get_mut(place) {
            Some(node) if node.state == State::InFlight => node.state = State::Final,
            _ => return,
        }
        tree.left -= 1;
        if self.pacing.max_in_flight == Some(self.in_flight) {
            self.let_go = at;
        }
        self.in_flight -= 1;
        self.idle_since = self.idle_since.max(at);
        if outcome == Outcome::Failed && self.pacing.on_error == OnError::StopSession {
            self.skip(id.session, Why::SessionFailed);
        } else {
            let ready = tree.fire(place, Trigger::Completion, at);
            self.make_ready(id.session, ready);
        }
        self.drained(id.session, at);
    }

    /// Nothing more is sent; what is in flight may end.
    pub fn stop(&mut self) {
        self.stopped = true;
        for session in self.running.keys().copied().collect::<Vec<_>>() {
            self.skip(session, Why::Stopped);
            self.drained(session, Duration::ZERO);
        }
    }

    fn send(&mut self, due: Duration, id: Id, time: Duration) -> Next {
        self.ready.remove(&(due, id));
        self.named.remove(&id);
        self.in_flight += 1;
        let held = self.let_go.saturating_sub(due);
        let Some(tree) = self.running.get_mut(&id.session) else { return Next::Wait };
        let node = tree.nodes.get_mut(index(id.node));
        let cancel_after = node.and_then(|node| {
            node.state = State::InFlight;
            node.cancel_after
        });
        let ready = tree.fire(index(id.node), Trigger::Dispatch, time);
        self.make_ready(id.session, ready);
        Next::Send(Due { id, due: due.saturating_sub(self.jumped), held, cancel_after })
    }

    fn make_ready(&mut self, session: u32, ready: Vec<(usize, Duration)>) {
        let Some(tree) = self.running.get(&session) else { return };
        let id = |(place, due)| Some((due, id(session, place, tree)?));
        self.ready.extend(ready.into_iter().filter_map(id));
    }

    /// When something happens without anything ending: a request is due, or a session may begin.
    fn wake(&self) -> Option<Duration> {
        let due = self.ready.first().map(|(due, _)| *due);
        let begins = self.pending.front().and_then(|(arrival, _)| match &self.slots {
            Some(slots) => slots.peek().map(|Reverse(free)| *arrival.max(free)),
            None => Some(*arrival),
        });
        due.into_iter().chain(begins).min()
    }

    /// Cuts idle time to the cap, up to what happens next; whether anything was cut.
    fn jump(&mut self) -> bool {
        let Some(cap) = self.pacing.idle_cap.filter(|_| self.in_flight == 0) else { return false };
        let Some(wake) = self.wake() else { return false };
        // On the inner clock, everything that is due later than the cap comes that much sooner.
        let cut = wake.saturating_sub(self.idle_since.saturating_add(cap));
        self.jumped += cut;
        self.idle_since += cut;
        !cut.is_zero()
    }

    /// Begins sessions that have arrived, as far as there are slots.
    fn admit(&mut self, time: Duration) {
        while let Some(&(arrival, session)) = self.pending.front() {
            let free = match &mut self.slots {
                _ if self.stopped => Duration::ZERO,
                _ if arrival > time => break,
                Some(slots) => match slots.pop() {
                    Some(Reverse(free)) => free,
                    None => break,
                },
                None => Duration::ZERO,
            };
            self.pending.pop_front();
            let start = arrival.max(free);
            let Some((number, rows)) = self.sessions.get(index(session)) else { continue };
            let tree = Tree::new(*number, rows, &self.pacing, start);
            let ready = tree.nodes.iter().enumerate().filter(|(_, node)| node.state == State::Ready);
            let ready = ready.map(|(place, node)| (place, node.due)).collect();
            self.running.insert(session, tree);
            self.make_ready(session, ready);
            if self.stopped {
                self.skip(session, Why::Stopped);
                self.drained(session, start);
                // One session at a time: its requests are named before the next is planned.
                if !self.skipped.is_empty() {
                    break;
                }
                continue;
            }
            self.drained(session, start);
        }
    }

    /// Names everything of a session that is not yet sent as never sent.
    fn skip(&mut self, session: u32, why: Why) {
        let Some(tree) = self.running.get_mut(&session) else { return };
        for place in 0..tree.nodes.len() {
            let Some(id) = id(session, place, tree) else { continue };
            let Some(node) = tree.nodes.get_mut(place) else { continue };
            if matches!(node.state, State::Waiting | State::Ready) {
                self.ready.remove(&(node.due, id));
                self.named.remove(&id);
                node.state = State::Final;
                tree.left -= 1;
                if !id.prime {
                    self.skipped.push_back((id, why));
                }
            }
        }
    }

    /// Frees the slot of a session of which nothing is left.
    fn drained(&mut self, session: u32, at: Duration) {
        if self.running.get(&session).is_some_and(|tree| tree.left == 0) {
            self.running.remove(&session);
            if let Some(slots) = &mut self.slots {
                slots.push(Reverse(at));
            }
        }
    }
}

fn id(session: u32, place: usize, tree: &Tree) -> Option<Id> {
    let node = tree.nodes.get(place)?;
    Some(Id { session, node: u32::try_from(place).ok()?, request: node.request, prime: node.prime })
}
