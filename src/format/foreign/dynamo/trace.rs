//! Reading request traces, version 1: events of requests and tools as Dynamo's frontend saw them.
//!
//! Invariant: hashes are compared and dropped; session ids only group requests; times count from the first request of all.

use std::collections::HashMap;

use super::REQUEST_TRACE;
use crate::format::foreign::graph;
use crate::format::foreign::json::{Object, ids, object, scaled, string, whole};
use crate::format::foreign::session::{Groups, Models, ended, request, sequence, sort_edges};
use crate::format::foreign::{
    ForeignError, Frame, Ids, ImportOptions, ImportReport, RowError, RowFault, Source, Take, TreeFromIds,
};
use crate::trace::vocab::{
    Anomaly, DelayKind, Evidence, Harness, Inferred, Loss, Relation, Scope, Stop, ToolClass, Trigger, Vocabulary,
};
use crate::trace::{Edge, Request, Session, ToolCall};

/// A request that ended.
struct End {
    /// Times are those of the clock until the session is made.
    start: u64,
    request: Request,
    model: String,
    ids: Ids,
    /// Whether tools came before it, as far as its context tells.
    trigger: DelayKind,
}

/// A tool call that ended.
struct Tool {
    start: u64,
    end: u64,
    class: ToolClass,
    is_error: bool,
    output_tokens: Option<u32>,
    child: Option<String>,
}

/// What one session of the source holds.
#[derive(Default)]
struct Context {
    parent: Option<String>,
    ends: Vec<End>,
    tools: Vec<Tool>,
}

#[derive(Default)]
struct Reader {
    block_size: Option<u32>,
    contexts: HashMap<String, Context>,
    /// In order of appearance.
    names: Vec<String>,
}

pub(super) fn import(sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
    let mut report = ImportReport::default();
    let mut reader = Reader { block_size: options.block_size, ..Reader::default() };
    for source in sources {
        source.each(&mut report, |row, _, report| Ok(reader.row(row, report)?))?;
    }
    reader.sessions(&mut report, take)?;
    Ok(report)
}

/// A time in milliseconds, rounded.
fn millis(bytes: &[u8]) -> Result<u64, RowFault> {
    u64::try_from(scaled(bytes, 0)?.0).map_err(|_| RowFault::Domain)
}

impl Reader {
    fn row(&mut self, row: &Object<'_>, report: &mut ImportReport) -> Result<(), RowError> {
        // Some sinks wrap the event.
        let wrapped = row.maybe("event", object)?;
        let row = wrapped.as_ref().unwrap_or(row);
        row.get("schema", |bytes| if string(bytes)? == REQUEST_TRACE { Ok(()) } else { Err(RowFault::Word) })?;
        let kind = row.get("event_type", string)?;
        let error = kind == "tool_error";
        match &*kind {
            "request_end" => self.end(row, report),
            "tool_end" | "tool_error" => self.tool(row, error),
            "request_payload" | "tool_start" => Ok(()),
            _ => Err(RowError::new("event_type", RowFault::Word)),
        }
    }

    /// The context of an event; a request without one is a session of its own.
    fn context(&mut self, row: &Object<'_>, own: impl FnOnce() -> String) -> Result<&mut Context, RowError> {
        let stated = row.maybe("agent_context", object)?;
        let name = match &stated {
            Some(context) => context.get("session_id", string)?.into_owned(),
            None => own(),
        };
        let parent = match &stated {
            Some(context) => context.maybe("parent_session_id", string)?,
            None => None,
        };
        let context = self.contexts.entry(name.clone()).or_insert_with(|| {
            self.names.push(name);
            Context::default()
        });
        if let Some(parent) = parent {
            context.parent.get_or_insert(parent.into_owned());
        }
        Ok(context)
    }

    fn end(&mut self, row: &Object<'_>, report: &mut ImportReport) -> Result<(), RowError> {
        let stated = row.get("request", object)?;
        let replay = stated.get("replay", object)?;
        let block_size = replay.get("trace_block_size", whole::<u32>)?;
        if block_size == 0 || self.block_size.is_some_and(|size| size != block_size) {
            return Err(RowError::new("trace_block_size", RowFault::Disagrees));
        }
        self.block_size = Some(block_size);
        let input = replay.get("input_length", whole::<u32>)?;
        let ids = replay.get("input_sequence_hashes", ids)?;
        if ids.len() != input.div_ceil(block_size) {
            return Err(RowError::new("input_sequence_hashes", RowFault::Disagrees));
        }
        let start = stated.get("request_received_ms", millis)?;
        let spent = stated.maybe("total_time_ms", millis)?;
        let spent = match spent {
            Some(spent) => spent,
            None => row.get("event_time_unix_ms", millis)?.saturating_sub(start),
        };
        let narrow = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
        let mut request = request(input, stated.maybe("output_tokens", whole)?);
        request.duration_ms = Some(narrow(spent));
        request.ttft_ms = stated.maybe("ttft_ms", millis)?.map(|ttft| narrow(ttft.min(spent)));
        request.usage.cache_read = stated.maybe("cached_tokens", whole)?;
        let calls = stated.maybe("finish_reason_metadata", object)?;
        let calls = calls.map(|calls| calls.list("tool_calls", |_, _| Ok(()))).transpose()?.flatten();
        request.stop = calls.filter(|calls| !calls.is_empty()).map(|_| Stop::ToolUse);
        let model = stated.maybe("model", string)?.unwrap_or_default().into_owned();
        let trigger = match row.maybe("agent_context", object)? {
            Some(context) => match context.maybe("input_trigger", string)?.as_deref() {
                Some("tool_result") => DelayKind::Tool,
                Some(trigger) if trigger.starts_with("user") => DelayKind::User,
                _ => DelayKind::None,
            },
            None => DelayKind::None,
        };
        let id = stated.get("request_id", string)?.into_owned();
        report.anomalies.note(Anomaly::EmptyOutput, request.output_tokens == Some(0));
        self.context(row, || format!("request {id}"))?.ends.push(End { start, request, model, ids, trigger });
        Ok(())
    }

