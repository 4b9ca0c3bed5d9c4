//! The schedule beside a slow plain simulation that walks through every millisecond.
//!
//! Invariant: the simulation shares no code with the schedule but its types.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::{Arrival, Due, Id, Loop, Next, OnError, Outcome, Pacing, Schedule, Why};
use crate::trace::vocab::{DelayKind, Evidence, Harness, Relation, RequestKind, Status, Trigger};
use crate::trace::{Edge, Model, Parts, Prefix, Request, Session, Usage};

fn request(agent: u32, kind: RequestKind, start_ms: u64, duration_ms: u32) -> Request {
    Request {
        agent,
        turn: 0,
        kind,
        model: Model::other(0),
        input_tokens: 100,
        output_tokens: Some(10),
        prefix: Prefix::default(),
        start_ms: Some(start_ms),
        duration_ms: Some(duration_ms),
        ttft_ms: None,
        stop: None,
        status: Status::Ok,
        attempt: 0,
        streaming: Some(true),
        max_tokens: None,
        usage: Usage::default(),
        tools_tokens: None,
        system_tokens: None,
        messages: None,
        input_parts: Parts::default(),
        output_parts: Parts::default(),
    }
}

fn edge(from: u32, to: u32, trigger: Trigger, delay_ms: u64) -> Edge {
    let (relation, delay_kind, evidence) = (Relation::Sequence, DelayKind::Tool, Evidence::Stated);
    Edge { to, from, relation, trigger, delay_ms, delay_kind, evidence }
}

fn session(requests: Vec<Request>, edges: Vec<Edge>) -> Session {
    let (start_ms, source_number, agents, tools) = (Some(0), None, Vec::new(), Vec::new());
    Session { start_ms, harness: Harness::Other, source_number, agents, requests, edges, tools }
}

/// A spawn, a join, a pause and a background agent: rows 0 main, 1 and 2 children, 3 background, 4 main.
pub(in crate::replay) fn family() -> Session {
    let rows = [(0, 0, 100), (1, 150, 50), (2, 150, 90), (3, 160, 900), (0, 300, 100)];
    let rows = rows.map(|(agent, start, took)| request(agent, RequestKind::Turn, start, took));
    let done = Trigger::Completion;
    let edges = vec![
        edge(0, 1, done, 50),
        edge(0, 2, done, 50),
        edge(0, 3, Trigger::Dispatch, 160),
        edge(1, 4, done, 0),
        edge(2, 4, done, 60),
    ];
    session(rows.to_vec(), edges)
}

pub(in crate::replay) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// What was handed out (session, row, when, due) and what never will be.
type Log = (Vec<(u32, u32, Duration, Duration)>, Vec<(u32, u32, Why)>);

/// Plays a schedule on a server that takes `took(session, row)` and fails where `fails` says so.
fn play(
    schedule: &mut Schedule,
    took: impl Fn(Id) -> Duration,
    fails: impl Fn(Id) -> bool,
    stop_at: Option<Duration>,
) -> Log {
    let (mut sent, mut skipped) = (Vec::new(), Vec::new());
    let mut flying: Vec<(Duration, Id)> = Vec::new();
    let mut now = Duration::ZERO;
    loop {
        flying.sort_unstable();
        while flying.first().is_some_and(|(end, _)| *end <= now) {
            let (end, id) = flying.remove(0);
            schedule.complete(id, end, if fails(id) { Outcome::Failed } else { Outcome::Fine });
        }
        if stop_at.is_some_and(|at| at <= now) {
            schedule.stop();
        }
        let next = flying.first().map(|(end, _)| *end);
        match schedule.pop(now) {
            Next::Send(Due { id, due, .. }) => {
                sent.push((id.session, id.request, now, due));
                flying.push((now + took(id), id));
            }
            Next::Skip(id, why) => skipped.push((id.session, id.request, why)),
            Next::At(at) => now = next.map_or(at, |next| at.min(next)),
            Next::Wait => now = next.unwrap(),
            Next::Done => {
                assert!(flying.is_empty() && schedule.in_flight() == 0);
                return (sent, skipped);
            }
        }
    }
}

