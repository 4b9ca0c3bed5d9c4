//! Which of the prompts sent before shares the most with a prompt, as both are sent.
//!
//! Invariant: it looks at the prompts that are sent, not at what the trace says of them: one that falls short is another one.

use std::collections::HashMap;

use super::layout::{Piece, PromptTree};

/// Up to where prompts have followed each node, and which one went the furthest (ties: the latest).
struct Reached(Vec<Option<(u32, u64)>>);

impl Reached {
    /// Who followed a path the furthest, up to its place `end`.
    fn furthest(&self, path: &[Piece], end: u32) -> Option<u64> {
        let mut furthest = None;
        for piece in path.iter().filter(|piece| piece.from < piece.to.min(end)) {
            let Some((to, by)) = self.0.get(piece.node).copied().flatten() else { break };
            furthest = Some(by);
            if to < piece.to.min(end) {
                break;
            }
        }
        furthest
    }

    fn follow(&mut self, path: &[Piece], end: u32, request: u64) {
        for piece in path.iter().filter(|piece| piece.from < piece.to.min(end)) {
            let to = piece.to.min(end);
            if let Some(reached) = self.0.get_mut(piece.node).filter(|at| at.is_none_or(|(at, _)| at <= to)) {
                *reached = Some((to, request));
            }
        }
    }
}

impl PromptTree {
    /// For each request, those before it of which one shares the most with it: one that is the very same prompt, else the one
    /// that follows its path the furthest; the one whose words do so, since where paths part beside the template's own tokens
    /// these may go on alike; and its prefix request. `sent` says which requests are sent, by row id; others count for nobody.
    pub(in crate::replay) fn predecessors(&self, sent: impl Fn(u64) -> bool) -> Vec<[Option<u64>; 3]> {
        let none = || Reached(vec![None; self.nodes()]);
        let (mut tokens, mut words) = (none(), none());
        // Who ended last behind the word at a place of a node.
        let mut ended: HashMap<(usize, u32), u64> = HashMap::new();
        let find = |request| {
            let Ok((node, _, prefix)) = self.sent(request) else { return [None; 3] };
            let (path, said) = (self.path(node), self.end(node));
            let last = (self.owner(node, said.saturating_sub(1)), said);
            // Whoever goes on behind this prompt repeats the template's end, but for what it forgets.
            let end = self.node(node).map_or(0, |node| node.length).saturating_sub(self.lengths.forgotten);
            let furthest = tokens.furthest(&path, end);
            let same = ended.get(&last).copied().or(furthest);
            let found =
                [same, words.furthest(&path, said), prefix.filter(|&prefix| furthest.is_some() && sent(prefix))];
            if sent(request) {
                ended.insert(last, request);
                tokens.follow(&path, end, request);
                words.follow(&path, said, request);
            }
            found
        };
        self.requests().map(find).collect()
    }
}
