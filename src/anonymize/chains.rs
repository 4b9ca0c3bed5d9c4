//! Chains of hashed steps as a tree in memory: the blocks of prompts, and the messages of conversations.
//!
//! Invariant: a parent's number is smaller than its children's; node 0 is the root; equal chains end in the same node.

use std::collections::HashMap;

use super::key::{Tag, Tagger};
use zeroize::Zeroize;

/// A node; 0 is the root, which stands for the empty chain.
pub(super) type Node = u32;

/// A tree of chains. What a step holds is known by its tag alone.
pub(super) struct Chains {
    children: HashMap<(Node, Tag), Node>,
    nodes: Vec<(Node, u32)>,
}

impl Chains {
    pub(super) fn new() -> Self {
        Self { children: HashMap::new(), nodes: vec![(0, 0)] }
    }

    /// The node one step below `parent`, and whether it is new.
    pub(super) fn step(&mut self, parent: Node, tag: Tag) -> (Node, bool) {
        let next = Node::try_from(self.nodes.len()).unwrap_or(Node::MAX);
        let node = *self.children.entry((parent, tag)).or_insert(next);
        if node == next {
            self.nodes.push((parent, self.depth(parent) + 1));
        }
        (node, node == next)
    }

    /// Steps from the root.
    pub(super) fn depth(&self, node: Node) -> u32 {
        self.at(node).1
    }

    /// The nodes from `node` up to the root, the root left out.
    pub(super) fn up(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        std::iter::successors(Some(node), |node| Some(self.at(*node).0)).take_while(|node| *node != 0)
    }

    fn at(&self, node: Node) -> (Node, u32) {
        usize::try_from(node).ok().and_then(|node| self.nodes.get(node)).copied().unwrap_or((0, 0))
    }
}

/// A prompt's place among the blocks: its last full block, and what follows it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The last full block.
    pub(super) leaf: Node,
    /// The tokens after it, fewer than a block.
    pub(super) tail: Vec<u32>,
    /// All its tokens.
    pub(super) tokens: u32,
}

/// The blocks of all prompts.
pub(super) struct Blocks {
    chains: Chains,
    /// Chain hash of each node, the root's first.
    hashes: Vec<Tag>,
    /// Tokens of each node, one block after the other, the root left out: a tail is compared with the block that goes on.
    tokens: Vec<u32>,
    size: usize,
}

impl Blocks {
    pub(super) fn new(block_size: u32) -> Self {
        let size = usize::try_from(block_size).unwrap_or(usize::MAX).max(1);
        Self { chains: Chains::new(), hashes: vec![Tag([0; 16])], tokens: Vec::new(), size }
    }

    /// Finds or makes the nodes of a prompt that grows by `tokens`.
    pub(super) fn extend(&mut self, prompt: &mut Prompt, mut tokens: &[u32], tagger: &Tagger) {
        prompt.tokens = prompt.tokens.saturating_add(u32::try_from(tokens.len()).unwrap_or(u32::MAX));
        if !prompt.tail.is_empty() {
            let (fill, rest) = tokens.split_at(tokens.len().min(self.size - prompt.tail.len()));
            prompt.tail.extend_from_slice(fill);
            if prompt.tail.len() < self.size {
                return;
            }
            prompt.leaf = self.descend(prompt.leaf, &prompt.tail, tagger);
            prompt.tail.clear();
            tokens = rest;
        }
        let whole = tokens.len() - tokens.len() % self.size;
        let (whole, tail) = tokens.split_at(whole);
        prompt.leaf = self.descend(prompt.leaf, whole, tagger);
        prompt.tail.extend_from_slice(tail);
    }

    /// The node below `leaf` that whole blocks of tokens lead to.
    fn descend(&mut self, mut leaf: Node, tokens: &[u32], tagger: &Tagger) -> Node {
        for block in tokens.chunks_exact(self.size) {
            let before =
                usize::try_from(leaf).ok().and_then(|leaf| self.hashes.get(leaf)).copied().unwrap_or(Tag([0; 16]));
            let hash = tagger.block(before, block);
            let (node, new) = self.chains.step(leaf, hash);
            if new {
                self.hashes.push(hash);
                self.tokens.extend_from_slice(block);
            }
            leaf = node;
        }
        leaf
    }

    /// Full blocks up to `node`.
    pub(super) fn depth(&self, node: Node) -> u32 {
        self.chains.depth(node)
    }

    /// The nodes from `node` up to the root, the root left out.
    pub(super) fn up(&self, node: Node) -> impl Iterator<Item = Node> + '_ {
        self.chains.up(node)
    }

    /// The tokens of a block.
    pub(super) fn tokens(&self, node: Node) -> &[u32] {
        let at = usize::try_from(node)
            .ok()
            .and_then(|node| node.checked_sub(1))
            .and_then(|node| node.checked_mul(self.size));
        at.and_then(|at| self.tokens.get(at..at + self.size)).unwrap_or_default()
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.tokens.zeroize();
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        self.tail.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anonymize::key::Key;

    #[test]
    fn equal_prefixes_end_in_the_same_node_and_no_others() {
        let tagger = Tagger::new(&Key::from_bytes([7; 32]));
        let mut blocks = Blocks::new(2);
        let mut insert = |parts: &[&[u32]]| {
            let mut prompt = Prompt::default();
            parts.iter().for_each(|part| blocks.extend(&mut prompt, part, &tagger));
            prompt
        };
        let one = insert(&[&[1, 2, 3, 4, 5]]);
        let two = insert(&[&[1], &[2, 3], &[], &[4, 6, 7]]);
        let other = insert(&[&[3, 4]]);
        assert_eq!((blocks.depth(one.leaf), one.tail.as_slice(), one.tokens), (2, &[5][..], 5));
        assert!(blocks.up(two.leaf).any(|node| node == one.leaf));
        assert_eq!(blocks.tokens(two.leaf), [6, 7]);
        assert!(
            blocks.up(other.leaf).all(|node| node != one.leaf),
            "the same tokens after another prefix are another block"
        );
    }
}
