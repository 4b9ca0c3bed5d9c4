//! `tracecloak replay`: a trace drives an endpoint.
//!
//! Invariant: what was measured is written, however the run ends; a key is read here, sent to the endpoint, and goes nowhere else.

pub mod args;
mod live;
mod plan;
mod run;
mod setup;
mod verify;

use std::sync::Arc;

use anyhow::{Context, anyhow};
use hyper::HeaderMap;

use super::args::{Globals, TokenizerSource};
use super::exit::{Exit, Hint, print_to_stderr};
use crate::format;
use crate::metrics::{Calibrated, Gates, Wants};
use crate::replay::calibrate::calibrate;
use crate::replay::call::Setup;
use crate::replay::counters::Place;
use crate::replay::forecast::Forecast;
use crate::replay::http::Http;
use crate::replay::preflight::Preflight;
use crate::replay::prompt::{self, Calibration, Form, History, PromptSynthesizer};
use crate::replay::schedule::ScheduleError;
use crate::replay::source::Planner;
use crate::tokenize;
use crate::trace::{Manifest, Session};
use args::{HistoryWord, ReplayArgs, StreamWord};
use setup::{cache_dir, price, random, reach, setup};

/// Prompts that are rendered before a run and held against the trace.
const SAMPLE: u64 = 64;

/// How far the endpoint's counts of prompts may be from the planned ones, in thousandths, where they are fitted.
const TOLERANCE: u32 = 20;

pub(super) fn run(args: &ReplayArgs, globals: Globals) -> anyhow::Result<Exit> {
    if args.dry_run {
        return plan::print(args, globals);
    }
    if args.verify_prompts {
        let (manifest, _, planner) = read(args, Some(Making { calibration: None, salt: 0, sample: None }))?;
        return verify::print(&planner.context("no prompts")?, &manifest, globals);
    }
    let output = args.output.as_deref().context("no folder for the run")?;
    if output.exists() && !args.force {
        return Err(anyhow!("{} exists", output.display())).hint("choose another folder with -o, or --force");
    }
    if args.token_ids && args.api != "completions" {
        return Err(anyhow!("only --api completions takes token ids"));
    }
    let prices = price(args)?;
    // Whatever is wrong with the trace or the pacing is found before anything is sent.
    let forecast = forecast(args, &read(args, None)?.1)?;
    let setup = setup(args)?;
    let reach = reach(args)?;
    let url = args.url.as_deref().unwrap_or_default();
    let client = |url: &str| Http::new(url, &reach).context("cannot use the URL").hint("such as http://127.0.0.1:8000");
    let http = client(url)?;
    // Each thread that makes prompts keeps some memory for its own, and few of them make thousands a second.
    let makers = std::thread::available_parallelism().map_or(1, usize::from).clamp(2, 16);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(makers)
        .enable_all()
        .build()
        .context("cannot start")?;
    let found = runtime
        .block_on(Preflight::ask(&http, &setup, form(args)))
        .context("cannot replay against this endpoint")
        .hint("check --url, --model, --api and the key; nothing was measured")?;
    let say = |note: &str| {
        if !globals.quiet {
            print_to_stderr(&format!("note: {note}\n"));
        }
    };
    found.missing(setup.exact && setup.endpoint.forces_lengths()).into_iter().for_each(say);
    let always_stream = args.traffic.stream == StreamWord::Always;
    let setup = Setup { always_stream, exact: setup.exact && !found.refuses_fields, ..setup };
    let calibration = if args.tokenizer.is_none() {
        let fitted = runtime.block_on(calibrate(&http, &setup, form(args))).context("lengths cannot be fitted");
        Some(fitted.hint("give the endpoint's tokenizer with --tokenizer; nothing was measured")?)
    } else {
        None
    };
    if let Some(Calibration { samples, error_p50, error_p95, error_max, .. }) = calibration {
        say(&format!(
            "no --tokenizer: lengths are fitted to {samples} prompts that the endpoint counted; errors of {error_p50} tokens (median), \
             {error_p95} (p95), {error_max} (most)"
        ));
    }
    let making = Making { calibration, salt: random()?, sample: Some(SAMPLE) };
    let (manifest, sessions, planner) = read(args, Some(making))?;
    let planner = planner.context("no prompts")?;
    let gates = Gates {
        passed: true,
        tolerance_permille: if calibration.is_some() { TOLERANCE } else { 0 },
        rendered: planner.verified().map(verify::rendered),
        calibrated: calibration.map(|fit| Calibrated {
            prompts: u64::try_from(fit.samples).unwrap_or(u64::MAX),
            error_p50: fit.error_p50,
            error_p95: fit.error_p95,
            error_max: fit.error_max,
        }),
    };
    if gates.rendered.is_some_and(|sample| sample.off > 0) {
        say(
            "prompts of the sample are not what the trace says: see --verify-prompts; the run goes on and its gate has failed",
        );
    }
    let wants = Wants { slos: args.slo.clone(), price: prices, gates };
    if forecast.unknown_outputs > 0 {
        say(&format!(
            "{} requests have no recorded length of the answer: one token is asked for",
            forecast.unknown_outputs
        ));
    }
    let source = Arc::new(planner.finish());
    let places = places(args, &http, &setup, client)?;
    let run = run::Run { args, manifest: &manifest, found, wants, forecast, output };
    runtime.block_on(run.go(http, places, setup, source, sessions, globals))
}

