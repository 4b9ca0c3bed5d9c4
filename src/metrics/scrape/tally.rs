//! [`Tally`]: pages of one server, or of several workers, added up over a run.
//!
//! Invariant: the increase of a counter is the sum over its series; a series that was not there on the first page began at 0.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::engine::{self, Engine, Measure, Part};
use super::page::{Page, Series};

/// A value at a moment: a counter's or a histogram sum's increase since the first page, or a gauge's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time of the page.
    pub at: Duration,
    /// What it measures.
    pub measure: Measure,
    /// How much.
    pub value: f64,
}

/// A series of one worker: its page, name and labels.
type Key = (usize, String, Vec<(String, String)>);

/// Adds pages up.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    engine: Option<Engine>,
    /// Pages so far, rounds of scraping.
    rounds: usize,
    last: BTreeMap<Key, f64>,
    increases: BTreeMap<Measure, f64>,
    /// Increase of each bucket, by measure and by the bits of its upper bound, which sort as the bounds do.
    buckets: BTreeMap<Measure, BTreeMap<u64, f64>>,
    /// Workers of which a counter fell on the page at hand.
    fell: BTreeSet<usize>,
    resets: usize,
    malformed: usize,
    samples: Vec<Sample>,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the page of the only server.
    pub fn add(&mut self, at: Duration, page: &Page) {
        self.add_all(at, std::slice::from_ref(page));
    }

    /// Adds the pages that several workers showed at one moment, always in the same order.
    pub fn add_all(&mut self, at: Duration, pages: &[Page]) {
        self.engine = self.engine.or_else(|| pages.iter().find_map(Engine::of));
        self.malformed += pages.iter().map(|page| page.malformed).sum::<usize>();
        let Some(engine) = self.engine else { return };
        let mut gauges: BTreeMap<Measure, Vec<f64>> = BTreeMap::new();
        let mut told: BTreeMap<Measure, f64> = BTreeMap::new();
        for measure in Measure::ALL {
            for (worker, series) in pages
                .iter()
                .enumerate()
                .flat_map(|(worker, page)| page.series.iter().map(move |series| (worker, series)))
            {
                match engine::part(engine, measure, series) {
                    None => {}
                    Some(_) if measure.is_gauge() => gauges.entry(measure).or_default().push(series.value),
                    Some(Part::Value) => {
                        let grown = self.grown(measure, worker, series);
                        *told.entry(measure).or_default() += grown;
                    }
                    Some(Part::Bucket) => {
                        let Some(bound) = series.label("le").and_then(bound) else { continue };
                        let grown = self.grown(measure, worker, series);
                        *self.buckets.entry(measure).or_default().entry(bound).or_default() += grown;
                    }
                }
            }
        }
        // SGLang shows no hits until there are some.
        if told.contains_key(&Measure::Asked) && !engine.terms(Measure::Hits).is_empty() {
            told.entry(Measure::Hits).or_default();
        }
        for (measure, grown) in told {
            let increase = self.increases.entry(measure).or_default();
            *increase += grown;
            self.samples.push(Sample { at, measure, value: *increase });
        }
        for (measure, values) in gauges {
            let count = f64::from(u32::try_from(values.len()).unwrap_or(u32::MAX));
            let sum: f64 = values.into_iter().sum();
            let value = if measure == Measure::KvUse { sum / count } else { sum };
            self.samples.push(Sample { at, measure, value });
        }
        self.resets += std::mem::take(&mut self.fell).len();
        self.rounds += 1;
    }

    /// How much a series has grown since it was last seen.
    fn grown(&mut self, measure: Measure, worker: usize, series: &Series) -> f64 {
        // One series may count for two measures.
        let name = format!("{} {}", measure.word(), series.name);
        let before = self.last.insert((worker, name, series.labels.clone()), series.value);
        match before {
            None if self.rounds == 0 => 0.0,
            None => series.value,
            Some(before) if series.value < before => {
                self.fell.insert(worker);
                series.value
            }
            Some(before) => series.value - before,
        }
    }

    /// The engine, as soon as a page told.
    pub fn engine(&self) -> Option<Engine> {
        self.engine
    }

    /// How much a counter, or the sum of a histogram, grew since the first page; none where the engine does not show it, or for a gauge.
    pub fn increase(&self, measure: Measure) -> Option<f64> {
        self.increases.get(&measure).copied()
    }

    /// Hit tokens over asked tokens since the first page; none where one is not known or nothing was asked.
    pub fn hit_ratio(&self) -> Option<f64> {
        let asked = self.increase(Measure::Asked).filter(|asked| *asked > 0.0)?;
        Some(self.increase(Measure::Hits)? / asked)
    }

    /// A quantile (0 to 1) of the values that a histogram counted since the first page, by linear interpolation within its bucket; in the
    /// last bucket, its lower bound.
    pub fn quantile(&self, measure: Measure, quantile: f64) -> Option<f64> {
        let buckets = self.buckets.get(&measure)?;
        let count = buckets.last_key_value().map(|(_, count)| *count).filter(|count| *count > 0.0)?;
        let rank = quantile.clamp(0.0, 1.0) * count;
        let (mut below, mut lower) = (0.0, 0.0);
        for (bound, reached) in buckets {
            let bound = f64::from_bits(*bound);
            if *reached >= rank && *reached > below {
                let part = (rank - below) / (reached - below);
                return Some(if bound.is_finite() { lower + (bound - lower) * part } else { lower });
            }
            (below, lower) = (*reached, bound);
        }
        None
    }

    /// How often a worker's counters fell: it was started anew.
    pub fn resets(&self) -> usize {
        self.resets
    }

    /// Lines that could not be read, over all pages.
    pub fn malformed(&self) -> usize {
        self.malformed
    }

    /// Every value of every page.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// The bits of a bucket's bound. Bounds of times and tokens are not negative, so their bits sort as they do.
