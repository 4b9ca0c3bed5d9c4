//! [`Verifier`]: renders and tokenizes prompts offline and holds them against the trace.
//!
//! Invariant: it looks at what is sent and at the trace's columns, not at the plan between them; its memory is bounded by one
//! tree's blocks and a fixed number of tokens.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::PoisonError;

use crate::tokenize::{Encoder, Token};
use crate::trace::{PrefixTree, Request, Session};

use super::wrapping::lay_turns;
use super::{PromptError, PromptForm, PromptSynthesizer, PromptTree, Shortfall};

/// Tokens of rendered prompts that are kept to compare later ones with: 64 MiB.
const KEPT: usize = 1 << 24;
/// Requests that a report names; it counts all.
const NAMED: usize = 1000;

/// How well prompts meet the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Requests rendered.
    pub requests: u64,
    /// Tokens rendered.
    pub tokens: u64,
    /// Rendered length is `input_tokens`.
    pub length_exact: u64,
    /// Full blocks shared with the prefix request are `shared_blocks` (and no block of their own where there is none).
    pub prefix_exact: u64,
    /// Not a token more is shared than those blocks, or than the whole of a request that is extended.
    pub prefix_to_the_token: u64,
    /// The block ids of the rendered prompt are those of the trace, against all requests of its tree.
    pub blocks_exact: u64,
    /// The planned number of shared tokens is what was found.
    pub planned_exact: u64,
    /// Largest difference of lengths, in tokens, and its request.
    pub worst_length: Option<(u32, u64)>,
    /// Largest difference of shared blocks, and its request.
    pub worst_prefix: Option<(u32, u64)>,
    /// Tokens that the template gives to all prompts.
    pub head_tokens: u32,
    /// Prompts that share nothing with an earlier one.
    pub roots: u64,
    /// Of those, prompts whose first token behind the head another one has too.
    pub roots_alike: u64,
    /// Requests whose growth is too small for the template's own tokens.
    pub too_small: u64,
    /// Requests that are too short for the template: they have no prompt.
    pub too_short: u64,
    /// Requests that are not exact, though nothing says why.
    pub off: u64,
    /// The first of the requests that fall short or are not exact, by row id.
    pub named: Vec<(u64, Named)>,
}

/// Why a request is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// It has no prompt.
    Error(PromptError),
    /// It shares less.
    Shortfall(Shortfall),
    /// It is not what the trace says: what was found of it, and what the trace says.
    Off(Found, Found),
}

/// A prompt as the trace describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Tokens.
    pub tokens: u32,
    /// Full blocks shared with the prefix request.
    pub shared_blocks: u32,
}

impl VerifyReport {
    /// Whether every request that was not named is exact.
    pub fn is_exact(&self) -> bool {
        self.off == 0
    }

    fn name(&mut self, request: u64, why: Named) {
        if self.named.len() < NAMED {
            self.named.push((request, why));
        }
    }
}

fn worse(worst: &mut Option<(u32, u64)>, difference: u32, request: u64) {
    if difference > worst.map_or(0, |(worst, _)| worst) {
        *worst = Some((difference, request));
    }
}

/// Verifies tree after tree.
pub struct Verifier {
    /// The trace's own block ids.
    blocks: PrefixTree,
    /// First tokens behind the head of prompts that share nothing.
    firsts: HashSet<Token>,
    report: VerifyReport,
}

impl Verifier {
    /// Nothing verified yet of the prompts of this synthesizer.
    pub fn new(synthesizer: &PromptSynthesizer) -> Self {
        let report = VerifyReport { head_tokens: synthesizer.head_tokens(), ..VerifyReport::default() };
        Self { blocks: PrefixTree::new(), firsts: HashSet::new(), report }
    }

