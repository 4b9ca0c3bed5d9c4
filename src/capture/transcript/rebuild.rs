//! From the rows of a transcript to its requests and answers.
//!
//! Invariant: a request holds what led to its answer: the rows above it, the other rows of the answers above it, and the results of
//! their calls; never a branch that was left.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Facts;
use super::exact::{self, message};
use super::rows::{Answer, Kept, Row, Said, Transcript};
use crate::capture::exchange::{
    Body, Cut, Exchange, Headers, LogError, Piece, Position, Provenance, ResponseBody, SkipReason, Trust,
};
use crate::capture::json::{self, Fields};
use crate::capture::reader::{Limits, Records};
use crate::capture::text::Text;

/// The requests of a transcript, in the order of their rows, and its broken rows. Each is built when it is asked for: together they
/// are much larger than the transcript.
pub(super) fn records(own: Transcript, parent: Option<Transcript>, facts: Facts, limits: Limits) -> Records {
    let found = plan(&own, parent.as_ref());
    let builder = Builder { exact: exact::messages(&own), own, parent, facts, limits };
    Box::new(found.into_iter().filter_map(move |(_, record)| builder.build(record)))
}

/// What the records are made of, in the order of their rows.
fn plan(own: &Transcript, parent: Option<&Transcript>) -> Vec<(u64, Record)> {
    let mut found: Vec<(u64, Record)> = Vec::new();
    for (record, offset, reason) in &own.broken {
        let position = Position { input: own.input, record: *record, offset: *offset };
        found.push((*record, Record::Broken(LogError { position, reason: *reason })));
    }
    let theirs: HashSet<&str> =
        parent.iter().flat_map(|parent| &parent.answers).map(|answer| answer.id.as_str()).collect();
    let kept: HashMap<&str, usize> = own.kept.iter().zip(0..).map(|(kept, at)| (kept.id.as_str(), at)).collect();
    let mut answered = HashSet::new();
    for (at, answer) in own.answers.iter().enumerate().filter(|(_, answer)| !theirs.contains(answer.id.as_str())) {
        let request = answer.reference.as_deref().and_then(|id| kept.get(id)).copied();
        answered.extend(request);
        let first = own.rows.get(answer.first).map(|row| row.position.record);
        found.extend(first.map(|first| (first, Record::Answered(at, request))));
    }
    for (at, request) in own.kept.iter().enumerate().filter(|(at, _)| !answered.contains(at)) {
        found.push((request.position.record, Record::Unanswered(at)));
    }
    found.sort_by_key(|(record, _)| *record);
    found
}

/// What a record is made of: answers and kept requests by their number.
#[derive(Clone, Copy)]
enum Record {
    Broken(LogError),
    Answered(usize, Option<usize>),
    Unanswered(usize),
}

struct Builder {
    own: Transcript,
    parent: Option<Transcript>,
    facts: Facts,
    exact: HashMap<String, Vec<Arc<Text>>>,
    limits: Limits,
}

impl Builder {
    fn build(&self, record: Record) -> Option<Result<Exchange, LogError>> {
        match record {
            Record::Broken(error) => Some(Err(error)),
            Record::Answered(answer, kept) => {
                let kept = kept.and_then(|kept| self.own.kept.get(kept));
                self.answered(self.own.answers.get(answer)?, kept).map(Ok)
            }
            Record::Unanswered(kept) => {
                let next = self.own.kept.get(kept + 1);
                Some(self.unanswered(self.own.kept.get(kept)?, next))
            }
        }
    }

