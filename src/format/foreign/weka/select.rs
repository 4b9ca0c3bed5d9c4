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

/// The chosen requests of a session, by row: all, and those of each agent.
pub(super) struct Chosen(Vec<usize>, Vec<Vec<usize>>);

impl Chosen {
    fn new(session: &Session, rows: Vec<usize>) -> Self {
        let mut agents = vec![Vec::new(); session.agents.len()];
        for &row in &rows {
            let agent =
                session.requests.get(row).and_then(|request| agents.get_mut(usize::try_from(request.agent).ok()?));
            agent.into_iter().for_each(|rows: &mut Vec<usize>| rows.push(row));
        }
        Self(rows, agents)
    }

    /// Their rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// Those of an agent.
    pub(super) fn of(&self, agent: usize) -> &[usize] {
        self.1.get(agent).map_or(&[], Vec::as_slice)
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
    let chosen = Chosen::new(session, rows);
    if chosen.of(0).is_empty() || (agentx && !fits(session, &chosen)) {
        report.left_out += count(session.requests.len());
        return None;
    }
    report.left_out += left_out;
    report.lost.add(Loss::Kinds, left_out);
    Some(chosen)
}

/// A request of the dataset: a whole answer of a Claude model, no side request.
fn admits(request: &Request) -> bool {
    request.status == Status::Ok
        && request.kind != RequestKind::Auxiliary
        && request.model.name().is_some_and(|name| name.starts_with("claude-"))
}

fn fits(session: &Session, chosen: &Chosen) -> bool {
    let requests = || chosen.rows().filter_map(|row| session.requests.get(row));
    chosen.rows().count() >= LEAST_REQUESTS
        && requests().all(|request| request.input_tokens <= MOST_INPUT)
        && at_once(session, chosen) <= MOST_AGENTS
}

/// How many subagents ran at the same time, at most.
fn at_once(session: &Session, chosen: &Chosen) -> usize {
    let mut moments: Vec<(u64, i8)> = Vec::new();
    for agent in 1..session.agents.len() {
        let own = || chosen.of(agent).iter().filter_map(|row| session.requests.get(*row));
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