    /// Renders the prompts of one scope, planned as `tree`, for which `pick` says so, by row id: all, or a sample.
    ///
    /// # Errors
    /// Where a prefix request is not in the tree, or the template refuses a prompt.
    pub fn scope<'a>(
        &mut self,
        synthesizer: &mut PromptSynthesizer,
        tree: &PromptTree,
        sessions: impl IntoIterator<Item = &'a Session>,
        pick: impl Fn(u64) -> bool,
    ) -> Result<(), PromptError> {
        let size = synthesizer.setup.block_size.max(1);
        let mut scope = Scope::default();
        self.blocks.begin_session();
        for (request, row) in tree.requests().zip(sessions.into_iter().flat_map(|session| &session.requests)) {
            self.blocks.push(&row.prefix, row.blocks(size)).map_err(|_| PromptError::OutsideTree { request })?;
            if pick(request) {
                self.request(synthesizer, tree, &mut scope, request, row)?;
            }
        }
        synthesizer.recent.clear();
        Ok(())
    }

    /// What was found so far.
    pub fn report(&self) -> &VerifyReport {
        &self.report
    }

    /// What was found.
    pub fn finish(self) -> VerifyReport {
        self.report
    }

    fn request(
        &mut self,
        synthesizer: &mut PromptSynthesizer,
        tree: &PromptTree,
        scope: &mut Scope,
        request: u64,
        row: &Request,
    ) -> Result<(), PromptError> {
        let prompt = match synthesizer.prompt(tree, request) {
            Ok(prompt) => prompt,
            Err(error @ PromptError::TooShort { .. }) => {
                self.report.too_short += 1;
                self.report.name(request, Named::Error(error));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let size = synthesizer.setup.block_size.max(1);
        let tokens = synthesizer.render(&prompt.form)?;
        if let Some(prefix) = row.prefix.request {
            scope.keep(synthesizer, tree, prefix)?;
        }
        // A prefix request that has no prompt leaves the head.
        let other = row.prefix.request.and_then(|prefix| scope.kept.get(prefix));
        let shared = common(&tokens, other.unwrap_or(&synthesizer.wrapping.head));
        let length = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        let report = &mut self.report;
        if let Some(shortfall) = prompt.shortfall {
            report.too_small += 1;
            report.name(request, Named::Shortfall(shortfall));
        } else {
            report.requests += 1;
            report.tokens += u64::from(length);
            worse(&mut report.worst_length, length.abs_diff(row.input_tokens), request);
            // A prefix request that falls short itself is no measure.
            let fair = row.prefix.request.is_none_or(|prefix| !tree.falls_short(prefix));
            let blocks = if row.prefix.request.is_none() { 0 } else { shared / size };
            if fair {
                worse(&mut report.worst_prefix, blocks.abs_diff(row.prefix.shared_blocks), request);
            }
            let whole = row.prefix.request.filter(|_| row.prefix.extends).and_then(|prefix| scope.kept.get(prefix));
            let exact =
                whole.map_or(row.prefix.shared_blocks * size, |whole| u32::try_from(whole.len()).unwrap_or(u32::MAX));
            report.prefix_to_the_token += u64::from(row.prefix.request.is_none() || shared == exact);
            let met = [
                (&mut report.length_exact, length == row.input_tokens && length == prompt.tokens),
                (&mut report.prefix_exact, !fair || blocks == row.prefix.shared_blocks),
                (&mut report.planned_exact, shared == prompt.planned_shared),
                (
                    &mut report.blocks_exact,
                    scope.ids.agree(&tokens, size, report.head_tokens, &self.blocks.block_runs(request)),
                ),
            ];
            let off = met.iter().any(|(_, met)| !met);
            met.into_iter().for_each(|(count, met)| *count += u64::from(met));
            if off {
                report.off += 1;
                let found = Found { tokens: length, shared_blocks: blocks };
                let said = Found { tokens: row.input_tokens, shared_blocks: row.prefix.shared_blocks };
                report.name(request, Named::Off(found, said));
            }
        }
        if row.prefix.request.is_none() {
            report.roots += 1;
            let first = usize::try_from(report.head_tokens).ok().and_then(|head| tokens.get(head));
            report.roots_alike += u64::from(first.is_some_and(|&first| !self.firsts.insert(first)));
        }
        scope.kept.put(request, tokens);
        Ok(())
    }
}

impl PromptSynthesizer {
    /// The tokens of what is sent, as an endpoint renders it.
    fn render(&mut self, form: &PromptForm) -> Result<Vec<Token>, PromptError> {
        let head = self.wrapping.head.clone();
        let Some(counter) = &mut self.counter else { return Ok(Vec::new()) };
        Ok(match form {
            PromptForm::Chat(messages) => {
                let texts: Vec<&str> = messages.iter().map(|message| &*message.content).collect();
                let layout = counter.layout.get_mut().unwrap_or_else(PoisonError::into_inner);
                lay_turns(&mut **layout, &texts).map_err(super::TemplateError::from)?
            }
            PromptForm::Text(text) => {
                let mut tokens = head;
                counter.tokenizer.encode(text, &mut tokens);
                tokens
            }
            PromptForm::Tokens(tokens) => tokens.clone(),
        })
    }
}

fn common(one: &[Token], other: &[Token]) -> u32 {
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    u32::try_from(common).unwrap_or(u32::MAX)
}

/// What is known of the tree that is being verified.
#[derive(Default)]
struct Scope {
    ids: Ids,
    kept: Kept,
}

impl Scope {
    /// Renders a request again if its tokens are not kept.
    fn keep(
        &mut self,
        synthesizer: &mut PromptSynthesizer,
        tree: &PromptTree,
        request: u64,
    ) -> Result<(), PromptError> {
        if self.kept.get(request).is_none()
            && let Ok(prompt) = synthesizer.prompt(tree, request)
        {
            let tokens = synthesizer.render(&prompt.form)?;
            self.kept.put(request, tokens);
        }
        Ok(())
    }
}

/// Which rendered blocks stand for which block ids.
#[derive(Default)]
struct Ids {
    by_hash: HashMap<u64, u64>,
    seen: HashSet<u64>,
}

impl Ids {
    /// Whether equal ids stand for equal leading tokens here and in all prompts before. Blocks within the head are left out.
    fn agree(&mut self, tokens: &[Token], size: u32, head: u32, runs: &[(u64, u32)]) -> bool {
        let mut hash = 0;
        let ids = runs.iter().flat_map(|&(first, count)| first..first + u64::from(count));
        let mut agree = true;
        for (at, (block, id)) in tokens.chunks_exact(usize::try_from(size).unwrap_or(1)).zip(ids).enumerate() {
            let bytes: Vec<u8> = block.iter().flat_map(|token| token.to_le_bytes()).collect();
            hash = xxhash_rust::xxh3::xxh3_64_with_seed(&bytes, hash);
            if u64::try_from(at).unwrap_or(0) < u64::from(head / size) {
                continue;
            }
            let new = self.seen.insert(id);
            agree &= if let Some(known) = self.by_hash.get(&hash) {
                *known == id && !new
            } else {
                self.by_hash.insert(hash, id);
                new
            };
        }
        agree
    }
}

/// Tokens of the latest prompts.
#[derive(Default)]
struct Kept {
    tokens: HashMap<u64, Vec<Token>>,
    order: VecDeque<u64>,
    held: usize,
}

impl Kept {
    fn get(&self, request: u64) -> Option<&Vec<Token>> {
        self.tokens.get(&request)
    }

    fn put(&mut self, request: u64, tokens: Vec<Token>) {
        self.held += tokens.len();
        if let Some(before) = self.tokens.insert(request, tokens) {
            self.held -= before.len();
            return;
        }
        self.order.push_back(request);
        while self.held > KEPT
            && self.order.len() > 1
            && let Some(oldest) = self.order.pop_front()
        {
            self.held -= self.tokens.remove(&oldest).map_or(0, |tokens| tokens.len());
        }
    }
}