    fn tool(&mut self, row: &Object<'_>, error: bool) -> Result<(), RowError> {
        let stated = row.get("tool", object)?;
        let end = match stated.maybe("ended_at_unix_ms", millis)? {
            Some(end) => end,
            None => row.get("event_time_unix_ms", millis)?,
        };
        let start = match stated.maybe("started_at_unix_ms", millis)? {
            Some(start) => start,
            None => end.saturating_sub(stated.maybe("duration_ms", millis)?.unwrap_or(0)),
        };
        let class = stated.maybe("tool_class", string)?.and_then(|class| ToolClass::parse(&class));
        let claude = stated.maybe("claude", object)?;
        let child = match &claude {
            Some(claude) => claude.maybe("child_session_id", string)?.map(std::borrow::Cow::into_owned),
            None => None,
        };
        let tool = Tool {
            start,
            end,
            class: class.unwrap_or(if child.is_some() { ToolClass::Agent } else { ToolClass::Other }),
            is_error: error,
            output_tokens: stated.maybe("output_tokens", whole)?,
            child,
        };
        if row.raw("agent_context").is_some() {
            self.context(row, String::new)?.tools.push(tool);
        }
        Ok(())
    }

    /// The topmost session above one.
    fn root<'a>(&'a self, name: &'a str) -> &'a str {
        let mut root = name;
        for _ in 0..self.names.len() {
            match self.contexts.get(root).and_then(|context| context.parent.as_deref()) {
                Some(parent) if self.contexts.contains_key(parent) && parent != name => root = parent,
                _ => break,
            }
        }
        root
    }

    fn sessions(mut self, report: &mut ImportReport, take: Take<'_>) -> Result<(), ForeignError> {
        let mut groups: Groups<String, Vec<(String, Context)>> = Groups::default();
        let roots: Vec<(String, String)> =
            self.names.iter().map(|name| (name.clone(), self.root(name).to_owned())).collect();
        for (name, root) in roots {
            if let Some(context) = self.contexts.remove(&name) {
                groups.of(root).push((name, context));
            }
        }
        let mut members: Vec<_> = groups.into_groups().collect();
        members.retain(|members| members.iter().any(|(_, context)| !context.ends.is_empty()));
        let begin = |members: &Vec<(String, Context)>| {
            members.iter().flat_map(|(_, context)| &context.ends).map(|end| end.start).min().unwrap_or(u64::MAX)
        };
        members.sort_by_key(begin);
        let first = members.first().map_or(0, begin);
        let frame = Frame { block_size: self.block_size.unwrap_or(1), scope: Scope::Dataset };
        let mut tree = TreeFromIds::new();
        for members in members {
            let origin = begin(&members);
            let mut session = session(members, origin, frame.block_size, &mut tree, report);
            session.start_ms = Some(origin - first);
            take(frame, session)?;
        }
        Ok(())
    }
}

