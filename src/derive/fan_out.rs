//! `--fan-out K`: the first request, and then K branches at once that each go on from it.
//!
//! Invariant: every request keeps its answer, its pause and the number of tokens that are new in it beyond the answer before it;
//! branches share what they go on from and the answer to it, and nothing else. A linear session at K = 1 stays as it is.

use std::str::FromStr;

use crate::format::tokens::{Fresh, Prompt};
use crate::trace::vocab::{AgentKind, AgentType, Evidence, Relation, Trigger};
use crate::trace::{Agent, Edge, Request, ToolCall};

use super::draft::Draft;
use super::{at, clock, linear};

/// What the branches have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// What the session had to do: its requests are dealt out to the branches in turn.
    Fixed,
    /// Each branch does all of it, so that the work grows with the branches.
    Burst,
}

impl FromStr for Work {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "fixed" => Ok(Self::Fixed),
            "burst" => Ok(Self::Burst),
            _ => Err("fixed or burst"),
        }
    }
}

/// A request of the source in its new place.
struct Node {
    source: usize,
    /// The branch, from 1; 0 is the trunk.
    branch: u32,
    turn: u32,
    /// The node it goes on from.
    after: Option<usize>,
    /// Whether it is the only one, or the first, that does what `source` did.
    first_copy: bool,
}

/// The session with `branches` branches. Its requests are taken in send order, whichever agent sent them.
pub(super) fn fan_out(draft: &Draft, branches: u32, work: Work, fresh: &mut Fresh) -> Draft {
    let source = &draft.session;
    let nodes = nodes(source.requests.len(), branches.max(1), work);
    let pauses = linear::pauses(source);
    let growth = growth(draft);
    let mut prompts: Vec<Prompt> = Vec::with_capacity(nodes.len());
    let mut requests: Vec<Request> = Vec::with_capacity(nodes.len());
    let mut edges = Vec::new();
    let mut tools: Vec<ToolCall> = Vec::new();
    // Where the source's rows and the new ones stand in a line as before, prompts stay the same down to their ids.
    let mut unchanged: Vec<bool> = Vec::with_capacity(nodes.len());
    let mut answers: Vec<Prompt> = Vec::with_capacity(nodes.len());
    for (row, node) in (0u32..).zip(&nodes) {
        let Some(&request) = source.requests.get(node.source) else { continue };
        let own = draft.prompts.get(node.source).cloned().unwrap_or_default();
        let before =
            node.after.and_then(|after| Some((after, nodes.get(after)?, prompts.get(after)?, *unchanged.get(after)?)));
        let kept =
            before.is_none_or(|(_, before, _, same)| same && before.source + 1 == node.source) && node.first_copy;
        let grown = growth.get(node.source).copied().unwrap_or_default();
        let prompt = match before {
            Some((after, _, before, _)) if !kept => {
                let base = before.head(before.tokens().saturating_sub(grown.dropped));
                let answer = answers.get(after).cloned().unwrap_or_default();
                let answer = if grown.whole { answer } else { answer.head(grown.answer) };
                let answer = if grown.dropped == 0 { answer } else { Prompt::default() };
                base.with(&answer).with(&fresh.tokens(grown.own))
            }
            _ => own,
        };
        // The answer, as those carry it that go on from here: as in the source, where that went on unchanged.
        let next = growth.get(node.source + 1).filter(|next| kept && next.dropped == 0 && next.answer > 0);
        let carried = next
            .zip(draft.prompts.get(node.source + 1))
            .map_or_else(Prompt::default, |(next, prompt_after)| prompt_after.after(prompt.tokens()).head(next.answer));
        let missing = request.output_tokens.unwrap_or(0).saturating_sub(carried.tokens());
        answers.push(carried.with(&fresh.tokens(missing)));
        prompts.push(prompt);
        unchanged.push(kept);
        requests.push(Request { agent: node.branch, turn: node.turn, ..request });
        if let (Some(from), Some(&(delay_ms, delay_kind))) = (node.after, pauses.get(node.source)) {
            edges.push(Edge {
                to: row,
                from: u32::try_from(from).unwrap_or(u32::MAX),
                relation: if node.turn == 0 { Relation::Spawn } else { Relation::Sequence },
                trigger: Trigger::Completion,
                delay_ms,
                delay_kind,
                evidence: Evidence::Stated,
            });
        }
        let next = nodes.iter().position(|next| next.after == Some(at(row)));
        let next = next.and_then(|next| u32::try_from(next).ok());
        tools.extend(source.tools.iter().filter(|tool| at(tool.request) == node.source).map(|tool| ToolCall {
            request: row,
            consumer_request: tool.consumer_request.and(next),
            child_agent: None,
            ..*tool
        }));
    }
    let branches = nodes.iter().map(|node| node.branch).max().unwrap_or(0);
    let branch = Agent {
        parent_agent: Some(0),
        depth: 1,
        kind: AgentKind::Subagent,
        agent_type: AgentType::Custom,
        spawn_request: Some(0),
        ..linear::MAIN
    };
    let agents = std::iter::once(linear::MAIN).chain((0..branches).map(|_| branch)).collect();
    let mut session = source.clone();
    (session.agents, session.requests, session.edges, session.tools) = (agents, requests, edges, tools);
    let mut draft = Draft { session, prompts };
    clock::settle(&mut draft);
    draft
}

