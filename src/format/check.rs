//! The rules that every session of a trace keeps, checked while it is written and while it is read.
//!
//! Invariant: a session that passes can be numbered dataset-wide, names only its own rows (but for prefixes, where the scope
//! spans sessions), and its prefix columns are the canonical ones.

use super::count;
use super::error::{Fault, FormatError};
use crate::trace::manifest::{Manifest, Totals};
use crate::trace::vocab::{AgentKind, Scope, Table};
use crate::trace::{Parts, PrefixTree, Session};

/// The most rows of one table that one session may have.
pub const SESSION_ROWS: usize = 1 << 20;

/// Checks the sessions of a dataset in their order, and sums them up.
#[derive(Debug)]
pub struct Checker {
    scope: Scope,
    block_size: u32,
    tree: PrefixTree,
    totals: Totals,
}

type Check = Result<(), FormatError>;

impl Checker {
    /// A checker that has seen no session, for a trace with this manifest.
    pub fn new(manifest: &Manifest) -> Self {
        Self {
            scope: manifest.scope,
            block_size: manifest.block_size,
            tree: PrefixTree::new(),
            totals: Totals::default(),
        }
    }

    /// Sums over the sessions so far. Its row counts are the row ids that come next.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The prefix tree so far; under scope `session`, that of the latest session alone.
    pub fn tree(&self) -> &PrefixTree {
        &self.tree
    }

    /// Checks the next session and adds it to the sums.
    ///
    /// # Errors
    /// The first broken rule; the checker is of no use afterwards.
    pub fn check(&mut self, session: &Session) -> Check {
        self.sizes(session)?;
        self.agents(session)?;
        self.requests(session)?;
        self.edges(session)?;
        self.tools(session)?;
        self.sum(session);
        Ok(())
    }

    /// The error for row `local` of this session.
    fn error(&self, table: Table, local: usize, column: &'static str, fault: impl Into<Fault>) -> FormatError {
        let base = match table {
            Table::Sessions => self.totals.sessions,
            Table::Agents => self.totals.agents,
            Table::Requests => self.totals.requests,
            Table::Edges => self.totals.edges,
            Table::Tools => self.totals.tools,
        };
        FormatError::Value { table, row: base + count(local), column, fault: fault.into() }
    }

    fn sizes(&self, session: &Session) -> Check {
        let Session { agents, requests, edges, tools, .. } = session;
        let fits = |base: u64, rows: usize| u32::try_from(base + count(rows)).is_ok();
        if requests.is_empty() || agents.is_empty() {
            return Err(self.error(Table::Sessions, 0, "session", Fault::Empty));
        }
        let most = agents.len().max(requests.len()).max(edges.len()).max(tools.len());
        if most > SESSION_ROWS || !fits(self.totals.sessions, 1) || !fits(self.totals.agents, agents.len()) {
            return Err(self.error(Table::Sessions, 0, "session", Fault::TooMany));
        }
        Ok(())
    }

    fn agents(&self, session: &Session) -> Check {
        let requests = session.requests.len();
        for (row, agent) in session.agents.iter().enumerate() {
            let error = |column, fault| Err(self.error(Table::Agents, row, column, fault));
            if (row == 0) != (agent.kind == AgentKind::Main) {
                return error("kind", Fault::MainAgent);
            }
            let depth = match agent.parent_agent {
                Some(parent) => match session.agents.get(at(parent)) {
                    Some(above) if at(parent) < row => agent.depth.checked_sub(1) == Some(above.depth),
                    _ => return error("parent_agent", Fault::Direction),
                },
                None => (row > 0 || agent.depth == 0) && usize::from(agent.depth) < session.agents.len(),
            };
            if !depth {
                return error("depth", Fault::Domain);
            }
            if agent.spawn_request.is_some_and(|request| at(request) >= requests) {
                return error("spawn_request", Fault::OutOfSession);
            }
            if agent.join_request.is_some_and(|request| at(request) >= requests) {
                return error("join_request", Fault::OutOfSession);
            }
            if agent.spawn_request.zip(agent.join_request).is_some_and(|(spawn, join)| spawn >= join) {
                return error("join_request", Fault::Direction);
            }
        }
        Ok(())
    }

