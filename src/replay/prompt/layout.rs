//! [`PromptTree`]: where messages begin and end, for all prompts of a scope at once.
//!
//! Invariant: what a place of a prompt holds, words or a token of the template, follows from the tree and the place; so prompts
//! that share a block share its tokens. Each prompt has room for the template's own tokens at its end and between its turns, or
//! is named and shares less.
//!
//! Every request owns the part of its prompt that it does not share. A *mark* is where some prompt ends: `end` is rendered
//! there, and whoever goes on beyond has `open` there, then an answer, `turn`, and what the user says next. A prompt may end in
//! a part that an earlier request owns, so all are planned before the first is made.

use std::collections::HashMap;
use std::sync::Arc;

use crate::trace::Prefix;

use super::wrapping::Lengths;
use super::{PromptError, Shortfall, TreeBase};

/// What the plan must know of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) prefix: Prefix,
    pub(super) input: u32,
    pub(super) output: u32,
}

/// A place where a prompt ends.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// Where the end of the user's message is.
    pub(super) at: u32,
    /// How long the answer is in the trace.
    answer: u32,
    /// The nearest mark behind it.
    next: u32,
    /// The node that owns the answer: the first that goes on here.
    pub(super) heir: Option<usize>,
    /// What was really answered.
    pub(super) real: Option<Arc<Real>>,
}

/// An answer of the endpoint.
#[derive(Clone, Debug)]
pub(super) struct Real {
    pub(super) text: String,
    pub(super) tokens: Vec<crate::tokenize::Token>,
}

impl Mark {
    /// Where the answer ends and `turn` begins.
    pub(super) fn turn(&self, lengths: Lengths) -> u32 {
        let least = self.at + lengths.open + lengths.least;
        let most = self.next.saturating_sub(lengths.turn + lengths.least);
        (self.at + lengths.open).saturating_add(self.answer).min(most).max(least)
    }
}

/// The part of a prompt that no earlier one has.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) above: Option<usize>,
    /// Where its own part begins.
    pub(super) cut: u32,
    /// Its first block that is not one of the prompt above.
    pub(super) own_block: u32,
    /// Which of those that part there it is; 0 goes to the one that is parted from.
    pub(super) ordinal: u64,
    /// Where the prompt ends.
    pub(super) length: u32,
    /// Tells it from all others of the dataset.
    pub(super) key: u64,
    /// The marks in its own part, in order.
    pub(super) marks: Vec<Mark>,
    /// Those that hang below it, while the tree grows.
    below: Vec<usize>,
    /// Its partial last block has been gone on with.
    continued: bool,
}

#[derive(Clone, Copy, Debug)]
struct Planned {
    /// What the trace says; later prompts hang below it.
    node: usize,
    /// What is sent; none if it is too short.
    sent: Option<usize>,
    shortfall: Option<Shortfall>,
}

/// The prompts of one scope, planned: those of a session under scope `session`, else of the whole dataset. It holds a few
/// numbers a request, no prompt (but the answers that were given to it).
#[derive(Clone, Debug)]
pub struct PromptTree {
    /// Which of the trees of its synthesizer it is.
    pub(super) number: u64,
    first_request: u64,
    pub(super) block_size: u32,
    pub(super) lengths: Lengths,
    nodes: Vec<Node>,
    requests: Vec<Planned>,
    prefixes: Vec<Option<u64>>,
}

/// A part of a path: `from..to` of the prompt are the node's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) node: usize,
    pub(super) from: u32,
    pub(super) to: u32,
}

impl PromptTree {
    pub(super) fn plan(
        lengths: Lengths,
        block_size: u32,
        base: &mut TreeBase,
        rows: impl Iterator<Item = Row>,
    ) -> Result<Self, PromptError> {
        let first_request = base.first_request;
        let tree = Self {
            number: 0,
            first_request,
            block_size: block_size.max(1),
            lengths,
            nodes: Vec::new(),
            requests: Vec::new(),
            prefixes: Vec::new(),
        };
        let mut planner = Planner { tree, roots: &mut base.roots, parted: HashMap::new() };
        let mut request = first_request;
        for row in rows {
            planner.add(request, &row).ok_or(PromptError::OutsideTree { request })?;
            request += 1;
        }
        let mut tree = planner.tree;
        base.first_request = request;
        tree.settle();
        tree.shrink();
        Ok(tree)
    }