fn schedule(sessions: Vec<Session>, pacing: Pacing) -> Schedule {
    let sessions: Vec<_> = (0..).zip(sessions).collect();
    Schedule::new(sessions.into(), pacing).unwrap()
}

/// Recorded durations.
fn recorded(sessions: &Arc<[(u32, Session)]>) -> impl Fn(Id) -> Duration + use<> {
    let sessions = Arc::clone(sessions);
    move |id| ms(sessions[id.session as usize].1.requests[id.request as usize].duration_ms.unwrap().into())
}

fn starts(log: &Log) -> Vec<u64> {
    log.0.iter().map(|(_, _, at, _)| u64::try_from(at.as_millis()).unwrap()).collect()
}

#[test]
fn a_server_as_fast_as_recorded_gives_the_recorded_times() {
    for pacing in [Loop::Closed, Loop::Open] {
        let mut schedule = schedule(vec![family()], Pacing { pacing, ..Pacing::default() });
        let took = recorded(schedule.sessions());
        assert_eq!(starts(&play(&mut schedule, took, |_| false, None)), [0, 150, 150, 160, 300]);
    }
}

#[test]
fn a_slow_server_delays_the_closed_loop_and_not_the_open_one() {
    let late = |id: Id| ms(if id.request == 2 { 500 } else { 50 });
    let run =
        |pacing| play(&mut schedule(vec![family()], Pacing { pacing, ..Pacing::default() }), late, |_| false, None);
    assert_eq!(starts(&run(Loop::Closed)), [0, 100, 100, 160, 660]);
    assert_eq!(starts(&run(Loop::Open)), [0, 150, 150, 160, 300]);
}

#[test]
fn scales_and_caps_apply_to_what_they_name() {
    let run = |pacing: Pacing| {
        let mut schedule = schedule(vec![family()], pacing);
        starts(&play(&mut schedule, |_| ms(100), |_| false, None))
    };
    let plain = Pacing::default();
    assert_eq!(run(Pacing { time_scale: 0.5, ..plain }), [0, 80, 125, 125, 255]);
    assert_eq!(run(Pacing { think_scale: 0.0, ..plain }), [0, 0, 100, 100, 200]);
    assert_eq!(run(Pacing { max_delay: Some(ms(20)), ..plain }), [0, 20, 120, 120, 240]);
    assert_eq!(run(Pacing { pacing: Loop::Open, time_scale: 2.0, ..plain }), [0, 300, 300, 320, 600]);
}

#[test]
fn only_time_in_which_nothing_is_in_flight_is_cut() {
    let rows = [(0, 10), (1000, 500), (2000, 10)].map(|(start, took)| request(0, RequestKind::Turn, start, took));
    let edges = vec![edge(0, 1, Trigger::Completion, 990), edge(0, 2, Trigger::Completion, 1990)];
    let pacing = Pacing { idle_cap: Some(ms(100)), ..Pacing::default() };
    let mut schedule = schedule(vec![session(rows.to_vec(), edges)], pacing);
    let took = recorded(schedule.sessions());
    // 0 to 10; 100 idle instead of 990; 110 to 610; then 500 were left, cut to 100.
    assert_eq!(starts(&play(&mut schedule, took, |_| false, None)), [0, 110, 710]);
}

#[test]
fn a_slot_is_free_once_the_whole_tree_has_drained() {
    let pacing = Pacing { concurrency: Some(1), ..Pacing::default() };
    let mut schedule = schedule(vec![family(), family()], pacing);
    let took = recorded(schedule.sessions());
    let log = play(&mut schedule, took, |_| false, None);
    // The background agent ends at 1060, and nothing waits for it but the slot.
    assert_eq!(starts(&log)[4..6], [300, 1060]);
}

#[test]
fn a_failure_stops_the_session_and_names_what_is_not_sent() {
    let failing = |on_error| {
        let mut schedule = schedule(vec![family(), family()], Pacing { on_error, ..Pacing::default() });
        let took = recorded(schedule.sessions());
        play(&mut schedule, took, |id| (id.session, id.request) == (0, 1), None)
    };
    let stopped = failing(OnError::StopSession);
    assert_eq!(stopped.1, [(0, 4, Why::SessionFailed)]);
    assert_eq!(stopped.0.len(), 9);
    assert_eq!(failing(OnError::Continue), (failing(OnError::Continue).0, Vec::new()));
    assert_eq!(failing(OnError::Continue).0.len(), 10);
}