    fn requests(&mut self, session: &Session) -> Check {
        if self.scope == Scope::Session {
            self.tree.begin_session();
        }
        let (mut others, mut latest) = (0, None);
        for (row, request) in session.requests.iter().enumerate() {
            let error = |checker: &Self, column, fault: Fault| Err(checker.error(Table::Requests, row, column, fault));
            if at(request.agent) >= session.agents.len() {
                return error(self, "agent", Fault::OutOfSession);
            }
            if at(request.turn) > row {
                return error(self, "turn", Fault::Domain);
            }
            // One block more must still be a number.
            let blocks = request.blocks(self.block_size);
            if blocks == u32::MAX {
                return error(self, "input_tokens", Fault::Domain);
            }
            if let Err(fault) = self.tree.push(&request.prefix, blocks) {
                return error(self, "prefix_request", fault.into());
            }
            if request.prefix.extends && !self.extends(session, row) {
                return error(self, "extends", Fault::Extends);
            }
            // Unlisted models are numbered by first appearance, so that their numbers tell nothing else.
            match request.model.other_number() {
                Some(number) if number == others => others += 1,
                Some(number) if number > others => return error(self, "model", Fault::NotDense),
                _ => (),
            }
            if let Some(start) = request.start_ms {
                if (row == 0 && start != 0) || latest.is_some_and(|latest| start < latest) {
                    return error(self, "start_ms", Fault::Order);
                }
                latest = Some(start);
            }
            if !Parts::ALL.contains(request.input_parts) {
                return error(self, "input_parts", Fault::Domain);
            }
            if !Parts::ALL.contains(request.output_parts) {
                return error(self, "output_parts", Fault::Domain);
            }
        }
        Ok(())
    }

    /// Whether the whole prompt of `prefix.request`, a request of this session, can lead the prompt of `row`.
    fn extends(&self, session: &Session, row: usize) -> bool {
        let Some(request) = session.requests.get(row) else { return false };
        let earlier = request.prefix.request.and_then(|earlier| earlier.checked_sub(self.totals.requests));
        let earlier = earlier.and_then(|earlier| session.requests.get(usize::try_from(earlier).ok()?));
        earlier.is_some_and(|earlier| {
            earlier.blocks(self.block_size) == request.prefix.shared_blocks
                && earlier.input_tokens <= request.input_tokens
        })
    }

    fn edges(&self, session: &Session) -> Check {
        let mut latest = None;
        for (row, edge) in session.edges.iter().enumerate() {
            let error = |column, fault| Err(self.error(Table::Edges, row, column, fault));
            if at(edge.to) >= session.requests.len() {
                return error("to_request", Fault::OutOfSession);
            }
            if edge.from >= edge.to {
                return error("from_request", Fault::Direction);
            }
            let key = (edge.to, edge.from, edge.relation);
            if latest.is_some_and(|latest| latest >= key) {
                return error("to_request", Fault::Order);
            }
            latest = Some(key);
        }
        Ok(())
    }

    fn tools(&self, session: &Session) -> Check {
        let mut latest = None;
        for (row, tool) in session.tools.iter().enumerate() {
            let error = |column, fault| Err(self.error(Table::Tools, row, column, fault));
            if at(tool.request) >= session.requests.len() {
                return error("request", Fault::OutOfSession);
            }
            let next = match latest {
                Some((request, _)) if request > tool.request => return error("request", Fault::Order),
                Some((request, index)) if request == tool.request => u32::from(index) + 1,
                _ => 0,
            };
            if u32::from(tool.index) != next {
                return error("index", Fault::NotDense);
            }
            latest = Some((tool.request, tool.index));
            if let Some(consumer) = tool.consumer_request {
                if at(consumer) >= session.requests.len() {
                    return error("consumer_request", Fault::OutOfSession);
                }
                if consumer <= tool.request {
                    return error("consumer_request", Fault::Direction);
                }
            }
            if tool.child_agent.is_some_and(|agent| at(agent) >= session.agents.len()) {
                return error("child_agent", Fault::OutOfSession);
            }
        }
        Ok(())
    }

    fn sum(&mut self, session: &Session) {
        let totals = &mut self.totals;
        totals.sessions += 1;
        totals.agents += count(session.agents.len());
        totals.requests += count(session.requests.len());
        totals.edges += count(session.edges.len());
        totals.tools += count(session.tools.len());
        for request in &session.requests {
            totals.input_tokens += u64::from(request.input_tokens);
            totals.output_tokens += u64::from(request.output_tokens.unwrap_or(0));
            totals.blocks += u64::from(request.blocks(self.block_size));
        }
        totals.unique_blocks = self.tree.unique_blocks();
    }
}

