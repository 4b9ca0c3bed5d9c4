//! Grows record by record into a [`Summary`].
//!
//! Invariant: memory grows with sessions, not with requests; a request that failed, or that a failure kept from being sent, is in
//! every denominator; primings are in none.

use std::collections::BTreeMap;
use std::time::Duration;

use super::summary::{Cache, Cost, Distribution, Gates, Goodput, Length, Objective, Requests, Sessions, Summary};
use super::{Ending, Histogram, Metric, Price, RequestRecord, Slo};

/// What a user wants to know, beside what is always measured.
#[derive(Clone, Debug, Default)]
pub struct Wants {
    /// Objectives.
    pub slos: Vec<Slo>,
    /// Prices.
    pub price: Option<Price>,
    /// What was found before the run, and how far the server's counts of prompts may differ. `passed` is not looked at.
    pub gates: Gates,
}

/// Sums over the records so far.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    wants: Wants,
    endings: BTreeMap<Ending, u64>,
    statuses: BTreeMap<u16, u64>,
    sessions: BTreeMap<u32, Walk>,
    ttft: Histogram,
    itl: Histogram,
    latency: Histogram,
    lag: Histogram,
    prompt_error: Histogram,
    primed: u64,
    primed_failed: u64,
    paid: Paid,
    counted: u64,
    good: u64,
    resent: u64,
    rate_limited: u64,
    fine_us: u128,
    failed_us: u128,
    cache: Cache,
    length: Length,
    first_us: Option<u64>,
    last_us: u64,
}

/// Tokens of all that was sent, also of what failed.
#[derive(Clone, Copy, Debug, Default)]
struct Paid {
    prompt: u64,
    cached: u64,
    output: u64,
}

/// A session on its way.
#[derive(Clone, Copy, Debug)]
struct Walk {
    begun_us: u64,
    ended_us: u64,
    fine: bool,
    whole: bool,
    good: bool,
}

impl Collector {
    /// Nothing yet.
    pub fn new(wants: Wants) -> Self {
        Self { wants, ..Self::default() }
    }

    /// Adds a record.
    pub fn add(&mut self, record: &RequestRecord) {
        let begun = record.due_us;
        self.first_us = self.first_us.into_iter().chain(record.sent_us).min();
        self.last_us = self.last_us.max(record.last_byte_us.unwrap_or(0));
        self.resent += u64::from(record.attempts.saturating_sub(1));
        self.rate_limited += u64::from(record.rate_limited);
        self.pay(record);
        if record.prime {
            self.primed += 1;
            self.primed_failed += u64::from(!record.ending.is_fine() && record.ending.counts());
            return;
        }
        *self.endings.entry(record.ending).or_default() += 1;
        let good = record.ending.is_fine() && self.wants.slos.iter().all(|slo| slo.met_by(record).unwrap_or(true));
        let walk = self.sessions.entry(record.session).or_insert(Walk {
            begun_us: begun.unwrap_or(u64::MAX),
            ended_us: 0,
            fine: true,
            whole: true,
            good: true,
        });
        walk.begun_us = walk.begun_us.min(begun.unwrap_or(u64::MAX));
        walk.ended_us = walk.ended_us.max(record.last_byte_us.unwrap_or(0));
        walk.fine &= record.ending.is_fine() || !record.ending.counts();
        walk.whole &= record.ending.counts();
        walk.good &= good;
        if !record.ending.counts() {
            return;
        }
        self.counted += 1;
        self.good += u64::from(good);
        if let Some(status) = record.status {
            *self.statuses.entry(status).or_default() += 1;
        }
        let took = u128::from(record.latency_us().unwrap_or(0));
        *(if record.ending.is_fine() { &mut self.fine_us } else { &mut self.failed_us }) += took;
        record.lag_us().into_iter().for_each(|lag| self.lag.add(lag));
        if record.ending == Ending::Ok {
            record.ttft_us().into_iter().for_each(|ttft| self.ttft.add(ttft));
            record.itl_us().into_iter().for_each(|itl| self.itl.add(itl));
            record.latency_us().into_iter().for_each(|latency| self.latency.add(latency));
            self.tokens(record);
        }
    }

