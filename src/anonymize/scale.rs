//! `--prompt-scale usage`: prompt lengths as the provider counts them.
//!
//! Invariant: a part is scaled once, when it is first seen, so that shared parts keep one length and prefixes stay prefixes. What a
//! recorder left out has a length too: what the provider counted of an agent's first prompt beyond what is there.

use std::collections::HashMap;

use crate::capture::Provenance;
use crate::tokenize::{Laid, SEPARATOR_BASE, Token};
use crate::trace::Usage;

use super::key::{Tag, Tagger};
use super::reuse::Sender;

/// What scaling left over, for the local summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residual {
    /// Requests whose prompt the provider counted.
    pub requests: u64,
    /// Sum of what the provider counted, in tokens.
    pub stated: u64,
    /// Sum of the absolute differences that are left, in tokens.
    pub off: u64,
}

/// What the provider counted of a prompt, and what of it was not recorded.
pub(super) type Counted<'a> = (&'a Usage, Option<Gap>);

/// What the recorder left out of the prompts of an agent.
#[derive(Clone, Copy)]
pub(super) struct Gap {
    /// Tells the agent's from those of others, with which nothing shows that it shares them.
    pub(super) of: Tag,
    /// Its place: behind the tools, which are there, or at the front.
    pub(super) behind_tools: bool,
}

impl Gap {
    /// The gap of an agent that is known, if there is one.
    pub(super) fn new(provenance: &Provenance, (session, agent): Sender, tagger: &Tagger) -> Option<Self> {
        let of = tagger.tag([&b"gap"[..], &session?.0, &agent.unwrap_or(Tag([0; 16])).0]);
        (provenance.no_system || provenance.no_tools).then_some(Self { of, behind_tools: !provenance.no_tools })
    }
}

/// The length that each part was given.
#[derive(Default)]
pub(super) struct Scaler {
    lengths: HashMap<[u8; 16], u32>,
    gaps: HashMap<Tag, u32>,
    pub(super) residual: Residual,
}

impl Scaler {
    /// The prompt with each part at its length: known parts as before, new ones so that the whole comes to `stated` tokens. A gap
    /// is filled with tokens that stand for what was left out.
    pub(super) fn scale(&mut self, laid: &Laid, stated: u32, gap: Option<Gap>) -> Laid {
        let filled = gap.map(|gap| self.fill(gap, laid, stated));
        let laid = filled.as_ref().unwrap_or(laid);
        let parts: Vec<(&[Token], [u8; 16])> = parts(&laid.tokens).map(|part| (part, hash(part))).collect();
        let known: u64 =
            parts.iter().filter_map(|(_, hash)| self.lengths.get(hash)).map(|length| u64::from(*length)).sum();
        let new: u64 =
            parts.iter().filter(|(_, hash)| !self.lengths.contains_key(hash)).map(|(part, _)| len(part)).sum();
        let wanted = u64::from(stated).saturating_sub(known);
        let mut out = Laid::default();
        let mut before = 0;
        for (part, hash) in &parts {
            // Nothing stated, or a share beyond belief, leaves a part as it is.
            let believable = stated > 0 && wanted >= new / 4 && wanted <= new.saturating_mul(4);
            let own = if believable && new > 0 { (len(part) * wanted).div_ceil(new).max(1) } else { len(part) };
            let length = *self.lengths.entry(*hash).or_insert(u32::try_from(own).unwrap_or(u32::MAX));
            stretch(part, length, &mut out.tokens);
            // Parts do not straddle the borders of tools and system.
            if before < laid.tools {
                out.tools += length;
            } else if before < laid.tools + laid.system {
                out.system += length;
            }
            before += u32::try_from(part.len()).unwrap_or(u32::MAX);
        }
        if stated > 0 {
            self.residual.requests += 1;
            self.residual.stated += u64::from(stated);
            self.residual.off += len(&out.tokens).abs_diff(u64::from(stated));
        }
        out
    }

    /// The prompt with its gap filled; as it is where the provider's count of a first prompt is not known.
    fn fill(&mut self, gap: Gap, laid: &Laid, stated: u32) -> Laid {
        let missing = stated.saturating_sub(u32::try_from(laid.tokens.len()).unwrap_or(u32::MAX));
        if stated > 0 {
            self.gaps.entry(gap.of).or_insert(missing);
        }
        let length = self.gaps.get(&gap.of).copied().unwrap_or(0);
        let seed = gap.of.0.map(Token::from);
        let stand_in = std::iter::once(SEPARATOR_BASE).chain(seed.into_iter().cycle());
        let stand_in: Vec<Token> = stand_in.take(usize::try_from(length).unwrap_or(0)).collect();
        self.lengths.insert(hash(&stand_in), length);
        let at = if gap.behind_tools { usize::try_from(laid.tools).unwrap_or(0) } else { 0 };
        let (before, behind) = laid.tokens.split_at(at.min(laid.tokens.len()));
        let mut tokens = [before, &*stand_in].concat();
        tokens.extend_from_slice(behind);
        Laid { tokens, tools: laid.tools, system: laid.system + length }
    }
}

