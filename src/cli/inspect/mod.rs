//! `tracecloak inspect`: what a trace holds.
//!
//! Invariant: the trace is read and checked session by session; memory is bounded by the largest session.

mod graph;
mod text;

use std::io::Write;

use anyhow::{Context, anyhow};

use super::args::{Globals, InspectArgs};
use super::exit::{Exit, Hint};
use super::output::Stdout;
use crate::analyze::Overview;
use crate::format;

pub(super) fn run(args: &InspectArgs, globals: Globals) -> anyhow::Result<Exit> {
    let source = format::open(&args.trace)
        .with_context(|| format!("cannot open {}", args.trace.display()))
        .hint("a trace is a folder that `tracecloak convert` made")?;
    let manifest = source.manifest().clone();
    let mut stdout = Stdout::new();
    let mut overview = Overview::new(manifest.block_size);
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
        overview.add(&session);
    }
    if let (Some(session), 0) = (args.session, shown) {
        return Err(anyhow!("there is no session {session}"))
            .hint(format!("the trace has sessions 0 to {}", manifest.totals.sessions.saturating_sub(1)));
    }
    if globals.json {
        writeln!(stdout, "],\"overview\":{}}}", graph::overview(&overview))?;
    } else if args.session.is_none() {
        stdout.write_all(text::overview(&manifest, &overview).as_bytes())?;
    }
    stdout.flush()?;
    Ok(Exit::Fine)
}
