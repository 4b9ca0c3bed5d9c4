//! What `/metrics` shows: Prometheus text with the names of the imitated engine.
//!
//! Invariant: counters only grow; the prompt and cached tokens are those that usage reports, summed over all requests that began.

use std::fmt::Write;
use std::time::Duration;

use super::options::Imitate;

/// Upper bounds of the buckets for times, in seconds.
const SECONDS: [f64; 19] =
    [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];
/// And for tokens.
const TOKENS: [f64; 16] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
    32768.0,
    65536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
];

/// A histogram: how many values are at most each bound.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], count: 0, sum: 0.0 }
    }

    fn observe(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        for (bound, count) in self.bounds.iter().zip(&mut self.counts) {
            *count += u64::from(value <= *bound);
        }
    }

    fn write(&self, name: &str, label: &str, out: &mut String) {
        writeln!(out, "# TYPE {name} histogram").ok();
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            writeln!(out, "{name}_bucket{{le=\"{bound}\",{label}}} {count}").ok();
        }
        writeln!(out, "{name}_bucket{{le=\"+Inf\",{label}}} {}", self.count).ok();
        writeln!(out, "{name}_count{{{label}}} {}\n{name}_sum{{{label}}} {}", self.count, self.sum).ok();
    }
}

/// What is summed up besides the engine's own sums.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) generation_tokens: u64,
    pub(super) stopped: u64,
    pub(super) by_length: u64,
    pub(super) aborted: u64,
    pub(super) failed: u64,
    ttft: Histogram,
    queue: Histogram,
    whole: Histogram,
    inter_token: Histogram,
    prompt: Histogram,
    cached: Histogram,
    computed: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        let [ttft, queue, whole, inter_token] = [(); 4].map(|()| Histogram::new(&SECONDS));
        let [prompt, cached, computed] = [(); 3].map(|()| Histogram::new(&TOKENS));
        let (generation_tokens, stopped, by_length, aborted, failed) = (0, 0, 0, 0, 0);
        Self {
            generation_tokens,
            stopped,
            by_length,
            aborted,
            failed,
            ttft,
            queue,
            whole,
            inter_token,
            prompt,
            cached,
            computed,
        }
    }
}

/// What the engine is at, at the moment of a scrape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauges {
    pub(super) running: usize,
    pub(super) waiting: usize,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    /// Share of the cache's blocks in use; 0 without a bound.
    pub(super) kv_usage: f64,
    pub(super) block_size: u32,
    pub(super) blocks: Option<u32>,
}

impl Metrics {
    /// A request began.
    pub(super) fn began(&mut self, queued: Duration, prompt_tokens: u32, cached_tokens: u32) {
        self.queue.observe(queued.as_secs_f64());
        self.prompt.observe(f64::from(prompt_tokens));
        self.cached.observe(f64::from(cached_tokens));
        self.computed.observe(f64::from(prompt_tokens.saturating_sub(cached_tokens)));
    }

    /// Its first token came, so long after its arrival.
    pub(super) fn first_token(&mut self, after: Duration) {
        self.ttft.observe(after.as_secs_f64());
    }

    /// It ended, so long after its arrival, with an answer of so many tokens.
    pub(super) fn ended(&mut self, after: Duration, decode: Duration, tokens: u32, by_length: bool) {
        self.whole.observe(after.as_secs_f64());
        if tokens > 1 {
            self.inter_token.observe(decode.as_secs_f64() / f64::from(tokens - 1));
        }
        *(if by_length { &mut self.by_length } else { &mut self.stopped }) += 1;
    }

    /// As Prometheus text. `model` must need no escaping.
    pub(super) fn render(&self, imitate: Imitate, model: &str, gauges: Gauges) -> String {
        let mut out = String::with_capacity(16 << 10);
        match imitate {
            Imitate::Vllm => self.vllm(model, gauges, &mut out),
            Imitate::LlamaCpp => self.llama(gauges, &mut out),
            Imitate::Dynamo => self.dynamo(model, gauges, &mut out),
        }
        out
    }

