//! What a replay will be, if the endpoint is as fast as recorded: for `--dry-run` and for the time left.
//!
//! Invariant: it runs the very schedule, on a clock that jumps; nothing is sent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use super::schedule::{Id, Next, Outcome, Pacing, Schedule, ScheduleError};
use crate::trace::Session;
use crate::trace::vocab::Status;

/// A request without a recorded duration is taken to need this long.
const UNKNOWN: Duration = Duration::from_secs(5);

/// How many waits are listed.
const WAITS: usize = 5;

/// The plan of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Sessions of which something is sent.
    pub sessions: u64,
    /// Requests, primings left out.
    pub requests: u64,
    /// Requests that fill the cache first.
    pub primes: u64,
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Until the last answer is whole.
    pub duration: Duration,
    /// The most requests in flight at a time.
    pub peak: usize,
    /// The longest times in which nothing is in flight anywhere: when they begin, and how long they are.
    pub waits: Vec<(Duration, Duration)>,
    /// When requests (primings, too) have ended, in order.
    pub ended: Vec<Duration>,
    /// Requests without a recorded duration.
    pub unknown: u64,
    /// Requests without a recorded length of the answer, but those that were cancelled: one token is asked for.
    pub unknown_outputs: u64,
    /// What is sent of each session, primings included, in the order of the sessions.
    pub of_session: Vec<u64>,
    /// Bytes that the replay itself will need, as a guess.
    pub memory: u64,
}

impl Forecast {
    /// Runs the schedule of `sessions`, up to `until`.
    ///
    /// # Errors
    /// Where the pacing cannot be kept for these sessions.
    pub fn new(
        sessions: &Arc<[(u32, Session)]>,
        pacing: Pacing,
        until: Option<Duration>,
    ) -> Result<Self, ScheduleError> {
        let mut schedule = Schedule::new(Arc::clone(sessions), pacing)?;
        let mut forecast = Self::default();
        let mut flying: BinaryHeap<Reverse<(Duration, Id)>> = BinaryHeap::new();
        let (mut now, mut idle_since) = (Duration::ZERO, Duration::ZERO);
        forecast.of_session = vec![0; sessions.len()];
        loop {
            while let Some(&Reverse((end, id))) = flying.peek().filter(|Reverse((end, _))| *end <= now) {
                flying.pop();
                schedule.complete(id, end, Outcome::Fine);
                forecast.ended.push(end);
                idle_since = end;
            }
            if until.is_some_and(|until| until <= now) {
                schedule.stop();
            }
            let next = flying.peek().map(|Reverse((end, _))| *end);
            match schedule.pop(now) {
                Next::Send(due) => {
                    if flying.is_empty() {
                        forecast.wait(idle_since, now);
                    }
                    let session = usize::try_from(due.id.session).unwrap_or(usize::MAX);
                    let took = forecast.count(sessions, session, due.id);
                    if let Some(count) = forecast.of_session.get_mut(session) {
                        forecast.sessions += u64::from(*count == 0);
                        *count += 1;
                    }
                    flying.push(Reverse((now.saturating_add(due.cancel_after.unwrap_or(took)), due.id)));
                    forecast.peak = forecast.peak.max(flying.len());
                }
                Next::Skip(..) => {}
                Next::At(at) => {
                    now = next.into_iter().chain(until.filter(|until| *until > now)).fold(at, Duration::min);
                }
                Next::Wait => now = next.unwrap_or(now),
                Next::Done => break,
            }
        }
        forecast.duration = idle_since;
        forecast.memory = memory(sessions, forecast.peak);
        Ok(forecast)
    }

