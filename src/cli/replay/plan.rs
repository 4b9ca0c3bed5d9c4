//! The plan of a replay, printed.
//!
//! Invariant: nothing is sent to find it out.

use std::time::Duration;

use crate::analyze::CacheCurve;
use crate::cli::output::{duration, number};
use crate::replay::forecast::Forecast;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// In lines.
pub(super) fn text(forecast: &Forecast, curve: Option<&CacheCurve>) -> String {
    let mut lines = vec![
        format!("sessions          {}", number(forecast.sessions)),
        format!("requests          {}", number(forecast.requests)),
    ];
    if forecast.primes > 0 {
        lines.push(format!("primed first      {}", number(forecast.primes)));
    }
    lines.push(format!("prompt tokens     {}", number(forecast.input_tokens)));
    lines.push(format!("answer tokens     {}", number(forecast.output_tokens)));
    lines.push(format!(
        "duration          {}, if the endpoint is as fast as recorded",
        duration(millis(forecast.duration))
    ));
    lines.push(format!("in flight         at most {}", number(u64::try_from(forecast.peak).unwrap_or(u64::MAX))));
    if forecast.unknown > 0 {
        lines.push(format!("unknown times     {} requests, taken as 5 s each", number(forecast.unknown)));
    }
    for (at, long) in &forecast.waits {
        lines.push(format!("nothing to do     {} from {} on", duration(millis(*long)), duration(millis(*at))));
    }
    for (blocks, _) in curve.into_iter().flat_map(CacheCurve::doublings) {
        let tokens = blocks * curve.map_or(0, |curve| u64::from(curve.block_size));
        let ratio = curve.map_or(0.0, |curve| curve.hit_ratio(blocks)) * 100.0;
        lines.push(format!("hits              {ratio:.1} % with a cache of {} tokens", number(tokens)));
    }
    lines.join("\n") + "\n"
}

/// As JSON.
pub(super) fn json(forecast: &Forecast, curve: Option<&CacheCurve>) -> serde_json::Value {
    let waits: Vec<_> = forecast
        .waits
        .iter()
        .map(|(at, long)| serde_json::json!({"at_ms": millis(*at), "duration_ms": millis(*long)}))
        .collect();
    let hits = |curve: &CacheCurve| {
        let point = |(blocks, _)| serde_json::json!({"cache_tokens": blocks * u64::from(curve.block_size), "hit_ratio": curve.hit_ratio(blocks)});
        curve.doublings().into_iter().map(point).collect::<Vec<_>>()
    };
    serde_json::json!({
        "hits": curve.map(hits),
        "sessions": forecast.sessions,
        "requests": forecast.requests,
        "primes": forecast.primes,
        "input_tokens": forecast.input_tokens,
        "output_tokens": forecast.output_tokens,
        "duration_ms": millis(forecast.duration),
        "peak_in_flight": forecast.peak,
        "unknown_durations": forecast.unknown,
        "idle": waits,
    })
}