    /// What the server counted; of a whole answer without counts, what was sent and asked for.
    fn pay(&mut self, record: &RequestRecord) {
        let planned = |tokens: Option<u32>| tokens.filter(|_| record.ending == Ending::Ok).map_or(0, u64::from);
        self.paid.prompt += record.prompt_tokens.unwrap_or(planned(record.sent_tokens));
        self.paid.cached += record.cached_tokens.unwrap_or(0);
        self.paid.output += record.answer_tokens.unwrap_or(planned(Some(record.max_tokens)));
    }

    fn tokens(&mut self, record: &RequestRecord) {
        let Cache { planned_tokens, sent_tokens, reported_tokens, prompt_tokens, requests_reporting, .. } =
            &mut self.cache;
        *planned_tokens += u64::from(record.planned_cached.unwrap_or(0));
        *sent_tokens += u64::from(record.sent_tokens.unwrap_or(0));
        if let (Some(cached), Some(prompt)) = (record.cached_tokens, record.prompt_tokens) {
            *reported_tokens += cached;
            *prompt_tokens += prompt;
            *requests_reporting += 1;
        }
        let length = &mut self.length;
        length.prompts_counted += u64::from(record.prompt_tokens.is_some());
        length.prompts_short += u64::from(record.short_blocks.is_some());
        length.answers_corrected += u64::from(record.corrected);
        if let Some(error) = record.prompt_error() {
            self.prompt_error.add(error);
            let allowed = u64::from(record.sent_tokens.unwrap_or(0)) * u64::from(self.wants.gates.tolerance_permille);
            length.prompts_off += u64::from(error * 1000 > allowed);
        }
        length.answers_counted += u64::from(record.answer_tokens.is_some());
        length.answer_tokens += record.answer_tokens.unwrap_or(0);
        length.answer_tokens_asked += u64::from(record.max_tokens);
        let short = record.answer_tokens.is_some_and(|tokens| tokens != u64::from(record.max_tokens));
        length.answers_off += u64::from(short);
    }

    /// The median and the 95th percentile of the time to the first content so far, in microseconds.
    pub fn ttft(&self) -> Option<(u64, u64)> {
        Some((self.ttft.permille(500)?, self.ttft.permille(950)?))
    }

    /// Cached and all prompt tokens so far, as the server counts them; else as planned.
    pub fn hits(&self) -> (u64, u64, bool) {
        match &self.cache {
            cache if cache.requests_reporting > 0 => (cache.reported_tokens, cache.prompt_tokens, true),
            cache => (cache.planned_tokens, cache.sent_tokens, false),
        }
    }

    /// Requests so far that count and did not end as they should.
    pub fn failed(&self) -> u64 {
        self.endings.iter().filter(|(ending, _)| ending.counts() && !ending.is_fine()).map(|(_, count)| count).sum()
    }

