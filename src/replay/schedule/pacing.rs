//! What a user may choose about times, order and bounds of a replay.
//!
//! Invariant: a [`Pacing`] that [`Pacing::check`] accepts can be scheduled for these sessions.

use std::time::Duration;

use crate::trace::Session;

/// Later than any replay ends; can be added up.
const FOREVER: Duration = Duration::from_secs(u64::MAX >> 8);

/// What sets the time at which a request is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loop {
    /// The latest of (trigger + delay) over its edges, where triggers are moments of the replay.
    #[default]
    Closed,
    /// Its recorded start, whatever the server does.
    Open,
}

/// When sessions arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrival {
    /// All at once.
    #[default]
    Immediate,
    /// As recorded.
    Recorded,
    /// At random, independently of each other, this many a second.
    Poisson(f64),
}

/// What a failed request does to its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Nothing more of the session is sent; what was not sent counts as failed.
    #[default]
    StopSession,
    /// The session goes on as if the request had ended well.
    Continue,
}

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pacing {
    /// What sets due times.
    pub pacing: Loop,
    /// Multiplies every recorded time.
    pub time_scale: f64,
    /// Multiplies delays of edges, on top of `time_scale`. Closed loop only.
    pub think_scale: f64,
    /// No delay of an edge is longer. Closed loop only.
    pub max_delay: Option<Duration>,
    /// Time in which nothing is in flight anywhere is cut to this.
    pub idle_cap: Option<Duration>,
    /// Session trees under way at a time; a slot is free once the whole tree has drained.
    pub concurrency: Option<usize>,
    /// Requests in flight at a time.
    pub max_in_flight: Option<usize>,
    /// When sessions arrive.
    pub arrival: Arrival,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Send attempts that failed and were tried again, too.
    pub retries: bool,
    /// Send auxiliary requests, too.
    pub auxiliary: bool,
    /// What a failed request does.
    pub on_error: OnError,
    /// Begin each session at a share of its length between these two, each from 0 to 1.
    pub start_at: Option<(f64, f64)>,
    /// The first session that any shard replays: random arrivals are drawn from it on.
    pub first_session: u32,
    /// Recorded arrivals count from the first of the sessions, not from the trace's beginning.
    pub from_first: bool,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            pacing: Loop::Closed,
            time_scale: 1.0,
            think_scale: 1.0,
            max_delay: None,
            idle_cap: None,
            concurrency: None,
            max_in_flight: None,
            arrival: Arrival::Immediate,
            seed: 0,
            retries: false,
            auxiliary: false,
            on_error: OnError::StopSession,
            start_at: None,
            first_session: 0,
            from_first: false,
        }
    }
}

/// A choice that does not go together, or not with this trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// A scale that is no positive number.
    #[error("a scale must be a number from 0 to a million")]
    Scale,
    /// A rate that is no positive number.
    #[error("an arrival rate must be a positive number of sessions a second")]
    Rate,
    /// A bound of 0.
    #[error("a bound of 0 lets nothing through")]
    Bound,
    /// Shares outside 0 to 1, or in the wrong order.
    #[error("a session can begin between 0 % and 100 % of its length, the lower share first")]
    StartAt,
    /// Delays are not used by the open loop.
    #[error("the open loop uses recorded start times, so delays cannot be scaled or capped")]
    Delays,
    /// Arrivals are not in the trace.
    #[error("session {0} has no recorded arrival")]
    NoArrival(u32),
    /// Start times are not in the trace.
    #[error("session {0} has requests without a recorded start")]
    NoStart(u32),
}

impl Pacing {
    /// Checks the choices, and that `sessions` (number and rows) have the times they need.
    ///
    /// # Errors
    /// The first choice that cannot be kept.
    pub fn check(&self, sessions: &[(u32, Session)]) -> Result<(), ScheduleError> {
        let scale = 0.0..=1e6;
        if !scale.contains(&self.time_scale) || !scale.contains(&self.think_scale) {
            return Err(ScheduleError::Scale);
        }
        if self.concurrency == Some(0) || self.max_in_flight == Some(0) {
            return Err(ScheduleError::Bound);
        }
        if let Arrival::Poisson(rate) = self.arrival
            && !(rate > 0.0 && rate.is_finite())
        {
            return Err(ScheduleError::Rate);
        }
        if self.start_at.is_some_and(|(low, high)| !(0.0..=high).contains(&low) || high > 1.0) {
            return Err(ScheduleError::StartAt);
        }
        let open = self.pacing == Loop::Open;
        let scaled = self.think_scale.to_bits() != 1.0_f64.to_bits();
        if open && (scaled || self.max_delay.is_some()) {
            return Err(ScheduleError::Delays);
        }
        for (number, session) in sessions {
            if self.arrival == Arrival::Recorded && session.start_ms.is_none() {
                return Err(ScheduleError::NoArrival(*number));
            }
            let starts = || session.requests.iter().all(|request| request.start_ms.is_some());
            if (open || self.start_at.is_some()) && !starts() {
                return Err(ScheduleError::NoStart(*number));
            }
        }
        Ok(())
    }

    /// Which requests of a session are sent, by row.
    pub fn sends(&self, session: &Session) -> Vec<bool> {
        super::tree::sent(session, self)
    }

    /// A recorded time in the replay.
    pub(super) fn time(&self, milliseconds: u64) -> Duration {
        scaled(milliseconds, self.time_scale)
    }

    /// A recorded delay of an edge in the replay.
    pub(super) fn delay(&self, milliseconds: u64) -> Duration {
        let delay = scaled(milliseconds, self.time_scale * self.think_scale);
        self.max_delay.map_or(delay, |most| delay.min(most))
    }

    /// When each of the sessions `numbers` (rising) arrives. What is drawn for a session depends on its number alone, so that
    /// shards of one replay fit together.
    pub(super) fn arrivals(&self, sessions: &[(u32, Session)]) -> Vec<Duration> {
        let (mut at, mut next) = (0.0, self.first_session);
        let first = sessions.iter().filter_map(|(_, session)| session.start_ms).min().unwrap_or(0);
        let base = if self.from_first { first } else { 0 };
        let mut arrive = |(number, session): &(u32, Session)| match self.arrival {
            Arrival::Immediate => Duration::ZERO,
            Arrival::Recorded => self.time(session.start_ms.unwrap_or(0).saturating_sub(base)),
            Arrival::Poisson(rate) => {
                while next <= *number {
                    at += -(1.0 - self.draw(next, 0)).ln() / rate;
                    next += 1;
                }
                Duration::try_from_secs_f64(at).unwrap_or(FOREVER)
            }
        };
        sessions.iter().map(&mut arrive).collect()
    }

    /// At which share of its length session `number` begins.
    pub(super) fn share(&self, number: u32) -> Option<f64> {
        self.start_at.map(|(low, high)| low + (high - low) * self.draw(number, 1))
    }

    /// A number from 0 to 1, 1 excluded, for this session and purpose.
    fn draw(&self, session: u32, purpose: u32) -> f64 {
        let key = u64::from(session) << 32 | u64::from(purpose);
        let [a, b, c, d, _, _, _, _] =
            xxhash_rust::xxh3::xxh3_64_with_seed(&key.to_le_bytes(), self.seed).to_le_bytes();
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}

fn scaled(milliseconds: u64, scale: f64) -> Duration {
    // Exact where nothing is scaled, however long.
    let exact = Duration::from_millis(milliseconds);
    if (scale - 1.0).abs() < f64::EPSILON {
        return exact;
    }
    Duration::try_from_secs_f64(exact.as_secs_f64() * scale).unwrap_or(FOREVER)
}
