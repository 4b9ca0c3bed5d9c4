//! `tracecloak replay`: a trace drives an endpoint.
//!
//! Invariant: what was measured is written, however the run ends; a key is read here, sent to the endpoint, and goes nowhere else.

pub mod args;
mod live;
mod plan;
mod run;

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use super::args::Globals;
use super::exit::{Exit, Hint, print_to_stderr};
use super::output::Stdout;
use crate::analyze::{Accesses, CacheCurve};
use crate::format;
use crate::metrics::{Price, Wants};
use crate::replay::call::Setup;
use crate::replay::endpoint::endpoint;
use crate::replay::forecast::Forecast;
use crate::replay::http::Http;
use crate::replay::identity::Identity;
use crate::replay::preflight::Preflight;
use crate::replay::prompt::{self, Form, History, PromptSynthesizer};
use crate::replay::schedule::ScheduleError;
use crate::replay::source::Planner;
use crate::tokenize;
use crate::trace::{Manifest, Session};
use args::{HistoryWord, ReplayArgs};

pub(super) fn run(args: &ReplayArgs, globals: Globals) -> anyhow::Result<Exit> {
    if args.dry_run {
        let (_, sessions, _) = read(args, None)?;
        let forecast = forecast(args, &sessions)?;
        let curve = curve(args, sessions.len())?;
        let mut stdout = Stdout::new();
        if globals.json {
            writeln!(stdout, "{}", plan::json(&forecast, curve.as_ref()))?;
        } else {
            stdout.write_all(plan::text(&forecast, curve.as_ref()).as_bytes())?;
        }
        stdout.flush()?;
        return Ok(Exit::Fine);
    }
    let output = args.output.as_deref().context("no folder for the run")?;
    let wants = Wants { slos: args.slo.clone(), price: price(args)? };
    if output.exists() && !args.force {
        return Err(anyhow!("{} exists", output.display())).hint("choose another folder with -o, or --force");
    }
    let setup = setup(args)?;
    let url = args.url.as_deref().unwrap_or_default();
    let http = Http::new(url, args.traffic.connect_timeout, args.traffic.idle_timeout)
        .context("cannot use the URL")
        .hint("such as http://127.0.0.1:8000")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
    let found = runtime
        .block_on(Preflight::ask(&http, &setup, form(args)))
        .context("cannot replay against this endpoint")
        .hint("check --url, --model, --api and the key; nothing was measured")?;
    if !globals.quiet {
        for missing in found.missing(setup.exact && setup.endpoint.forces_lengths()) {
            print_to_stderr(&format!("note: {missing}\n"));
        }
    }
    let setup = Setup { always_stream: true, exact: setup.exact && !found.refuses_fields, ..setup };
    let (manifest, sessions, planner) = read(args, Some(random()?))?;
    let forecast = forecast(args, &sessions)?;
    let source = Arc::new(planner.context("no prompts")?.finish());
    let run = run::Run { args, manifest: &manifest, found, wants, forecast, output };
    runtime.block_on(run.go(http, setup, source, sessions, globals))
}

