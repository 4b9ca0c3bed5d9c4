//! Reading `agentic_mooncake`, version 2: a head, then one request a row, with what it waits for.
//!
//! Invariant: plays become sessions and sessions agents, in order of their first row; a dependency names a request of its play.

use std::collections::{HashMap, HashSet};

use super::AGENTIC;
use crate::format::count;
use crate::format::foreign::graph;
use crate::format::foreign::json::{Object, ids, scaled, string, whole};
use crate::format::foreign::session::{Groups, Models, request, sort_edges};
use crate::format::foreign::{
    ForeignError, Frame, Ids, ImportOptions, ImportReport, RowError, RowFault, Source, Take, TreeFromIds,
};
use crate::trace::vocab::{
    Anomaly, DelayKind, Evidence, Harness, Inferred, Loss, Relation, Scope, Trigger, Vocabulary,
};
use crate::trace::{Edge, Session};

const ROW: &[&str] = &[
    "request_id",
    "play_id",
    "session_id",
    "model",
    "input_length",
    "output_length",
    "hash_ids",
    "not_before_ms",
    "dependencies",
];

/// A request as it is stated.
struct Row {
    /// Its place in the files, for errors.
    place: (u32, u64),
    id: String,
    agent: u32,
    model: String,
    input: u32,
    output: u32,
    ids: Ids,
    not_before_ms: u64,
    waits_for: Vec<Wait>,
}

/// A dependency as it is stated.
struct Wait {
    id: String,
    relation: Relation,
    trigger: Trigger,
    delay_ms: u64,
}

/// The rows of one session.
#[derive(Default)]
struct Play {
    rows: Vec<Row>,
    agents: HashMap<String, u32>,
    ids: HashSet<String>,
}

pub(super) fn import(sources: &[Source], options: ImportOptions, take: Take<'_>) -> Result<ImportReport, ForeignError> {
    let mut report = ImportReport::default();
    let mut block_size = None;
    let mut plays: Groups<String, Play> = Groups::default();
    let mut heads = 0;
    for source in sources {
        plays.begin_file();
        source.each(&mut report, |object, row, report| {
            if row == 1 {
                let stated = head(object)?;
                let differs = |size: Option<u32>| size.is_some_and(|size| size != stated);
                if differs(block_size) || differs(options.block_size) {
                    return Err(RowError::new("block_size", RowFault::Disagrees).into());
                }
                block_size = Some(stated);
                heads += 1;
                return Ok(());
            }
            let play = object.get("play_id", string)?.into_owned();
            Ok(plays.of(play).add(object, block_size.unwrap_or(1), (source.number, row), report)?)
        })?;
    }
    report.rows -= heads;
    let plays: Vec<Play> = plays.into_groups().collect();
    let arrivals = plays.iter().flat_map(|play| &play.rows).any(|row| row.not_before_ms > 0);
    let frame = Frame { block_size: block_size.unwrap_or(1), scope: Scope::Session };
    let mut tree = TreeFromIds::new();
    for play in plays {
        tree.begin_session();
        take(frame, play.session(arrivals, frame.block_size, &mut tree, &mut report)?)?;
    }
    Ok(report)
}

/// Reads the head and gives its block size.
fn head(head: &Object<'_>) -> Result<u32, RowError> {
    let known = |word: &'static str| move |bytes| if string(bytes)? == word { Ok(()) } else { Err(RowFault::Word) };
    head.get("schema", known(AGENTIC))?;
    head.get("version", |bytes| if whole::<u32>(bytes)? == 2 { Ok(()) } else { Err(RowFault::Word) })?;
    head.get("hash_id_scope", known("local"))?;
    head.get("block_size", |bytes| {
        whole(bytes).and_then(|size| if size > 0 { Ok(size) } else { Err(RowFault::Domain) })
    })
}

/// A time in milliseconds, rounded where it has decimals.
fn millis(bytes: &[u8]) -> Result<u64, RowFault> {
    u64::try_from(scaled(bytes, 0)?.0).map_err(|_| RowFault::Domain)
}