    /// The summary of what was added. `partial` says that the replay was stopped before its end.
    pub fn summary(&self, partial: bool) -> Summary {
        let ended = self.sessions.values().filter(|walk| walk.whole);
        let (mut wall, mut succeeded, mut failed, mut good) = (Histogram::default(), 0, 0, 0);
        for walk in ended.clone() {
            let took = walk.ended_us.saturating_sub(walk.begun_us);
            let met = |slo: &Slo| slo.metric != Metric::Session || slo.met(took);
            if walk.fine {
                wall.add(took);
                succeeded += 1;
                good += u64::from(walk.good && self.wants.slos.iter().all(met));
            } else {
                failed += 1;
            }
        }
        let elapsed_us = self.last_us.saturating_sub(self.first_us.unwrap_or(0));
        let count = |ending: Ending| self.endings.get(&ending).copied().unwrap_or(0);
        let all = u64::try_from(self.sessions.len()).unwrap_or(u64::MAX);
        let waiting = self.sessions.values().filter(|walk| !walk.whole && walk.begun_us == u64::MAX).count();
        let not_begun = u64::try_from(waiting).unwrap_or(u64::MAX);
        let objectives = self.wants.slos.iter().map(|slo| self.objective(slo, &wall, failed)).collect();
        Summary {
            version: 1,
            partial: partial || count(Ending::Stopped) + count(Ending::Aborted) > 0,
            elapsed_us,
            sessions: Sessions {
                succeeded,
                failed,
                unfinished: all - succeeded - failed - not_begun,
                not_begun,
                per_second: rate(succeeded, elapsed_us),
            },
            requests: Requests {
                counted: self.counted,
                succeeded: count(Ending::Ok) + count(Ending::Cancelled),
                failed: self.failed(),
                stopped: count(Ending::Stopped) + count(Ending::Aborted),
                primed: self.primed,
                primed_failed: self.primed_failed,
                resent: self.resent,
                rate_limited: self.rate_limited,
                per_second: rate(count(Ending::Ok) + count(Ending::Cancelled), elapsed_us),
                endings: Ending::ALL.into_iter().map(|ending| (ending.word().to_owned(), count(ending))).collect(),
                statuses: self.statuses.iter().map(|(status, count)| (status.to_string(), *count)).collect(),
                failed_share_of_time: share(self.failed_us, self.failed_us + self.fine_us),
            },
            ttft_us: Distribution::of(&self.ttft),
            itl_us: Distribution::of(&self.itl),
            latency_us: Distribution::of(&self.latency),
            session_us: Distribution::of(&wall),
            lag_us: Distribution::of(&self.lag),
            cache: Cache {
                planned_ratio: share(self.cache.planned_tokens.into(), self.cache.sent_tokens.into()),
                reported_ratio: share(self.cache.reported_tokens.into(), self.cache.prompt_tokens.into()),
                ..self.cache
            },
            length: Length { prompt_error: Distribution::of(&self.prompt_error), ..self.length },
            gates: Gates {
                passed: self.length.prompts_off == 0 && self.wants.gates.rendered.is_none_or(|sample| sample.off == 0),
                ..self.wants.gates
            },
            goodput: (!self.wants.slos.is_empty()).then(|| Goodput {
                requests: self.good,
                requests_share: share(self.good.into(), self.counted.into()).unwrap_or(0.0),
                requests_per_second: rate(self.good, elapsed_us),
                sessions: good,
                sessions_share: share(u128::from(good), u128::from(succeeded + failed)).unwrap_or(0.0),
                objectives,
            }),
            cost: self.wants.price.map(|price| self.cost(price, elapsed_us, succeeded)),
            counters: None,
        }
    }

    /// A request or a session that failed is slower than any other.
    fn objective(&self, slo: &Slo, wall: &Histogram, sessions_failed: u64) -> Objective {
        let (histogram, failed) = match slo.metric {
            Metric::Ttft => (&self.ttft, self.failed()),
            Metric::Itl => (&self.itl, self.failed()),
            Metric::Latency => (&self.latency, self.failed()),
            Metric::Session => (wall, sessions_failed),
        };
        let found = histogram.permille_among(slo.percentile * 10, failed);
        Objective {
            metric: slo.metric.word().to_owned(),
            percentile: slo.percentile,
            at_most_us: u64::try_from(slo.at_most.as_micros()).unwrap_or(u64::MAX),
            found_us: found,
            met: found.is_some_and(|found| slo.met(found)),
        }
    }

    fn cost(&self, price: Price, elapsed_us: u64, succeeded: u64) -> Cost {
        let Paid { prompt, cached, output } = self.paid;
        let million = |tokens: u64, price: f64| float(tokens.into()) / 1e6 * price;
        let tokens = million(prompt.saturating_sub(cached), price.input)
            + million(cached, price.cached)
            + million(output, price.output);
        let total = tokens + Duration::from_micros(elapsed_us).as_secs_f64() / 3600.0 * price.hour;
        Cost { total, per_successful_session: (succeeded > 0).then(|| total / float(succeeded.into())) }
    }
}

fn rate(count: u64, elapsed_us: u64) -> Option<f64> {
    (elapsed_us > 0).then(|| float(count.into()) / Duration::from_micros(elapsed_us).as_secs_f64())
}

fn share(part: u128, whole: u128) -> Option<f64> {
    (whole > 0).then(|| float(part) / float(whole))
}

#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "a figure for people; counts stay far below 2^53"
)]
fn float(count: u128) -> f64 {
    count as f64
}
