//! Which of the prompts sent before shares the most with a prompt, as both are sent.
//!
//! Invariant: it looks at the prompts that are sent, not at what the trace says of them: one that falls short is another one.

use std::collections::HashMap;

use super::layout::PromptTree;

impl PromptTree {
    /// For each request, those before it whose prompts may share the most with its own: one that is the very same prompt, else
    /// the one that follows its path the furthest (ties: the latest); and its prefix request, which may share some tokens of
    /// the template more. `sent` says which requests are sent, by row id; others count for nobody.
    pub(in crate::replay) fn predecessors(&self, sent: impl Fn(u64) -> bool) -> Vec<[Option<u64>; 2]> {
        // For each node, up to where a prompt before has followed it, and which one.
        let mut reached: Vec<Option<(u32, u64)>> = vec![None; self.nodes()];
        // Who ended last behind the word at a place of a node.
        let mut ended: HashMap<(usize, u32), u64> = HashMap::new();
        self.requests()
            .map(|request| {
                let Ok((node, _, prefix)) = self.sent(request) else { return [None; 2] };
                let said = self.end(node);
                let last = (self.owner(node, said.saturating_sub(1)), said);
                // Whoever goes on behind this prompt repeats the template's end, but for what it forgets.
                let end = self.node(node).map_or(0, |node| node.length).saturating_sub(self.lengths.forgotten);
                let pieces: Vec<_> =
                    self.path(node).into_iter().filter(|piece| piece.from < piece.to.min(end)).collect();
                let mut furthest = None;
                for piece in &pieces {
                    let Some((to, by)) = reached.get(piece.node).copied().flatten() else { break };
                    furthest = Some(by);
                    if to < piece.to.min(end) {
                        break;
                    }
                }
                furthest = ended.get(&last).copied().or(furthest);
                if sent(request) {
                    ended.insert(last, request);
                }
                for piece in pieces.iter().filter(|_| sent(request)) {
                    let to = piece.to.min(end);
                    if let Some(reached) = reached.get_mut(piece.node).filter(|at| at.is_none_or(|(at, _)| at <= to)) {
                        *reached = Some((to, request));
                    }
                }
                // Who shares nothing with anybody shares no more with its prefix request.
                let prefix =
                    prefix.filter(|&prefix| furthest.is_some_and(|furthest| furthest != prefix) && sent(prefix));
                [furthest, prefix]
            })
            .collect()
    }
}