fn bound(le: &str) -> Option<u64> {
    le.parse::<f64>().ok().filter(|bound| *bound >= 0.0).map(f64::to_bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, pages: &[&str], tally: &mut Tally) {
        let pages: Vec<Page> = pages.iter().map(|page| Page::parse(page)).collect();
        tally.add_all(Duration::from_secs(seconds), &pages);
    }

    #[test]
    fn counters_are_differences_summed_over_workers_and_labels() {
        let mut tally = Tally::new();
        let page = |hits: u32, asked: u32| {
            format!(
                "vllm:prefix_cache_hits_total{{engine=\"0\"}} {hits}\nvllm:prefix_cache_hits_total{{engine=\"1\"}} {hits}\n\
                     vllm:prefix_cache_queries_total {asked}\nvllm:prefix_cache_hits_created 99\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n"
            )
        };
        at(0, &[&page(10, 1000), &page(20, 1000)], &mut tally);
        assert_eq!((tally.increase(Measure::Hits), tally.hit_ratio()), (Some(0.0), None));
        at(5, &[&page(15, 1100), &page(50, 1100)], &mut tally);
        assert_eq!((tally.increase(Measure::Hits), tally.increase(Measure::Asked)), (Some(70.0), Some(200.0)));
        assert_eq!((tally.hit_ratio(), tally.resets()), (Some(0.35), 0));
        let last = |measure| tally.samples().iter().rfind(|sample| sample.measure == measure).unwrap().value;
        assert_eq!((last(Measure::Waiting), last(Measure::KvUse)), (4.0, 0.5));
        assert_eq!(tally.increase(Measure::Waiting), None);
    }

    #[test]
    fn a_counter_that_falls_was_reset_and_counts_from_0() {
        let mut tally = Tally::new();
        for (seconds, hits) in [(0, 100), (5, 150), (10, 30), (15, 40)] {
            at(seconds, &[&format!("vllm:prefix_cache_hits_total {hits}\n")], &mut tally);
        }
        assert_eq!((tally.increase(Measure::Hits), tally.resets()), (Some(90.0), 1));
    }

    #[test]
    fn a_series_that_appears_later_began_at_0() {
        let mut tally = Tally::new();
        at(0, &["sglang:prompt_tokens_total 50\n"], &mut tally);
        assert_eq!(tally.increase(Measure::Hits), Some(0.0), "none are shown until there are some");
        at(5, &["sglang:prompt_tokens_total 90\nsglang:cached_tokens_total{cache_source=\"device\"} 16\n"], &mut tally);
        assert_eq!((tally.increase(Measure::Hits), tally.hit_ratio()), (Some(16.0), Some(0.4)));
    }

    #[test]
    fn llama_cpp_counts_cached_tokens_apart() {
        let mut tally = Tally::new();
        at(0, &["llamacpp:prompt_tokens_total 0\nllamacpp:prompt_tokens_cached_total 0\n"], &mut tally);
        at(5, &["llamacpp:prompt_tokens_total 15622\nllamacpp:prompt_tokens_cached_total 50764\n"], &mut tally);
        assert_eq!((tally.increase(Measure::Asked), tally.increase(Measure::Computed)), (Some(66386.0), Some(15622.0)));
    }

    #[test]
    fn quantiles_come_from_what_was_counted_since_the_first_page() {
        let mut tally = Tally::new();
        let page = |counts: [u32; 4]| {
            let [a, b, c, all] = counts;
            let name = "dynamo_frontend_time_to_first_token_seconds";
            format!(
                "{name}_bucket{{le=\"0.1\"}} {a}\n{name}_bucket{{le=\"1\"}} {b}\n{name}_bucket{{le=\"10.0\"}} {c}\n{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum 1\n{name}_count {all}\n"
            )
        };
        at(0, &[&page([1000, 1000, 1000, 1000])], &mut tally);
        assert_eq!(tally.quantile(Measure::Ttft, 0.5), None);
        at(5, &[&page([1000, 1080, 1090, 1100])], &mut tally);
        let quantile = |q| tally.quantile(Measure::Ttft, q).unwrap();
        assert!((quantile(0.4) - 0.55).abs() < 1e-9, "half-way through 0.1 to 1");
        assert!((quantile(0.85) - 5.5).abs() < 1e-9);
        assert!((quantile(0.99) - 10.0).abs() < 1e-9, "beyond the last bound");
        assert_eq!(tally.quantile(Measure::QueueTime, 0.5), None);
    }
}