/// Reads the trace: its manifest, the sessions that are replayed, and (with a salt) the plan of their prompts.
#[expect(clippy::type_complexity, reason = "said once")]
fn read(args: &ReplayArgs, salt: Option<u64>) -> anyhow::Result<(Manifest, Arc<[(u32, Session)]>, Option<Planner>)> {
    let trace = format::open(&args.trace)
        .with_context(|| format!("cannot open {}", args.trace.display()))
        .hint("a trace is a folder that `tracecloak convert` made")?;
    let manifest = trace.manifest().clone();
    let mut planner = salt.map(|salt| planner(args, &manifest, salt)).transpose()?;
    let (mut sessions, mut others) = (Vec::new(), Vec::new());
    let wants_all = planner.as_ref().is_some_and(Planner::wants_all);
    for (number, session) in (0_u32..).zip(trace) {
        let mut session = session.context("the trace is broken")?;
        // Not needed here, and there are many.
        session.tools = Vec::new();
        let replayed = args.pace.takes(number);
        if let Some(planner) = &mut planner {
            planner.add(&session, replayed).context("the prompts cannot be planned")?;
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
        planner.all(all.into_iter().map(|(_, session)| session)).context("the prompts cannot be planned")?;
    }
    Ok((manifest, sessions.into(), planner))
}

/// Which part of the prompts a cache of which size finds; only if the whole trace is replayed.
fn curve(args: &ReplayArgs, replayed: usize) -> anyhow::Result<Option<CacheCurve>> {
    let trace = format::open(&args.trace)?;
    let lanes = args.pace.pacing().concurrency.unwrap_or(1);
    let (scope, block_size) = (trace.manifest().scope, trace.manifest().block_size);
    let (mut accesses, mut sessions) = (Accesses::new(scope, block_size, lanes), 0);
    for session in trace {
        accesses.add(&session?);
        sessions += 1;
    }
    Ok((sessions == replayed).then(|| accesses.finish()))
}

fn planner(args: &ReplayArgs, manifest: &Manifest, salt: u64) -> anyhow::Result<Planner> {
    let (tokenizer, layout, _) =
        tokenize::load(&super::convert::spec(&args.tokenizer)).context("cannot use the tokenizer")?;
    let generated = args.traffic.history == HistoryWord::Generated;
    let setup = prompt::Setup {
        seed: if args.traffic.cache_bust { salt } else { args.pace.seed },
        form: form(args),
        history: if generated { History::Generated } else { History::Synthetic },
        ..prompt::Setup::new(manifest.block_size)
    };
    let synthesizer = PromptSynthesizer::new(&tokenizer, layout, setup)
        .context("prompts cannot be made")
        .hint("completions as token ids (--api completions --token-ids) work with any tokenizer")?;
    Ok(Planner::new(synthesizer, manifest.scope, generated))
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

fn setup(args: &ReplayArgs) -> anyhow::Result<Setup> {
    let mut headers = HeaderMap::new();
    for header in &args.traffic.header {
        let (name, value) = header.split_once(':').context("a header is NAME:VALUE")?;
        let name: HeaderName = name.trim().parse().context("a header has a name that cannot be sent")?;
        headers.insert(name, secret(value.trim())?);
    }
    if let Some(key) = key(args)? {
        headers.insert(AUTHORIZATION, secret(&Zeroizing::new(format!("Bearer {}", &*key)))?);
        if args.api == "messages" {
            headers.insert("x-api-key", secret(&key)?);
        }
    }
    let affinity = args.traffic.affinity_header.as_ref().map(|name| name.parse::<HeaderName>());
    let affinity = affinity.transpose().context("--affinity-header cannot be sent")?;
    let mut run = [0; 32];
    getrandom::fill(&mut run).context("the system gives no randomness")?;
    Ok(Setup {
        endpoint: endpoint(&args.api).context("no such API")?,
        model: args.model.clone().unwrap_or_default(),
        always_stream: true,
        exact: true,
        headers,
        identity: Identity::new(run, affinity),
        retries: args.traffic.retries,
    })
}

/// A header value that is never shown.
fn secret(value: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value).map_err(|_| anyhow!("a header's value cannot be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[expect(clippy::disallowed_methods, reason = "the key may be in the environment, whose variable the user names")]
fn key(args: &ReplayArgs) -> anyhow::Result<Option<Zeroizing<String>>> {
    let key = match (&args.traffic.api_key_env, &args.traffic.api_key_file) {
        (Some(name), _) => std::env::var(name).map_err(|_| anyhow!("the variable {name} is not set"))?,
        (None, Some(path)) => {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Zeroizing::new(Zeroizing::new(key).trim().to_owned())))
}

fn price(args: &ReplayArgs) -> anyhow::Result<Option<Price>> {
    let items = args.price.iter().map(String::as_str);
    if args.price.is_empty() { Ok(None) } else { Ok(Some(Price::parse(items).context("--price")?)) }
}

fn random() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).context("the system gives no randomness")?;
    Ok(u64::from_le_bytes(bytes))
}
