//! Writing WEKA objects.
//!
//! Invariant: what its readers insist on holds: no key of our own, ids unique and below 2^63, a request before any subagent,
//! every prompt at least one token long.

use std::io::Write;
use std::path::Path;

use super::card;
use super::read::PARTS;
use super::select::{Chosen, choose};
use crate::format::foreign::json_out::{Json, length};
use crate::format::foreign::outgoing::{Blocks, Renumber, starts};
use crate::format::foreign::output::{Output, finish, refused};
use crate::format::foreign::session::ended;
use crate::format::foreign::{Dialect, ExportOptions, ExportReport, ForeignError};
use crate::format::{TraceSource, count};
use crate::trace::vocab::{
    AgentKind, AgentStatus, Evidence, Loss, Relation, RequestKind, Scope, SourceFormat, Trigger, Vocabulary,
};
use crate::trace::{Agent, Model, Parts, Request, Session, Usage};

/// Writes the trace.
pub(super) fn export(
    trace: &mut dyn TraceSource,
    target: &Path,
    options: &ExportOptions,
) -> Result<ExportReport, ForeignError> {
    let manifest = trace.manifest().clone();
    if options.block_size.is_some_and(|size| size != manifest.block_size) {
        return Err(ForeignError::Unfit("WEKA keeps the block size of the trace"));
    }
    let extension = target.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let lines = matches!(extension, "json" | "jsonl");
    let output = if lines {
        Output::file(target, options.replace)?
    } else {
        Output::folder(target, options.replace, |name| {
            name == card::NAME
                || (name.starts_with("trace_") && Path::new(name).extension().is_some_and(|end| end == "json"))
        })?
    };
    let mut file = if lines { Some(output.create("")?) } else { None };
    // A trace that came from kv-cache-tester goes back as it was; any other one lists every model, as Dynamo wants it.
    let main_models = options.dialect == Dialect::Tester && manifest.source_formats == [SourceFormat::Weka];
    let tails = !manifest.loss.contains(&Loss::PartialBlocks);
    let mut report = ExportReport::default();
    let mut blocks = Blocks::new(manifest.scope, manifest.block_size);
    let mut numbers = std::collections::BTreeSet::new();
    let mut json = Json::default();
    let mut row = 0;
    for session in &mut *trace {
        let session = session?;
        row += 1;
        let lists = blocks.session(&session)?;
        let Some(chosen) = choose(&session, options.select_agentx, &mut report) else { continue };
        let mut number = session.source_number.unwrap_or(row);
        while !numbers.insert(number) {
            number = number.saturating_add(1);
        }
        json.clear();
        let mut writer = Writer {
            dialect: options.dialect,
            main_models,
            tails,
            session: &session,
            chosen: &chosen,
            lists: &lists,
            starts: Vec::new(),
            ids: Renumber::from(u64::from(options.dialect == Dialect::Tester)),
            numbered: Vec::new(),
            json: &mut json,
        };
        writer.trace(number, manifest.block_size, &mut report);
        report.lost.note(Loss::Sharing, manifest.scope != Scope::Session);
        report.sessions += 1;
        if extension == "json" && report.sessions > 1 {
            return Err(ForeignError::Unfit(
                "several sessions don't fit in one .json file; name a folder or a .jsonl file",
            ));
        }
        if let Some(file) = &mut file {
            file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
        } else {
            let mut file = output.create(&format!("trace_{number:04}.json"))?;
            file.write_all(json.as_bytes()).map_err(|error| refused(&error))?;
            finish(file)?;
        }
    }
    if report.sessions == 0 {
        return Err(ForeignError::Unfit("no session is left to export"));
    }
    match file {
        Some(file) => finish(file)?,
        None if options.dialect == Dialect::AgentX => {
            let mut file = output.create(card::NAME)?;
            file.write_all(card::render(&manifest, &report, options).as_bytes()).map_err(|error| refused(&error))?;
            finish(file)?;
        }
        None => {}
    }
    output.publish()?;
    Ok(report)
}

/// One session being written.
struct Writer<'a> {
    dialect: Dialect,
    /// Only the main agent's models are listed: kv-cache-tester does so, though some readers refuse it.
    main_models: bool,
    /// Shared tails are what the trace says, not what its import inferred.
    tails: bool,
    session: &'a Session,
    chosen: &'a Chosen,
    lists: &'a [Vec<(u64, u32)>],
    starts: Vec<u64>,
    ids: Renumber,
    /// New ids by row.
    numbered: Vec<Vec<(u64, u32)>>,
    json: &'a mut Json,
}

