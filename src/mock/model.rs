//! [`Model`]: what the simulated engine does when: a queue, requests that run, their prefill and decode times, the prefix cache.
//!
//! Invariant: a pure function of what it is told and when; requests start in the order of their arrival. No sockets, no clock:
//! times are durations since the server began.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::pool::{BlockHash, Held, Pool};

/// Speeds and sizes of the simulated engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Time to the first token of a prompt that is cached whole. Default 10 ms.
    pub ttft_base: Duration,
    /// What each uncached prompt token adds to it. Default 20 µs (50,000 tokens a second).
    pub per_uncached_token: Duration,
    /// Time between two tokens of an answer. Default 10 ms (100 tokens a second).
    pub per_output_token: Duration,
    /// Requests that run at the same time; others wait. Default 64.
    pub max_running: usize,
    /// Tokens of a block. Default 16.
    pub block_size: u32,
    /// Blocks of the cache; none has no bound, which is the default.
    pub cache_blocks: Option<u32>,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            ttft_base: Duration::from_millis(10),
            per_uncached_token: Duration::from_micros(20),
            per_output_token: Duration::from_millis(10),
            max_running: 64,
            block_size: 16,
            cache_blocks: None,
        }
    }
}

/// A request for the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
    /// Full blocks of the prompt and, where known, of the answer behind it.
    pub(super) hashes: Vec<BlockHash>,
    /// How many of `hashes` are of the prompt alone.
    pub(super) prompt_blocks: usize,
}

/// When a request began and what it will take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Started {
    pub(super) number: u64,
    pub(super) queued: Duration,
    /// When its first token is due.
    pub(super) first_token: Duration,
    pub(super) cached_tokens: u32,
}

/// Sums since the start, of requests that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
}

struct Running {
    job: Job,
    held: Held,
}

/// The engine.
pub(super) struct Model {
    timing: Timing,
    pool: Pool,
    waiting: VecDeque<(u64, Duration, Job)>,
    running: HashMap<u64, Running>,
    sums: Sums,
}

