//! The plan of a replay, printed.
//!
//! Invariant: nothing is sent to find it out.

use std::time::Duration;

use crate::cli::output::{duration, number};
use crate::replay::forecast::Forecast;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// In lines.
pub(super) fn text(forecast: &Forecast) -> String {
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
    lines.join("\n") + "\n"
}

/// As JSON.
pub(super) fn json(forecast: &Forecast) -> serde_json::Value {
    let waits: Vec<_> = forecast
        .waits
        .iter()
        .map(|(at, long)| serde_json::json!({"at_ms": millis(*at), "duration_ms": millis(*long)}))
        .collect();
    serde_json::json!({
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