    fn vllm(&self, model: &str, gauges: Gauges, out: &mut String) {
        let label = format!("engine=\"0\",model_name=\"{model}\"");
        let blocks = gauges.blocks.map_or_else(|| "None".to_owned(), |blocks| blocks.to_string());
        writeln!(
            out,
            "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{block_size=\"{}\",enable_prefix_caching=\"True\",\
             engine=\"0\",num_gpu_blocks=\"{blocks}\"}} 1.0",
            gauges.block_size
        )
        .ok();
        for (name, value) in [
            ("vllm:num_requests_running", whole(gauges.running)),
            ("vllm:num_requests_waiting", whole(gauges.waiting)),
            ("vllm:kv_cache_usage_perc", gauges.kv_usage),
        ] {
            writeln!(out, "# TYPE {name} gauge\n{name}{{{label}}} {value}").ok();
        }
        for (name, value) in [
            ("vllm:prefix_cache_queries", gauges.prompt_tokens),
            ("vllm:prefix_cache_hits", gauges.cached_tokens),
            ("vllm:prompt_tokens", gauges.prompt_tokens),
            ("vllm:prompt_tokens_cached", gauges.cached_tokens),
            ("vllm:generation_tokens", self.generation_tokens),
            ("vllm:num_preemptions", 0),
        ] {
            writeln!(out, "# TYPE {name} counter\n{name}_total{{{label}}} {value}.0\n{name}_created{{{label}}} 1.0")
                .ok();
        }
        writeln!(out, "# TYPE vllm:request_success counter").ok();
        for (reason, value) in [("stop", self.stopped), ("length", self.by_length), ("abort", self.aborted)] {
            writeln!(out, "vllm:request_success_total{{finished_reason=\"{reason}\",{label}}} {value}.0").ok();
        }
        self.ttft.write("vllm:time_to_first_token_seconds", &label, out);
        self.queue.write("vllm:request_queue_time_seconds", &label, out);
        self.whole.write("vllm:e2e_request_latency_seconds", &label, out);
        self.inter_token.write("vllm:inter_token_latency_seconds", &label, out);
        self.prompt.write("vllm:request_prompt_tokens", &label, out);
        self.computed.write("vllm:request_prefill_kv_computed_tokens", &label, out);
    }

    fn llama(&self, gauges: Gauges, out: &mut String) {
        for (name, kind, value) in [
            ("prompt_tokens_total", "counter", gauges.prompt_tokens - gauges.cached_tokens),
            ("prompt_tokens_cached_total", "counter", gauges.cached_tokens),
            ("tokens_predicted_total", "counter", self.generation_tokens),
            ("requests_processing", "gauge", u64::try_from(gauges.running).unwrap_or(u64::MAX)),
            ("requests_deferred", "gauge", u64::try_from(gauges.waiting).unwrap_or(u64::MAX)),
        ] {
            writeln!(out, "# TYPE llamacpp:{name} {kind}\nllamacpp:{name} {value}").ok();
        }
    }

    fn dynamo(&self, model: &str, gauges: Gauges, out: &mut String) {
        let label = format!("model=\"{model}\"");
        writeln!(out, "# TYPE dynamo_frontend_queued_requests gauge").ok();
        writeln!(out, "dynamo_frontend_queued_requests{{{label}}} {}", gauges.waiting).ok();
        let done = self.stopped + self.by_length;
        writeln!(out, "# TYPE dynamo_frontend_requests_total counter").ok();
        writeln!(out, "dynamo_frontend_requests_total{{{label},status=\"success\"}} {done}").ok();
        self.prompt.write("dynamo_frontend_input_sequence_tokens", &label, out);
        self.cached.write("dynamo_frontend_cached_tokens", &label, out);
        self.ttft.write("dynamo_frontend_time_to_first_token_seconds", &label, out);
        self.inter_token.write("dynamo_frontend_inter_token_latency_seconds", &label, out);
    }
}

fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_its_names_and_its_way_to_count_cached_tokens() {
        let mut metrics = Metrics::default();
        metrics.began(Duration::from_millis(3), 100, 64);
        metrics.first_token(Duration::from_millis(70));
        let gauges = Gauges {
            running: 1,
            waiting: 2,
            prompt_tokens: 100,
            cached_tokens: 64,
            kv_usage: 0.5,
            block_size: 16,
            blocks: Some(14),
        };
        for (imitate, lines) in [
            (
                Imitate::Vllm,
                &[
                    "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 64.0\n",
                    "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2\n",
                    "vllm:time_to_first_token_seconds_bucket{le=\"0.08\",engine=\"0\",model_name=\"m\"} 1\n",
                    "vllm:time_to_first_token_seconds_bucket{le=\"0.06\",engine=\"0\",model_name=\"m\"} 0\n",
                    "num_gpu_blocks=\"14\"",
                ][..],
            ),
            (Imitate::LlamaCpp, &["llamacpp:prompt_tokens_total 36\n", "llamacpp:prompt_tokens_cached_total 64\n"]),
            (Imitate::Dynamo, &["dynamo_frontend_cached_tokens_sum{model=\"m\"} 64\n"]),
        ] {
            let text = metrics.render(imitate, "m", gauges);
            for line in lines {
                assert!(text.contains(line), "{line} in\n{text}");
            }
        }
    }
}