    /// Row ids of its requests.
    pub fn requests(&self) -> std::ops::Range<u64> {
        self.first_request..self.first_request + u64::try_from(self.requests.len()).unwrap_or(0)
    }

    /// Requests whose prompts share less than the trace says, and why.
    pub fn shortfalls(&self) -> impl Iterator<Item = (u64, Shortfall)> + '_ {
        self.requests().zip(&self.requests).filter_map(|(row, planned)| Some((row, planned.shortfall?)))
    }

    /// Whether a request is named.
    pub(super) fn falls_short(&self, request: u64) -> bool {
        self.sent(request).map_or(true, |(_, shortfall, _)| shortfall.is_some())
    }

    /// The node to send for a request, what it falls short of, and its prefix request.
    pub(super) fn sent(&self, request: u64) -> Result<(usize, Option<Shortfall>, Option<u64>), PromptError> {
        let outside = PromptError::OutsideTree { request };
        let at = request.checked_sub(self.first_request).and_then(|at| usize::try_from(at).ok());
        let planned = at.and_then(|at| Some((self.requests.get(at)?, *self.prefixes.get(at)?)));
        let (planned, prefix) = planned.ok_or(outside)?;
        let has = self.nodes.get(planned.node).map_or(0, |node| node.length);
        let needs = self.lengths.head + self.lengths.least + self.lengths.end;
        let sent = planned.sent.ok_or(PromptError::TooShort { request, needs, has })?;
        Ok((sent, planned.shortfall, prefix))
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node)
    }

    /// Where the user's last message ends.
    pub(super) fn end(&self, node: usize) -> u32 {
        self.nodes.get(node).map_or(0, |node| node.length.saturating_sub(self.lengths.end))
    }

    /// The mark of a request's own end.
    pub(super) fn own_mark(&mut self, request: u64) -> Option<&mut Mark> {
        let (node, ..) = self.sent(request).ok()?;
        let at = self.end(node);
        let (owner, index) = self.mark_before(node, at)?;
        self.nodes.get_mut(owner)?.marks.get_mut(index).filter(|mark| mark.at == at)
    }

    /// Blocks that are the template's head in every prompt.
    pub(super) fn head_blocks(&self) -> u32 {
        self.lengths.head / self.block_size
    }

    /// The pieces of a prompt, from the front.
    pub(super) fn path(&self, node: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut to = self.nodes.get(node).map_or(0, |node| node.length);
        let mut next = Some(node);
        while let Some((node, own)) = next.and_then(|node| Some((node, self.nodes.get(node)?))) {
            let from = own.cut.min(to);
            if from < to || !own.marks.is_empty() {
                pieces.push(Piece { node, from, to });
            }
            to = from;
            next = own.above.filter(|_| to > 0);
        }
        pieces.reverse();
        pieces
    }

    /// The node that owns a place of a prompt.
    pub(super) fn owner(&self, mut node: usize, place: u32) -> usize {
        while let Some(above) = self.nodes.get(node).filter(|node| place < node.cut).and_then(|node| node.above) {
            node = above;
        }
        node
    }

    /// The node that owns a block of a prompt.
    pub(super) fn block_owner(&self, mut node: usize, block: u32) -> usize {
        while let Some(above) = self.nodes.get(node).filter(|node| block < node.own_block).and_then(|node| node.above) {
            node = above;
        }
        node
    }

    /// The owners of a prompt's blocks: each with the first block that is its own, from the front.
    pub(super) fn block_owners(&self, node: usize) -> Vec<(u32, usize)> {
        let (mut owners, mut next, mut first) = (Vec::new(), Some(node), u32::MAX);
        while let Some((node, own)) = next.and_then(|node| Some((node, self.nodes.get(node)?))) {
            if own.own_block < first {
                first = own.own_block;
                owners.push((first, node));
            }
            next = own.above;
        }
        owners.reverse();
        owners
    }

    /// How many marks of a node are seen by a prompt that leaves it at `to`. A prompt's very end is seen where it has no `end`.
    pub(super) fn seen(node: &Node, to: u32) -> usize {
        node.marks.partition_point(|mark| mark.at < to || (mark.at == to && to == node.length))
    }

    /// The last mark at or before `at` on the path of a node, as (node, index).
    fn mark_before(&self, mut node: usize, at: u32) -> Option<(usize, usize)> {
        let mut seen = self.nodes.get(node)?.marks.partition_point(|mark| mark.at <= at);
        let mut to = at.saturating_add(1);
        loop {
            if let Some(index) = seen.checked_sub(1) {
                return Some((node, index));
            }
            let own = self.nodes.get(node)?;
            node = own.above?;
            to = to.min(own.cut);
            let above = self.nodes.get(node)?;
            seen = Self::seen(above, to).min(above.marks.partition_point(|mark| mark.at <= at));
        }
    }

    /// The first mark behind `after` on any path through that place of `node`.
    fn mark_after(&self, node: usize, after: u32) -> Option<u32> {
        let own = self.nodes.get(node)?;
        let index = own.marks.partition_point(|mark| mark.at <= after);
        let first = own.marks.get(index).map(|mark| mark.at);
        let below = own.below.iter().filter_map(|&below| {
            let cut = self.nodes.get(below)?.cut;
            let on_the_way = cut > after && first.is_none_or(|first| cut <= first);
            self.mark_after(below, after).filter(|_| on_the_way)
        });
        below.chain(first).min()
    }

    /// Finds, for each mark, the nearest one behind it and the heir of its answer.
    fn settle(&mut self) {
        for node in 0..self.nodes.len() {
            let Some(own) = self.nodes.get(node) else { return };
            let (end, cut) = (own.length.saturating_sub(self.lengths.end), own.cut);
            let own_end = self.mark_before(node, end).filter(|&(owner, index)| self.mark(owner, index).at == end);
            let before = own_end.and_then(|_| self.mark_before(node, end.checked_sub(1)?));
            // The marks that this node is the first to pass: the last before its own part, and those in it.
            let passed = self.mark_before(node, cut).filter(|&(owner, _)| owner != node);
            let inside = (0..own.marks.len()).map(|index| (node, index));
            if let Some(mark) = before.and_then(|(owner, index)| self.mark_mut(owner, index)) {
                mark.next = mark.next.min(end);
            }
            for (owner, index) in passed.into_iter().chain(inside).collect::<Vec<_>>() {
                let place = self.mark(owner, index).at + self.lengths.open;
                let heir = self.owner(node, place);
                if let Some(mark) = self.mark_mut(owner, index).filter(|mark| mark.at < end) {
                    mark.heir.get_or_insert(heir);
                }
            }
        }
    }

    /// Gives back what only planning needed: a trace has many nodes, and they are kept for the whole run.
    fn shrink(&mut self) {
        for node in &mut self.nodes {
            node.below = Vec::new();
            node.marks.shrink_to_fit();
        }
        self.nodes.shrink_to_fit();
        self.requests.shrink_to_fit();
        self.prefixes.shrink_to_fit();
    }

    fn mark(&self, node: usize, index: usize) -> Mark {
        let none = Mark { at: 0, answer: 0, next: u32::MAX, heir: None, real: None };
        self.nodes.get(node).and_then(|node| node.marks.get(index).cloned()).unwrap_or(none)
    }

    fn mark_mut(&mut self, node: usize, index: usize) -> Option<&mut Mark> {
        self.nodes.get_mut(node)?.marks.get_mut(index)
    }
}

