//! Names: which series of which engine means what.
//!
//! Invariant: every meaning of the table is one for all engines: hits and asked are tokens, and asked includes the hits.

use super::page::{Page, Series};

/// An engine, told by the names of its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// TensorRT-LLM.
    TensorRt,
    /// Dynamo's frontend.
    Dynamo,
    /// llama.cpp.
    LlamaCpp,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Measure {
    /// Prompt tokens found in the prefix cache. Counter.
    Hits,
    /// Prompt tokens, found ones included. Counter.
    Asked,
    /// Prompt tokens that were computed. Counter.
    Computed,
    /// Evictions: preemptions (vLLM), evicted tokens (SGLang). Counter.
    Evictions,
    /// Requests that wait. Gauge; workers are summed.
    Waiting,
    /// Share of the KV cache in use, 0 to 1. Gauge; the mean over workers.
    KvUse,
    /// Seconds that requests waited. Histogram.
    QueueTime,
    /// Seconds to the first token. Histogram.
    Ttft,
}

/// Series that are added up: names, and a label that must have a value.
type Terms = &'static [(&'static str, Option<(&'static str, &'static str)>)];

impl Engine {
    /// Every engine. Dynamo comes first, since its workers speak for other engines.
    pub const ALL: [Self; 5] = [Self::Dynamo, Self::Vllm, Self::Sglang, Self::TensorRt, Self::LlamaCpp];

    /// Its word in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::TensorRt => "tensorrt_llm",
            Self::Dynamo => "dynamo",
            Self::LlamaCpp => "llama_cpp",
        }
    }

    /// What its series begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Vllm => "vllm:",
            Self::Sglang => "sglang:",
            Self::TensorRt => "trtllm_",
            Self::Dynamo => "dynamo_frontend_",
            Self::LlamaCpp => "llamacpp:",
        }
    }

    /// The engine whose series a page shows.
    pub fn of(page: &Page) -> Option<Self> {
        Self::ALL.into_iter().find(|engine| page.series.iter().any(|series| series.name.starts_with(engine.prefix())))
    }

    /// The series of a measure, without `_total`, `_sum` or `_bucket`; none where the engine does not tell.
    pub(super) fn terms(self, measure: Measure) -> Terms {
        use Measure as M;
        match (self, measure) {
            (Self::Vllm, M::Hits) => &[("vllm:prefix_cache_hits", None)],
            (Self::Vllm, M::Asked) => &[("vllm:prefix_cache_queries", None)],
            (Self::Vllm, M::Computed) => &[("vllm:request_prefill_kv_computed_tokens", None)],
            (Self::Vllm, M::Evictions) => &[("vllm:num_preemptions", None)],
            (Self::Vllm, M::Waiting) => &[("vllm:num_requests_waiting", None)],
            (Self::Vllm, M::KvUse) => &[("vllm:kv_cache_usage_perc", None)],
            (Self::Vllm, M::QueueTime) => &[("vllm:request_queue_time_seconds", None)],
            (Self::Vllm, M::Ttft) => &[("vllm:time_to_first_token_seconds", None)],
            (Self::Sglang, M::Hits) => &[("sglang:cached_tokens", None)],
            (Self::Sglang, M::Asked) => &[("sglang:prompt_tokens", None)],
            (Self::Sglang, M::Computed) => &[("sglang:realtime_tokens", Some(("mode", "prefill_compute")))],
            (Self::Sglang, M::Evictions) => &[("sglang:evicted_tokens", None)],
            (Self::Sglang, M::Waiting) => &[("sglang:num_queue_reqs", None)],
            (Self::Sglang, M::KvUse) => &[("sglang:token_usage", None)],
            (Self::Sglang, M::QueueTime) => &[("sglang:queue_time_seconds", None)],
            (Self::Sglang, M::Ttft) => &[("sglang:time_to_first_token_seconds", None)],
            (Self::TensorRt, M::Hits) => &[("trtllm_prompt_cached_tokens", None)],
            (Self::TensorRt, M::Asked) => &[("trtllm_prompt_tokens", None)],
            (Self::TensorRt, M::Waiting) => &[("trtllm_num_requests_waiting", None)],
            (Self::TensorRt, M::KvUse) => &[("trtllm_kv_cache_utilization", None)],
            (Self::TensorRt, M::QueueTime) => &[("trtllm_request_queue_time_seconds", None)],
            (Self::TensorRt, M::Ttft) => &[("trtllm_time_to_first_token_seconds", None)],
            (Self::Dynamo, M::Hits) => &[("dynamo_frontend_cached_tokens", None)],
            (Self::Dynamo, M::Asked) => &[("dynamo_frontend_input_sequence_tokens", None)],
            (Self::Dynamo, M::Waiting) => &[("dynamo_frontend_queued_requests", None)],
            (Self::Dynamo, M::Ttft) => &[("dynamo_frontend_time_to_first_token_seconds", None)],
            (Self::LlamaCpp, M::Hits) => &[("llamacpp:prompt_tokens_cached", None)],
            // It counts cached tokens apart from the others.
            (Self::LlamaCpp, M::Asked) => &[("llamacpp:prompt_tokens", None), ("llamacpp:prompt_tokens_cached", None)],
            (Self::LlamaCpp, M::Computed) => &[("llamacpp:prompt_tokens", None)],
            (Self::LlamaCpp, M::Waiting) => &[("llamacpp:requests_deferred", None)],
            (Self::TensorRt, M::Computed | M::Evictions)
            | (Self::Dynamo, M::Computed | M::Evictions | M::KvUse | M::QueueTime)
            | (Self::LlamaCpp, M::Evictions | M::KvUse | M::QueueTime | M::Ttft) => &[],
        }
    }
}

