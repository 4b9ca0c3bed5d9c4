//! One WEKA object, field by field.
//!
//! Invariant: what has been read is as the file states it, in milliseconds; nothing is inferred here.

use std::borrow::Cow;

use crate::format::foreign::json::{Object, ids, items, object, seconds, string, whole};
use crate::format::foreign::{Ids, ImportReport, RowError, RowFault};
use crate::trace::Parts;
use crate::trace::vocab::{AgentStatus, AgentType, Anomaly, Inferred, Loss, Scope, Stop, Vocabulary};

const TRACE: &[&str] =
    &["id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "requests", "totals"];
const REQUEST: &[&str] = &[
    "t",
    "type",
    "model",
    "in",
    "out",
    "hash_ids",
    "input_types",
    "output_types",
    "stop",
    "api_time",
    "think_time",
    "ttft",
];
const AGENT: &[&str] = &[
    "t",
    "type",
    "agent_id",
    "subagent_type",
    "duration_ms",
    "total_tokens",
    "tool_use_count",
    "status",
    "requests",
    "models",
    "tool_tokens",
    "system_tokens",
];

/// A session as it is stated.
pub(super) struct Trace<'a> {
    pub(super) number: Option<u32>,
    pub(super) block_size: u32,
    pub(super) scope: Scope,
    pub(super) main: Conversation<'a>,
    pub(super) agents: Vec<Subagent<'a>>,
}

/// The requests of one agent.
pub(super) struct Conversation<'a> {
    pub(super) tools_tokens: Option<u32>,
    pub(super) system_tokens: Option<u32>,
    pub(super) rows: Vec<Row<'a>>,
}

/// A subagent as it is stated.
pub(super) struct Subagent<'a> {
    /// Its number, where its id is one of a numbering.
    number: Option<u32>,
    /// Its marker.
    pub(super) t: i64,
    pub(super) agent_type: AgentType,
    pub(super) status: Option<AgentStatus>,
    pub(super) duration_ms: Option<u32>,
    pub(super) total_tokens: Option<u32>,
    pub(super) tool_calls: Option<u32>,
    pub(super) conversation: Conversation<'a>,
}

/// A request as it is stated; times in milliseconds.
pub(super) struct Row<'a> {
    pub(super) t: i64,
    pub(super) streaming: bool,
    pub(super) model: Cow<'a, str>,
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) ids: Ids,
    pub(super) input_parts: Parts,
    pub(super) output_parts: Parts,
    pub(super) stop: Option<Stop>,
    pub(super) api_ms: Option<u32>,
    pub(super) ttft_ms: Option<u32>,
    pub(super) think_ms: Option<i64>,
}