/// Grows a tree.
struct Planner<'a> {
    tree: PromptTree,
    roots: &'a mut u64,
    /// How many have parted behind a block, by its owner and number.
    parted: HashMap<(usize, u32), u64>,
}

impl Planner<'_> {
    /// `None` if the prefix request is not in the tree.
    fn add(&mut self, request: u64, row: &Row) -> Option<()> {
        let above = match row.prefix.request {
            Some(prefix) => {
                let at = usize::try_from(prefix.checked_sub(self.tree.first_request)?).ok()?;
                Some(self.tree.requests.get(at)?.node)
            }
            None => None,
        };
        let shared = if above.is_some() { row.prefix.shared_blocks } else { 0 };
        let node = self.hang(above, shared, row, request);
        let mut planned = Planned { node, sent: Some(node), shortfall: None };
        if let Err((needs, has)) = self.mark(node, shared, row.output) {
            // It parts earlier than the trace says, as late as can be. Later prompts still share what the trace says.
            let (mut sent, mut blocks) = (None, shared);
            while let (None, Some(fewer)) = (sent, blocks.checked_sub(1)) {
                blocks = fewer;
                let parting = Row { prefix: Prefix { extends: false, ..row.prefix }, ..*row };
                let leaf = self.hang(above.filter(|_| blocks > 0), blocks, &parting, request | 1 << 63);
                match self.mark(leaf, blocks, row.output) {
                    Ok(()) => sent = Some(leaf),
                    Err(_) => self.unhang(leaf),
                }
            }
            planned.sent = sent;
            planned.shortfall = sent.map(|_| Shortfall { needs, has, asked_blocks: shared, shared_blocks: blocks });
        }
        self.tree.requests.push(planned);
        self.tree.prefixes.push(row.prefix.request);
        Some(())
    }

    /// A node that shares `shared` blocks with the one above. It hangs below the node that owns the last place that is shared.
    fn hang(&mut self, mut above: Option<usize>, shared: u32, row: &Row, key: u64) -> usize {
        let size = self.tree.block_size;
        let (mut cut, mut own_block) = (shared * size, shared);
        if let Some(node) = above.and_then(|above| self.tree.nodes.get_mut(above))
            && row.prefix.extends
            && row.input >= node.length
            && node.length / size == shared
            && !node.continued
        {
            node.continued = true;
            cut = cut.max(node.length.saturating_sub(self.tree.lengths.forgotten));
            own_block = node.length.div_ceil(size);
        }
        while let Some(node) = above.and_then(|above| self.tree.nodes.get(above))
            && cut <= node.cut
            && own_block <= node.own_block
            && node.above.is_some()
        {
            above = node.above;
        }
        // Within the head nobody can part: those that do there part behind it, from all others.
        let before = own_block.checked_sub(1).filter(|_| own_block > self.tree.head_blocks());
        let ordinal = if let (Some(above), Some(before)) = (above, before) {
            let parted = self.parted.entry((self.tree.block_owner(above, before), before)).or_insert(0);
            *parted += 1;
            *parted
        } else {
            *self.roots += 1;
            *self.roots - 1
        };
        let index = self.tree.nodes.len();
        if let Some(node) = above.and_then(|above| self.tree.nodes.get_mut(above)) {
            node.below.push(index);
        }
        let (marks, below) = (Vec::new(), Vec::new());
        let length = row.input;
        self.tree.nodes.push(Node { above, cut, own_block, ordinal, length, key, marks, below, continued: false });
        index
    }

    /// Takes the newest node away.
    fn unhang(&mut self, node: usize) {
        let above = self.tree.nodes.pop().and_then(|node| node.above);
        if let Some(above) = above.and_then(|above| self.tree.nodes.get_mut(above)) {
            above.below.retain(|&below| below != node);
        }
    }

    /// Marks the end of a prompt, if there is room: else how many tokens it needs and has.
    fn mark(&mut self, node: usize, shared: u32, answer: u32) -> Result<(), (u32, u32)> {
        let lengths = self.tree.lengths;
        let tree = &mut self.tree;
        let Some(own) = tree.nodes.get(node) else { return Ok(()) };
        let (length, shared) = (own.length, shared * tree.block_size);
        let first = lengths.head + lengths.least + lengths.end;
        let Some(at) = length.checked_sub(lengths.end).filter(|_| length >= first) else { return Err((first, length)) };
        // What the template forgets of an end can't be in a block that others share.
        let size = tree.block_size;
        let forgets =
            |end: u32| lengths.forgotten > 0 && shared.min(end / size * size) > end.saturating_sub(lengths.forgotten);
        if forgets(length) {
            return Err((shared + lengths.forgotten, length));
        }
        if let Some((owner, index)) = tree.mark_before(node, at) {
            let before = tree.mark(owner, index).at;
            if before == at && (lengths.end > 0 || owner == node) {
                return Ok(());
            }
            if forgets(before + lengths.end) || at < before + lengths.step() {
                return Err((lengths.step(), at - before));
            }
        }
        let owner = tree.owner(node, at);
        if owner != node
            && let Some(after) = tree.mark_after(owner, at)
            && after < at + lengths.step()
        {
            return Err((lengths.step(), after - at));
        }
        if let Some(owner) = tree.nodes.get_mut(owner) {
            let index = owner.marks.partition_point(|mark| mark.at < at);
            owner.marks.insert(index, Mark { at, answer, next: u32::MAX, heir: None, real: None });
        }
        Ok(())
    }
}
