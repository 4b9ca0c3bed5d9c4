//! Distributions over all requests of a trace.
//!
//! Invariant: quantiles are values that occur (nearest rank), computed over every value.

use std::collections::BTreeMap;

use crate::trace::Session;
use crate::trace::vocab::{DelayKind, Evidence, Relation, RequestKind, Status, Vocabulary};

/// Values of a distribution, by nearest rank; all 0 where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// How many values.
    pub count: u64,
    /// The 10th percentile.
    pub p10: u64,
    /// The median.
    pub p50: u64,
    /// The 90th percentile.
    pub p90: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
}

impl Quantiles {
    /// Of these values, in any order.
    pub fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let rank =
            |percent: usize| values.get((values.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0);
        Self {
            count: u64::try_from(values.len()).unwrap_or(u64::MAX),
            p10: rank(10),
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max: rank(100),
        }
    }
}

/// Grows session by session.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    block_size: u32,
    input_tokens: Vec<u32>,
    output_tokens: Vec<u32>,
    durations: Vec<u32>,
    ttfts: Vec<u32>,
    user_delays: Vec<u64>,
    requests_per_session: Vec<u32>,
    kinds: BTreeMap<RequestKind, u64>,
    statuses: BTreeMap<Status, u64>,
    relations: BTreeMap<Relation, u64>,
    evidence: BTreeMap<Evidence, u64>,
    /// Full blocks of all prompts.
    pub blocks: u64,
    /// Of those, blocks that an earlier prompt had.
    pub shared_blocks: u64,
}

impl Overview {
    /// Of a trace with this block size; no session yet.
    pub fn new(block_size: u32) -> Self {
        Self { block_size, ..Self::default() }
    }

    /// Adds a session.
    pub fn add(&mut self, session: &Session) {
        self.requests_per_session.push(u32::try_from(session.requests.len()).unwrap_or(u32::MAX));
        for request in &session.requests {
            self.input_tokens.push(request.input_tokens);
            self.output_tokens.extend(request.output_tokens);
            self.durations.extend(request.duration_ms);
            self.ttfts.extend(request.ttft_ms);
            self.blocks += u64::from(request.blocks(self.block_size));
            self.shared_blocks += u64::from(request.prefix.shared_blocks);
            *self.kinds.entry(request.kind).or_default() += 1;
            *self.statuses.entry(request.status).or_default() += 1;
        }
        for edge in &session.edges {
            *self.relations.entry(edge.relation).or_default() += 1;
            *self.evidence.entry(edge.evidence).or_default() += 1;
            self.user_delays.extend((edge.delay_kind == DelayKind::User).then_some(edge.delay_ms));
        }
    }

    /// Lengths of prompts, in tokens.
    pub fn input_tokens(&self) -> Quantiles {
        wide(&self.input_tokens)
    }

    /// Lengths of answers, in tokens.
    pub fn output_tokens(&self) -> Quantiles {
        wide(&self.output_tokens)
    }

    /// Durations of requests, in milliseconds.
    pub fn durations(&self) -> Quantiles {
        wide(&self.durations)
    }

    /// Times to the first content, in milliseconds.
    pub fn ttfts(&self) -> Quantiles {
        wide(&self.ttfts)
    }

    /// Delays that a person caused, in milliseconds.
    pub fn user_delays(&self) -> Quantiles {
        Quantiles::of(self.user_delays.clone())
    }

    /// Requests per session.
    pub fn requests_per_session(&self) -> Quantiles {
        wide(&self.requests_per_session)
    }

    /// How many requests of each kind there are.
    pub fn kinds(&self) -> Vec<(&'static str, u64)> {
        words(&self.kinds)
    }

    /// How many requests ended in each way.
    pub fn statuses(&self) -> Vec<(&'static str, u64)> {
        words(&self.statuses)
    }

    /// How many edges of each relation there are.
    pub fn relations(&self) -> Vec<(&'static str, u64)> {
        words(&self.relations)
    }

    /// How many edges each evidence shows.
    pub fn evidence(&self) -> Vec<(&'static str, u64)> {
        words(&self.evidence)
    }
}

fn wide(values: &[u32]) -> Quantiles {
    Quantiles::of(values.iter().map(|value| u64::from(*value)).collect())
}

fn words<V: Vocabulary>(counts: &BTreeMap<V, u64>) -> Vec<(&'static str, u64)> {
    counts.iter().map(|(word, count)| (word.word(), *count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occur() {
        let quantiles = Quantiles::of((1..=1000).rev().collect());
        assert_eq!(quantiles, Quantiles { count: 1000, p10: 100, p50: 500, p90: 900, p99: 990, max: 1000 });
        assert_eq!(Quantiles::of(vec![7]), Quantiles { count: 1, p10: 7, p50: 7, p90: 7, p99: 7, max: 7 });
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }
}