enum Entry<'a> {
    Request(Row<'a>),
    Agent(Subagent<'a>),
}

impl<'a> Trace<'a> {
    /// Reads the object.
    pub(super) fn read(trace: &Object<'a>, report: &mut ImportReport) -> Result<Self, RowError> {
        report.lost.add(Loss::Unknown, count(trace.unknown(TRACE)));
        let id = trace.get("id", string)?;
        trace.get("models", items(string))?;
        let scope = trace.get("hash_id_scope", |bytes| match &*string(bytes)? {
            "local" => Ok(Scope::Session),
            "global" => Ok(Scope::Dataset),
            _ => Err(RowFault::Word),
        })?;
        let block_size = trace.get("block_size", whole::<u32>)?;
        if block_size == 0 {
            return Err(RowError::new("block_size", RowFault::Domain));
        }
        let entries = trace.list("requests", |_, entry| Entry::read(&entry, block_size, true, report))?;
        let entries = entries.ok_or(RowError::new("requests", RowFault::Missing))?;
        let (mut rows, mut agents) = (Vec::with_capacity(entries.len()), Vec::new());
        for entry in entries {
            match entry {
                Entry::Request(row) => rows.push(row),
                Entry::Agent(agent) => agents.push(agent),
            }
        }
        if rows.is_empty() {
            return Err(RowError::new("requests", RowFault::Empty));
        }
        // Agents stand where they ended; a whole numbering says in which order they began.
        let mut numbers: Vec<_> = agents.iter().map(|agent: &Subagent<'_>| agent.number).collect();
        numbers.sort_unstable();
        if (1..).zip(&numbers).all(|(expected, number)| *number == Some(expected)) {
            agents.sort_by_key(|agent| agent.number);
        }
        let main = Conversation::new(trace, rows)?;
        let read = Self { number: number("trace_", 4, &id), block_size, scope, main, agents };
        report.lost.note(Loss::Identifiers, read.number.is_none());
        report.anomalies.note(Anomaly::Totals, trace.raw("totals").is_some_and(|totals| read.contradicts(totals)));
        Ok(read)
    }

    /// Every request.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row<'a>> {
        self.main.rows.iter().chain(self.agents.iter().flat_map(|agent| &agent.conversation.rows))
    }

    /// Whether stated totals are others than those of the rows. Totals in another form say nothing.
    fn contradicts(&self, totals: &[u8]) -> bool {
        let stated = || {
            let combined = Object::parse(totals).ok()?.get("combined_tokens", object).ok()?;
            Some((combined.get("input", whole::<u64>).ok()?, combined.get("output", whole::<u64>).ok()?))
        };
        let sum = |tokens: fn(&Row<'_>) -> u32| self.rows().map(|row| u64::from(tokens(row))).sum::<u64>();
        stated().is_some_and(|stated| stated != (sum(|row| row.input), sum(|row| row.output)))
    }
}

impl<'a> Conversation<'a> {
    fn new(of: &Object<'a>, rows: Vec<Row<'a>>) -> Result<Self, RowError> {
        Ok(Self {
            tools_tokens: of.maybe("tool_tokens", whole)?,
            system_tokens: of.maybe("system_tokens", whole)?,
            rows,
        })
    }
}

impl<'a> Entry<'a> {
    fn read(entry: &Object<'a>, block_size: u32, nests: bool, report: &mut ImportReport) -> Result<Self, RowError> {
        let (t, exact) = entry.get("t", seconds)?;
        report.lost.note(Loss::Precision, !exact);
        let streaming = entry.get("type", |bytes| match &*string(bytes)? {
            "s" => Ok(Some(true)),
            "n" => Ok(Some(false)),
            "subagent" if nests => Ok(None),
            _ => Err(RowFault::Word),
        })?;
        match streaming {
            Some(streaming) => Row::read(entry, block_size, t, streaming, report).map(Self::Request),
            None => Subagent::read(entry, block_size, t, report).map(Self::Agent),
        }
    }
}

impl<'a> Subagent<'a> {
    fn read(entry: &Object<'a>, block_size: u32, t: i64, report: &mut ImportReport) -> Result<Self, RowError> {
        report.lost.add(Loss::Unknown, count(entry.unknown(AGENT)));
        let number = number("agent_", 3, &entry.get("agent_id", string)?);
        let stated = entry.get("subagent_type", string)?;
        let agent_type = AgentType::parse(&stated).filter(|agent_type| *agent_type != AgentType::Main);
        report.lost.note(Loss::AgentTypes, agent_type.is_none() && stated != AgentType::Custom.word());
        let stated = entry.get("status", string)?;
        let status = AgentStatus::parse(&stated);
        report.lost.note(Loss::AgentTypes, status.is_none() && !stated.is_empty());
        let rows = entry.list("requests", |_, entry| match Entry::read(&entry, block_size, false, report)? {
            Entry::Request(row) => Ok(row),
            Entry::Agent(_) => Err(RowError::new("type", RowFault::Word)),
        })?;
        let rows = rows.ok_or(RowError::new("requests", RowFault::Missing))?;
        if rows.is_empty() {
            return Err(RowError::new("requests", RowFault::Empty));
        }
        Ok(Self {
            number,
            t,
            agent_type: agent_type.unwrap_or(AgentType::Custom),
            status,
            duration_ms: entry.maybe("duration_ms", whole)?,
            total_tokens: entry.maybe("total_tokens", whole)?,
            tool_calls: entry.maybe("tool_use_count", whole)?,
            conversation: Conversation::new(entry, rows)?,
        })
    }
}

impl<'a> Row<'a> {
    fn read(
        entry: &Object<'a>,
        block_size: u32,
        t: i64,
        streaming: bool,
        report: &mut ImportReport,
    ) -> Result<Self, RowError> {
        report.lost.add(Loss::Unknown, count(entry.unknown(REQUEST)));
        let mut time = |name| -> Result<Option<i64>, RowError> {
            let stated = entry.maybe(name, seconds)?;
            report.lost.note(Loss::Precision, stated.is_some_and(|(_, exact)| !exact));
            Ok(stated.map(|(time, _)| time))
        };
        let (api, ttft, think_ms) = (time("api_time")?, time("ttft")?, time("think_time")?);
        let mut clamped = |name, stated: Option<i64>| {
            report.anomalies.note(Anomaly::Negative, stated.is_some_and(|time| time < 0));
            let fits = stated.map(|time| u32::try_from(time.max(0))).transpose();
            fits.map_err(|_| RowError::new(name, RowFault::Domain))
        };
        let (api_ms, ttft_ms) = (clamped("api_time", api)?, clamped("ttft", ttft)?);
        let mut parts = |name| -> Result<Parts, RowError> {
            let (parts, unknown) = entry.maybe(name, parts)?.unwrap_or_default();
            report.lost.add(Loss::Parts, unknown);
            Ok(parts)
        };
        let (input_parts, output_parts) = (parts("input_types")?, parts("output_types")?);
        let stop = match entry.maybe("stop", string)?.as_deref() {
            None | Some("") => None,
            Some(word) => {
                let stop = Stop::parse(word);
                report.lost.note(Loss::Stops, stop.is_none());
                Some(stop.unwrap_or(Stop::Other))
            }
        };
        let input = entry.get("in", whole::<u32>)?;
        let mut ids = entry.maybe("hash_ids", ids)?.unwrap_or_default();
        if ids.len() > input.div_ceil(block_size) {
            return Err(RowError::new("hash_ids", RowFault::TooMany));
        }
        // One more than there are full blocks is the id of the partial one, which says nothing.
        report.lost.note(Loss::PartialBlocks, ids.len() > input / block_size);
        report.inferred.note(Inferred::Blocks, ids.len() < input / block_size);
        ids.truncate(input / block_size);
        Ok(Self {
            t,
            streaming,
            model: entry.get("model", string)?,
            input,
            output: entry.get("out", whole)?,
            ids,
            input_parts,
            output_parts,
            stop,
            api_ms,
            ttft_ms,
            think_ms,
        })
    }
}

/// The names of parts, in the order in which they are written.
pub(super) const PARTS: [(&str, Parts); 7] = [
    ("document", Parts::DOCUMENT),
    ("image", Parts::IMAGE),
    ("other", Parts::OTHER),
    ("text", Parts::TEXT),
    ("thinking", Parts::THINKING),
    ("tool_result", Parts::TOOL_RESULT),
    ("tool_use", Parts::TOOL_USE),
];

/// A list of parts, and how many of them have another name.
fn parts(bytes: &[u8]) -> Result<(Parts, u64), RowFault> {
    let mut unknown = 0;
    let mut parts = Parts::default();
    for name in items(string)(bytes)? {
        let listed = PARTS.iter().find(|(known, _)| *known == name);
        unknown += u64::from(listed.is_none());
        parts = parts.with(listed.map_or(Parts::OTHER, |(_, part)| *part));
    }
    Ok((parts, unknown))
}

/// The number in an id such as `trace_0042`.
fn number(prefix: &str, digits: usize, id: &str) -> Option<u32> {
    let stated = id.strip_prefix(prefix)?;
    let number = stated.parse().ok()?;
    (format!("{number:0digits$}") == stated).then_some(number)
}

fn count(length: usize) -> u64 {
    crate::format::count(length)
}
