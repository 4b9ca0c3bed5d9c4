//! TraceLab, inwards: one row a round with what the provider counted, as JSON lines or as the table for replays.
//!
//! Invariant: there are no blocks in it. A round shares with the one before as much as the provider says it read from its cache,
//! at most that prompt and its answer; the manifest and the report say that this is inferred.

use super::json::{Object, scaled, string, whole};
use super::session::{Groups, Models, conversation, ended, request, sequence};
use super::{ForeignError, Frame, Head, ImportOptions, ImportReport, Importer, RowError, RowFault, Source, Take};
use crate::format::tokens::{Fresh, Planter, Prompt};
use crate::trace::vocab::{
    Anomaly, DelayKind, Evidence, Harness, Inferred, Loss, Scope, SourceFormat, ToolClass, Trigger,
};
use crate::trace::{Request, Session, ToolCall};

/// Tokens per block, which the format does not have.
const BLOCK: u32 = 64;

/// The format.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceLab;

/// A round as it is stated.
struct Round {
    index: i64,
    /// Milliseconds since 1970, or since the first arrival.
    start: Option<i64>,
    /// Read from the cache.
    prefix: u32,
    request: Request,
    model: String,
    /// Until the next round, where the table says so.
    wait_ms: Option<u64>,
    tools: Vec<Tool>,
    harness: Harness,
}

struct Tool {
    start: Option<i64>,
    duration_ms: Option<u32>,
    is_error: Option<bool>,
}

impl Importer for TraceLab {
    fn format(&self) -> SourceFormat {
        SourceFormat::TraceLab
    }

    fn sniff(&self, head: &Head<'_>) -> bool {
        let table = b"id,input_len,output_len,arrival_time,round_idx,tool_wait_after_ms,prefix_len";
        head.has(&["session_id", "round_index", "prefix_tokens"]) || head.first_line() == table
    }

    fn loss(&self) -> &'static [Loss] {
        &[
            Loss::Blocks,
            Loss::Sharing,
            Loss::Agents,
            Loss::Edges,
            Loss::PartialBlocks,
            Loss::Parts,
            Loss::Stops,
            Loss::Identifiers,
        ]
    }

    fn import(&self, sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
        let mut report = ImportReport::default();
        let mut groups: Groups<String, Vec<Round>> = Groups::default();
        for source in sources {
            groups.begin_file();
            let json = source.head()?.trim_ascii_start().starts_with(b"{");
            source.each_or_line(&mut report, |row, _, report| {
                let (session, round) = if json { Round::read(row, report) } else { Round::cells(row, report) }?;
                report.anomalies.note(Anomaly::EmptyOutput, round.request.output_tokens == Some(0));
                groups.of(session).push(round);
                Ok(())
            })?;
        }
        let frame = Frame { block_size: options.block_size.unwrap_or(BLOCK), scope: Scope::Session };
        let begin = |rounds: &Vec<Round>| rounds.iter().filter_map(|round| round.start).min();
        let mut sessions: Vec<Vec<Round>> = groups.into_groups().collect();
        for rounds in &mut sessions {
            rounds.sort_by_key(|round| (round.index, round.start));
        }
        sessions.sort_by_key(begin);
        let first = sessions.iter().filter_map(begin).min();
        let mut planter = Planter::new(frame.block_size, true);
        for rounds in sessions {
            planter.begin_session();
            let start_ms = begin(&rounds).zip(first).and_then(|(start, first)| u64::try_from(start - first).ok());
            let mut session = session(rounds, &mut planter, &mut report);
            session.start_ms = start_ms;
            take(frame, session)?;
        }
        Ok(report)
    }
}

/// A time as ISO 8601, in milliseconds since 1970.
fn instant(bytes: &[u8]) -> Result<i64, RowFault> {
    let text = string(bytes)?;
    let utc = || format!("{text}Z").parse::<jiff::Timestamp>();
    let time = text.parse::<jiff::Timestamp>().or_else(|_| utc()).map_err(|_| RowFault::Type)?;
    Ok(time.as_millisecond())
}

/// A span in milliseconds, rounded; below 0 is 0.
fn span(bytes: &[u8]) -> Result<u64, RowFault> {
    Ok(u64::try_from(scaled(bytes, 0)?.0).unwrap_or(0))
}

impl Round {
    /// A round of the JSON lines.
    fn read(row: &Object<'_>, _: &mut ImportReport) -> Result<(String, Self), RowError> {
        let session = row.get("session_id", string)?.into_owned();
        let prefix = row.maybe("prefix_tokens", whole::<u32>)?.unwrap_or(0);
        let input = match row.maybe("input_tokens_total", whole::<u32>)? {
            Some(input) => input,
            None => prefix.saturating_add(row.get("newly_append_tokens", whole::<u32>)?),
        };
        let mut events: (Option<i64>, Option<i64>, Option<i64>) = (None, None, None);
        row.list("timing_events", |_, event| {
            let kind = event.maybe("event_type", string)?.unwrap_or_default();
            let time = event.maybe("timestamp", instant)?;
            match &*kind {
                "user_message" | "tool_result" => events.0 = events.0.max(time),
                "text" | "reasoning" | "tool_call" => {
                    events.1 = events.1.max(time);
                    events.2 = [events.2, time].into_iter().flatten().min();
                }
                _ => (),
            }
            Ok(())
        })?;
        let since = |time: Option<i64>| u32::try_from(time?.checked_sub(events.0?)?.max(0)).ok();
        let tools = row.list("tools", |_, tool| {
            let latency = tool.maybe("tool_wall_latency_ms", span)?;
            Ok(Tool {
                start: tool.maybe("emitted_at", instant)?,
                duration_ms: latency.and_then(|latency| u32::try_from(latency).ok()),
                is_error: tool.maybe("is_error", super::json::truth)?,
            })
        })?;
        let mut request = request(input, row.maybe("output_tokens", whole)?);
        request.duration_ms = since(events.1);
        request.ttft_ms = since(events.2);
        request.usage.cache_read = Some(prefix);
        request.usage.reasoning = row.maybe("reasoning_output_tokens", whole)?;
        let harness = match row.maybe("provider", string)?.as_deref() {
            Some("claude") => Harness::ClaudeCode,
            Some("codex") => Harness::Codex,
            _ => Harness::Other,
        };
        let round = Self {
            index: row.get("round_index", whole)?,
            start: events.0,
            prefix,
            request,
            model: row.maybe("model", string)?.unwrap_or_default().into_owned(),
            wait_ms: None,
            tools: tools.unwrap_or_default(),
            harness,
        };
        Ok((session, round))
    }

