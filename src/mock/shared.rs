//! What all connections of a mock server share: the engine and its metrics, behind one lock.
//!
//! Invariant: whoever entered the engine leaves it, whatever becomes of its connection ([`Ticket`]).

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;

use super::clock::Clock;
use super::metrics::{Gauges, Metrics};
use super::model::{Job, Model, Started};
use super::options::{MockError, Options};
use super::record::{Arrival, Recording};
use super::tokens::Counter;

/// What a mock server has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Requests for an answer that arrived, refused ones included.
    pub requests: u64,
    /// Of those, answered with an error, or broken by a fault before they began.
    pub failed: u64,
    /// Answers that ended as they should.
    pub completed: u64,
    /// Answers that the client, or a fault, ended early.
    pub aborted: u64,
    /// Prompt tokens of requests that began.
    pub prompt_tokens: u64,
    /// Of those, tokens found in the prefix cache.
    pub cached_tokens: u64,
    /// Tokens of answers.
    pub generation_tokens: u64,
    /// Requests that run now.
    pub running: usize,
    /// Requests that wait now.
    pub waiting: usize,
    /// Blocks in use now.
    pub blocks_in_use: u32,
    /// Cached blocks that made room for others.
    pub evictions: u64,
}

/// The shared part of a server.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) counter: Counter,
    pub(super) clock: Clock,
    state: Mutex<State>,
}

struct State {
    model: Model,
    starts: HashMap<u64, oneshot::Sender<Started>>,
    metrics: Metrics,
    recording: Option<Recording>,
    requests: u64,
}

impl Shared {
    pub(super) fn new(options: Options, clock: Clock) -> Result<Self, MockError> {
        let counter = Counter::new(&options.counting, options.timing.block_size)?;
        let state = State {
            model: Model::new(options.timing),
            starts: HashMap::new(),
            metrics: Metrics::default(),
            recording: options.record.as_deref().map(Recording::create).transpose()?,
            requests: 0,
        };
        Ok(Self { options, counter, clock, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a request that has just arrived.
    pub(super) fn number(&self) -> u64 {
        let mut state = self.state();
        state.requests += 1;
        state.requests - 1
    }

    /// A request is answered with an error.
    pub(super) fn failed(&self) {
        self.state().metrics.failed += 1;
    }

    pub(super) fn records(&self) -> bool {
        self.options.record.is_some()
    }

    pub(super) fn record(&self, arrival: &Arrival<'_>) {
        if let Some(recording) = &mut self.state().recording {
            recording.add(arrival);
        }
    }

    /// Writes the recording out. Whether it is whole.
    pub(super) fn flush(&self) -> bool {
        self.state().recording.as_mut().is_none_or(Recording::flush)
    }

    pub(super) fn reset_cache(&self) {
        self.state().model.reset();
    }

    /// Queues a request; none if it is too large to ever run.
    pub(super) fn enter(self: &Arc<Self>, number: u64, job: Job) -> Option<Ticket> {
        let now = self.clock.now();
        let (sender, start) = oneshot::channel();
        let mut state = self.state();
        if !state.model.fits(&job) {
            return None;
        }
        let ticket = Ticket {
            shared: Arc::clone(self),
            number,
            prompt_tokens: job.prompt_tokens,
            arrived: now,
            start,
            began: None,
            sent: 0,
            ended: false,
        };
        state.starts.insert(number, sender);
        state.model.arrive(number, now, job);
        state.admit(now);
        drop(state);
        Some(ticket)
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let sums = state.model.sums();
        Snapshot {
            requests: state.requests,
            failed: state.metrics.failed,
            completed: state.metrics.stopped + state.metrics.by_length,
            aborted: state.metrics.aborted,
            prompt_tokens: sums.prompt_tokens,
            cached_tokens: sums.cached_tokens,
            generation_tokens: state.metrics.generation_tokens,
            running: state.model.running(),
            waiting: state.model.waiting(),
            blocks_in_use: state.model.pool().in_use(),
            evictions: state.model.pool().evictions(),
        }
    }

    /// The text of `/metrics`.
    pub(super) fn metrics(&self, model: &str) -> String {
        let state = self.state();
        let sums = state.model.sums();
        let timing = self.options.timing;
        let gauges = Gauges {
            running: state.model.running(),
            waiting: state.model.waiting(),
            prompt_tokens: sums.prompt_tokens,
            cached_tokens: sums.cached_tokens,
            kv_usage: timing
                .cache_blocks
                .map_or(0.0, |blocks| f64::from(state.model.pool().in_use()) / f64::from(blocks.max(1))),
            block_size: timing.block_size,
            blocks: timing.cache_blocks,
        };
        state.metrics.render(self.options.imitate, model, gauges)
    }
}

impl State {
    /// Starts whatever can start.
    fn admit(&mut self, now: Duration) {
        for started in self.model.admit(now) {
            if let Some(sender) = self.starts.remove(&started.number) {
                // Where the receiver has gone, its ticket is about to leave the engine.
                sender.send(started).ok();
            }
        }
    }
}

/// A request's place in the engine, given up when it is dropped.
pub(super) struct Ticket {
    shared: Arc<Shared>,
    number: u64,
    prompt_tokens: u32,
    arrived: Duration,
    start: oneshot::Receiver<Started>,
    began: Option<Started>,
    sent: u32,
    ended: bool,
}

impl Ticket {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until the engine starts the request. None if it never will.
    pub(super) fn poll_start(&mut self, context: &mut Context<'_>) -> Poll<Option<Started>> {
        Pin::new(&mut self.start).poll(context).map(|started| {
            let started = started.ok()?;
            self.began = Some(started);
            self.shared.state().metrics.began(started.queued, self.prompt_tokens, started.cached_tokens);
            Some(started)
        })
    }

    /// So many tokens of the answer were sent so far.
    pub(super) fn sent(&mut self, tokens: u32) {
        let mut state = self.shared.state();
        if self.sent == 0 && tokens > 0 {
            state.metrics.first_token(self.shared.clock.now().saturating_sub(self.arrived));
        }
        state.metrics.generation_tokens += u64::from(tokens.saturating_sub(self.sent));
        drop(state);
        self.sent = tokens;
    }

    /// The answer is whole.
    pub(super) fn end(&mut self, by_length: bool) {
        let now = self.shared.clock.now();
        let decode = self.began.map_or(Duration::ZERO, |began| now.saturating_sub(began.first_token));
        let mut state = self.shared.state();
        state.metrics.ended(now.saturating_sub(self.arrived), decode, self.sent, by_length);
        drop(state);
        self.leave(true);
    }

    fn leave(&mut self, whole: bool) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let mut state = self.shared.state();
        state.metrics.aborted += u64::from(!whole);
        state.starts.remove(&self.number);
        state.model.leave(self.number, whole);
        state.admit(self.shared.clock.now());
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.leave(false);
    }
}