    fn answered(&self, answer: &Answer, kept: Option<&Kept>) -> Option<Exchange> {
        let (first, last) = (self.own.rows.get(answer.first)?, self.own.rows.get(answer.last)?);
        let rows = self.leading_to(first);
        let mut exchange = self.exchange(first.position, answer.agent.as_ref());
        let exact = kept.and_then(|kept| Some((kept, self.exact.get(&kept.id)?)));
        exchange.end = last.time;
        exchange.status = Some(200);
        if let Some((kept, messages)) = exact {
            exchange.start = kept.time;
            self.request(&mut exchange, kept, messages);
        } else {
            let asked = rows.iter().filter(|row| matches!(row.said, Said::Sent { .. }));
            exchange.start = kept.and_then(|kept| kept.time).or(asked.filter_map(|row| row.time).max()).or(first.time);
            self.rebuilt(&mut exchange, &rows, answer);
        }
        if let Some(id) = &answer.request_id {
            exchange.response_headers.0.push(("request-id".into(), id.clone()));
        }
        // An answer that was stopped has rows, but no reason.
        exchange.cut = answer.stop.is_none().then_some(Cut::Client);
        exchange.response = ResponseBody::Pieces(vec![Piece { at_us: None, text: self.response(answer) }]);
        Some(exchange)
    }

    /// A request without an answer: it failed as the client says; else it was given up, unless it was sent again.
    fn unanswered(&self, kept: &Kept, next: Option<&Kept>) -> Result<Exchange, LogError> {
        let lost = LogError { position: kept.position, reason: SkipReason::BodyLost };
        let messages = self.exact.get(&kept.id).ok_or(lost)?;
        let mut exchange = self.exchange(kept.position, kept.agent.as_ref());
        exchange.start = kept.time;
        self.request(&mut exchange, kept, messages);
        exchange.response = ResponseBody::Lost;
        match &kept.failed {
            Some((status, time, id)) => {
                exchange.status = *status;
                exchange.end = *time;
                exchange.cut = status.is_none().then_some(Cut::Upstream);
                exchange.response_headers.0.extend(id.clone().map(|id| ("request-id".into(), id)));
            }
            None => exchange.cut = Some(if next.is_some() { Cut::Upstream } else { Cut::Client }),
        }
        Ok(exchange)
    }

    fn exchange(&self, position: Position, agent: Option<&Text>) -> Exchange {
        let mut headers: Vec<(Text, Text)> = Vec::new();
        let version = self.own.version.as_ref().and_then(Text::as_str).unwrap_or_default();
        headers.push(("user-agent".into(), format!("claude-cli/{version}").into()));
        headers.extend(self.own.session.clone().map(|id| ("x-claude-code-session-id".into(), id)));
        if let Some(agent) = agent {
            headers.push(("x-claude-code-agent-id".into(), agent.clone()));
            headers.extend(self.facts.parent.clone().map(|id| ("x-claude-code-parent-agent-id".into(), id)));
        }
        Exchange {
            position,
            method: "POST".into(),
            path: "/v1/messages".into(),
            headers: Headers(headers),
            alike: None,
            provenance: Provenance {
                spawn_call: self.facts.call.clone(),
                trust: Trust::Client,
                in_workflow: self.facts.workflow,
                ..Provenance::default()
            },
            ..Exchange::default()
        }
    }

    /// The body of a kept request.
    fn request(&self, exchange: &mut Exchange, kept: &Kept, messages: &[Arc<Text>]) {
        let marked: Vec<Arc<Text>> = messages
            .iter()
            .enumerate()
            .map(|(at, message)| {
                let block = kept.marks.iter().find(|(message, _)| *message == at).map(|(_, block)| *block);
                block.and_then(|block| with_mark(message, block)).map_or_else(|| Arc::clone(message), Arc::new)
            })
            .collect();
        let shape = self.own.shapes.get(&kept.shape);
        if shape.is_none() {
            exchange.provenance.trust = Trust::Partial;
            (exchange.provenance.no_system, exchange.provenance.no_tools) = (true, true);
        }
        let (system, tools) = shape.map_or((None, None), |(system, tools)| (system.as_ref(), tools.as_ref()));
        exchange.body = body(kept.params.as_ref(), &marked, system, tools, self.limits);
    }