    /// A round of the table.
    fn cells(row: &Object<'_>, report: &mut ImportReport) -> Result<(String, Self), RowError> {
        let prefix = row.get("prefix_len", whole::<u32>)?;
        let input = row.get("input_len", whole::<u32>)?;
        let input = prefix.checked_add(input).ok_or(RowError::new("input_len", RowFault::Domain))?;
        let (arrival, exact) = row.get("arrival_time", |bytes| scaled(bytes, 0))?;
        report.lost.note(Loss::Precision, !exact);
        let index = row.get("round_idx", whole::<i64>)?;
        let round = Self {
            index,
            start: Some(arrival).filter(|_| index == 0),
            prefix,
            request: request(input, Some(row.get("output_len", whole)?)),
            model: String::new(),
            wait_ms: Some(row.get("tool_wait_after_ms", span)?),
            tools: Vec::new(),
            harness: Harness::Other,
        };
        Ok((row.get("id", whole::<i64>)?.to_string(), round))
    }
}

fn session(rounds: Vec<Round>, planter: &mut Planter, report: &mut ImportReport) -> Session {
    // Rounds out of their order of time can have no times, nor can the rounds of a table.
    let starts: Option<Vec<i64>> = rounds.iter().map(|round| round.start).collect();
    let starts = starts.filter(|starts| starts.is_sorted());
    report.anomalies.note(Anomaly::Unordered, starts.is_none() && rounds.iter().all(|round| round.start.is_some()));
    let origin = starts.as_ref().and_then(|starts| starts.first()).copied();
    let since = |time: Option<i64>| u64::try_from(time?.checked_sub(origin?)?).ok();
    let mut fresh = Fresh::default();
    let (mut prompts, mut requests, mut edges, mut tools): (Vec<Prompt>, Vec<Request>, Vec<_>, Vec<_>) =
        Default::default();
    let (mut models, mut answer, mut wait) = (Models::default(), Prompt::default(), None);
    let rows = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
    let harness = rounds.first().map_or(Harness::Other, |round| round.harness);
    for (turn, round) in (0_u32..).zip(rounds) {
        let history = prompts.last().cloned().unwrap_or_default().with(&answer);
        let input = round.request.input_tokens;
        let shared = history.head(round.prefix.min(input));
        report.inferred.note(Inferred::Sharing, shared.tokens() > 0);
        report.lost.note(Loss::Sharing, shared.tokens() < round.prefix.min(input));
        prompts.push(shared.clone().with(&fresh.tokens(input - shared.tokens())));
        answer = fresh.tokens(round.request.output_tokens.unwrap_or(0));
        let (model, renamed) = models.number(&round.model);
        report.lost.note(Loss::Models, renamed && !round.model.is_empty());
        let request = Request { turn, model, start_ms: since(round.start), ..round.request };
        if let (Some(before), Some(from)) = (requests.last(), turn.checked_sub(1)) {
            let pause = request.start_ms.zip(ended(before)).map(|(start, end)| start.saturating_sub(end));
            let kind = if wait.is_some_and(|wait| wait > 0)
                || tools.last().is_some_and(|tool: &ToolCall| tool.request == from)
            {
                DelayKind::Tool
            } else {
                DelayKind::None
            };
            let mut edge = sequence(from, turn, pause.or(wait).unwrap_or(0), kind, Evidence::Stated);
            if request.start_ms.is_some() && request.start_ms < ended(before) {
                report.anomalies.note(Anomaly::Overlap, true);
                edge.trigger = Trigger::Dispatch;
                edge.delay_ms = request.start_ms.unwrap_or(0) - before.start_ms.unwrap_or(0);
            }
            edges.push(edge);
        }
        for (index, tool) in (0..).zip(round.tools) {
            tools.push(ToolCall {
                request: turn,
                index,
                // Their names are not kept.
                class: ToolClass::Other,
                is_error: tool.is_error,
                consumer_request: Some(turn + 1).filter(|next| *next < rows),
                child_agent: None,
                start_ms: since(tool.start),
                duration_ms: tool.duration_ms,
                input_tokens: None,
                output_tokens: None,
            });
        }
        wait = round.wait_ms;
        requests.push(request);
    }
    planter.fill(&mut requests, &prompts);
    Session { harness, tools, ..conversation(None, requests, edges) }
}