/// A row number of a session as an index. On a machine too small for it, it is out of range anyway.
fn at(local: u32) -> usize {
    usize::try_from(local).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use crate::trace::{Model, TreeError};

    /// Two linear sessions of three requests, a subagent, two edges and two tool calls each.
    fn sessions() -> Vec<Session> {
        let mut sessions = sample::linear(2, 3);
        for session in &mut sessions {
            let main = session.agents[0];
            session.agents.push(crate::trace::Agent {
                parent_agent: Some(0),
                depth: 1,
                kind: AgentKind::Subagent,
                spawn_request: Some(0),
                join_request: Some(2),
                ..main
            });
            session.tools = [0, 1].map(|index| sample::tool_call(0, index)).to_vec();
        }
        sessions
    }

    #[test]
    fn valid_sessions_pass_and_are_summed_up() {
        let mut checker = Checker::new(&sample::head(Scope::Session));
        for session in sessions() {
            checker.check(&session).unwrap();
        }
        let totals = checker.totals();
        assert_eq!((totals.sessions, totals.agents, totals.requests, totals.edges, totals.tools), (2, 4, 6, 4, 4));
        let sum = |of: fn(&crate::trace::Request) -> u32| -> u64 {
            sessions().iter().flat_map(|session| &session.requests).map(|request| u64::from(of(request))).sum()
        };
        assert_eq!(totals.input_tokens, sum(|request| request.input_tokens));
        assert_eq!(totals.blocks, sum(|request| request.input_tokens / 64));
        assert_eq!(totals.unique_blocks, checker.tree().unique_blocks());
    }

    /// Breaks a rule in the second session.
    type Break = fn(&mut Session);

    #[test]
    fn every_broken_rule_is_named_with_its_table_row_and_column() {
        let cases: [(Break, Table, u64, &str, Fault); 25] = [
            (|s| s.requests.clear(), Table::Sessions, 1, "session", Fault::Empty),
            (|s| s.edges = vec![s.edges[0]; SESSION_ROWS + 1], Table::Sessions, 1, "session", Fault::TooMany),
            (|s| s.agents[0].kind = AgentKind::Fork, Table::Agents, 2, "kind", Fault::MainAgent),
            (|s| s.agents[1].kind = AgentKind::Main, Table::Agents, 3, "kind", Fault::MainAgent),
            (|s| s.agents[1].parent_agent = Some(1), Table::Agents, 3, "parent_agent", Fault::Direction),
            (|s| s.agents[1].depth = 2, Table::Agents, 3, "depth", Fault::Domain),
            (|s| s.agents[1].spawn_request = Some(3), Table::Agents, 3, "spawn_request", Fault::OutOfSession),
            (|s| s.agents[1].join_request = Some(3), Table::Agents, 3, "join_request", Fault::OutOfSession),
            (|s| s.agents[1].join_request = Some(0), Table::Agents, 3, "join_request", Fault::Direction),
            (|s| s.requests[1].agent = 2, Table::Requests, 4, "agent", Fault::OutOfSession),
            (|s| s.requests[1].turn = 2, Table::Requests, 4, "turn", Fault::Domain),
            (|s| s.requests[1].prefix.first_block += 1, Table::Requests, 4, "prefix_request", TreeError::Count.into()),
            (
                |s| s.requests[1].prefix.request = Some(2),
                Table::Requests,
                4,
                "prefix_request",
                TreeError::Forward.into(),
            ),
            (|s| s.requests[0].prefix.extends = true, Table::Requests, 3, "extends", Fault::Extends),
            (|s| s.requests[2].model = Model::other(1), Table::Requests, 5, "model", Fault::NotDense),
            (|s| s.requests[0].start_ms = Some(1), Table::Requests, 3, "start_ms", Fault::Order),
            (|s| s.requests[2].start_ms = Some(0), Table::Requests, 5, "start_ms", Fault::Order),
            (|s| s.requests[0].input_parts = Parts(128), Table::Requests, 3, "input_parts", Fault::Domain),
            (|s| s.edges[1].to = 3, Table::Edges, 3, "to_request", Fault::OutOfSession),
            (|s| s.edges[1].from = 2, Table::Edges, 3, "from_request", Fault::Direction),
            (|s| s.edges[1] = s.edges[0], Table::Edges, 3, "to_request", Fault::Order),
            (|s| s.tools[1].request = 3, Table::Tools, 3, "request", Fault::OutOfSession),
            (|s| s.tools[1].index = 2, Table::Tools, 3, "index", Fault::NotDense),
            (|s| s.tools[1].consumer_request = Some(0), Table::Tools, 3, "consumer_request", Fault::Direction),
            (|s| s.tools[1].child_agent = Some(2), Table::Tools, 3, "child_agent", Fault::OutOfSession),
        ];
        for (break_it, table, row, column, fault) in cases {
            let mut checker = Checker::new(&sample::head(Scope::Session));
            let mut sessions = sessions();
            break_it(&mut sessions[1]);
            checker.check(&sessions[0]).unwrap();
            assert_eq!(checker.check(&sessions[1]), Err(FormatError::Value { table, row, column, fault }));
        }
    }

    #[test]
    fn a_prefix_may_lie_in_another_session_only_where_the_scope_spans_them() {
        let mut sessions = sessions();
        sessions[1].requests.truncate(1);
        sessions[1].agents.truncate(1);
        sessions[1].edges.clear();
        sessions[1].tools.clear();
        let shared = sessions[0].requests[2].input_tokens / 64;
        let prefix = &mut sessions[1].requests[0].prefix;
        (prefix.request, prefix.shared_blocks) = (Some(2), 1.min(shared));
        for (scope, fits) in [(Scope::Session, false), (Scope::Shared, true), (Scope::Dataset, true)] {
            let mut checker = Checker::new(&sample::head(scope));
            checker.check(&sessions[0]).unwrap();
            assert_eq!(checker.check(&sessions[1]).is_ok(), fits);
        }
    }
}
