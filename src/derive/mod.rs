//! New workloads from a trace: other sessions of it, other shapes, other lengths.
//!
//! Invariant: what comes out keeps the rules of the trace it came from: canonical prefix columns, edges from earlier to later,
//! the quanta and the order of sessions that its profile states; the same recipe gives the same trace.
//!
//! A [`Recipe`] is followed in a fixed order: filter, sample, scale lengths, linearize, fan out, split.

mod clock;
mod draft;
mod fan_out;
mod filter;
mod linear;
mod pick;
mod scale;
#[cfg(test)]
mod testing;

use std::collections::BTreeMap;

pub use fan_out::Work;
pub use filter::Filter;
pub use scale::Scale;

use crate::format::tokens::Fresh;
use crate::format::{FormatError, TraceSink, TraceSource};
use crate::trace::manifest::Totals;
use crate::trace::vocab::{Profile, Scope};
use crate::trace::{Manifest, Session};
use draft::{Draft, Loader, Press};

/// What to make of a trace.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    /// Which sessions stay.
    pub filter: Filter,
    /// How many of those.
    pub sample: Option<u32>,
    /// What sample and split are drawn with.
    pub seed: u64,
    /// A factor for the lengths of prompts, answers and tool results.
    pub scale_lengths: Option<Scale>,
    /// One request after another.
    pub linearize: bool,
    /// So many branches on the first request, and what they do.
    pub fan_out: Option<(u32, Work)>,
    /// How many percent of the sessions go to the first sink; the others go to the second.
    pub split: Option<u8>,
}

impl Recipe {
    /// Whether sessions are changed, not only picked.
    fn reshapes(&self) -> bool {
        self.scale_lengths.is_some() || self.linearize || self.fan_out.is_some()
    }
}

/// Why nothing was derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    /// The source could not be read or the result not be written.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// No session of the source passed the filter.
    #[error("no session of the trace passes the filter")]
    Nothing,
    /// A part of the split would be empty.
    #[error("a part of the split would hold no session")]
    EmptyPart,
    /// Another number of sinks than the recipe has parts.
    #[error("one sink for each part is needed")]
    Sinks,
}

/// The manifest to begin a derived trace with: that of its source, but for sums, files and counts of a conversion.
pub fn manifest(source: &Manifest) -> Manifest {
    Manifest { totals: Totals::default(), files: Vec::new(), skip_counts: None, ..source.clone() }
}

/// Follows the recipe: one sink, or two where it splits, begun with [`manifest`]. Gives their manifests.
///
/// # Errors
/// If the source can't be read, nothing is left of it, or a sink can't be written. Nothing is published then but parts that were
/// finished before.
pub fn derive(
    mut source: Box<dyn TraceSource>,
    recipe: &Recipe,
    mut sinks: Vec<Box<dyn TraceSink>>,
) -> Result<Vec<Manifest>, DeriveError> {
    if sinks.len() != 1 + usize::from(recipe.split.is_some()) {
        return Err(DeriveError::Sinks);
    }
    let manifest = source.manifest().clone();
    let mut drafts = load(&mut *source, &manifest, recipe)?;
    let mut fresh = Fresh::default();
    for draft in &mut drafts {
        reshape(draft, recipe, &mut fresh);
    }
    if recipe.reshapes() && manifest.profile != Profile::Imported {
        in_published_order(&mut drafts, &manifest);
    }
    let first = recipe.split.map(|percent| pick::split(drafts.len(), percent, recipe.seed));
    if first.as_ref().is_some_and(|first| first.iter().all(|part| *part) || !first.contains(&true)) {
        return Err(DeriveError::EmptyPart);
    }
    let mut presses: Vec<Press> = sinks.iter().map(|_| Press::new(&manifest)).collect();
    for (at, draft) in drafts.into_iter().enumerate() {
        let part = usize::from(first.as_ref().and_then(|first| first.get(at)) == Some(&false));
        if let (Some(press), Some(sink)) = (presses.get_mut(part), sinks.get_mut(part)) {
            sink.session(&press.plant(draft))?;
        }
    }
    Ok(sinks.into_iter().map(TraceSink::finish).collect::<Result<_, _>>()?)
}

/// The sessions that filter and sample leave, scaled, in their order.
fn load(source: &mut dyn TraceSource, manifest: &Manifest, recipe: &Recipe) -> Result<Vec<Draft>, DeriveError> {
    let scale = recipe.scale_lengths.unwrap_or(Scale::ONE).in_steps_of(&manifest.quanta);
    let mut loader = Loader::new(manifest, if recipe.scale_lengths.is_some() { scale } else { Scale::ONE });
    let most = recipe.sample.map_or(usize::MAX, at);
    // By rank; a sample keeps no more than it needs.
    let mut kept: BTreeMap<(u64, u64), Draft> = BTreeMap::new();
    for (row, session) in (0..).zip(source) {
        let session = session?;
        let stays = recipe.filter.keeps(&session);
        let mut draft = loader.load(session);
        if !stays {
            continue;
        }
        if recipe.scale_lengths.is_some() {
            scale.apply(&mut draft.session);
        }
        let rank = recipe.sample.map_or(0, |_| pick::rank(recipe.seed, row));
        kept.insert((rank, row), draft);
        if kept.len() > most {
            kept.pop_last();
        }
    }
    let mut drafts: Vec<(u64, Draft)> = kept.into_iter().map(|((_, row), draft)| (row, draft)).collect();
    drafts.sort_by_key(|(row, _)| *row);
    if drafts.is_empty() {
        return Err(DeriveError::Nothing);
    }
    Ok(drafts.into_iter().map(|(_, draft)| draft).collect())
}

