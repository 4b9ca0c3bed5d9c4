//! `shared_prefix`: sessions in line, whose first turns share blocks across sessions.
//!
//! Invariant: ids count for the first turn of a session only, as Veeksha takes them; every later turn goes on from the one before.

use std::io::Write;
use std::path::Path;

use super::read::sessions;
use super::{SHARED_PREFIX_LOSS, answer, new_tokens};
use crate::format::foreign::json_out::Json;
use crate::format::foreign::losses::count_held;
use crate::format::foreign::outgoing::Renumber;
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::session::{conversation, request, sequence};
use crate::format::foreign::{
    ExportOptions, ExportReport, ForeignError, Frame, ImportOptions, ImportReport, RowError, RowFault, Source, Take,
    TreeFromIds,
};
use crate::format::tokens::{Fresh, Planter, Prompt, Speller};
use crate::format::{TraceSource, count};
use crate::trace::Session;
use crate::trace::vocab::{Anomaly, DelayKind, Evidence, Inferred, Loss, Relation, Scope, Trigger};

/// Veeksha's own default.
const BLOCK: u32 = 512;

pub(super) fn import(sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
    let mut report = ImportReport::default();
    let frame = Frame { block_size: options.block_size.unwrap_or(BLOCK), scope: Scope::Dataset };
    let (mut planter, mut tree) = (Planter::new(frame.block_size, true), TreeFromIds::new());
    let (mut firsts, mut fresh): (Vec<Prompt>, _) = (Vec::new(), Fresh::default());
    for rows in sessions(sources, &mut report)? {
        let (mut requests, mut prompts, mut edges) = (Vec::new(), Vec::<Prompt>::new(), Vec::new());
        let mut answer = Prompt::default();
        for (turn, row) in (0_u32..).zip(&rows) {
            let fault = |field, fault| RowError::new(field, fault).at(row.place.0, row.place.1);
            let (prompt, sent) = match prompts.last() {
                None => {
                    let ids = row.ids.clone().ok_or_else(|| fault("hash_ids", RowFault::Missing))?;
                    let sent =
                        ids.len().checked_mul(frame.block_size).ok_or_else(|| fault("hash_ids", RowFault::TooMany))?;
                    let input = row.input.unwrap_or(sent);
                    let prefix = tree.insert(ids, sent / frame.block_size);
                    let earlier = prefix.request.and_then(|earlier| firsts.get(usize::try_from(earlier).ok()?));
                    let shared = prefix.shared_blocks.saturating_mul(frame.block_size).min(input);
                    let head = earlier.map_or_else(Prompt::default, |earlier| earlier.head(shared));
                    let new = sent.max(input) - head.tokens();
                    let whole = head.with(&fresh.tokens(new));
                    firsts.push(whole.clone());
                    (whole.head(input), sent)
                }
                Some(before) => {
                    let history = before.clone().with(&answer);
                    let sent = history.tokens().saturating_add(row.new);
                    let input = row.input.filter(|input| *input >= before.tokens()).unwrap_or(sent);
                    let history = history.head(input);
                    (history.clone().with(&fresh.tokens(input - history.tokens())), sent)
                }
            };
            report.anomalies.note(Anomaly::Totals, row.input.is_some_and(|input| input != sent));
            report.inferred.note(Inferred::Lengths, row.input.is_none());
            answer = fresh.tokens(row.output);
            let mut request = request(prompt.tokens(), Some(row.output));
            request.turn = turn;
            requests.push(request);
            prompts.push(prompt);
            report.lost.note(Loss::Starts, turn == 0 && row.wait_ms > 0);
            if let Some(before) = turn.checked_sub(1) {
                edges.push(sequence(before, turn, row.wait_ms, DelayKind::None, Evidence::Stated));
            }
        }
        planter.fill(&mut requests, &prompts);
        take(frame, conversation(None, requests, edges))?;
    }
    Ok(report)
}

pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    let block_size = options.block_size.unwrap_or(manifest.block_size);
    if block_size == 0 {
        return Err(ForeignError::Unfit("a block has at least one token"));
    }
    let output = Output::file(target, options.replace)?;
    let mut file = output.create("")?;
    let mut report = ExportReport::default();
    let (mut speller, mut planter) = (Speller::default(), Planter::new(block_size, true));
    let mut ids = Renumber::from(1);
    for session in &mut *trace {
        let session = session?;
        if manifest.scope == Scope::Session {
            speller.begin_session();
            planter.begin_session();
        }
        let mut json = Json::default();
        let mut before: Option<Prompt> = None;
        for (row, request) in session.requests.iter().enumerate() {
            let prompt = speller.spell(request, manifest.block_size);
            planter.plant(&prompt);
            let this = report.requests + count(row);
            let mut list = if row == 0 { ids.list(&planter.block_runs(this)) } else { Vec::new() };
            if row == 0 && list.is_empty() {
                list.push((ids.fresh(), 1));
            }
            let (new, exact) = new_tokens(&session, row, row.checked_sub(1));
            let goes_on = before
                .as_ref()
                .is_none_or(|before| before.shared(&prompt) >= before.tokens() - before.tokens() % manifest.block_size);
            report.lost.note(Loss::Lengths, !exact);
            report.lost.note(Loss::Blocks, !goes_on);
            json.open(b'{');
            json.number_member("session_id", report.sessions);
            json.number_member("input_length", u64::from(request.input_tokens));
            json.number_member("new_input_length", u64::from(new));
            json.number_member("output_length", u64::from(answer(request.output_tokens)));
            json.key("hash_ids");
            json.runs(list);
            json.seconds_member("wait_after_previous_response_s", wait(&session, row));
            json.close(b'}');
            json.line();
            before = Some(prompt);
        }
        let in_line = |edge: &&crate::trace::Edge| {
            edge.from + 1 == edge.to && edge.relation == Relation::Sequence && edge.trigger == Trigger::Completion
        };
        report.lost.add(Loss::Edges, count(session.edges.len() - session.edges.iter().filter(in_line).count()));
        file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
        count_held(&session, SHARED_PREFIX_LOSS, &mut report.lost);
        report.sessions += 1;
        report.requests += count(session.requests.len());
    }
    finish(file)?;
    output.publish()?;
    Ok(report)
}

/// The longest pause before a request.
fn wait(session: &Session, row: usize) -> u64 {
    let edges = session.waits_of(u32::try_from(row).unwrap_or(u32::MAX));
    edges.iter().map(|edge| edge.delay_ms).max().unwrap_or(0)
}
