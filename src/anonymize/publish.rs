//! From exact sessions to published ones: profile, prefix tree, order, ids.
//!
//! Invariant: what comes out depends on the rows and the equality pattern of blocks alone; not on the key, not on the order of the
//! input, not on when a session ran (but where arrivals are kept).

use std::collections::{BTreeMap, HashMap};

use crate::trace::vocab::{Keep, Scope};
use crate::trace::{Model, PrefixTree, Request, Session};

use super::chains::{Blocks, Node, Prompt};
use super::profile::Rules;
use super::rows::Exact;

/// A session after the profile, with its prompts in the order of its rows.
struct Ready {
    session: Session,
    prompts: Vec<Prompt>,
    start_us: i64,
    unique_blocks: u64,
}

/// The published sessions, in published order.
pub(super) fn publish(sessions: Vec<Exact>, blocks: &Blocks, rules: &Rules, scope: Scope) -> Vec<Session> {
    let mut ready: Vec<Ready> = sessions.into_iter().map(|exact| prepare(exact, blocks, rules)).collect();
    ready.sort_by(|one, other| key(one).cmp(&key(other)).then_with(|| one.session.cmp(&other.session)));
    if scope != Scope::Session {
        settle_ties(&mut ready, blocks);
    }
    let arrivals = rules.keeps(Keep::Arrivals).then(|| ready.iter().map(|ready| ready.start_us).min().unwrap_or(0));
    let mut shared = (PrefixTree::new(), HashMap::new());
    let mut first_request = 0;
    let mut published = Vec::with_capacity(ready.len());
    for Ready { mut session, prompts, start_us, .. } in ready {
        if scope == Scope::Session {
            shared.0.begin_session();
            shared.1.clear();
        }
        let (tree, seen) = (&mut shared.0, &mut shared.1);
        place(&mut session.requests, &prompts, blocks, rules, tree, seen, first_request);
        first_request += u64::try_from(session.requests.len()).unwrap_or(u64::MAX);
        session.start_ms = arrivals.map(|first| u64::try_from(start_us.saturating_sub(first) / 1000).unwrap_or(0));
        published.push(session);
    }
    published
}

/// The key of a session's own structure: requests, agents, blocks; then all its columns.
fn key(ready: &Ready) -> (usize, usize, u64) {
    (ready.session.requests.len(), ready.session.agents.len(), ready.unique_blocks)
}

fn prepare(exact: Exact, blocks: &Blocks, rules: &Rules) -> Ready {
    let Exact { mut session, prompts, start_us, .. } = exact;
    let order = rules.apply(&mut session);
    let mut prompts: Vec<Option<Prompt>> = prompts.into_iter().map(Some).collect();
    let prompts: Vec<Prompt> = order.iter().filter_map(|row| prompts.get_mut(*row)?.take()).collect();
    renumber_agents(&mut session);
    renumber_models(&mut session.requests);
    tidy(&mut session);
    let mut tree = PrefixTree::new();
    place(&mut session.requests, &prompts, blocks, rules, &mut tree, &mut HashMap::new(), 0);
    Ready { unique_blocks: tree.unique_blocks(), session, prompts, start_us }
}

/// Fills in the prefix columns.
fn place(
    requests: &mut [Request],
    prompts: &[Prompt],
    blocks: &Blocks,
    rules: &Rules,
    tree: &mut PrefixTree,
    seen: &mut HashMap<Node, u64>,
    first: u64,
) {
    for (row, (request, prompt)) in (first..).zip(requests.iter_mut().zip(prompts)) {
        let mut child = None;
        let mut with = None;
        for node in blocks.up(prompt.leaf) {
            if let Some(earlier) = seen.get(&node) {
                with = Some((*earlier, node));
                break;
            }
            seen.insert(node, row);
            child = Some(node);
        }
        let shared = with.map_or(0, |(_, node)| blocks.depth(node));
        // A side request's length may be rounded up by a block of its own; no other prompt has it.
        let count = request.blocks(rules.block_size);
        request.prefix = tree.insert(with.map(|(earlier, _)| earlier), shared, count);
        let parent = request
            .prefix
            .request
            .and_then(|parent| parent.checked_sub(first))
            .and_then(|parent| prompts.get(usize::try_from(parent).ok()?));
        let follows = child.map_or(&prompt.tail[..], |child| blocks.tokens(child));
        request.prefix.extends = rules.keeps(Keep::ExactLengths)
            && parent.is_some_and(|parent| blocks.depth(parent.leaf) == shared && follows.starts_with(&parent.tail));
    }
}

/// Numbers agents by their first request, so that their order says no more than that of the requests.
fn renumber_agents(session: &mut Session) {
    let mut place: Vec<Option<u32>> = vec![None; session.agents.len()];
    let mut order = Vec::with_capacity(session.agents.len());
    let mut number = |agent: u32| {
        let at = usize::try_from(agent).unwrap_or(usize::MAX);
        if let Some(slot @ None) = place.get_mut(at) {
            *slot = u32::try_from(order.len()).ok();
            order.push(at);
        }
    };
    number(0);
    for request in &session.requests {
        number(request.agent);
    }
    let moved = |agent: u32| place.get(usize::try_from(agent).unwrap_or(usize::MAX)).copied().flatten();
    session.agents = order.iter().filter_map(|agent| session.agents.get(*agent)).copied().collect();
    for agent in &mut session.agents {
        agent.parent_agent = agent.parent_agent.and_then(moved);
    }
    for request in &mut session.requests {
        request.agent = moved(request.agent).unwrap_or(0);
    }
    for tool in &mut session.tools {
        tool.child_agent = tool.child_agent.and_then(moved);
    }
}

