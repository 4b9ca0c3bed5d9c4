//! Several recorders of the same sessions: one exchange each, what they know put together.
//!
//! Invariant: the record whose bodies are most trusted stays, of equal ones the first read; its prompt is never mixed with another's,
//! and what it states stands. Only what it lacks is taken over. Two records are one exchange only if they come from different
//! inputs, of one session as far as both know, and within an hour; by what the provider called it, or, where one has no such name, by
//! the ids of its calls or by the same messages of the same agent sent at about the same time, unless one failed and the other did
//! not.

use std::collections::HashMap;

use super::chains::Node;
use super::draft::{Draft, Shape, Told};
use super::key::Tag;
use crate::trace::vocab::Status;

/// Clocks and rounding of recorders of one machine differ by less, in microseconds.
const SAME_TIME_US: u64 = 1_500_000;
/// Records of one exchange are never further apart, in microseconds.
const SAME_DAY_US: u64 = 3_600_000_000;

/// What recorders of the same sessions said to one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Records of an exchange that another record tells of.
    pub merged: u64,
    /// Facts that such a record added.
    pub added: u64,
    /// Facts on which they differ; the more trusted one decided.
    pub conflicts: u64,
}

/// Keeps one draft an exchange.
pub(super) fn join(drafts: Vec<Draft>) -> (Vec<Draft>, Joined) {
    let inputs = drafts.iter().map(|draft| draft.position.input);
    let mut joined = Joined::default();
    if inputs.min() == drafts.iter().map(|draft| draft.position.input).max() {
        return (drafts, joined);
    }
    let mut drafts = drafts;
    drafts.sort_by_key(|draft| (draft.trust, draft.position));
    let mut kept: Vec<Draft> = Vec::with_capacity(drafts.len());
    let mut by_name: HashMap<Tag, Vec<usize>> = HashMap::new();
    let mut by_call: HashMap<Tag, Vec<usize>> = HashMap::new();
    let mut by_thread: HashMap<(u32, Shape), Vec<usize>> = HashMap::new();
    // Which inputs have told of a kept draft: one input tells of an exchange once.
    let mut told: Vec<Vec<u32>> = Vec::new();
    for draft in drafts {
        let named = |names: &[Tag], by: &HashMap<Tag, Vec<usize>>| -> Vec<usize> {
            names.iter().filter_map(|name| by.get(name)).flatten().copied().collect()
        };
        let calls: Vec<Tag> = draft.calls.iter().filter(|call| call.has_id).map(|call| call.id).collect();
        let is_same = |at: &usize, within: u64| {
            let other_input = told.get(*at).is_some_and(|told| !told.contains(&draft.position.input));
            other_input && kept.get(*at).is_some_and(|kept| agree(kept, &draft) && apart(kept, &draft) <= within)
        };
        // What both call by other names are two exchanges, whatever their calls are called: some providers count calls anew.
        let unnamed = |at: &usize| kept.get(*at).is_some_and(|kept| kept.names.is_empty() || draft.names.is_empty());
        let failed = |draft: &Draft| !matches!(draft.status, Status::Ok | Status::ClientCancelled);
        let alike_ended = |at: &usize| kept.get(*at).is_some_and(|kept| failed(kept) == failed(&draft));
        let found = named(&draft.names, &by_name).into_iter().find(|at| is_same(at, SAME_DAY_US));
        let found =
            found.or_else(|| named(&calls, &by_call).into_iter().find(|at| is_same(at, SAME_DAY_US) && unnamed(at)));
        let found = found.or_else(|| {
            let alike = by_thread.get(&(draft.thread, draft.shape)).into_iter().flatten().copied();
            alike
                .filter(|at| is_same(at, SAME_TIME_US) && unnamed(at) && alike_ended(at))
                .min_by_key(|at| kept.get(*at).map(|kept| apart(kept, &draft)))
        });
        let at = found.unwrap_or(kept.len());
        for (names, by) in [(&draft.names, &mut by_name), (&calls, &mut by_call)] {
            names.iter().for_each(|name| by.entry(*name).or_default().push(at));
        }
        if let Some(other) = kept.get_mut(at) {
            joined.merged += 1;
            told.get_mut(at).into_iter().for_each(|told| told.push(draft.position.input));
            other.complete(draft, &mut joined);
        } else {
            by_thread.entry((draft.thread, draft.shape)).or_default().push(at);
            told.push(vec![draft.position.input]);
            kept.push(draft);
        }
    }
    (kept, joined)
}