/// A part begins at each separator.
fn parts(tokens: &[Token]) -> impl Iterator<Item = &[Token]> {
    tokens.chunk_by(|_, next| *next < SEPARATOR_BASE)
}

/// `length` tokens that are a function of the part.
fn stretch(part: &[Token], length: u32, out: &mut Vec<Token>) {
    let (from, to) = (len(part), u64::from(length));
    for at in 0..to {
        let source =
            usize::try_from(at * from / to).ok().and_then(|source| part.get(source)).copied().unwrap_or_default();
        // Where a token is repeated, the repeats differ, so that a longer and a shorter part still part where they must.
        let repeat = at - (at * from / to * to).div_ceil(from);
        out.push(source.wrapping_add(u32::try_from(repeat << 24).unwrap_or(0)));
    }
}

fn hash(part: &[Token]) -> [u8; 16] {
    let bytes: Vec<u8> = part.iter().flat_map(|token| token.to_le_bytes()).collect();
    let mut hash = [0; 16];
    blake3::Hasher::new().update(&bytes).finalize_xof().fill(&mut hash);
    hash
}

fn len(part: &[Token]) -> u64 {
    u64::try_from(part.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid(parts: &[(u32, u32)]) -> Laid {
        let tokens = parts
            .iter()
            .filter(|(_, count)| *count > 0)
            .flat_map(|(first, count)| std::iter::once(SEPARATOR_BASE).chain(*first..first + count - 1))
            .collect();
        Laid { tokens, tools: parts[0].1, system: parts[1].1 }
    }

    #[test]
    fn the_whole_comes_to_what_is_stated_and_shared_parts_keep_their_length() {
        let mut scaler = Scaler::default();
        let first = scaler.scale(&laid(&[(1, 10), (100, 20), (200, 30)]), 90, None);
        assert_eq!((first.tokens.len(), first.tools, first.system), (90, 15, 30));
        let second = scaler.scale(&laid(&[(1, 10), (100, 20), (200, 30), (300, 10)]), 110, None);
        assert_eq!(second.tokens.len(), 110);
        assert_eq!(second.tokens[..90], first.tokens[..]);
        assert_eq!(scaler.residual, Residual { requests: 2, stated: 200, off: 0 });
    }

    #[test]
    fn a_statement_beyond_belief_changes_nothing() {
        let mut scaler = Scaler::default();
        let plain = laid(&[(1, 10), (100, 20)]);
        assert_eq!(scaler.scale(&plain, 100_000, None), plain);
        assert_eq!(Scaler::default().scale(&plain, 0, None), plain);
    }

    #[test]
    fn what_was_left_out_has_one_length_for_an_agent_and_is_shared_with_no_other() {
        let mut scaler = Scaler::default();
        let bare = |parts: &[(u32, u32)]| Laid { tools: 0, system: 0, ..laid(&[&[(1, 0), (1, 0)], parts].concat()) };
        let gap = |of| Some(Gap { of: Tag([of; 16]), behind_tools: false });
        let first = scaler.scale(&bare(&[(200, 30)]), 1030, gap(1));
        assert_eq!((first.tokens.len(), first.tools, first.system), (1030, 0, 1000));
        let second = scaler.scale(&bare(&[(200, 30), (300, 10)]), 1040, gap(1));
        assert_eq!(second.tokens[..1030], first.tokens[..]);
        let other = scaler.scale(&bare(&[(200, 30)]), 530, gap(2));
        assert_eq!(other.system, 500);
        assert_ne!(other.tokens[..500], first.tokens[..500]);
        assert_eq!(scaler.residual.off, 0);
        // Behind the tools, where they were kept; nothing where nothing is known of its length.
        let tools = Laid { system: 0, ..laid(&[(1, 10), (1, 0), (200, 30)]) };
        let between = scaler.scale(&tools, 140, Some(Gap { of: Tag([3; 16]), behind_tools: true }));
        assert_eq!((between.tokens[..10] == tools.tokens[..10], between.tools, between.system), (true, 10, 100));
        assert_eq!(scaler.scale(&tools, 0, gap(4)), tools);
    }
}
