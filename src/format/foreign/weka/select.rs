//! Which requests and sessions are written.
//!
//! Invariant: what prefills nothing or failed is left out and counted; the rules of the AgentX dataset are its published ones, as
//! far as a trace can tell.

use crate::format::count;
use crate::format::foreign::ExportReport;
use crate::trace::vocab::{Loss, RequestKind, Status};
use crate::trace::{Request, Session};

/// Sessions of the AgentX dataset have at least so many requests.
const LEAST_REQUESTS: usize = 20;
/// No more subagents run at once.
const MOST_AGENTS: usize = 10;
/// No prompt is longer.
const MOST_INPUT: u32 = 990_016;

/// The chosen requests of a session, by row.
pub(super) struct Chosen(Vec<usize>);

impl Chosen {
    /// Their rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }
}

/// Chooses; none if the session is left out.
pub(super) fn choose(session: &Session, agentx: bool, report: &mut ExportReport) -> Option<Chosen> {
    let plain = |request: &Request| {
        let whole = matches!(request.status, Status::Ok | Status::ClientCancelled);
        let known = !agentx || admits(request);
        whole && request.kind != RequestKind::CountTokens && known
    };
    let requests = session.requests.iter().enumerate();
    let rows: Vec<usize> = requests.filter(|(_, request)| plain(request)).map(|(row, _)| row).collect();
    let left_out = count(session.requests.len() - rows.len());
    let main = rows.iter().any(|row| session.requests.get(*row).is_some_and(|request| request.agent == 0));
    if !main || (agentx && !fits(session, &rows)) {
        report.left_out += count(session.requests.len());
        return None;
    }
    report.left_out += left_out;
    report.lost.add(Loss::Kinds, left_out);
    Some(Chosen(rows))
}

/// A request of the dataset: a whole answer of a Claude model, no side request.
fn admits(request: &Request) -> bool {
    request.status == Status::Ok
        && request.kind != RequestKind::Auxiliary
        && request.model.name().is_some_and(|name| name.starts_with("claude-"))
}

fn fits(session: &Session, rows: &[usize]) -> bool {
    let requests = || rows.iter().filter_map(|row| session.requests.get(*row));
    rows.len() >= LEAST_REQUESTS
        && requests().all(|request| request.input_tokens <= MOST_INPUT)
        && at_once(session, rows) <= MOST_AGENTS
}

/// How many subagents ran at the same time, at most.
fn at_once(session: &Session, rows: &[usize]) -> usize {
    let mut moments: Vec<(u64, i8)> = Vec::new();
    for agent in 1..session.agents.len() {
        let own = || {
            let requests = rows.iter().filter_map(|row| session.requests.get(*row));
            requests.filter(move |request| usize::try_from(request.agent) == Ok(agent))
        };
        let start = own().filter_map(|request| request.start_ms).min();
        let end = own().filter_map(|request| request.end_ms().or(request.start_ms)).max();
        if let Some((start, end)) = start.zip(end) {
            moments.extend([(start, 1), (end, -1)]);
        }
    }
    moments.sort_unstable();
    let mut running = 0_usize;
    let mut most = 0;
    for (_, change) in moments {
        running = running.saturating_add_signed(change.into());
        most = most.max(running);
    }
    most
}
