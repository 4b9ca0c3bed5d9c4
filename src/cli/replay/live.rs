//! Progress of a replay on stderr.
//!
//! Invariant: it shows counts and times; on a terminal only.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::metrics::Collector;
use crate::replay::clock::Clock;
use crate::replay::forecast::Forecast;

/// What is shown.
pub(super) struct State {
    pub(super) collector: Collector,
    pub(super) ended: u64,
    pub(super) in_flight: u64,
    pub(super) sessions_done: u64,
    pub(super) stopping: bool,
}

/// A line that is drawn anew several times a second until this is dropped.
pub(super) struct Live {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Begins to draw, unless `quiet` or where nobody watches.
    pub(super) fn start(state: Arc<Mutex<State>>, forecast: Forecast, clock: impl Clock, quiet: bool) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let shown = !quiet && std::io::stderr().is_terminal();
        let ended = Arc::clone(&over);
        let draw = move || {
            let target = ProgressDrawTarget::stderr_with_hz(8);
            let bar = ProgressBar::with_draw_target(Some(forecast.requests + forecast.primes), target);
            let style = ProgressStyle::with_template("{bar:20} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            while !ended.load(Ordering::Relaxed) {
                {
                    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    bar.set_position(state.ended);
                    bar.set_message(line(&state, &forecast, clock.now()));
                }
                std::thread::park_timeout(Duration::from_millis(200));
            }
            bar.finish_and_clear();
        };
        let thread = shown.then(|| std::thread::spawn(draw));
        Self { over, thread }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

fn line(state: &State, forecast: &Forecast, now: Duration) -> String {
    use crate::cli::output::{duration, number, percent};
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let collector = &state.collector;
    let mut parts = vec![
        format!("sessions {}/{}", number(state.sessions_done), number(forecast.sessions)),
        format!("requests {}/{}", number(state.ended), number(forecast.requests + forecast.primes)),
        format!("in flight {}", number(state.in_flight)),
    ];
    if let Some((p50, p95)) = collector.ttft() {
        parts.push(format!("TTFT {} / {}", duration(p50 / 1000), duration(p95 / 1000)));
    }
    let (cached, prompt, reported) = collector.hits();
    if prompt > 0 {
        parts.push(format!("hits {}{}", percent(cached, prompt), if reported { "" } else { " planned" }));
    }
    if collector.failed() > 0 {
        parts.push(format!("failed {}", number(collector.failed())));
    }
    if state.stopping {
        parts.push("stopping".to_owned());
    } else {
        parts.push(format!("{} left", duration(millis(forecast.left(state.ended, now)))));
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Wants;

    #[test]
    fn the_first_line_is_right() {
        let state = State {
            collector: Collector::new(Wants::default()),
            ended: 0,
            in_flight: 1,
            sessions_done: 0,
            stopping: false,
        };
        let forecast =
            Forecast { sessions: 3, requests: 1200, duration: Duration::from_secs(90), ..Forecast::default() };
        let line = line(&state, &forecast, Duration::from_secs(1));
        assert_eq!(line, "sessions 0/3 · requests 0/1,200 · in flight 1 · 1:29 min left");
    }
}