/// A subagent with its marker.
struct Marker {
    agent: usize,
    start: u64,
    duration_ms: Option<u64>,
    /// Where it stands among the requests of the main agent, by time.
    t: u64,
    status: AgentStatus,
}

impl<'a> Writer<'a> {
    fn trace(&mut self, number: u32, block_size: u32, report: &mut ExportReport) {
        let worked_out;
        (self.starts, worked_out) = starts(self.session);
        self.number();
        let mut markers = self.markers();
        markers.sort_by_key(|marker| marker.t);
        let main = self.rows(0);
        self.losses(worked_out, &markers, report);
        self.json.open(b'{');
        self.json.word_member("id", &format!("trace_{number:04}"));
        let mut models: Vec<Model> =
            main.iter().filter_map(|row| self.request(*row)).map(|request| request.model).collect();
        if !self.main_models {
            models.extend(self.chosen.rows().filter_map(|row| self.request(row)).map(|request| request.model));
        }
        self.models(&models);
        self.json.number_member("block_size", u64::from(block_size));
        self.json.word_member("hash_id_scope", "local");
        self.part_tokens(main);
        self.json.key("requests");
        self.json.open(b'[');
        let mut pending = markers.iter().peekable();
        for (at, row) in main.iter().enumerate() {
            let t = self.starts.get(*row).copied().unwrap_or(0);
            while let Some(marker) = pending.next_if(|marker| at > 0 && marker.t < t) {
                self.subagent(marker);
            }
            self.entry(*row, 0);
        }
        for marker in pending {
            self.subagent(marker);
        }
        self.json.close(b']');
        self.totals(main, markers.len());
        self.json.close(b'}');
        self.json.line();
        report.requests += count(self.chosen.rows().count());
    }

    fn request(&self, row: usize) -> Option<&Request> {
        self.session.requests.get(row)
    }

