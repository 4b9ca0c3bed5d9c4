//! Results for people: text for a terminal, one HTML file that needs nothing else.
//!
//! Invariant: pure functions of a summary and some points; what could not be measured says so instead of showing 0.

mod html;
mod text;
pub mod trace_html;

pub use html::html;
pub use text::text;

/// A request as the report draws it: microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its session.
    pub session: u32,
    /// Its row in the session.
    pub request: u32,
    /// When it was sent.
    pub sent_us: u64,
    /// When its first content came.
    pub first_content_us: Option<u64>,
    /// When it ended.
    pub last_byte_us: u64,
    /// Whether it ended as it should.
    pub fine: bool,
}

/// A time that is easy to read.
fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..100_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        100_000..1_000_000 => format!("{} ms", micros / 1_000),
        1_000_000..60_000_000 => format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
        _ => format!("{}:{:02} min", micros / 60_000_000, micros / 1_000_000 % 60),
    }
}

fn maybe(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_owned(), time)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.3} /s"))
}

/// The distributions of a summary, by name.
fn distributions(summary: &crate::metrics::Summary) -> [(&'static str, crate::metrics::Distribution); 5] {
    [
        ("time to first token", summary.ttft_us),
        ("between tokens", summary.itl_us),
        ("request", summary.latency_us),
        ("session", summary.session_us),
        ("sent too late by", summary.lag_us),
    ]
}

/// Facts of a summary: a name and a value each.
fn facts(summary: &crate::metrics::Summary) -> Vec<(String, String)> {
    let crate::metrics::Summary { sessions, requests, cache, length, gates, goodput, cost, counters, .. } = summary;
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("time", time(summary.elapsed_us));
    let some = |count: u64, what: &str| if count > 0 { format!(", {count} {what}") } else { String::new() };
    let unfinished = some(sessions.unfinished, "unfinished") + &some(sessions.not_begun, "not begun");
    fact(
        "sessions",
        format!(
            "{} succeeded, {} failed{unfinished}; {}",
            sessions.succeeded,
            sessions.failed,
            rate(sessions.per_second)
        ),
    );
    fact(
        "requests",
        format!("{} of {} succeeded; {}", requests.succeeded, requests.counted, rate(requests.per_second)),
    );
    if requests.failed > 0 {
        let kinds = requests
            .endings
            .iter()
            .filter(|(word, count)| **count > 0 && !["ok", "cancelled", "stopped", "aborted"].contains(&word.as_str()));
        let kinds: Vec<_> = kinds.map(|(word, count)| format!("{} {count}", word.replace('_', " "))).collect();
        fact(
            "failed",
            format!(
                "{}: {}; {} of request time",
                requests.failed,
                kinds.join(", "),
                percent(requests.failed_share_of_time)
            ),
        );
    }
    for (name, count) in [
        ("not sent, stopped", requests.stopped),
        ("primed", requests.primed),
        ("primings that failed", requests.primed_failed),
        ("sent again", requests.resent),
        ("too many requests", requests.rate_limited),
    ] {
        if count > 0 {
            fact(name, count.to_string());
        }
    }
    fact("cache hits, planned", format!("{} of prompt tokens, with an unbounded cache", percent(cache.planned_ratio)));
    let reporting =
        if cache.requests_reporting == 0 { "not reported".to_owned() } else { percent(cache.reported_ratio) };
    fact("cache hits, reported", reporting);
    if let Some(counters) = counters {
        fact("cache hits, by counters", percent(counters.hit_ratio));
        if counters.resets > 0 {
            fact("server restarts", format!("{}: its counters fell", counters.resets));
        }
    }
    if !gates.passed {
        fact(
            "GATE FAILED",
            "prompts were not as long as planned, or do not share what the trace says; is it the endpoint's tokenizer?"
                .to_owned(),
        );
    }
    if let Some(sample) = gates.rendered {
        fact(
            "prompts, a sample",
            format!(
                "{} of {} rendered as the trace says, {} named",
                sample.requests - sample.off - sample.named,
                sample.requests,
                sample.named
            ),
        );
    }
    if let Some(fit) = gates.calibrated {
        fact(
            "lengths, fitted",
            format!(
                "to {} prompts that the endpoint counted; errors of {} tokens (median), {} (p95), {} (most)",
                fit.prompts, fit.error_p50, fit.error_p95, fit.error_max
            ),
        );
    }
    if length.prompts_counted > 0 {
        fact(
            "prompt lengths",
            format!(
                "{} of {} as planned; off by {} tokens (median), {} (p99), {} (most)",
                length.prompts_counted - length.prompts_off,
                length.prompts_counted,
                length.prompt_error.p50.unwrap_or(0),
                length.prompt_error.p99.unwrap_or(0),
                length.prompt_error.max.unwrap_or(0)
            ),
        );
    }
    if length.prompts_short > 0 {
        fact("prompts that share less", format!("{}: the template's own tokens don't fit in", length.prompts_short));
    }
    if length.answers_corrected > 0 {
        fact("answers made up for", format!("{} of other lengths than recorded", length.answers_corrected));
    }
    if length.answers_counted > 0 {
        fact(
            "answer lengths",
            format!("{} of {} as recorded", length.answers_counted - length.answers_off, length.answers_counted),
        );
    }
    if let Some(goodput) = goodput {
        fact(
            "goodput",
            format!(
                "{} requests ({}), {}; {} sessions ({})",
                goodput.requests,
                percent(Some(goodput.requests_share)),
                rate(goodput.requests_per_second),
                goodput.sessions,
                percent(Some(goodput.sessions_share))
            ),
        );
        for objective in &goodput.objectives {
            let met = if objective.met { "met" } else { "MISSED" };
            fact(
                &format!("{} p{} ≤ {}", objective.metric, objective.percentile, time(objective.at_most_us)),
                format!("{met}: {}", maybe(objective.found_us)),
            );
        }
    }
    if let Some(cost) = cost {
        let each = cost
            .per_successful_session
            .map_or_else(|| "none succeeded".to_owned(), |each| format!("{each:.4} for each that succeeded"));
        fact("cost", format!("{:.4}; {each}", cost.total));
    }
    facts
}