#[test]
fn stopping_drains_and_names_the_rest() {
    let pacing = Pacing { concurrency: Some(1), ..Pacing::default() };
    let mut schedule = schedule(vec![family(), family(), family()], pacing);
    let took = recorded(schedule.sessions());
    let log = play(&mut schedule, took, |_| false, Some(ms(200)));
    assert_eq!(starts(&log), [0, 150, 150, 160]);
    assert_eq!(log.1.len(), 11);
    assert!(log.1.iter().all(|(_, _, why)| *why == Why::Stopped));
}

#[test]
fn a_session_can_begin_in_the_middle_once_its_agents_are_primed() {
    // Of 1060 ms, 25 % are 265: three agents have ended or wait, the background one goes on after it as recorded.
    let pacing = Pacing { start_at: Some((0.25, 0.25)), ..Pacing::default() };
    let mut schedule = schedule(vec![family()], pacing);
    let log = play(&mut schedule, |_| ms(10), |_| false, None);
    // Main's first request is primed at 0; its next was recorded 35 ms after the beginning.
    let sent: Vec<_> = log.0.iter().map(|(_, row, at, _)| (*row, at.as_millis())).collect();
    assert_eq!(sent, [(0, 0), (4, 45)]);
}

#[test]
fn arrivals_of_shards_fit_together() {
    let pacing = Pacing { arrival: Arrival::Poisson(2.0), seed: 7, ..Pacing::default() };
    let all: Vec<(u32, Session)> = (0..20).map(|number| (number, family())).collect();
    let whole = pacing.arrivals(&all);
    for shard in 0..3 {
        let sessions: Vec<_> = all.iter().filter(|(number, _)| number % 3 == shard).cloned().collect();
        let own: Vec<_> = whole.iter().copied().skip(shard as usize).step_by(3).collect();
        assert_eq!(pacing.arrivals(&sessions), own);
    }
    assert!(whole.is_sorted() && whole[19] > Duration::from_secs(4) && whole[19] < Duration::from_secs(25));
}

#[test]
fn a_stop_ends_at_once_also_if_a_session_that_sends_nothing_has_yet_to_arrive() {
    let arriving = |at, kind| {
        let mut session = family();
        session.start_ms = Some(at);
        session.requests.iter_mut().for_each(|request| request.kind = kind);
        session
    };
    let (turn, auxiliary) = (RequestKind::Turn, RequestKind::Auxiliary);
    let sessions = vec![arriving(0, turn), arriving(600_000, auxiliary), arriving(3_600_000, turn)];
    let mut schedule = schedule(sessions, Pacing { arrival: Arrival::Recorded, ..Pacing::default() });
    let took = recorded(schedule.sessions());
    let mut now = Duration::ZERO;
    while now < ms(5000) {
        match schedule.pop(now) {
            Next::Send(due) => schedule.complete(due.id, now + took(due.id), Outcome::Fine),
            Next::At(at) => now = at,
            other => panic!("{other:?}"),
        }
    }
    schedule.stop();
    let rest: Vec<_> = (0..11).map(|_| schedule.pop(ms(5000))).take_while(|next| *next != Next::Done).collect();
    assert!(rest.len() <= 10 && rest.iter().all(|next| matches!(next, Next::Skip(_, Why::Stopped))), "{rest:?}");
}

#[test]
fn only_what_the_bound_will_let_go_is_made_ready() {
    let pacing = Pacing { max_in_flight: Some(2), ..Pacing::default() };
    let mut schedule = schedule((0..1000).map(|_| family()).collect(), pacing);
    assert!(matches!(schedule.pop(Duration::ZERO), Next::Send(_)));
    assert_eq!(schedule.upcoming(ms(50)).len(), 2);
    assert_eq!(schedule.upcoming(ms(50)).len(), 0, "each is named once");
}