/// Takes out what clocks that ran apart, or rows that were left out, have made impossible: time counts from the first request, and
/// what comes of something stands after it.
fn tidy(session: &mut Session) {
    let first = session.requests.first().and_then(|request| request.start_ms).unwrap_or(0);
    for (row, request) in (0_u32..).zip(&mut session.requests) {
        request.start_ms = request.start_ms.map(|start| start.saturating_sub(first));
        request.turn = request.turn.min(row);
    }
    for tool in &mut session.tools {
        tool.start_ms = tool.start_ms.map(|start| start.saturating_sub(first));
        tool.consumer_request = tool.consumer_request.filter(|consumer| *consumer > tool.request);
    }
    session.edges.retain(|edge| edge.from < edge.to);
    session.edges.dedup_by_key(|edge| (edge.to, edge.from, edge.relation));
    let mut depths: Vec<u16> = Vec::with_capacity(session.agents.len());
    for (row, agent) in session.agents.iter_mut().enumerate() {
        let above = agent.parent_agent.and_then(|parent| depths.get(usize::try_from(parent).ok()?)).copied();
        agent.parent_agent = agent.parent_agent.filter(|_| above.is_some());
        agent.depth = above.map_or(u16::from(row > 0), |above| above.saturating_add(1));
        agent.join_request = agent.join_request.filter(|join| agent.spawn_request.is_none_or(|spawn| spawn < *join));
        depths.push(agent.depth);
    }
}

/// Numbers unlisted models by first appearance.
fn renumber_models(requests: &mut [Request]) {
    let mut numbers: BTreeMap<Model, u16> = BTreeMap::new();
    for request in requests.iter_mut().filter(|request| request.model.other_number().is_some()) {
        let next = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
        request.model = Model::other(*numbers.entry(request.model).or_insert(next));
    }
}

/// Sessions that are equal by themselves may still differ in what they share with others, and that must not fall back on the order
/// of the input. They are told apart by which classes of sessions share their blocks, refined until nothing changes; what is
/// equal then is interchangeable.
fn settle_ties(ready: &mut Vec<Ready>, blocks: &Blocks) {
    let equal = |one: &Ready, other: &Ready| key(one) == key(other) && one.session == other.session;
    let mut class: Vec<usize> = Vec::with_capacity(ready.len());
    for (at, one) in ready.iter().enumerate() {
        let same = at.checked_sub(1).and_then(|before| ready.get(before)).is_some_and(|before| equal(before, one));
        let previous = class.last().copied().unwrap_or(0);
        class.push(if same { previous } else { at });
    }
    if class.iter().enumerate().all(|(at, class)| at == *class) {
        return;
    }
    let mut holders: HashMap<Node, Vec<usize>> = HashMap::new();
    for (at, ready) in ready.iter().enumerate() {
        for node in ready.prompts.iter().flat_map(|prompt| blocks.up(prompt.leaf)) {
            let holders = holders.entry(node).or_default();
            if holders.last() != Some(&at) {
                holders.push(at);
            }
        }
    }
    for _ in 0..ready.len() {
        let signed = ready.iter().enumerate().zip(&class);
        let mut ranked: Vec<(usize, Signature, usize)> =
            signed.map(|((at, ready), own)| (*own, signature(at, ready, blocks, &holders, &class), at)).collect();
        ranked.sort();
        let mut refined = vec![0; ranked.len()];
        let mut first = 0;
        for (rank, (own, sign, at)) in ranked.iter().enumerate() {
            let before = rank.checked_sub(1).and_then(|before| ranked.get(before));
            first = if before.is_some_and(|before| before.0 == *own && before.1 == *sign) { first } else { rank };
            if let Some(slot) = refined.get_mut(*at) {
                *slot = first;
            }
        }
        if refined == class {
            break;
        }
        class = refined;
    }
    let mut order: Vec<(usize, Ready)> = class.into_iter().zip(std::mem::take(ready)).collect();
    order.sort_by_key(|(class, _)| *class);
    *ready = order.into_iter().map(|(_, ready)| ready).collect();
}

/// Where a session's blocks stand elsewhere: row, blocks from the end, and the classes of the other sessions that hold the block.
type Signature = Vec<(usize, usize, Vec<usize>)>;

fn signature(
    at: usize,
    ready: &Ready,
    blocks: &Blocks,
    holders: &HashMap<Node, Vec<usize>>,
    class: &[usize],
) -> Signature {
    let mut signature = Vec::new();
    for (row, prompt) in ready.prompts.iter().enumerate() {
        for (up, node) in blocks.up(prompt.leaf).enumerate() {
            let others = holders.get(&node).into_iter().flatten().filter(|holder| **holder != at);
            let mut classes: Vec<usize> = others.filter_map(|holder| class.get(*holder)).copied().collect();
            if !classes.is_empty() {
                classes.sort_unstable();
                signature.push((row, up, classes));
            }
        }
    }
    signature
}