/// Where each request goes: row 0 is the trunk; then the branches take turns.
fn nodes(requests: usize, branches: u32, work: Work) -> Vec<Node> {
    let mut nodes = vec![Node { source: 0, branch: 0, turn: 0, after: None, first_copy: true }];
    let width = at(branches);
    let rest = requests.saturating_sub(1);
    let total = if work == Work::Fixed { rest } else { rest.saturating_mul(width) };
    for place in 0..total {
        let branch = u32::try_from(place % width).unwrap_or(u32::MAX);
        let step = place / width;
        nodes.push(Node {
            source: 1 + if work == Work::Fixed { place } else { step },
            // One branch is no branch: it is the trunk going on.
            branch: if branches == 1 { 0 } else { branch + 1 },
            turn: u32::try_from(step).unwrap_or(u32::MAX) + u32::from(branches == 1),
            after: Some((place + 1).saturating_sub(width)),
            first_copy: work == Work::Fixed || branch == 0,
        });
    }
    nodes
}

/// How a prompt goes on from the one that it shares the most with.
#[derive(Clone, Copy, Debug, Default)]
struct Growth {
    /// Tokens at the end of that prompt that it left out.
    dropped: u32,
    /// How much of the answer to that prompt it carries, as far as lengths tell.
    answer: u32,
    /// Whether that is all of the answer.
    whole: bool,
    /// Tokens behind those.
    own: u32,
}

/// The growth of each request, in row order.
fn growth(draft: &Draft) -> Vec<Growth> {
    let mut growth = Vec::with_capacity(draft.prompts.len());
    for (row, prompt) in draft.prompts.iter().enumerate() {
        let earlier = draft.prompts.get(..row).unwrap_or_default().iter().zip(&draft.session.requests);
        // The latest of those that share the most: usually the one before.
        let best = earlier.map(|(earlier, request)| (earlier.shared(prompt), earlier.tokens(), request.output_tokens));
        let best = best.max_by_key(|&(shared, _, _)| shared).filter(|&(shared, _, _)| shared > 0);
        let Some((shared, length, output)) = best else {
            growth.push(Growth { dropped: u32::MAX, own: prompt.tokens(), ..Growth::default() });
            continue;
        };
        let new = prompt.tokens() - shared;
        let output = output.filter(|_| shared == length).unwrap_or(0);
        let answer = output.min(new);
        growth.push(Growth { dropped: length - shared, answer, whole: answer == output, own: new - answer });
    }
    growth
}

#[cfg(test)]
mod tests {
    use super::super::draft::{Loader, Press};
    use super::super::scale::Scale;
    use super::super::testing::{four_turns, manifest};
    use super::*;

    fn fanned(branches: u32, work: Work) -> crate::trace::Session {
        let manifest = manifest(64);
        let draft = Loader::new(&manifest, Scale::ONE).load(four_turns());
        let session = Press::new(&manifest).plant(fan_out(&draft, branches, work, &mut Fresh::default()));
        crate::format::Checker::new(&manifest).check(&session).unwrap();
        session
    }

    #[test]
    fn one_branch_is_the_session_itself() {
        assert_eq!(fanned(1, Work::Fixed), four_turns());
        assert_eq!(fanned(1, Work::Burst), four_turns());
    }

    #[test]
    fn three_branches_of_four_turns_hang_on_the_first() {
        let session = fanned(3, Work::Fixed);
        let inputs: Vec<u32> = session.requests.iter().map(|request| request.input_tokens).collect();
        assert_eq!(inputs, [8000, 8800, 8800, 8800]);
        let waits: Vec<_> = session.edges.iter().map(|edge| (edge.from, edge.to, edge.delay_ms)).collect();
        assert_eq!(waits, [(0, 1, 1200), (0, 2, 800), (0, 3, 1000)]);
        // Branches share the trunk and its answer, 8,400 tokens, and nothing else.
        let shared: Vec<_> =
            session.requests.iter().map(|request| (request.prefix.request, request.prefix.shared_blocks)).collect();
        assert_eq!(shared, [(None, 0), (Some(0), 125), (Some(1), 131), (Some(2), 131)]);
        assert_eq!(session.agents.len(), 4);
    }

    #[test]
    fn two_branches_take_turns() {
        let session = fanned(2, Work::Fixed);
        let waits: Vec<_> = session.edges.iter().map(|edge| (edge.from, edge.to)).collect();
        assert_eq!(waits, [(0, 1), (0, 2), (1, 3)]);
        assert_eq!(session.requests[3].input_tokens, 9600);
        assert_eq!(session.requests[3].prefix.request, Some(1));
    }

    #[test]
    fn a_burst_does_the_work_as_often_as_it_has_branches() {
        let session = fanned(2, Work::Burst);
        let inputs: Vec<u32> = session.requests.iter().map(|request| request.input_tokens).collect();
        assert_eq!(inputs, [8000, 8800, 8800, 9600, 9600, 10_400, 10_400]);
        let new: u64 =
            session.requests.iter().map(|request| u64::from(request.blocks(64) - request.prefix.shared_blocks)).sum();
        assert_eq!(new, 162 + 162 - 131);
    }
}