    /// The body of a request of which only rows are left. A fork has its parent's system and tools.
    fn rebuilt(&self, exchange: &mut Exchange, rows: &[&Row], answer: &Answer) {
        let mut messages: Vec<(&str, &str, Vec<Arc<Text>>)> = Vec::new();
        for row in rows {
            let (role, id, blocks) = match &row.said {
                Said::Sent { role, blocks } if !blocks.is_empty() => (*role, "", blocks),
                Said::Answered { id, blocks } => ("assistant", id.as_str(), blocks),
                _ => continue,
            };
            match messages.last_mut() {
                Some((before, of, list)) if *before == role && *of == id => list.extend(blocks.iter().cloned()),
                _ => messages.push((role, id, blocks.clone())),
            }
        }
        let messages: Vec<Arc<Text>> =
            messages.iter().map(|(role, _, blocks)| Arc::new(message(role, blocks))).collect();
        let of = self.parent.as_ref().unwrap_or(&self.own);
        let shape = of.last_shape.as_ref().and_then(|hash| of.shapes.get(hash));
        let (system, tools) = shape.map_or((None, None), |(system, tools)| (system.as_ref(), tools.as_ref()));
        let whole = shape.is_some();
        exchange.provenance.trust = if whole { Trust::Reworded } else { Trust::Partial };
        (exchange.provenance.no_system, exchange.provenance.no_tools) = (!whole, !whole);
        let model = answer.model.as_ref().and_then(|model| serde_json::to_string(model.as_str()?).ok());
        let params = model.map(|model| Text::from(format!("{{\"model\":{model}}}")));
        exchange.body = body(params.as_ref(), &messages, system, tools, self.limits);
    }

    /// The rows that an answer followed from, in their order; those of the parent first, for a fork.
    fn leading_to(&self, first: &Row) -> Vec<&Row> {
        let mut rows = Vec::new();
        if let (Some(parent), Some(last)) = (&self.parent, &self.own.fork_of)
            && let Some(last) = parent.by_uuid.get(last).and_then(|at| parent.rows.get(*at))
        {
            rows = above(parent, Some(&last.uuid));
        }
        rows.extend(above(&self.own, first.parent.as_ref()));
        rows
    }

    /// The answer as the API would have sent it whole.
    fn response(&self, answer: &Answer) -> Text {
        let rows = self.own.rows.get(answer.first..=answer.last).unwrap_or_default();
        let blocks: Vec<Arc<Text>> = rows
            .iter()
            .filter_map(|row| match &row.said {
                Said::Answered { id, blocks } if *id == answer.id => Some(blocks),
                _ => None,
            })
            .flatten()
            .cloned()
            .collect();
        let whole = message("assistant", &blocks);
        let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).ok();
        let content = Fields::of(raw(whole.as_str().unwrap_or_default()).as_deref())
            .and_then(|fields| fields.get("content").map(ToOwned::to_owned));
        let quoted = |text: Option<&str>| text.and_then(|text| serde_json::value::to_raw_value(text).ok());
        let (id, kind) = (quoted(Some(&answer.id)), quoted(Some("message")));
        let stop = quoted(answer.stop.as_ref().and_then(Text::as_str));
        let usage = answer.usage.as_ref().and_then(Text::as_str).and_then(raw);
        json::object(&[
            ("id", id.as_deref()),
            ("type", kind.as_deref()),
            ("content", content.as_deref()),
            ("stop_reason", stop.as_deref()),
            ("usage", usage.as_deref()),
        ])
    }
}