    /// The chosen requests of an agent, in order.
    fn rows(&self, agent: usize) -> &'a [usize] {
        self.chosen.of(agent)
    }

    /// Numbers blocks by first appearance: kv-cache-tester goes through the main agent first, AgentX by time.
    fn number(&mut self) {
        self.numbered = vec![Vec::new(); self.lists.len()];
        let order: Vec<usize> = match self.dialect {
            Dialect::Tester => (0..self.session.agents.len()).flat_map(|agent| self.rows(agent)).copied().collect(),
            Dialect::AgentX => self.chosen.rows().collect(),
        };
        for row in order {
            if let (Some(list), Some(slot)) = (self.lists.get(row), self.numbered.get_mut(row)) {
                *slot = self.ids.list(list);
            }
        }
    }

    fn markers(&self) -> Vec<Marker> {
        (1..self.session.agents.len()).filter_map(|agent| self.marker(agent)).collect()
    }

    fn marker(&self, number: usize) -> Option<Marker> {
        let agent = self.session.agents.get(number)?;
        let rows = self.rows(number);
        let tool = self
            .session
            .tools
            .iter()
            .find(|tool| tool.child_agent.is_some_and(|child| usize::try_from(child) == Ok(number)));
        let first = self.starts.get(*rows.first()?).copied()?;
        // A call that began after its agent's first request can't be what nested times count from, and one so early that these
        // times look like ones of the session would be misread.
        let tester = self.dialect == Dialect::Tester;
        let called = tool.and_then(|tool| tool.start_ms).filter(|start| *start <= first);
        let start = called.filter(|start| !tester || first - start < *start).unwrap_or(first);
        let background = agent.kind == AgentKind::Background;
        let lasts = tool.is_some_and(|tool| tool.duration_ms.is_some());
        // Readers know two words. An agent that was stopped handed over no result: it counts as one that nobody waited for.
        let status = match agent.status {
            Some(status @ (AgentStatus::Completed | AgentStatus::AsyncLaunched)) => status,
            Some(_) if !lasts => AgentStatus::AsyncLaunched,
            None if background => AgentStatus::AsyncLaunched,
            _ => AgentStatus::Completed,
        };
        let end = |row: &usize| {
            let duration = self.request(*row)?.duration_ms.unwrap_or(0);
            Some(self.starts.get(*row)?.saturating_add(duration.into()))
        };
        let ends = rows.iter().filter_map(end);
        let lasted = ends.max().map(|end| end.saturating_sub(start));
        let duration_ms = match (tool.and_then(|tool| tool.duration_ms), status) {
            (Some(duration), _) => Some(duration.into()),
            (None, AgentStatus::Completed) if !background && agent.join_request.is_some() => lasted,
            _ => None,
        };
        let ends = tester && status == AgentStatus::Completed;
        let t = start.saturating_add(if ends { duration_ms.unwrap_or(0) } else { 0 });
        Some(Marker { agent: number, start, duration_ms, t, status })
    }

    fn subagent(&mut self, marker: &Marker) {
        let Some(agent) = self.session.agents.get(marker.agent).copied() else { return };
        let rows = self.rows(marker.agent);
        self.json.open(b'{');
        self.json.seconds_member("t", marker.t);
        self.json.word_member("type", "subagent");
        self.json.word_member("agent_id", &format!("agent_{:03}", marker.agent));
        self.json.word_member("subagent_type", agent.agent_type.word());
        self.json.number_member("duration_ms", marker.duration_ms);
        self.json.number_member("total_tokens", agent.total_tokens.map(u64::from));
        self.json.number_member("tool_use_count", agent.tool_calls.map(u64::from));
        self.json.word_member("status", marker.status.word());
        self.json.key("requests");
        self.json.open(b'[');
        for row in rows {
            self.entry(*row, if self.dialect == Dialect::Tester { marker.start } else { 0 });
        }
        self.json.close(b']');
        let models: Vec<Model> =
            rows.iter().filter_map(|row| self.request(*row)).map(|request| request.model).collect();
        self.models(&models);
        self.part_tokens(rows);
        self.json.close(b'}');
    }

    fn entry(&mut self, row: usize, since: u64) {
        let Some(request) = self.request(row).copied() else { return };
        let tester = self.dialect == Dialect::Tester;
        let start = self.starts.get(row).copied().unwrap_or(0);
        self.json.open(b'{');
        self.json.seconds_member("t", start.saturating_sub(since));
        let streaming = request.streaming.unwrap_or(true);
        self.json.word_member("type", if streaming { "s" } else { "n" });
        self.json.word_member("model", &request.model.to_string());
        self.json.number_member("in", u64::from(request.input_tokens.max(1)));
        self.json.number_member("out", u64::from(request.output_tokens.unwrap_or(0)));
        self.json.key("hash_ids");
        self.json.runs(self.numbered.get(row).into_iter().flatten().copied());
        if tester {
            self.parts("input_types", request.input_parts);
            self.parts("output_types", request.output_parts);
            self.json.word_member("stop", request.stop.map_or("", Vocabulary::word));
        }
        if let Some(duration) = request.duration_ms {
            self.json.seconds_member("api_time", duration.into());
        }
        if let Some(ttft) = request.ttft_ms.filter(|_| streaming) {
            self.json.seconds_member("ttft", ttft.into());
        }
        if let Some(think) = self.think(row, request.agent) {
            self.json.seconds_member("think_time", think);
        }
        self.json.close(b'}');
    }

    /// The pause between the turn before and this one, as far as it is more than the difference of their times.
    fn think(&self, row: usize, agent: u32) -> Option<u64> {
        let to = u32::try_from(row).ok()?;
        let edges = self.session.waits_of(to);
        let Some(turn) = edges.iter().find(|edge| edge.relation == Relation::Sequence) else {
            return (self.rows(usize::try_from(agent).ok()?).first() == Some(&row)).then_some(0);
        };
        if turn.evidence == Evidence::Time {
            return None;
        }
        let time = |from: u32, trigger| {
            let from = usize::try_from(from).ok()?;
            let request = Request { start_ms: self.starts.get(from).copied(), ..*self.request(from)? };
            if trigger == Trigger::Completion { ended(&request) } else { request.start_ms }
        };
        let joins = edges.iter().any(|edge| edge.relation == Relation::Join);
        if turn.delay_ms > 0 || !joins {
            return Some(turn.delay_ms);
        }
        let ready =
            edges.iter().filter_map(|edge| Some(time(edge.from, edge.trigger)?.saturating_add(edge.delay_ms))).max()?;
        Some(ready.saturating_sub(time(turn.from, Trigger::Completion)?))
    }

    fn models(&mut self, models: &[Model]) {
        let names: std::collections::BTreeSet<String> = models.iter().map(ToString::to_string).collect();
        self.json.key("models");
        self.json.open(b'[');
        for name in &names {
            self.json.word(name);
        }
        self.json.close(b']');
    }

    fn part_tokens(&mut self, rows: &[usize]) {
        let first = |tokens: fn(&Request) -> Option<u32>| rows.iter().find_map(|row| tokens(self.request(*row)?));
        let (tools, system) = (first(|request| request.tools_tokens), first(|request| request.system_tokens));
        if self.dialect == Dialect::Tester {
            self.json.number_member("tool_tokens", u64::from(tools.unwrap_or(0)));
        }
        self.json.number_member("system_tokens", u64::from(system.unwrap_or(0)));
    }

    fn parts(&mut self, name: &str, parts: Parts) {
        self.json.key(name);
        self.json.open(b'[');
        PARTS.iter().filter(|(_, part)| parts.contains(*part)).for_each(|(name, _)| self.json.word(name));
        self.json.close(b']');
    }

    fn totals(&mut self, main: &[usize], agents: usize) {
        let sum = |rows: &[usize]| {
            let requests = || rows.iter().filter_map(|row| self.request(*row));
            let input: u64 = requests().map(|request| u64::from(request.input_tokens.max(1))).sum();
            (input, requests().map(|request| u64::from(request.output_tokens.unwrap_or(0))).sum::<u64>())
        };
        let all: Vec<usize> = self.chosen.rows().collect();
        let (parent, combined) = (sum(main), sum(&all));
        let nested = (combined.0.saturating_sub(parent.0), combined.1.saturating_sub(parent.1));
        self.json.key("totals");
        self.json.open(b'{');
        for (name, (input, output)) in
            [("parent_tokens", parent), ("subagent_tokens", nested), ("combined_tokens", combined)]
        {
            self.json.key(name);
            self.json.open(b'{');
            self.json.number_member("input", input);
            self.json.number_member("output", output);
            self.json.close(b'}');
        }
        self.json.number_member("subagent_count", length(agents));
        self.json.close(b'}');
    }

    /// Counts what the trace holds and a WEKA object does not.
    fn losses(&self, worked_out: bool, markers: &[Marker], report: &mut ExportReport) {
        let lost = &mut report.lost;
        let agents = |which: fn(&Agent) -> bool| {
            count(markers.iter().filter(|marker| self.session.agents.get(marker.agent).is_some_and(which)).count())
        };
        lost.add(Loss::Depth, agents(|agent| agent.depth > 1));
        let stopped = |agent: &Agent| matches!(agent.status, Some(AgentStatus::Interrupted | AgentStatus::Failed));
        lost.add(Loss::AgentTypes, agents(stopped));
        let inferred = |relation| relation != Relation::Sequence;
        let edges = self.session.edges.iter().filter(|edge| inferred(edge.relation) && edge.evidence != Evidence::Time);
        lost.add(Loss::Edges, count(edges.count()));
        lost.add(Loss::Tools, count(self.session.tools.iter().filter(|tool| tool.child_agent.is_none()).count()));
        lost.note(Loss::Arrivals, self.session.start_ms.is_some());
        for request in self.chosen.rows().filter_map(|row| self.request(row)) {
            lost.note(Loss::PartialBlocks, self.tails && request.prefix.extends);
            lost.note(Loss::Usage, request.usage != Usage::default());
            lost.note(Loss::Outputs, request.output_tokens.is_none());
            lost.note(
                Loss::Settings,
                request.max_tokens.is_some() || request.messages.is_some() || request.streaming.is_none(),
            );
            lost.note(Loss::Kinds, request.kind != RequestKind::Turn || request.attempt > 0);
            lost.note(Loss::Starts, worked_out && request.start_ms.is_none());
            if self.dialect == Dialect::AgentX {
                lost.note(Loss::Parts, (request.input_parts, request.output_parts) != Default::default());
                lost.note(Loss::Stops, request.stop.is_some());
                lost.note(Loss::PartTokens, request.tools_tokens.is_some());
            }
        }
    }
}