/// Answers that no recorder kept, as far as later requests of the same conversation tell of them.
pub(super) fn recall(drafts: &mut [Draft]) {
    let mut told: HashMap<Node, Vec<(Option<Tag>, Told)>> = HashMap::new();
    for draft in drafts.iter_mut() {
        let session = draft.session;
        for answer in draft.told.drain(..) {
            told.entry(answer.asked).or_default().push((session, answer));
        }
    }
    let silent = |draft: &&mut Draft| !draft.recorded.answer && draft.status == Status::Ok && draft.calls.is_empty();
    // Of attempts that all seem to have gone well, the last.
    for draft in drafts.iter_mut().rev().filter(silent) {
        let Some(known) = told.get_mut(&draft.thread) else { continue };
        // The history of a fork has only its own call; the fullest is the answer.
        let own = known.iter_mut().filter(|(session, _)| *session == draft.session);
        if let Some((_, answer)) = own.max_by_key(|(_, answer)| answer.calls.len()) {
            draft.calls = std::mem::take(&mut answer.calls);
            draft.output_parts = answer.parts;
        }
        known.retain(|(session, _)| *session != draft.session);
    }
}

/// Whether nothing that both know tells two drafts apart.
fn agree(one: &Draft, other: &Draft) -> bool {
    let same = |one: Option<Tag>, other: Option<Tag>| one.is_none() || other.is_none() || one == other;
    same(one.session, other.session) && same(one.agent, other.agent)
}

fn apart(one: &Draft, other: &Draft) -> u64 {
    one.start_us.abs_diff(other.start_us)
}

impl Draft {
    /// Takes over what another, less trusted record of the same exchange knows more.
    fn complete(&mut self, other: Self, joined: &mut Joined) {
        fill(&mut self.session, other.session, joined);
        fill(&mut self.parent_session, other.parent_session, joined);
        fill(&mut self.agent, other.agent, joined);
        fill(&mut self.parent_agent, other.parent_agent, joined);
        fill(&mut self.spawn_call, other.spawn_call, joined);
        // Clocks differ, so that times which both know are no conflict.
        let mut quiet = Joined::default();
        fill(&mut self.duration_us, other.duration_us, &mut quiet);
        fill(&mut self.ttft_us, other.ttft_us, &mut quiet);
        fill(&mut self.max_tokens, other.max_tokens, joined);
        self.harness = self.harness.min(other.harness);
        self.names.extend(&other.names);
        let silent = |draft: &Self| !draft.recorded.answer && draft.status == Status::Ok;
        let unknown = |draft: &Self| draft.cut_by_unknown || draft.status == Status::NetworkError;
        if (silent(self) || unknown(self)) && !silent(&other) && !unknown(&other) {
            joined.added += 1;
            (self.status, self.cut_by_unknown) = (other.status, other.cut_by_unknown);
            self.recorded.answer |= other.recorded.answer;
        } else if self.status != other.status && !silent(&other) && !unknown(&other) {
            joined.conflicts += 1;
        }
        fill(&mut self.stop, other.stop, joined);
        let mut usage = [
            (&mut self.usage.input, other.usage.input),
            (&mut self.usage.cache_read, other.usage.cache_read),
            (&mut self.usage.cache_write_5m, other.usage.cache_write_5m),
            (&mut self.usage.cache_write_1h, other.usage.cache_write_1h),
            (&mut self.usage.output, other.usage.output),
            (&mut self.usage.reasoning, other.usage.reasoning),
        ];
        for (own, theirs) in &mut usage {
            fill(own, *theirs, joined);
        }
        if self.calls.is_empty() && !other.calls.is_empty() {
            joined.added += 1;
            (self.calls, self.output_parts) = (other.calls, other.output_parts);
        } else {
            let ids = |draft: &[super::draft::Call]| draft.iter().map(|call| call.id).collect::<Vec<_>>();
            joined.conflicts += u64::from(!other.calls.is_empty() && ids(&self.calls) != ids(&other.calls));
            for call in &mut self.calls {
                let theirs = other.calls.iter().find(|theirs| theirs.id == call.id);
                call.whole_us = call.whole_us.or(theirs.and_then(|theirs| theirs.whole_us));
            }
        }
        for result in &mut self.results {
            let theirs = other.results.iter().find(|theirs| theirs.call == result.call);
            result.agent = result.agent.or(theirs.and_then(|theirs| theirs.agent));
        }
    }
}

/// Takes over a fact that is missing, and counts one that differs.
fn fill<T: Copy + PartialEq>(own: &mut Option<T>, theirs: Option<T>, joined: &mut Joined) {
    match (*own, theirs) {
        (None, Some(_)) => {
            *own = theirs;
            joined.added += 1;
        }
        (Some(own), Some(theirs)) if own != theirs => joined.conflicts += 1,
        _ => {}
    }
}