/// The slow plain reference. Left-out requests take place, but unseen.
struct Plain<'a> {
    sessions: &'a [Session],
    pacing: Pacing,
    begun: BTreeMap<usize, u64>,
    /// (session, row) → inner time.
    sent: BTreeMap<(usize, usize), u64>,
    ended: BTreeMap<(usize, usize), u64>,
}

impl Plain<'_> {
    fn is_sent(&self, session: usize, row: usize) -> bool {
        let rows = &self.sessions[session];
        let retried = |edge: &Edge| edge.from as usize == row && edge.delay_kind == DelayKind::Retry;
        match rows.requests[row].kind {
            RequestKind::CountTokens => false,
            RequestKind::Auxiliary if !self.pacing.auxiliary => false,
            _ => self.pacing.retries || !rows.edges.iter().any(retried),
        }
    }

    fn moment(&self, session: usize, edge: &Edge) -> Option<u64> {
        let from = edge.from as usize;
        if self.is_sent(session, from) {
            let times = if edge.trigger == Trigger::Completion { &self.ended } else { &self.sent };
            return times.get(&(session, from)).map(|at| at + edge.delay_ms);
        }
        let start = self.due(session, from)?;
        if edge.delay_kind == DelayKind::Retry {
            return Some(start);
        }
        let took = u64::from(self.sessions[session].requests[from].duration_ms.unwrap());
        Some(start + edge.delay_ms + if edge.trigger == Trigger::Completion { took } else { 0 })
    }

    fn due(&self, session: usize, row: usize) -> Option<u64> {
        let begun = *self.begun.get(&session)?;
        let edges: Vec<_> = self.sessions[session].edges.iter().filter(|edge| edge.to as usize == row).collect();
        if edges.is_empty() || self.pacing.pacing == Loop::Open {
            return Some(begun + self.sessions[session].requests[row].start_ms.unwrap());
        }
        edges.iter().map(|edge| self.moment(session, edge)).try_fold(begun, |latest, at| Some(latest.max(at?)))
    }

    /// (session, row, real time) of what is sent, and how many never are.
    fn run(
        mut self,
        took: impl Fn(usize, usize) -> u64,
        fails: impl Fn(usize, usize) -> bool,
    ) -> (Vec<(u32, u32, u64)>, usize) {
        let all: Vec<_> = self
            .sessions
            .iter()
            .enumerate()
            .flat_map(|(session, rows)| (0..rows.requests.len()).map(move |row| (session, row)))
            .filter(|(session, row)| self.is_sent(*session, *row))
            .collect();
        let (mut log, mut flying, mut stopped) = (Vec::new(), BTreeMap::new(), std::collections::BTreeSet::new());
        let (mut inner, mut idle_since) = (0, 0);
        let cap = self.pacing.idle_cap.map_or(u64::MAX, |cap| cap.as_millis() as u64);
        for real in 0.. {
            loop {
                let ended: Vec<_> = flying.iter().filter(|(_, end)| **end <= real).map(|(at, _)| *at).collect();
                for (session, row) in ended {
                    flying.remove(&(session, row));
                    self.ended.insert((session, row), inner);
                    idle_since = real;
                    if fails(session, row) && self.pacing.on_error == OnError::StopSession {
                        stopped.insert(session);
                    }
                }
                let over = |(session, row): &(usize, usize)| {
                    self.ended.contains_key(&(*session, *row))
                        || (stopped.contains(session) && !self.sent.contains_key(&(*session, *row)))
                };
                let open: Vec<_> = all.iter().copied().filter(|at| !over(at)).collect();
                if open.is_empty() {
                    return (log, all.len() - self.sent.len());
                }
                for session in 0..self.sessions.len() {
                    let busy = (0..session)
                        .filter(|other| self.begun.contains_key(other) && open.iter().any(|(open, _)| open == other))
                        .count();
                    if self.pacing.concurrency.is_none_or(|most| busy < most)
                        && self.begun.len() == session
                        && self.sessions[session].start_ms.unwrap() <= inner
                    {
                        self.begun.insert(session, inner);
                    }
                }
                let ready = open
                    .iter()
                    .filter(|at| !self.sent.contains_key(at) && !stopped.contains(&at.0))
                    .filter_map(|(session, row)| Some((self.due(*session, *row)?, *session, *row)))
                    .filter(|(due, _, _)| *due <= inner)
                    .min();
                let room = self.pacing.max_in_flight.is_none_or(|most| flying.len() < most);
                match ready.filter(|_| room) {
                    Some((_, session, row)) => {
                        self.sent.insert((session, row), inner);
                        flying.insert((session, row), real + took(session, row));
                        log.push((session as u32, row as u32, real));
                    }
                    None if flying.is_empty() && real >= idle_since.saturating_add(cap) => inner += 1,
                    None => break,
                }
            }
            inner += 1;
        }
        unreachable!()
    }
}

