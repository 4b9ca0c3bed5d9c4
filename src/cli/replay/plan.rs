//! The plan of a replay, printed.
//!
//! Invariant: nothing is sent to find it out.

use std::io::Write;
use std::time::Duration;

use super::args::ReplayArgs;
use crate::analyze::{Accesses, CacheCurve};
use crate::cli::args::Globals;
use crate::cli::exit::Exit;
use crate::cli::output::{Stdout, duration, number};
use crate::format;
use crate::replay::forecast::Forecast;

/// Prints it.
pub(super) fn print(args: &ReplayArgs, globals: Globals) -> anyhow::Result<Exit> {
    let (_, sessions, _) = super::read(args, None)?;
    let forecast = super::forecast(args, &sessions)?;
    let hits = curve(args, sessions.len())?.map(|curve| hits(&curve, &args.cache_size)).unwrap_or_default();
    let mut stdout = Stdout::new();
    if globals.json {
        writeln!(stdout, "{}", json(&forecast, &hits))?;
    } else {
        stdout.write_all(text(&forecast, &hits).as_bytes())?;
    }
    stdout.flush()?;
    Ok(Exit::Fine)
}

/// Which part of the prompts a cache of which size finds; only if the whole trace is replayed.
fn curve(args: &ReplayArgs, replayed: usize) -> anyhow::Result<Option<CacheCurve>> {
    let trace = format::open(&args.trace)?;
    let pacing = args.pace.pacing();
    // Without a bound sessions overlap as they arrive; as many lanes as there are sessions come nearest.
    let lanes = pacing.concurrency.unwrap_or(replayed);
    let (scope, block_size) = (trace.manifest().scope, trace.manifest().block_size);
    let (mut accesses, mut sessions) = (Accesses::new(scope, block_size, lanes), 0);
    for session in trace {
        let session = session?;
        let sent = pacing.sends(&session);
        accesses.add_only(&session, |row| sent.get(row) == Some(&true));
        sessions += 1;
    }
    Ok((sessions == replayed).then(|| accesses.finish()))
}

/// Sizes of a cache, in tokens, with the share of prompt tokens that each finds: those asked for, else every doubling.
fn hits(curve: &CacheCurve, asked: &[u64]) -> Vec<(u64, f64)> {
    let block = u64::from(curve.block_size.max(1));
    let doublings = || curve.doublings().into_iter().map(|(blocks, _)| blocks * block).collect();
    let sizes: Vec<u64> = if asked.is_empty() { doublings() } else { asked.to_vec() };
    sizes.into_iter().map(|tokens| (tokens, curve.hit_ratio(tokens / block))).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// In lines.
pub(super) fn text(forecast: &Forecast, hits: &[(u64, f64)]) -> String {
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
    lines.push(format!("memory            about {} MB here", number(forecast.memory.div_ceil(1 << 20))));
    if forecast.unknown > 0 {
        lines.push(format!("unknown times     {} requests, taken as 5 s each", number(forecast.unknown)));
    }
    if forecast.unknown_outputs > 0 {
        lines.push(format!(
            "unknown answers   {} requests, of which one token is asked for",
            number(forecast.unknown_outputs)
        ));
    }
    for (at, long) in &forecast.waits {
        lines.push(format!("nothing to do     {} from {} on", duration(millis(*long)), duration(millis(*at))));
    }
    for (tokens, ratio) in hits {
        lines.push(format!("hits              {:.1} % with a cache of {} tokens", ratio * 100.0, number(*tokens)));
    }
    lines.join("\n") + "\n"
}

/// As JSON.
pub(super) fn json(forecast: &Forecast, hits: &[(u64, f64)]) -> serde_json::Value {
    let waits: Vec<_> = forecast
        .waits
        .iter()
        .map(|(at, long)| serde_json::json!({"at_ms": millis(*at), "duration_ms": millis(*long)}))
        .collect();
    let point = |(tokens, ratio): &(u64, f64)| serde_json::json!({"cache_tokens": tokens, "hit_ratio": ratio});
    let hits: Vec<_> = hits.iter().map(point).collect();
    serde_json::json!({
        "hits": hits,
        "sessions": forecast.sessions,
        "requests": forecast.requests,
        "primes": forecast.primes,
        "input_tokens": forecast.input_tokens,
        "output_tokens": forecast.output_tokens,
        "duration_ms": millis(forecast.duration),
        "peak_in_flight": forecast.peak,
        "memory_bytes": forecast.memory,
        "unknown_durations": forecast.unknown,
        "unknown_answers": forecast.unknown_outputs,
        "idle": waits,
    })
}