impl Measure {
    /// Every measure.
    pub const ALL: [Self; 8] = [
        Self::Hits,
        Self::Asked,
        Self::Computed,
        Self::Evictions,
        Self::Waiting,
        Self::KvUse,
        Self::QueueTime,
        Self::Ttft,
    ];

    /// Its word in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hits => "hit_tokens",
            Self::Asked => "asked_tokens",
            Self::Computed => "computed_tokens",
            Self::Evictions => "evictions",
            Self::Waiting => "waiting",
            Self::KvUse => "kv_use",
            Self::QueueTime => "queue_seconds",
            Self::Ttft => "ttft_seconds",
        }
    }

    pub(super) fn is_gauge(self) -> bool {
        matches!(self, Self::Waiting | Self::KvUse)
    }
}

/// How a series belongs to a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Its value, or the sum of a histogram.
    Value,
    /// A bucket of a histogram.
    Bucket,
}

/// Whether a series is one of a measure's.
pub(super) fn part(engine: Engine, measure: Measure, series: &Series) -> Option<Part> {
    engine.terms(measure).iter().find_map(|(name, label)| {
        let end = series.name.strip_prefix(name)?;
        let fits = label.is_none_or(|(label, value)| series.label(label) == Some(value));
        match end {
            "" | "_total" | "_sum" if fits => Some(Part::Value),
            "_bucket" if fits => Some(Part::Bucket),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_is_told_by_its_names() {
        for (text, engine) in [
            ("python_info 1\nvllm:num_requests_running 0\n", Some(Engine::Vllm)),
            ("sglang:token_usage 0\n", Some(Engine::Sglang)),
            ("trtllm_prompt_tokens_total 0\n", Some(Engine::TensorRt)),
            ("dynamo_frontend_queued_requests 0\nvllm:num_requests_running 0\n", Some(Engine::Dynamo)),
            ("llamacpp:prompt_tokens_total 0\n", Some(Engine::LlamaCpp)),
            ("python_info 1\n", None),
        ] {
            assert_eq!(Engine::of(&Page::parse(text)), engine);
        }
    }

    #[test]
    fn a_name_counts_with_and_without_total_but_not_created_nor_a_longer_one() {
        let is = |text: &str| part(Engine::Vllm, Measure::Hits, &Page::parse(text).series[0]);
        assert_eq!(is("vllm:prefix_cache_hits 1"), Some(Part::Value));
        assert_eq!(is("vllm:prefix_cache_hits_total 1"), Some(Part::Value));
        assert_eq!(is("vllm:prefix_cache_hits_created 1"), None);
        assert_eq!(is("external_vllm:prefix_cache_hits 1"), None);
        let is = |text: &str| part(Engine::Sglang, Measure::Computed, &Page::parse(text).series[0]);
        assert_eq!(is("sglang:realtime_tokens_total{mode=\"decode\"} 1"), None);
        assert_eq!(is("sglang:realtime_tokens_total{mode=\"prefill_compute\"} 1"), Some(Part::Value));
    }
}