impl Play {
    fn add(
        &mut self,
        object: &Object<'_>,
        block_size: u32,
        place: (u32, u64),
        report: &mut ImportReport,
    ) -> Result<(), RowError> {
        report.lost.add(Loss::Unknown, count(object.unknown(ROW)));
        let id = object.get("request_id", string)?.into_owned();
        if !self.ids.insert(id.clone()) {
            return Err(RowError::new("request_id", RowFault::Twice));
        }
        let session = object.get("session_id", string)?.into_owned();
        let input = object.get("input_length", whole::<u32>)?;
        let ids = object.get("hash_ids", ids)?;
        if input == 0 {
            return Err(RowError::new("input_length", RowFault::Domain));
        }
        if ids.len() != input.div_ceil(block_size) {
            return Err(RowError::new("hash_ids", RowFault::Disagrees));
        }
        let waits_for = object.list("dependencies", |_, wait| Wait::read(&wait))?;
        let waits_for = waits_for.ok_or(RowError::new("dependencies", RowFault::Missing))?;
        let (model, output) = (object.get("model", string)?.into_owned(), object.get("output_length", whole::<u32>)?);
        let not_before_ms = object.get("not_before_ms", millis)?;
        let next = u32::try_from(self.agents.len()).unwrap_or(u32::MAX);
        let agent = *self.agents.entry(session).or_insert(next);
        report.anomalies.note(Anomaly::EmptyOutput, output == 0);
        self.rows.push(Row { place, id, agent, model, input, output, ids, not_before_ms, waits_for });
        Ok(())
    }

    fn session(
        self,
        arrivals: bool,
        block_size: u32,
        tree: &mut TreeFromIds,
        report: &mut ImportReport,
    ) -> Result<Session, ForeignError> {
        let rows = self.rows;
        let places: HashMap<&str, usize> = rows.iter().enumerate().map(|(at, row)| (&*row.id, at)).collect();
        let mut waits_for = Vec::with_capacity(rows.len());
        for row in &rows {
            let named = row.waits_for.iter().map(|wait| places.get(&*wait.id).copied());
            let named: Option<Vec<usize>> = named.collect();
            let dangling = || RowError::new("dependencies", RowFault::Dangling).at(row.place.0, row.place.1);
            waits_for.push(named.ok_or_else(dangling)?);
        }
        let circle = || {
            let (file, row) = rows.iter().find(|row| !row.waits_for.is_empty()).map_or((0, 0), |row| row.place);
            RowError::new("dependencies", RowFault::Disagrees).at(file, row)
        };
        let order = graph::order(&waits_for).ok_or_else(circle)?;
        let new = graph::places(&order);
        let mut edges: Vec<Edge> = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            for (wait, from) in row.waits_for.iter().zip(waits_for.get(at).into_iter().flatten()) {
                let place = |row: usize| new.get(row).copied().unwrap_or(0);
                let own = rows.get(*from).is_some_and(|from| from.agent == row.agent);
                edges.push(wait.edge(place(*from), place(at), own));
            }
        }
        sort_edges(&mut edges);
        edges.dedup_by(|next, edge| {
            // The later of two that say the same is what counts.
            let same = (next.to, next.from, next.relation) == (edge.to, edge.from, edge.relation);
            if same {
                edge.delay_ms = edge.delay_ms.max(next.delay_ms);
                report.anomalies.note(Anomaly::DuplicateRows, true);
            }
            same
        });
        let mut models = Models::default();
        let (mut requests, mut lists) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for row in order.iter().filter_map(|&row| rows.get(row)) {
            let (model, renamed) = models.number(&row.model);
            report.lost.note(Loss::Models, renamed && model.other_number().is_none());
            let mut request = request(row.input, Some(row.output));
            (request.agent, request.model) = (row.agent, model);
            requests.push(request);
            lists.push(row.ids.clone());
        }
        report.inferred.add(Inferred::Tails, tree.fill(&mut requests, lists, block_size));
        let first = order.first().and_then(|&row| rows.get(row));
        Ok(Session {
            start_ms: first.map(|row| row.not_before_ms).filter(|_| arrivals),
            harness: Harness::Other,
            source_number: None,
            agents: graph::agents(&mut requests, &edges),
            requests,
            edges,
            tools: Vec::new(),
        })
    }
}

impl Wait {
    fn read(wait: &Object<'_>) -> Result<Self, RowError> {
        let relation = |bytes| match &*string(bytes)? {
            "replay_barrier" => Ok(Relation::Barrier),
            word => Relation::parse(word).filter(|relation| *relation != Relation::Barrier).ok_or(RowFault::Word),
        };
        Ok(Self {
            id: wait.get("request_id", string)?.into_owned(),
            relation: wait.get("relation", relation)?,
            trigger: wait.get("trigger", |bytes| Trigger::parse(&string(bytes)?).ok_or(RowFault::Word))?,
            delay_ms: wait.get("delay_ms", millis)?,
        })
    }

    /// The edge, where `own` says that both requests are of one agent: that is no spawn, whatever it is called.
    fn edge(&self, from: u32, to: u32, own: bool) -> Edge {
        let relation = if own && self.relation == Relation::Spawn { Relation::Sequence } else { self.relation };
        let delay_kind =
            if matches!(relation, Relation::Spawn | Relation::Join) { DelayKind::Agent } else { DelayKind::None };
        let (trigger, delay_ms) = (self.trigger, self.delay_ms);
        Edge { to, from, relation, trigger, delay_ms, delay_kind, evidence: Evidence::Stated }
    }
}
