//! Writing `timed_synthetic_session`: JSON lines, or a table where the target ends in `.csv`.
//!
//! Invariant: every row has its `session_context`; a history parent is a parent whose prompt leads this one.

use std::io::Write;
use std::path::Path;

use super::{LOSS, answer, new_tokens};
use crate::format::foreign::json_out::Json;
use crate::format::foreign::losses::count_held;
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::{ExportOptions, ExportReport, ForeignError};
use crate::format::tokens::{Prompt, Speller};
use crate::format::{TraceSource, count};
use crate::trace::vocab::{Loss, Scope, Trigger};
use crate::trace::{Edge, Session};

pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    let output = Output::file(target, options.replace)?;
    let mut file = output.create("")?;
    let table = target.extension().is_some_and(|extension| extension == "csv");
    if table {
        file.write_all(b"session_id,input_length,new_input_length,output_length,session_context\n")
            .map_err(|error| refused(&error))?;
    }
    let mut report = ExportReport::default();
    let mut speller = Speller::default();
    for session in &mut *trace {
        let session = session?;
        if manifest.scope == Scope::Session {
            speller.begin_session();
        }
        let spell = |request| speller.spell(request, manifest.block_size);
        let prompts: Vec<Prompt> = session.requests.iter().map(spell).collect();
        for row in 0..session.requests.len() {
            let line = line(&session, row, &prompts, manifest.block_size, table, &mut report);
            file.write_all(&line).map_err(|error| refused(&error))?;
        }
        count_held(&session, LOSS, &mut report.lost);
        report.lost.note(Loss::Sharing, manifest.scope != Scope::Session);
        report.sessions += 1;
        report.requests += count(session.requests.len());
    }
    finish(file)?;
    output.publish()?;
    Ok(report)
}

fn line(
    session: &Session,
    row: usize,
    prompts: &[Prompt],
    block_size: u32,
    table: bool,
    report: &mut ExportReport,
) -> Vec<u8> {
    let edges = session.waits_of(u32::try_from(row).unwrap_or(u32::MAX));
    let mut parents: Vec<usize> = edges.iter().filter_map(|edge| usize::try_from(edge.from).ok()).collect();
    parents.dedup();
    let history = history(row, &parents, prompts, block_size);
    let (new, exact) = new_tokens(session, row, history);
    let wait = edges.iter().map(|edge| edge.delay_ms).max().unwrap_or(0);
    let shares = session.requests.get(row).is_some_and(|request| request.prefix.shared_blocks > 0);
    report.lost.note(Loss::Blocks, history.is_none() && shares);
    report.lost.note(Loss::Lengths, !exact);
    let bends = |edge: &&Edge| edge.trigger == Trigger::Dispatch || edge.delay_ms != wait;
    report.lost.add(Loss::Edges, count(edges.iter().filter(bends).count()));
    let number = |row: usize| Some(count(row));
    let mut context = Json::default();
    context.open(b'{');
    context.number_member("node_id", number(row));
    context.key("parent_nodes");
    context.open(b'[');
    for &parent in &parents {
        context.number(number(parent));
    }
    context.close(b']');
    context.number_member("history_parent", history.and_then(number));
    context.seconds_member("wait_after_ready", wait);
    context.close(b'}');
    let request = session.requests.get(row);
    let input = request.map_or(0, |request| u64::from(request.input_tokens));
    let output = u64::from(answer(request.and_then(|request| request.output_tokens)));
    if table {
        let context = String::from_utf8_lossy(context.as_bytes()).replace('"', "\"\"");
        return format!("{},{input},{new},{output},\"{context}\"\n", report.sessions).into_bytes();
    }
    let mut json = Json::default();
    json.open(b'{');
    json.number_member("session_id", report.sessions);
    json.number_member("input_length", input);
    json.number_member("new_input_length", u64::from(new));
    json.number_member("output_length", output);
    json.key("session_context");
    json.raw(context.as_bytes());
    json.close(b'}');
    json.line();
    json.as_bytes().to_vec()
}

/// The parent with the longest prompt that leads this one as far as its full blocks go.
fn history(row: usize, parents: &[usize], prompts: &[Prompt], block_size: u32) -> Option<usize> {
    let own = prompts.get(row)?;
    let leads = |parent: &&usize| {
        prompts.get(**parent).is_some_and(|prompt| {
            let (length, shared) = (prompt.tokens(), prompt.shared(own));
            length <= own.tokens() && shared > 0 && shared >= length - length.checked_rem(block_size).unwrap_or(0)
        })
    };
    parents.iter().filter(leads).max_by_key(|parent| prompts.get(**parent).map(Prompt::tokens)).copied()
}
