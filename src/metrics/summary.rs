//! What a replay comes to: `summary.json`.
//!
//! Invariant: every member is a number, a flag or a word of the program; what cannot be said is null.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Histogram;
use super::schema::described;

described! {
/// The summary of a run. Times are microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Of this format: 1.
    pub version: u32,
    /// Whether the run ended before all was sent: it was interrupted, or its time was up.
    pub partial: bool,
    /// From the first sending to the last byte.
    pub elapsed_us: u64,
    /// Session trees.
    pub sessions: Sessions,
    /// Requests.
    pub requests: Requests,
    /// Time to the first content, of whole answers in events.
    pub ttft_us: Distribution,
    /// Mean time between tokens after the first, by the server's token counts.
    pub itl_us: Distribution,
    /// Time of a request, of whole answers.
    pub latency_us: Distribution,
    /// Time of a session that succeeded, from its first due time to its last byte.
    pub session_us: Distribution,
    /// How late requests were sent.
    pub lag_us: Distribution,
    /// The prefix cache.
    pub cache: Cache,
    /// Lengths against what was asked.
    pub length: Length,
    /// What must hold for the figures to be about this trace.
    pub gates: Gates,
    /// What met the objectives; null without any.
    pub goodput: Option<Goodput>,
    /// What it cost; null without prices.
    pub cost: Option<Cost>,
    /// The server's own counters; null where it has none.
    pub counters: Option<Counters>,
}

/// Sessions by how they ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Every request ended as it should.
    pub succeeded: u64,
    /// At least one failed.
    pub failed: u64,
    /// Begun, and stopped before their end.
    pub unfinished: u64,
    /// Stopped before they began.
    pub not_begun: u64,
    /// Succeeded, by elapsed time.
    pub per_second: Option<f64>,
}

/// Requests by how they ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Sent, or kept from being sent by a failure: the denominator of every share.
    pub counted: u64,
    /// Ended as they should.
    pub succeeded: u64,
    /// Did not.
    pub failed: u64,
    /// Not sent or given up because the run was stopped; not counted.
    pub stopped: u64,
    /// Sent to fill the cache; not counted.
    pub primed: u64,
    /// Of those, failed.
    pub primed_failed: u64,
    /// Sendings beyond the first.
    pub resent: u64,
    /// Answers that said "too many requests".
    pub rate_limited: u64,
    /// Succeeded, by elapsed time.
    pub per_second: Option<f64>,
    /// By ending.
    pub endings: BTreeMap<String, u64>,
    /// By the last HTTP status.
    pub statuses: BTreeMap<String, u64>,
    /// Share of all request time that failed requests took.
    pub failed_share_of_time: Option<f64>,
}

/// A distribution, within 0.1 %; null where there is no value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// Mean.
    pub mean: Option<u64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 95th percentile.
    pub p95: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
}

/// Prompt tokens and how many were cached, of whole answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Shared with an earlier prompt that is sent, too: an unbounded cache has them.
    pub planned_tokens: u64,
    /// Sent, as planned by the tokenizer.
    pub sent_tokens: u64,
    /// `planned_tokens` of `sent_tokens`.
    pub planned_ratio: Option<f64>,
    /// Cached, as the server reported.
    pub reported_tokens: u64,
    /// Of all prompts with such a report.
    pub prompt_tokens: u64,
    /// `reported_tokens` of `prompt_tokens`.
    pub reported_ratio: Option<f64>,
    /// Answers that reported cached tokens.
    pub requests_reporting: u64,
}

/// Lengths, of whole answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// Answers with the server's count of prompt tokens.
    pub prompts_counted: u64,
    /// Of those, with another count than planned, beyond the tolerance of the gate.
    pub prompts_off: u64,
    /// By how many tokens the server's count differs from the planned one.
    pub prompt_error: Distribution,
    /// Prompts that share less than the trace says, since the chat template's own tokens don't fit in.
    pub prompts_short: u64,
    /// Earlier answers in prompts that were longer or shorter than the trace says; what the user says next made up for it.
    pub answers_corrected: u64,
    /// Answers with the server's count of answer tokens.
    pub answers_counted: u64,
    /// Of those, with another count than asked for.
    pub answers_off: u64,
    /// Answer tokens, as the server counted.
    pub answer_tokens: u64,
    /// Answer tokens asked for.
    pub answer_tokens_asked: u64,
}