/// A request's kind, gap, time taken, and waits: whom for, whether from dispatch, delay and relation.
type Row = (RequestKind, u64, u32, Vec<(prop::sample::Index, bool, u64, u8)>);

fn sessions() -> impl Strategy<Value = Vec<Session>> {
    let kind = prop_oneof![4 => Just(RequestKind::Turn), 1 => Just(RequestKind::Auxiliary), 1 => Just(RequestKind::CountTokens)];
    let row = (
        kind,
        0u64..30,
        1u32..9,
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0u64..20, 0u8..5), 0..3),
    );
    prop::collection::vec((prop::collection::vec(row, 1..7), 0u64..40), 1..5).prop_map(|sessions| {
        let mut arrival = 0;
        let make = |(rows, gap): (Vec<Row>, u64)| {
            let (mut requests, mut edges, mut start) = (Vec::new(), Vec::new(), 0);
            for (at, (kind, gap, took, waits)) in rows.into_iter().enumerate() {
                start += if at == 0 { 0 } else { gap };
                requests.push(request(0, kind, start, took));
                let mut froms = BTreeMap::new();
                for (from, done, delay, retry) in waits.into_iter().filter(|_| at > 0) {
                    froms.insert(from.index(at) as u32, (done, delay, retry));
                }
                for (from, (done, delay, retry)) in froms {
                    let trigger = if done { Trigger::Completion } else { Trigger::Dispatch };
                    let delay_kind = if retry == 0 { DelayKind::Retry } else { DelayKind::Tool };
                    edges.push(Edge { delay_kind, ..edge(from, at as u32, trigger, delay) });
                }
            }
            arrival += gap;
            Session { start_ms: Some(arrival), ..session(requests, edges) }
        };
        sessions.into_iter().map(make).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn it_agrees_with_a_walk_through_every_millisecond(
        sessions in sessions(),
        open in prop::bool::weighted(0.2),
        (retries, auxiliary, goes_on) in any::<(bool, bool, bool)>(),
        concurrency in prop::option::of(1usize..3),
        max_in_flight in prop::option::of(1usize..3),
        idle_cap in prop::option::of((0u64..10).prop_map(ms)),
        salt in any::<u64>(),
    ) {
        let pacing = Pacing {
            pacing: if open { Loop::Open } else { Loop::Closed },
            arrival: Arrival::Recorded,
            on_error: if goes_on { OnError::Continue } else { OnError::StopSession },
            concurrency, max_in_flight, idle_cap, retries, auxiliary,
            ..Pacing::default()
        };
        let mixed = |session: usize, row: usize| (session as u64 * 31 + row as u64 * 7 + 1).wrapping_mul(salt | 1) >> 40;
        let took = |session, row| 1 + mixed(session, row) % 12;
        let fails = |session, row| mixed(session, row) % 11 == 0;
        let plain = Plain { sessions: &sessions, pacing, begun: BTreeMap::new(), sent: BTreeMap::new(), ended: BTreeMap::new() };
        let (expected, unsent) = plain.run(took, fails);
        let mut schedule = schedule(sessions.clone(), pacing);
        let at = |id: Id| (id.session as usize, id.request as usize);
        let (sent, skipped) = play(&mut schedule, |id| ms(took(at(id).0, at(id).1)), |id| fails(at(id).0, at(id).1), None);
        let found: Vec<_> = sent.iter().map(|(session, row, at, _)| (*session, *row, at.as_millis() as u64)).collect();
        prop_assert_eq!(found, expected);
        prop_assert_eq!(skipped.len(), unsent);
        prop_assert!(sent.iter().all(|(_, _, at, due)| due <= at));
    }
}