/// Where the server's counters are. Its own headers go to nobody else.
fn places(
    args: &ReplayArgs,
    http: &Http,
    setup: &Setup,
    client: impl Fn(&str) -> anyhow::Result<Http>,
) -> anyhow::Result<Vec<Place<Http>>> {
    if args.traffic.metrics.is_empty() {
        let (path, headers) = ("/metrics".to_owned(), setup.headers.clone());
        return Ok(vec![Place { transport: http.clone(), path, headers }]);
    }
    let place = |url: &String| Ok(Place { transport: client(url)?, path: String::new(), headers: HeaderMap::new() });
    args.traffic.metrics.iter().map(place).collect()
}

/// How prompts are made.
#[derive(Clone, Copy)]
struct Making {
    /// Lengths, where no tokenizer is given.
    calibration: Option<Calibration>,
    /// Of this run.
    salt: u64,
    /// About how many are verified; none for all.
    sample: Option<u64>,
}

/// Reads the trace: its manifest, the sessions that are replayed, and the plan of their prompts, if they are to be made.
#[expect(clippy::type_complexity, reason = "said once")]
fn read(
    args: &ReplayArgs,
    making: Option<Making>,
) -> anyhow::Result<(Manifest, Arc<[(u32, Session)]>, Option<Planner>)> {
    let trace = format::open(&args.trace)
        .with_context(|| format!("cannot open {}", args.trace.display()))
        .hint("a trace is a folder that `tracecloak convert` made")?;
    let manifest = trace.manifest().clone();
    let mut planner = making.map(|making| planner(args, &manifest, making)).transpose()?;
    let (mut sessions, mut others) = (Vec::new(), Vec::new());
    let wants_all = planner.as_ref().is_some_and(Planner::wants_all);
    for (number, session) in (0_u32..).zip(trace) {
        let mut session = session.context("the trace is broken")?;
        // Not needed here, and there are many.
        session.tools = Vec::new();
        let replayed = args.pace.takes(number);
        if let Some(planner) = &mut planner {
            let sent = replayed.then(|| args.pace.pacing().sends(&session));
            planner.add(&session, sent.as_deref()).context("the prompts cannot be planned")?;
        }
        if replayed {
            sessions.push((number, session));
        } else if wants_all {
            others.push((number, session));
        }
    }
    if sessions.is_empty() {
        return Err(anyhow!("no session is left to replay")).hint("see --range and --shard");
    }
    if let Some(planner) = planner.as_mut().filter(|planner| planner.wants_all()) {
        let mut all: Vec<_> = sessions.iter().chain(&others).collect();
        all.sort_by_key(|(number, _)| *number);
        planner.all(all.iter().map(|(_, session)| session)).context("the prompts cannot be planned")?;
    }
    Ok((manifest, sessions.into(), planner))
}

fn planner(args: &ReplayArgs, manifest: &Manifest, making: Making) -> anyhow::Result<Planner> {
    let generated = args.traffic.history == HistoryWord::Generated;
    let setup = prompt::Setup {
        seed: if args.traffic.cache_bust { making.salt } else { args.pace.seed },
        form: form(args),
        history: if generated { History::Generated } else { History::Synthetic },
        cache_dir: cache_dir(),
        ..prompt::Setup::new(manifest.block_size)
    };
    let made = match (&args.tokenizer, making.calibration) {
        (None, Some(calibration)) => PromptSynthesizer::calibrated(&calibration, setup),
        (source, _) => {
            let source = source.as_ref().unwrap_or(&TokenizerSource::Builtin);
            let (tokenizer, layout, _) =
                tokenize::load(&super::convert::spec(source)).context("cannot use the tokenizer")?;
            PromptSynthesizer::new(&tokenizer, layout, setup)
        }
    };
    let synthesizer = made
        .context("prompts cannot be made")
        .hint("completions as token ids (--api completions --token-ids) work with any tokenizer")?;
    let every = making.sample.map_or(1, |sample| (manifest.totals.requests / sample).max(1));
    Ok(Planner::new(synthesizer, manifest.scope, generated, every))
}

fn forecast(args: &ReplayArgs, sessions: &Arc<[(u32, Session)]>) -> anyhow::Result<Forecast> {
    let forecast = Forecast::new(sessions, args.pace.pacing(), args.pace.duration);
    forecast.map_err(|error| {
        let hint = match error {
            ScheduleError::NoArrival(_) => "convert with --keep arrivals, or use --arrival immediate or poisson:R",
            ScheduleError::NoStart(_) => "use --pacing closed, which needs delays only, without --start-at",
            ScheduleError::Delays => "use --time-scale, or --pacing closed",
            _ => "see `tracecloak replay --help`",
        };
        match Err::<(), _>(error).context("this pacing is not possible").hint(hint) {
            Err(error) => error,
            Ok(()) => anyhow!("no error"),
        }
    })
}

fn form(args: &ReplayArgs) -> Form {
    match args.api.as_str() {
        "completions" if args.token_ids => Form::Tokens,
        "completions" => Form::Text,
        _ => Form::Chat,
    }
}