/// The rows above a row and that row itself, the other rows of the answers among them, and the results of their calls.
fn above<'a>(all: &'a Transcript, from: Option<&String>) -> Vec<&'a Row> {
    let mut line = HashSet::new();
    let mut next = from.and_then(|uuid| all.by_uuid.get(uuid)).copied();
    while let Some(at) = next.filter(|at| line.insert(*at)) {
        next = all.rows.get(at).and_then(|row| all.by_uuid.get(row.parent.as_ref()?)).copied();
    }
    let last = line.iter().max().copied().unwrap_or(0);
    let ids: HashSet<&str> = all
        .rows
        .iter()
        .enumerate()
        .filter(|(at, _)| line.contains(at))
        .filter_map(|(_, row)| match &row.said {
            Said::Answered { id, .. } => Some(id.as_str()),
            _ => None,
        })
        .collect();
    let answers: HashSet<&str> = all
        .rows
        .iter()
        .filter(|row| matches!(&row.said, Said::Answered { id, .. } if ids.contains(id.as_str())))
        .map(|row| row.uuid.as_str())
        .collect();
    let begun = from.is_some_and(|uuid| all.by_uuid.contains_key(uuid));
    let belongs = |at: usize, row: &Row| {
        line.contains(&at)
            || answers.contains(row.uuid.as_str())
            // A result hangs on the row of its call, so that only one of several stands in the line.
            || at <= last && row.parent.as_ref().is_some_and(|parent| answers.contains(parent.as_str())) && is_result(row)
    };
    all.rows.iter().enumerate().filter(|(at, row)| begun && belongs(*at, row)).map(|(_, row)| row).collect()
}

fn is_result(row: &Row) -> bool {
    let is = |block: &Arc<Text>| memchr::memmem::find(block.as_bytes(), b"\"tool_result\"").is_some();
    matches!(&row.said, Said::Sent { role: "user", blocks } if blocks.iter().any(is))
}

fn body(
    params: Option<&Text>,
    messages: &[Arc<Text>],
    system: Option<&Text>,
    tools: Option<&Text>,
    limits: Limits,
) -> Body {
    let mut out = Vec::with_capacity(messages.iter().map(|message| message.as_bytes().len() + 1).sum::<usize>() + 4096);
    out.extend_from_slice(b"{\"messages\":[");
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(message.as_bytes());
    }
    out.push(b']');
    for (key, value) in [("system", system), ("tools", tools)] {
        if let Some(value) = value {
            out.extend_from_slice(format!(",\"{key}\":").as_bytes());
            out.extend_from_slice(value.as_bytes());
        }
    }
    let fields = params.and_then(Text::as_str).and_then(|params| serde_json::from_str::<Fields>(params).ok());
    for (name, value) in fields.map(|fields| fields.0).unwrap_or_default() {
        if let Some(name) = name.as_str().filter(|name| !["messages", "system", "tools", "betas"].contains(name)) {
            let name = serde_json::to_string(name).unwrap_or_default();
            out.extend_from_slice(format!(",{name}:").as_bytes());
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.extend_from_slice(b",\"stream\":true}");
    limits.check(Text::from(out)).map_or(Body::Lost, Body::Bytes)
}

/// A message with a cache mark on one of its blocks.
fn with_mark(whole: &Text, block: usize) -> Option<Text> {
    #[derive(Deserialize)]
    struct Message<'a> {
        role: String,
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
        #[serde(borrow)]
        output_config: Option<&'a RawValue>,
    }
    let parsed: Message = serde_json::from_str(whole.as_str()?).ok()?;
    let mark = |(at, raw): (usize, &&RawValue)| {
        let inside = raw.get().strip_prefix('{').filter(|_| at == block)?;
        let comma = if inside.trim_start().starts_with('}') { "" } else { "," };
        Some(format!("{{\"cache_control\":{{\"type\":\"ephemeral\"}}{comma}{inside}"))
    };
    let blocks: Vec<Arc<Text>> = parsed
        .content
        .iter()
        .enumerate()
        .map(|block| Arc::new(mark(block).map_or_else(|| Text::from(block.1.get()), Text::from)))
        .collect();
    let marked = message(&parsed.role, &blocks);
    match parsed.output_config {
        // Kept for completeness; nothing of the prompt is in it.
        Some(config) => {
            let open = marked.as_str()?.strip_suffix('}')?;
            Some(Text::from(format!("{open},\"output_config\":{}}}", config.get())))
        }
        None => Some(marked),
    }
}