fn session(
    members: Vec<(String, Context)>,
    origin: u64,
    block_size: u32,
    tree: &mut TreeFromIds,
    report: &mut ImportReport,
) -> Session {
    let names: HashMap<String, u32> =
        (0_u32..).zip(&members).map(|(number, (name, _))| (name.clone(), number)).collect();
    let parents: Vec<Option<u32>> = members
        .iter()
        .map(|(_, context)| context.parent.as_ref().and_then(|parent| names.get(parent).copied()))
        .collect();
    let (mut ends, mut tools) = (Vec::new(), Vec::new());
    for (number, (_, context)) in (0_u32..).zip(members) {
        ends.extend(
            context.ends.into_iter().map(|end| End { request: Request { agent: number, ..end.request }, ..end }),
        );
        tools.extend(context.tools.into_iter().map(|tool| (number, tool)));
    }
    ends.sort_by_key(|end| (end.start, end.request.duration_ms));
    let (mut models, mut lists, mut triggers) = (Models::default(), Vec::new(), Vec::new());
    let mut requests = Vec::with_capacity(ends.len());
    for end in ends {
        let (model, renamed) = models.number(&end.model);
        report.lost.note(Loss::Models, renamed && !end.model.is_empty());
        requests.push(Request { model, start_ms: Some(end.start - origin), ..end.request });
        lists.push(end.ids);
        triggers.push(end.trigger);
    }
    report.inferred.add(Inferred::Tails, tree.fill(&mut requests, lists, block_size));
    let mut edges = edges(&requests, &parents, &triggers, report);
    sort_edges(&mut edges);
    graph::carry(&requests, &mut edges);
    // Sessions of the source, by number, are agents by their first request.
    let numbers: Vec<u32> = requests.iter().map(|request| request.agent).collect();
    let agents = graph::agents(&mut requests, &edges);
    let mut agent_of = HashMap::new();
    for (number, request) in numbers.iter().zip(&requests) {
        agent_of.insert(*number, request.agent);
    }
    let child = |tool: &Tool| tool.child.as_ref().and_then(|child| agent_of.get(names.get(child)?)).copied();
    let tools = calls(&tools, &requests, &numbers, origin, child);
    Session { start_ms: None, harness: Harness::Other, source_number: None, agents, requests, edges, tools }
}

/// Next turns, and by time, what started a child and what waited for it.
fn edges(
    requests: &[Request],
    parents: &[Option<u32>],
    triggers: &[DelayKind],
    report: &mut ImportReport,
) -> Vec<Edge> {
    let mut edges = Vec::new();
    let rows = |agent: u32| (0_u32..).zip(requests).filter(move |(_, request)| request.agent == agent);
    let after = |from: &Request, to: &Request| ended(from) <= to.start_ms;
    for (agent, parent) in (0_u32..).zip(parents) {
        for ((from, before), (to, request)) in rows(agent).zip(rows(agent).skip(1)) {
            let kind = usize::try_from(to).ok().and_then(|to| triggers.get(to)).copied().unwrap_or(DelayKind::None);
            let mut edge = sequence(from, to, 0, kind, Evidence::Header);
            if !after(before, request) {
                edge.trigger = Trigger::Dispatch;
                report.anomalies.note(Anomaly::Overlap, true);
            }
            edges.push(edge);
        }
        let (Some(parent), Some((first, child)), Some((last, end))) = (*parent, rows(agent).next(), rows(agent).last())
        else {
            continue;
        };
        let edge = |from, to, relation, trigger| Edge {
            to,
            from,
            relation,
            trigger,
            delay_ms: 0,
            delay_kind: DelayKind::Agent,
            evidence: Evidence::Time,
        };
        if let Some((from, above)) = rows(parent).take_while(|(row, _)| *row < first).last() {
            let trigger = if after(above, child) { Trigger::Completion } else { Trigger::Dispatch };
            edges.push(edge(from, first, Relation::Spawn, trigger));
            report.inferred.note(Inferred::Spawn, true);
        } else {
            report.anomalies.note(Anomaly::DanglingLinks, true);
        }
        if let Some((to, _)) = rows(parent).find(|(row, request)| *row > last && after(end, request)) {
            edges.push(edge(last, to, Relation::Join, Trigger::Completion));
            report.inferred.note(Inferred::Join, true);
        }
    }
    edges
}

/// Tool calls, each with the latest request of its session that had begun.
fn calls(
    tools: &[(u32, Tool)],
    requests: &[Request],
    numbers: &[u32],
    origin: u64,
    child: impl Fn(&Tool) -> Option<u32>,
) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for (number, tool) in tools {
        let since = |time: u64| time.saturating_sub(origin);
        let own = || (0_u32..).zip(requests.iter().zip(numbers)).filter(|(_, (_, agent))| *agent == number);
        let begun = |request: &Request, time: u64| request.start_ms.is_some_and(|start| start <= since(time));
        let Some((row, _)) = own().take_while(|(_, (request, _))| begun(request, tool.start)).last() else { continue };
        let consumer = own().find(|(later, (request, _))| *later > row && request.start_ms >= Some(since(tool.end)));
        calls.push(ToolCall {
            request: row,
            index: 0,
            class: tool.class,
            is_error: Some(tool.is_error),
            consumer_request: consumer.map(|(row, _)| row),
            child_agent: child(tool),
            start_ms: Some(since(tool.start)),
            duration_ms: u32::try_from(tool.end.saturating_sub(tool.start)).ok(),
            input_tokens: None,
            output_tokens: tool.output_tokens,
        });
    }
    calls.sort_by_key(|call| (call.request, call.start_ms));
    for calls in calls.chunk_by_mut(|one, next| one.request == next.request) {
        for (index, call) in (0..).zip(calls) {
            call.index = index;
        }
    }
    calls
}