fn reshape(draft: &mut Draft, recipe: &Recipe, fresh: &mut Fresh) {
    if recipe.linearize {
        *draft = linear::linearize(std::mem::replace(draft, empty(draft)));
    }
    if let Some((branches, work)) = recipe.fan_out {
        *draft = fan_out::fan_out(draft, branches, work, fresh);
    }
    renumber_models(&mut draft.session);
}

/// Puts sessions in the order of their own structure, as a conversion does, so that it tells nothing about when they ran.
fn in_published_order(drafts: &mut Vec<Draft>, manifest: &Manifest) {
    let alone = Manifest { scope: Scope::Session, k: None, k_unit: None, ..manifest.clone() };
    let keyed = std::mem::take(drafts).into_iter().map(|draft| {
        let mut press = Press::new(&alone);
        let session = press.plant(draft.clone());
        ((session.requests.len(), session.agents.len(), press.unique_blocks()), session, draft)
    });
    let mut keyed: Vec<_> = keyed.collect();
    keyed.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.cmp(&other.1)));
    drafts.extend(keyed.into_iter().map(|(_, _, draft)| draft));
}

/// Numbers unlisted models by first appearance, which another order of requests may have changed.
fn renumber_models(session: &mut Session) {
    let mut numbers = BTreeMap::new();
    for request in session.requests.iter_mut().filter(|request| request.model.other_number().is_some()) {
        let next = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
        request.model = crate::trace::Model::other(*numbers.entry(request.model).or_insert(next));
    }
}

/// What stands in for a draft while it is worked on.
fn empty(draft: &Draft) -> Draft {
    let Session { start_ms, harness, source_number, .. } = draft.session;
    let session = Session {
        start_ms,
        harness,
        source_number,
        agents: Vec::new(),
        requests: Vec::new(),
        edges: Vec::new(),
        tools: Vec::new(),
    };
    Draft { session, prompts: Vec::new() }
}

/// A row number of a session as an index.
fn at(local: u32) -> usize {
    usize::try_from(local).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::testing::{Memory, four_turns, manifest as plain, session_of};
    use super::*;

    fn derived(sessions: &[Session], recipe: &Recipe) -> Result<Vec<Vec<Session>>, DeriveError> {
        let parts = Memory::sinks(1 + usize::from(recipe.split.is_some()), &plain(64));
        derive(Memory::source(sessions, &plain(64)), recipe, parts.iter().map(Memory::sink).collect())?;
        Ok(parts.iter().map(Memory::sessions).collect())
    }

    fn many() -> Vec<Session> {
        let mut press = Press::new(&plain(64));
        (1..=20u32)
            .map(|length| {
                let rows: Vec<_> = (0..length).map(|row| (row * 100 + 70, row.checked_sub(1))).collect();
                press.plant(Loader::new(&plain(64), Scale::ONE).load(session_of(&rows)))
            })
            .collect()
    }

    #[test]
    fn a_recipe_that_changes_nothing_gives_the_same_sessions() {
        let sessions = many();
        assert!(derived(&sessions, &Recipe::default()).unwrap()[0] == sessions);
        let one = Recipe {
            scale_lengths: Some(Scale::ONE),
            linearize: true,
            fan_out: Some((1, Work::Burst)),
            ..Recipe::default()
        };
        assert!(derived(&sessions, &one).unwrap()[0] == sessions);
    }

    #[test]
    fn a_sample_is_exact_in_order_and_part_of_a_larger_one() {
        let sessions = many();
        let lengths = |sample| -> Vec<usize> {
            let recipe = Recipe { sample: Some(sample), seed: 7, ..Recipe::default() };
            derived(&sessions, &recipe).unwrap()[0].iter().map(|session| session.requests.len()).collect()
        };
        let (few, more) = (lengths(5), lengths(10));
        assert_eq!((few.len(), more.len(), lengths(100).len()), (5, 10, 20));
        assert!(few.is_sorted() && few.iter().all(|length| more.contains(length)));
    }

    #[test]
    fn a_split_leaves_no_session_out_and_no_part_empty() {
        let sessions = many();
        let parts = derived(&sessions, &Recipe { split: Some(75), ..Recipe::default() }).unwrap();
        assert_eq!((parts[0].len(), parts[1].len()), (15, 5));
        let everything = Recipe { split: Some(99), sample: Some(2), ..Recipe::default() };
        assert_eq!(derived(&sessions, &everything), Err(DeriveError::EmptyPart));
    }

    #[test]
    fn what_a_filter_leaves_is_numbered_again() {
        let recipe = Recipe { filter: "requests>=19".parse().unwrap(), ..Recipe::default() };
        let parts = derived(&many(), &recipe).unwrap();
        assert_eq!(parts[0].len(), 2);
        assert_eq!(parts[0][1].requests[1].prefix.request, Some(19));
        let nothing = Recipe { filter: "requests>=99".parse().unwrap(), ..Recipe::default() };
        assert_eq!(derived(&many(), &nothing), Err(DeriveError::Nothing));
    }

    #[test]
    fn half_the_lengths_share_half_the_blocks() {
        let recipe = Recipe { scale_lengths: Some("0.5".parse().unwrap()), ..Recipe::default() };
        let session = &derived(&[four_turns()], &recipe).unwrap()[0][0];
        let rows: Vec<_> = session
            .requests
            .iter()
            .map(|r| (r.input_tokens, r.output_tokens, r.prefix.shared_blocks, r.prefix.extends))
            .collect();
        assert_eq!(
            rows,
            [
                (4000, Some(200), 0, false),
                (4400, Some(200), 62, true),
                (4800, Some(200), 68, true),
                (5200, Some(200), 75, true)
            ]
        );
    }
}