impl Model {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing,
            pool: Pool::new(timing.cache_blocks),
            waiting: VecDeque::new(),
            running: HashMap::new(),
            sums: Sums::default(),
        }
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether a request can run at all.
    pub(super) fn fits(&self, job: &Job) -> bool {
        self.pool.fits(self.blocks(job))
    }

    /// A request arrives. It starts at the next [`Self::admit`] that finds room for it.
    pub(super) fn arrive(&mut self, number: u64, now: Duration, job: Job) {
        self.waiting.push_back((number, now, job));
    }

    /// Starts the requests that are next and for which there is room.
    pub(super) fn admit(&mut self, now: Duration) -> Vec<Started> {
        let mut started = Vec::new();
        while self.running.len() < self.timing.max_running {
            let Some((number, arrived, job)) = self.waiting.pop_front() else { break };
            let blocks = self.blocks(&job);
            let prompt = job.hashes.get(..job.prompt_blocks).unwrap_or_default();
            // The last token of a prompt is always computed: its logits are the first of the answer.
            let reusable = job.prompt_tokens.saturating_sub(1).checked_div(self.timing.block_size).unwrap_or(0);
            let reusable = usize::try_from(reusable).unwrap_or(usize::MAX);
            let Some(held) = self.pool.take(prompt, reusable, blocks) else {
                self.waiting.push_front((number, arrived, job));
                break;
            };
            let cached_tokens = u32::try_from(held.cached).unwrap_or(u32::MAX).saturating_mul(self.timing.block_size);
            let uncached = job.prompt_tokens.saturating_sub(cached_tokens);
            self.sums.prompt_tokens += u64::from(job.prompt_tokens);
            self.sums.cached_tokens += u64::from(cached_tokens);
            started.push(Started {
                number,
                queued: now.saturating_sub(arrived),
                first_token: now + self.timing.ttft_base + self.timing.per_uncached_token.saturating_mul(uncached),
                cached_tokens,
            });
            self.running.insert(number, Running { job, held });
        }
        started
    }

    /// A request has ended, or its client has gone. What it computed stays in the cache until it is evicted.
    pub(super) fn leave(&mut self, number: u64, whole: bool) {
        if let Some(Running { job, held }) = self.running.remove(&number) {
            let known = if whole { job.hashes.len() } else { job.prompt_blocks };
            self.pool.release(&held, job.hashes.get(..known).unwrap_or_default());
        } else {
            self.waiting.retain(|(waiting, ..)| *waiting != number);
        }
    }

    /// Empties the prefix cache.
    pub(super) fn reset(&mut self) {
        self.pool.reset();
    }

    fn blocks(&self, job: &Job) -> usize {
        let tokens = job.prompt_tokens.saturating_add(job.output_tokens);
        usize::try_from(tokens.div_ceil(self.timing.block_size.max(1))).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn timing(max_running: usize, cache_blocks: Option<u32>) -> Timing {
        Timing {
            ttft_base: 5 * MS,
            per_uncached_token: MS,
            per_output_token: MS,
            max_running,
            block_size: 10,
            cache_blocks,
        }
    }

    fn job(name: u128, prompt_tokens: u32, output_tokens: u32) -> Job {
        let prompt_blocks = (prompt_tokens / 10) as usize;
        Job {
            prompt_tokens,
            output_tokens,
            hashes: (1..=prompt_blocks).map(|at| name << 64 | at as u128).collect(),
            prompt_blocks,
        }
    }

    #[test]
    fn the_first_token_is_due_after_a_base_and_a_share_of_the_uncached_tokens() {
        let mut model = Model::new(timing(9, None));
        model.arrive(0, MS, job(1, 25, 3));
        let first = model.admit(MS)[0];
        assert_eq!(first, Started { number: 0, queued: Duration::ZERO, first_token: 31 * MS, cached_tokens: 0 });
        model.leave(0, true);
        model.arrive(1, 40 * MS, job(1, 25, 3));
        assert_eq!(model.admit(40 * MS)[0].first_token, 50 * MS);
        assert_eq!(model.sums(), Sums { prompt_tokens: 50, cached_tokens: 20 });
    }

    #[test]
    fn the_last_token_of_a_prompt_is_always_computed() {
        let mut model = Model::new(timing(9, None));
        for number in 0..2 {
            model.arrive(number, MS, job(1, 30, 3));
        }
        let cached: Vec<u32> = model.admit(MS).iter().map(|started| started.cached_tokens).collect();
        assert_eq!(cached, [0, 20]);
    }

    #[test]
    fn requests_wait_for_a_free_place_in_the_order_of_arrival() {
        let mut model = Model::new(timing(1, None));
        for number in 0..4 {
            model.arrive(number, MS, job(u128::from(number), 10, 1));
        }
        assert_eq!(model.admit(MS).len(), 1);
        assert_eq!((model.running(), model.waiting()), (1, 3));
        model.leave(2, false); // a client that waits goes away
        model.leave(0, true);
        let next = model.admit(9 * MS);
        assert_eq!((next[0].number, next[0].queued), (1, 8 * MS));
        model.leave(1, true);
        assert_eq!(model.admit(9 * MS)[0].number, 3);
    }

    #[test]
    fn requests_wait_for_blocks_and_none_overtakes() {
        let mut model = Model::new(timing(9, Some(10)));
        model.arrive(0, MS, job(1, 60, 10)); // 7 blocks
        model.arrive(1, MS, job(2, 60, 10)); // does not fit beside it
        model.arrive(2, MS, job(3, 10, 1)); // would
        assert_eq!(model.admit(MS).len(), 1);
        model.leave(0, true);
        assert_eq!(model.admit(2 * MS).iter().map(|started| started.number).collect::<Vec<_>>(), [1, 2]);
        assert!(!model.fits(&job(4, 100, 1)));
    }
}