/// What met the objectives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goodput {
    /// Requests that met all of them, each for itself.
    pub requests: u64,
    /// Of all counted.
    pub requests_share: f64,
    /// By elapsed time.
    pub requests_per_second: Option<f64>,
    /// Sessions whose requests all did.
    pub sessions: u64,
    /// Of all that ended.
    pub sessions_share: f64,
    /// The objectives.
    pub objectives: Vec<Objective>,
}

/// An objective and what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Of what.
    pub metric: String,
    /// At which percentile.
    pub percentile: u32,
    /// The bound.
    pub at_most_us: u64,
    /// What it was.
    pub found_us: Option<u64>,
    /// Whether it was met.
    pub met: bool,
}

/// What it cost, in the currency of the prices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// In all.
    pub total: f64,
    /// For each session that succeeded; failures are paid for, too.
    pub per_successful_session: Option<f64>,
}

/// Deltas of the server's counters over the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Whose names they have.
    pub engine: String,
    /// Prompt tokens that the cache had.
    pub hit_tokens: Option<f64>,
    /// Prompt tokens that it was asked for.
    pub asked_tokens: Option<f64>,
    /// The one of the other.
    pub hit_ratio: Option<f64>,
    /// Prompt tokens that were computed.
    pub computed_tokens: Option<f64>,
    /// Preemptions (vLLM) or evicted tokens (SGLang).
    pub evictions: Option<f64>,
    /// Median of the seconds that requests waited in the server.
    pub queue_seconds_p50: Option<f64>,
    /// 95th percentile of them.
    pub queue_seconds_p95: Option<f64>,
    /// Median of the seconds to the first token, as the server measured.
    pub ttft_seconds_p50: Option<f64>,
    /// 95th percentile of them.
    pub ttft_seconds_p95: Option<f64>,
    /// How often a worker's counters fell: it was started anew.
    pub resets: u64,
}

/// What must hold for the figures to be about this trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gates {
    /// No prompt of the sample was off, and none that the server counted (`length.prompts_off`).
    pub passed: bool,
    /// By how many thousandths the server's count may differ from the planned one: 0 with a tokenizer.
    pub tolerance_permille: u32,
    /// The sample of prompts that was rendered before the run; null without a tokenizer.
    pub rendered: Option<Rendered>,
    /// How lengths were fitted to the server's counts; null with a tokenizer.
    pub calibrated: Option<Calibrated>,
}

/// Prompts that were rendered, tokenized and held against the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendered {
    /// How many.
    pub requests: u64,
    /// Of those, with another length or another shared prefix than the trace says.
    pub off: u64,
    /// Requests of the sample that the chat template has no room for: they share less, or have no prompt.
    pub named: u64,
}

/// A calibration by prompts that the server counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// Prompts that were counted.
    pub prompts: u64,
    /// Median of their error, in tokens.
    pub error_p50: u32,
    /// 95th percentile of their error, in tokens.
    pub error_p95: u32,
    /// Largest error, in tokens.
    pub error_max: u32,
}
}

impl Distribution {
    pub(super) fn of(values: &Histogram) -> Self {
        let at = |permille| values.permille(permille);
        Self {
            count: values.count(),
            mean: values.mean(),
            p50: at(500),
            p90: at(900),
            p95: at(950),
            p99: at(990),
            max: values.max(),
        }
    }
}

impl Summary {
    /// Whether every objective was met.
    pub fn meets_objectives(&self) -> bool {
        self.goodput.as_ref().is_none_or(|goodput| goodput.objectives.iter().all(|objective| objective.met))
    }
}
