//! A run: sends, measures, writes.
//!
//! Invariant: every file of the run is written, also after Ctrl-C; the first Ctrl-C drains, the second gives up.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use super::args::ReplayArgs;
use super::live::{Live, State};
use crate::cli::args::Globals;
use crate::cli::exit::{Exit, Hint, print_to_stderr};
use crate::cli::output::Stdout;
use crate::metrics::{Collector, RecordWriter, RequestRecord, Summary, Wants, write_samples};
use crate::replay::call::{Caller, Setup};
use crate::replay::clock::Monotonic;
use crate::replay::counters::{self, Place, Watch};
use crate::replay::dispatch::{Event, Stop, dispatch};
use crate::replay::forecast::Forecast;
use crate::replay::preflight::Preflight;
use crate::replay::schedule::Schedule;
use crate::replay::source::Synthesized;
use crate::replay::transport::Transport;
use crate::report::{self, Point};
use crate::trace::{Manifest, Session};

/// Requests that the report draws at most.
const POINTS: usize = 5000;

pub(super) struct Run<'a> {
    pub(super) args: &'a ReplayArgs,
    pub(super) manifest: &'a Manifest,
    pub(super) found: Preflight,
    pub(super) wants: Wants,
    pub(super) forecast: Forecast,
    pub(super) output: &'a Path,
}

impl Run<'_> {
    pub(super) async fn go<T: Transport + Clone>(
        self,
        transport: T,
        places: Vec<Place<T>>,
        setup: Setup,
        source: Arc<Synthesized>,
        sessions: Arc<[(u32, Session)]>,
        globals: Globals,
    ) -> anyhow::Result<Exit> {
        for old in ["summary.json", "report.html", "manifest.json", "counters.parquet"] {
            // They would be beside new records if this run broke off.
            fs::remove_file(self.output.join(old)).ok();
        }
        fs::create_dir_all(self.output).with_context(|| format!("cannot make {}", self.output.display()))?;
        let file = File::create(self.output.join("records.parquet")).context("cannot write records.parquet")?;
        let mut records = RecordWriter::new(BufWriter::new(file))?;
        let mut schedule = Schedule::new(Arc::clone(&sessions), self.args.pace.pacing())?;
        let (sender, stop) = watch::channel(Stop::No);
        let state = Arc::new(Mutex::new(State {
            collector: Collector::new(self.wants.clone()),
            ended: 0,
            in_flight: 0,
            sessions_done: 0,
            stopping: false,
        }));
        let stopping = Arc::clone(&state);
        let interrupted = move || {
            lock(&stopping).stopping = true;
            sender.send_modify(|stop| *stop = if *stop == Stop::No { Stop::Drain } else { Stop::Abort });
        };
        ctrlc::set_handler(interrupted).context("cannot watch for interrupts")?;
        let watch = Watch::begin(places).await;
        if let Some(start) = self.args.pace.start_time {
            wait(start, stop.clone()).await?;
        }
        let clock = Monotonic::start().context("cannot start the timer")?;
        let (over, watched) = oneshot::channel();
        let counting = tokio::spawn(watch.run(clock.clone(), watched));
        let live = Live::start(Arc::clone(&state), self.forecast.clone(), clock.clone(), globals.quiet);
        let numbers = sessions.iter().map(|(number, _)| *number);
        let mut left: BTreeMap<u32, u64> = numbers.zip(self.forecast.of_session.iter().copied()).collect();
        let (mut points, mut failure) = (Points::new(sessions.len()), None);
        let caller = Arc::new(Caller::new(transport, clock, source, sessions, setup));
        let stopped = stop.clone();
        dispatch(&mut schedule, &caller, self.args.pace.duration, stop, |event| {
            let mut state = lock(&state);
            match event {
                Event::Sent(_) => state.in_flight += 1,
                Event::Ended(record) => {
                    state.in_flight -= u64::from(record.due_us.is_some());
                    state.ended += 1;
                    if let Some(left) = left.get_mut(&record.session).filter(|left| **left > 0) {
                        *left -= 1;
                        state.sessions_done += u64::from(*left == 0);
                    }
                    state.collector.add(&record);
                    points.add(&record);
                    if let Err(error) = records.push(*record) {
                        failure.get_or_insert(error);
                    }
                }
            }
        })
        .await;
        drop(live);
        records.finish()?;
        failure.map_or(Ok(()), Err)?;
        let interrupted = *stopped.borrow() != Stop::No;
        over.send(()).ok();
        let tally = counting.await.context("the endpoint's counters were lost")?;
        let counters = counters::counters(&tally);
        let file = File::create(self.output.join("counters.parquet")).context("cannot write counters.parquet")?;
        write_samples(BufWriter::new(file), tally.samples())?;
        let summary = Summary { counters, ..lock(&state).collector.summary(interrupted) };
        self.write(&summary, &points.kept, caller.refused())?;
        if caller.refused() > 0 && !globals.quiet {
            print_to_stderr(&format!(
                "note: {} requests were answered only without the fields that force lengths\n",
                caller.refused()
            ));
        }
        self.say(&summary, interrupted, globals)
    }

    fn write(&self, summary: &Summary, points: &[Point], refused: u64) -> anyhow::Result<()> {
        let put = |name: &str, content: String| {
            fs::write(self.output.join(name), content).with_context(|| format!("cannot write {name}"))
        };
        put("summary.json", serde_json::to_string_pretty(summary)? + "\n")?;
        let title = format!("Replay of {} requests", summary.requests.counted);
        put("report.html", report::html(&title, summary, points))?;
        put("manifest.json", serde_json::to_string_pretty(&self.manifest(refused))? + "\n")
    }

    /// What a reader of the run must know to run it again. Headers and keys are left out.
    fn manifest(&self, refused: u64) -> serde_json::Value {
        let ReplayArgs { url, model, api, token_ids, pace, traffic, .. } = self.args;
        let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
        let files: Vec<_> = self.manifest.files.iter().map(|file| file.sha256).collect();
        let found = self.found;
        serde_json::json!({
            "version": 1,
            "tool": super::super::convert::version(),
            "endpoint": {"url": url.as_deref().map(without_user), "model": model, "api": api, "token_ids": token_ids},
            "trace": {"files_sha256": files, "totals": self.manifest.totals},
            "pace": {
                "loop": format!("{:?}", pace.pacing).to_lowercase(),
                "time_scale": pace.time_scale,
                "think_scale": pace.think_scale,
                "max_delay_s": seconds(pace.max_delay),
                "idle_cap_s": seconds(pace.idle_cap),
                "concurrency": pace.pacing().concurrency,
                "max_in_flight": pace.max_in_flight,
                "duration_s": seconds(pace.duration),
                "range": pace.range.map(|range| [range.from, range.to]),
                "start_time": pace.start_time.map(|start| start.to_string()),
                "shard": pace.shard.map(|shard| [shard.index, shard.of]),
                "arrival": format!("{:?}", pace.arrival).to_lowercase(),
                "start_at": pace.pacing().start_at,
                "include": pace.include.iter().map(|kind| format!("{kind:?}").to_lowercase()).collect::<Vec<_>>(),
                "on_error": format!("{:?}", pace.on_error),
                "seed": pace.seed,
                "cache_bust": traffic.cache_bust,
                "history": format!("{:?}", traffic.history).to_lowercase(),
                "stream": format!("{:?}", traffic.stream).to_lowercase(),
                "retries": traffic.retries,
                "connect_timeout_s": traffic.connect_timeout.as_secs_f64(),
                "idle_timeout_s": traffic.idle_timeout.as_secs_f64(),
            },
            "preflight": {
                "lists_model": found.lists_model,
                "streams": found.streams,
                "counts_tokens": found.counts_tokens,
                "reports_cached_tokens": found.reports_cached,
                "forces_lengths": found.forces_length,
                "refuses_length_fields": found.refuses_fields || refused > 0,
            },
        })
    }

    fn say(&self, summary: &Summary, interrupted: bool, globals: Globals) -> anyhow::Result<Exit> {
        if globals.json {
            let mut stdout = Stdout::new();
            writeln!(stdout, "{}", serde_json::to_string(summary)?)?;
            stdout.flush()?;
        } else if !globals.quiet {
            print_to_stderr(&report::text(summary));
            print_to_stderr(&format!("written to {}\n", self.output.display()));
        }
        let none = summary.requests.succeeded == 0;
        let well = summary.requests.failed == 0 && !interrupted && summary.gates.passed && summary.meets_objectives();
        Ok(if none {
            Exit::Failed
        } else if well {
            Exit::Fine
        } else {
            Exit::Findings
        })
    }
}

