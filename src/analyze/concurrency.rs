//! When requests run side by side: within a session, and over sessions that are placed in time.
//!
//! Invariant: a request counts from its start until before its end; one without a duration counts at no time.

use std::collections::{BTreeMap, BTreeSet};

use super::float;
use crate::trace::Session;

/// How long how many requests of a session were in flight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Milliseconds with 0, 1, 2 … requests in flight, from a session's first start to its last end.
    pub levels: Vec<u64>,
}

impl InFlight {
    /// Adds a session.
    pub fn add(&mut self, session: &Session) {
        let mut last = None;
        for (at, level) in steps(session) {
            if let Some((since, level)) = last {
                let level = usize::try_from(level).unwrap_or(usize::MAX);
                if self.levels.len() <= level {
                    self.levels.resize(level + 1, 0);
                }
                if let Some(time) = self.levels.get_mut(level) {
                    *time += at - since;
                }
            }
            last = Some((at, level));
        }
    }

    /// The most requests that were in flight at once.
    pub fn peak(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    /// Milliseconds in all.
    pub fn time_ms(&self) -> u64 {
        self.levels.iter().sum()
    }

    /// Requests in flight, on average over the time of the sessions.
    pub fn mean(&self) -> f64 {
        let weighted: u64 = self.levels.iter().zip(0..).map(|(time, level)| time * level).sum();
        if self.time_ms() == 0 { 0.0 } else { float(weighted) / float(self.time_ms()) }
    }
}

/// `(time in milliseconds, requests in flight from then on)` where it changes, in order.
pub fn steps(session: &Session) -> Vec<(u64, u64)> {
    let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
    for request in &session.requests {
        if let (Some(start), Some(end)) = (request.start_ms, request.end_ms()) {
            *changes.entry(start).or_default() += 1;
            *changes.entry(end).or_default() -= 1;
        }
    }
    let mut level = 0;
    changes
        .into_iter()
        .map(|(at, change)| {
            level += change;
            (at, u64::try_from(level).unwrap_or(0))
        })
        .collect()
}

/// In which order the requests of sessions go out if `lanes` sessions run at a time, each next one where the first lane is free:
/// `(session, request)` by time. Each session is given as the start times of its requests and its end, in milliseconds.
pub fn start_order(sessions: &[(Vec<u64>, u64)], lanes: usize) -> Vec<(u32, u32)> {
    let mut free: BTreeSet<(u64, usize)> = (0..lanes.clamp(1, sessions.len().max(1))).map(|lane| (0, lane)).collect();
    let mut order: Vec<(u64, u32, u32)> = Vec::new();
    for ((starts, end), session) in sessions.iter().zip(0..) {
        let Some((begin, lane)) = free.pop_first() else { break };
        order.extend(starts.iter().zip(0..).map(|(start, request)| (begin + start, session, request)));
        free.insert((begin + end, lane));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, session, request)| (session, request)).collect()
}

/// A session as [`start_order`] takes it. A request without a time goes out with the one before it.
pub fn times(session: &Session) -> (Vec<u64>, u64) {
    let (mut latest, mut end) = (0, 0);
    let starts = session
        .requests
        .iter()
        .map(|request| {
            latest = request.start_ms.unwrap_or(latest);
            end = end.max(request.end_ms().unwrap_or(latest));
            latest
        })
        .collect();
    (starts, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::vocab::{Harness, RequestKind, Status};
    use crate::trace::{Model, Parts, Prefix, Request, Usage};

    fn session(spans: &[(u64, u32)]) -> Session {
        let request = |&(start, duration): &(u64, u32)| Request {
            agent: 0,
            turn: 0,
            kind: RequestKind::Turn,
            model: Model::other(1),
            input_tokens: 1,
            output_tokens: None,
            prefix: Prefix::default(),
            start_ms: Some(start),
            duration_ms: Some(duration),
            ttft_ms: None,
            stop: None,
            status: Status::Ok,
            attempt: 0,
            streaming: None,
            max_tokens: None,
            usage: Usage::default(),
            tools_tokens: None,
            system_tokens: None,
            messages: None,
            input_parts: Parts::default(),
            output_parts: Parts::default(),
        };
        Session {
            start_ms: None,
            harness: Harness::Other,
            source_number: None,
            agents: Vec::new(),
            requests: spans.iter().map(request).collect(),
            edges: Vec::new(),
            tools: Vec::new(),
        }
    }

    #[test]
    fn the_time_of_a_session_is_shared_out_by_how_many_requests_are_in_flight() {
        let mut in_flight = InFlight::default();
        in_flight.add(&session(&[(0, 100), (150, 50), (160, 20), (180, 70)]));
        assert_eq!(in_flight.levels, [50, 160, 40]);
        assert_eq!((in_flight.peak(), in_flight.time_ms()), (2, 250));
        assert!((in_flight.mean() - 240.0 / 250.0).abs() < 1e-9);
        assert_eq!(steps(&session(&[(0, 10), (5, 10)])), [(0, 1), (5, 2), (10, 1), (15, 0)]);
    }

    #[test]
    fn sessions_go_out_one_after_another_or_side_by_side() {
        let sessions = [(vec![0, 10], 20), (vec![0, 5], 6), (vec![0], 1)];
        assert_eq!(start_order(&sessions, 1), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
        assert_eq!(start_order(&sessions, 2), [(0, 0), (1, 0), (1, 1), (2, 0), (0, 1)]);
        assert_eq!(start_order(&sessions, 100).len(), 5);
        assert_eq!(start_order(&[], 1), []);
        assert_eq!(times(&session(&[(0, 10), (15, 10)])), (vec![0, 15], 25));
    }
}
