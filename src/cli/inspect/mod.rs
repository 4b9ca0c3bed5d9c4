//! `tracecloak inspect`: what a trace holds.
//!
//! Invariant: the trace is read and checked session by session; memory is bounded by the largest session, and by the runs of block ids
//! where sessions run side by side.

mod cache;
mod graph;
mod text;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, anyhow};

use super::args::{Globals, InspectArgs};
use super::exit::{Exit, Hint};
use super::output::Stdout;
use crate::analyze::{Accesses, CacheCurve, Distributions, InFlight, Overview};
use crate::format;
use crate::report::trace_html::{self, TracePage};
use crate::trace::{Manifest, Session};

pub(super) fn run(args: &InspectArgs, globals: Globals) -> anyhow::Result<Exit> {
    if let Some(other) = &args.compare {
        return super::compare::run(&args.trace, other, globals.json);
    }
    let source = format::open(&args.trace)
        .with_context(|| format!("cannot open {}", args.trace.display()))
        .hint("a trace is a folder that `tracecloak convert` made")?;
    if let Some(page) = args.html.as_deref().filter(|page| !args.force && page.exists()) {
        return Err(anyhow!("{} exists", page.display())).hint("--force replaces it");
    }
    let manifest = source.manifest().clone();
    let mut stdout = Stdout::new();
    let mut found = Found::new(&manifest, args);
    if globals.json {
        write!(stdout, "{{\"manifest\":{},\"sessions\":[", serde_json::to_string(&manifest)?)?;
    }
    let mut shown = 0;
    let mut first_request = 0;
    for (number, session) in (0_u32..).zip(source) {
        let session = session.context("the trace is broken")?;
        let wanted = args.session.is_none_or(|wanted| wanted == number);
        if wanted && globals.json {
            let comma = if shown > 0 { "," } else { "" };
            write!(stdout, "{comma}{}", graph::session(number, &session, first_request, manifest.block_size))?;
        } else if wanted {
            let whole = args.session.is_some() || manifest.totals.sessions <= text::SHOWN_WHOLE;
            stdout.write_all(text::session(number, &session, manifest.block_size, whole).as_bytes())?;
        }
        shown += u64::from(wanted);
        first_request += u64::try_from(session.requests.len()).unwrap_or(u64::MAX);
        found.add(number, session, args);
    }
    if let (Some(session), 0) = (args.session, shown) {
        return Err(anyhow!("there is no session {session}"))
            .hint(format!("the trace has sessions 0 to {}", manifest.totals.sessions.saturating_sub(1)));
    }
    let curve = std::mem::replace(&mut found.accesses, Accesses::new(manifest.scope, manifest.block_size, 1)).finish();
    if globals.json {
        let (overview, cache) = (graph::overview(&found.overview), cache::as_json(&curve, &found.in_flight, args));
        writeln!(stdout, "],\"overview\":{overview},\"cache\":{cache}}}")?;
    } else if args.session.is_none() {
        stdout.write_all(text::overview(&manifest, &found.overview).as_bytes())?;
        stdout.write_all(cache::as_text(&curve, &found.in_flight, args).as_bytes())?;
    }
    stdout.flush()?;
    if let Some(page) = &args.html {
        found.write_page(page, &manifest, &curve, args)?;
    }
    Ok(Exit::Fine)
}

/// What is found out about a trace while it is read.
struct Found {
    overview: Overview,
    distributions: Distributions,
    in_flight: InFlight,
    accesses: Accesses,
    block_size: u32,
    /// The session for the timeline.
    shown: Option<(u32, Session)>,
}

impl Found {
    fn new(manifest: &Manifest, args: &InspectArgs) -> Self {
        Self {
            overview: Overview::new(manifest.block_size),
            distributions: Distributions::default(),
            in_flight: InFlight::default(),
            accesses: Accesses::new(manifest.scope, manifest.block_size, usize::from(args.concurrency)),
            block_size: manifest.block_size,
            shown: None,
        }
    }

    fn add(&mut self, number: u32, session: Session, args: &InspectArgs) {
        self.overview.add(&session);
        self.distributions.add(&session, self.block_size);
        self.in_flight.add(&session);
        self.accesses.add(&session);
        let size = |session: &Session| (session.agents.len(), session.requests.len());
        let wanted = match args.session {
            Some(wanted) => wanted == number,
            None => self.shown.as_ref().is_none_or(|(_, shown)| size(&session) > size(shown)),
        };
        if args.html.is_some() && wanted {
            self.shown = Some((number, session));
        }
    }

    fn write_page(
        &self,
        page: &Path,
        manifest: &Manifest,
        curve: &CacheCurve,
        args: &InspectArgs,
    ) -> anyhow::Result<()> {
        let html = trace_html::render(&TracePage {
            manifest,
            overview: &self.overview,
            distributions: &self.distributions,
            curve,
            lanes: usize::from(args.concurrency),
            in_flight: &self.in_flight,
            session: self.shown.as_ref().map(|(row, session)| (*row, session)),
        });
        std::fs::write(page, html).with_context(|| format!("cannot write {}", page.display()))
    }
}