/// Waits until all shards begin, or the user wants to stop.
async fn wait(start: Timestamp, mut stop: watch::Receiver<Stop>) -> anyhow::Result<()> {
    let left = std::time::Duration::try_from(start.duration_since(Timestamp::now()));
    let left = left
        .ok()
        .context("--start-time is over")
        .hint("name a time that leaves room to read the trace on every machine")?;
    tokio::select! {
        () = tokio::time::sleep(left) => {}
        _ = stop.changed() => {}
    }
    Ok(())
}

/// What the report draws: every so many-th session; of few sessions, every so many-th request.
struct Points {
    kept: Vec<Point>,
    by_session: bool,
    every: u32,
}

impl Points {
    fn new(sessions: usize) -> Self {
        Self { kept: Vec::new(), by_session: sessions > 500, every: 1 }
    }

    fn add(&mut self, record: &RequestRecord) {
        let Some(point) = point(record) else { return };
        let by_session = self.by_session;
        let place = |session: u32, request: u32| if by_session { session } else { request };
        if place(record.session, record.request).is_multiple_of(self.every) {
            self.kept.push(point);
        }
        if self.kept.len() > POINTS {
            self.every *= 2;
            let every = self.every;
            self.kept.retain(|point| place(point.session, point.request).is_multiple_of(every));
        }
    }
}

fn point(record: &RequestRecord) -> Option<Point> {
    Some(Point {
        session: record.session,
        request: record.request,
        sent_us: record.sent_us?,
        first_content_us: record.first_content_us,
        last_byte_us: record.last_byte_us?,
        fine: record.ending.is_fine(),
    })
}

/// A URL without the name and password that it may hold.
fn without_user(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}{}{path}", if path.is_empty() { "" } else { "/" })
        }
        None => String::new(),
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