    /// Counts a request; how long it takes.
    fn count(&mut self, sessions: &[(u32, Session)], session: usize, id: Id) -> Duration {
        let rows = sessions.get(session).map(|(_, session)| &session.requests);
        let row = usize::try_from(id.request).ok().and_then(|row| rows?.get(row));
        let Some(request) = row else { return UNKNOWN };
        self.unknown += u64::from(request.duration_ms.is_none());
        self.input_tokens += u64::from(request.input_tokens);
        if id.prime {
            self.primes += 1;
            self.output_tokens += 1;
            return request.ttft_ms.map_or(UNKNOWN, |ttft| Duration::from_millis(ttft.into()));
        }
        self.requests += 1;
        self.unknown_outputs += u64::from(request.output_tokens.is_none() && request.status != Status::ClientCancelled);
        self.output_tokens += u64::from(request.output_tokens.unwrap_or(1).max(1));
        request.duration_ms.map_or(UNKNOWN, |took| Duration::from_millis(took.into()))
    }

    fn wait(&mut self, from: Duration, to: Duration) {
        if let Some(long) = to.checked_sub(from).filter(|long| !long.is_zero()) {
            self.waits.push((from, long));
            self.waits.sort_by_key(|(_, long)| Reverse(*long));
            self.waits.truncate(WAITS);
        }
    }

    /// The time left once `ended` requests have ended after `elapsed`: the rest of the plan, stretched by how much slower (or
    /// faster) the run has been than the plan so far.
    pub fn left(&self, ended: u64, elapsed: Duration) -> Duration {
        let planned = usize::try_from(ended).ok().and_then(|ended| self.ended.get(ended.checked_sub(1)?)).copied();
        let Some(planned) = planned else { return self.duration.saturating_sub(elapsed) };
        let rest = self.duration.saturating_sub(planned);
        // Few answers say little about the rest: the plan weighs as much as its first tenth.
        let prior = self.duration.as_secs_f64() / 10.0;
        let pace = (elapsed.as_secs_f64() + prior) / (planned.as_secs_f64() + prior).max(1e-9);
        Duration::try_from_secs_f64(rest.as_secs_f64() * pace).unwrap_or(Duration::MAX)
    }
}

/// The program with the prompts that it keeps, what is kept of each request of the trace, and each prompt in flight.
fn memory(sessions: &[(u32, Session)], peak: usize) -> u64 {
    const PROGRAM: u64 = 96 << 20;
    const REQUEST: u64 = 700;
    const TOKEN: u64 = 5;
    let rows = || sessions.iter().flat_map(|(_, session)| &session.requests);
    let (count, longest) = (rows().count(), rows().map(|row| row.input_tokens).max().unwrap_or(0));
    let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    PROGRAM + REQUEST * wide(count) + TOKEN * u64::from(longest) * wide(peak + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::schedule::reference::{family, ms};

    #[test]
    fn a_plan_is_the_recorded_run() {
        let sessions: Arc<[_]> = vec![(0, family()), (1, family())].into();
        let pacing = Pacing { concurrency: Some(1), ..Pacing::default() };
        let forecast = Forecast::new(&sessions, pacing, None).unwrap();
        assert_eq!((forecast.sessions, forecast.requests, forecast.duration, forecast.peak), (2, 10, ms(2120), 3));
        assert_eq!((forecast.input_tokens, forecast.output_tokens, forecast.unknown), (1000, 100, 0));
        assert_eq!(forecast.waits, [(ms(100), ms(50)), (ms(1160), ms(50))]);
        let stopped = Forecast::new(&sessions, pacing, Some(ms(155))).unwrap();
        assert_eq!((stopped.requests, stopped.duration), (3, ms(240)));
    }

    #[test]
    fn the_time_left_follows_the_pace_and_is_right_from_the_start() {
        let sessions: Arc<[_]> = vec![(0, family())].into();
        let forecast = Forecast::new(&sessions, Pacing::default(), None).unwrap();
        assert_eq!(forecast.left(0, ms(0)), ms(1060));
        assert_eq!(forecast.left(0, ms(60)), ms(1000));
        assert_eq!(forecast.left(3, ms(240)), ms(820));
        assert!(forecast.left(3, ms(480)) > ms(1200));
        assert_eq!(forecast.left(5, ms(5000)), ms(0));
    }
}
