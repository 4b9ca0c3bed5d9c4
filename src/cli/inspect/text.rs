//! Sessions and distributions as text.
//!
//! Invariant: one line a fact; the tree shows which request started each agent and which carried its result back.

use std::fmt::Write;

use crate::analyze::{Overview, Quantiles};
use crate::cli::output::{duration, number, percent};
use crate::trace::vocab::{AgentKind, Relation, RequestKind, Vocabulary};
use crate::trace::{Edge, Manifest, Session};

/// Up to so many sessions are shown with their agents.
pub(super) const SHOWN_WHOLE: u64 = 20;

/// A session: one line and, if `whole`, its tree of agents.
pub(super) fn session(row: u32, session: &Session, block_size: u32, whole: bool) -> String {
    let blocks: u64 = session.requests.iter().map(|request| u64::from(request.blocks(block_size))).sum();
    let shared: u64 = session.requests.iter().map(|request| u64::from(request.prefix.shared_blocks)).sum();
    let tokens: u64 = session.requests.iter().map(|request| u64::from(request.input_tokens)).sum();
    let end = session.requests.iter().filter_map(|request| request.end_ms().or(request.start_ms)).max();
    let mut text = format!(
        "session {row}  {}, {}, {}, {} tokens in, {} of blocks shared{}\n",
        session.harness.word(),
        plural(session.requests.len(), "request"),
        plural(session.agents.len(), "agent"),
        number(tokens),
        percent(shared, blocks),
        end.map_or_else(String::new, |end| format!(", {}", duration(end))),
    );
    if whole {
        agent(session, 0, "", "", &mut text);
    }
    text
}

/// An agent's line and those of the agents below it.
fn agent(session: &Session, row: u32, lead: &str, below: &str, text: &mut String) {
    let Some(agent) = usize::try_from(row).ok().and_then(|row| session.agents.get(row)) else { return };
    let requests = || session.requests.iter().zip(0_u32..).filter(|(request, _)| request.agent == row);
    let turns = requests().filter(|(request, _)| request.kind == RequestKind::Turn && request.attempt == 0).count();
    let others = requests().count() - turns;
    let (start, end) = (
        requests().filter_map(|(request, _)| request.start_ms).min(),
        requests().filter_map(|(request, _)| request.end_ms()).max(),
    );
    let name =
        if row == 0 { "main".to_owned() } else { format!("{} ({})", agent.agent_type.word(), agent.kind.word()) };
    let mut line = format!("  {lead}agent {row}  {name}, {}", plural(turns, "turn"));
    if others > 0 {
        write!(line, " and {}", plural(others, "other")).ok();
    }
    if let (Some(start), Some(end)) = (start, end) {
        write!(line, ", {} to {}", duration(start), duration(end)).ok();
    }
    if agent.kind != AgentKind::Main {
        line.push_str(&link(session, row, Relation::Spawn));
        line.push_str(&link(session, row, Relation::Join));
        if let Some(status) = agent.status {
            write!(line, ", {}", status.word()).ok();
        }
    }
    text.push_str(&line);
    text.push('\n');
    let children: Vec<u32> = session
        .agents
        .iter()
        .zip(0_u32..)
        .filter(|(child, at)| *at > 0 && child.parent_agent.unwrap_or(0) == row && *at != row)
        .map(|(_, at)| at)
        .collect();
    for child in &children {
        let (lead, next) = if Some(child) == children.last() { ("└ ", "  ") } else { ("├ ", "│ ") };
        // A parent stands above its children by depth, so the tree ends.
        if session
            .agents
            .get(usize::try_from(*child).unwrap_or(usize::MAX))
            .is_some_and(|below| below.depth > agent.depth || row == 0)
        {
            self::agent(session, *child, &format!("{below}{lead}"), &format!("{below}{next}"), text);
        }
    }
}

/// Where an agent was started from, or where its result went.
fn link(session: &Session, agent: u32, relation: Relation) -> String {
    let of_agent = |row: u32| {
        usize::try_from(row)
            .ok()
            .and_then(|row| session.requests.get(row))
            .is_some_and(|request| request.agent == agent)
    };
    let mut edges = session.edges.iter().filter(|edge| {
        edge.relation == relation && of_agent(if relation == Relation::Spawn { edge.to } else { edge.from })
    });
    let start = |row: u32| {
        usize::try_from(row)
            .ok()
            .and_then(|row| session.requests.get(row))
            .and_then(|request| request.start_ms)
            .unwrap_or(0)
    };
    let told = |edge: &Edge| match relation {
        Relation::Spawn => format!(
            ", spawned by request {} at {} ({}, {})",
            edge.from,
            duration(start(edge.to)),
            edge.trigger.word(),
            edge.evidence.word()
        ),
        _ => format!(", joined in request {} at {} ({})", edge.to, duration(start(edge.to)), edge.evidence.word()),
    };
    match (edges.next(), edges.count()) {
        (None, _) if relation == Relation::Spawn => ", start not known".to_owned(),
        (None, _) => ", not joined".to_owned(),
        (Some(first), 0) => told(first),
        (Some(first), more) => format!("{} and {more} more", told(first)),
    }
}

/// What holds for the whole trace.
pub(super) fn overview(manifest: &Manifest, overview: &Overview) -> String {
    let totals = &manifest.totals;
    let mut text = format!(
        "trace      {} sessions, {} agents, {} requests, {} edges, {} tool calls\n\
         rules      profile {}, scope {}, blocks of {} tokens, tokenizer {}\n\
         prefixes   {} of {} blocks were there before ({})\n",
        number(totals.sessions),
        number(totals.agents),
        number(totals.requests),
        number(totals.edges),
        number(totals.tools),
        manifest.profile.word(),
        manifest.scope.word(),
        manifest.block_size,
        manifest.tokenizer.name.word(),
        number(overview.shared_blocks),
        number(overview.blocks),
        percent(overview.shared_blocks, overview.blocks),
    );
    for (name, counts) in [
        ("kinds", overview.kinds()),
        ("status", overview.statuses()),
        ("edges", overview.relations()),
        ("evidence", overview.evidence()),
    ] {
        let counts: Vec<String> = counts.into_iter().map(|(word, count)| format!("{} {word}", number(count))).collect();
        let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
        writeln!(text, "{name:<10} {counts}").ok();
    }
    writeln!(text, "\n{:<16}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}", "", "count", "p10", "p50", "p90", "p99", "max").ok();
    let rows: [(&str, Quantiles, Show); 6] = [
        ("tokens in", overview.input_tokens(), number),
        ("tokens out", overview.output_tokens(), number),
        ("duration", overview.durations(), duration),
        ("TTFT", overview.ttfts(), duration),
        ("user delay", overview.user_delays(), duration),
        ("requests/session", overview.requests_per_session(), number),
    ];
    for (name, of, show) in rows {
        let cells = [of.p10, of.p50, of.p90, of.p99, of.max]
            .map(|value| format!("{:>12}", if of.count == 0 { "-".to_owned() } else { show(value) }));
        writeln!(text, "{name:<16}{:>10}{}", number(of.count), cells.concat()).ok();
    }
    text
}

/// How a value is shown.
type Show = fn(u64) -> String;

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
