//! Prompts of a replay from the synthesizer.
//!
//! Invariant: it holds the plans of the sessions that are replayed, a few numbers a request, and no prompt.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use super::PromptSource;
use super::prompt::{Answer, Prompt, PromptError, PromptSynthesizer, PromptTree, TreeBase, Verifier, VerifyReport};
use crate::trace::Session;
use crate::trace::vocab::Scope;

/// Plans prompts, session after session; all of them, in their order, whether they are replayed or not.
pub struct Planner {
    synthesizer: PromptSynthesizer,
    base: TreeBase,
    scope: Scope,
    plans: Plans,
    /// The row id of each session's first request, and of the one after the last.
    starts: Vec<u64>,
    answers: bool,
    verifier: Verifier,
    /// Of the requests that are replayed, every so many-th is rendered and held against the trace; 0 is none.
    every: u64,
}

#[derive(Default)]
struct Plans {
    trees: Vec<PromptTree>,
    /// For each session that is replayed: its tree, and the row ids of its requests.
    sessions: Vec<(usize, Range<u64>)>,
    /// By row id: the earlier requests of which one shares the most with it.
    before: Vec<[Option<u64>; 3]>,
    /// By row id, where prompts share blocks across sessions: which are sent.
    sent: Vec<bool>,
}

impl Planner {
    /// A planner for a trace of this scope. `answers` says that later prompts hold what was answered. Of the requests that are
    /// replayed, `every` so many-th is verified (all with 1, none with 0), if the synthesizer can count tokens.
    pub fn new(synthesizer: PromptSynthesizer, scope: Scope, answers: bool, every: u64) -> Self {
        let every = if synthesizer.can_render() { every } else { 0 };
        let (verifier, base) = (Verifier::new(&synthesizer), TreeBase::default());
        Self { synthesizer, base, scope, plans: Plans::default(), starts: vec![0], answers, verifier, every }
    }

    /// Plans the next session of the trace; `sent` says which of its requests are sent, by row, if it is replayed.
    ///
    /// # Errors
    /// Where a prefix request is not in the session, though the scope says so, or the template refuses a prompt.
    pub fn add(&mut self, session: &Session, sent: Option<&[bool]>) -> Result<(), PromptError> {
        let replayed = sent.is_some();
        let first = self.starts.last().copied().unwrap_or(0);
        let rows = first..first + u64::try_from(session.requests.len()).unwrap_or(u64::MAX);
        self.starts.push(rows.end);
        let sends = |at: usize| sent.and_then(|sent| sent.get(at)).copied().unwrap_or(false);
        if replayed {
            let tree = if self.scope == Scope::Session { self.plans.trees.len() } else { 0 };
            self.plans.sessions.push((tree, rows.clone()));
        }
        if self.scope == Scope::Session {
            let tree = self.synthesizer.tree(&mut self.base, [session])?;
            if self.every > 0 {
                // All sessions, since their rows are counted; of each other one that is replayed, other rows.
                let (every, nth) =
                    (self.every, u64::try_from(self.plans.sessions.len().saturating_sub(1)).unwrap_or(0));
                let pick = |row: u64| replayed && (row - rows.start + nth).is_multiple_of(every);
                self.verifier.scope(&mut self.synthesizer, &tree, [session], pick)?;
            }
            let at = |row: u64| usize::try_from(row - rows.start).unwrap_or(usize::MAX);
            self.plans.before.extend(tree.predecessors(|row| sends(at(row))));
            self.plans.trees.extend(Some(tree).filter(|_| replayed));
        } else {
            self.plans.sent.extend((0..session.requests.len()).map(sends));
        }
        Ok(())
    }

    /// Whether prompts share blocks across sessions, so that [`Planner::all`] must be told every session at the end.
    pub fn wants_all(&self) -> bool {
        self.scope != Scope::Session
    }

    /// Plans all sessions of the trace at once, for scopes wider than a session.
    ///
    /// # Errors
    /// Where a prefix request is not in the trace, or the template refuses a prompt.
    pub fn all<'a>(&mut self, sessions: impl IntoIterator<Item = &'a Session> + Clone) -> Result<(), PromptError> {
        let tree = self.synthesizer.tree(&mut self.base, sessions.clone())?;
        let (every, replayed) = (self.every, &self.plans.sessions);
        let pick = |row: u64| {
            let next = replayed.partition_point(|(_, rows)| rows.end <= row);
            row.is_multiple_of(every) && replayed.get(next).is_some_and(|(_, rows)| rows.contains(&row))
        };
        if every > 0 {
            self.verifier.scope(&mut self.synthesizer, &tree, sessions, pick)?;
        }
        let sent = std::mem::take(&mut self.plans.sent);
        let sends = |row: u64| usize::try_from(row).ok().and_then(|row| sent.get(row)).copied().unwrap_or(false);
        self.plans.before = tree.predecessors(sends);
        self.plans.trees = vec![tree];
        Ok(())
    }

    /// The session and the row in it of a row id.
    pub fn place(&self, row: u64) -> (usize, u64) {
        let session = self.starts.partition_point(|start| *start <= row).saturating_sub(1);
        (session, row - self.starts.get(session).copied().unwrap_or(0))
    }

    /// What was found of the prompts that were verified; none where tokens cannot be counted.
    pub fn verified(&self) -> Option<&VerifyReport> {
        (self.every > 0).then(|| self.verifier.report())
    }

    /// The prompts of what was planned.
    pub fn finish(mut self) -> Synthesized {
        if !self.answers {
            self.synthesizer.forget_tokenizer();
        }
        Synthesized { state: RwLock::new((self.synthesizer, self.plans)), answers: self.answers }
    }
}

/// Prompts made when they are asked for.
pub struct Synthesized {
    state: RwLock<(PromptSynthesizer, Plans)>,
    answers: bool,
}

impl PromptSource for Synthesized {
    fn prompt(&self, session: u32, request: u32) -> Result<Prompt, PromptError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let (synthesizer, plans) = &*state;
        let outside = PromptError::OutsideTree { request: request.into() };
        let place = usize::try_from(session).ok().and_then(|session| plans.sessions.get(session));
        let (tree, rows) = place.ok_or(outside.clone())?;
        let row = rows.start + u64::from(request);
        let before = usize::try_from(row).ok().and_then(|row| plans.before.get(row)).copied().unwrap_or_default();
        let tree = plans.trees.get(*tree).ok_or(outside)?;
        let prompt = synthesizer.prompt_beside(tree, row, before.into_iter().flatten())?;
        // The template's head alone is no plan: nobody may have sent it before.
        let none = before.iter().all(Option::is_none);
        Ok(Prompt { planned_shared: if none { 0 } else { prompt.planned_shared }, ..prompt })
    }

    fn answered(&self, session: u32, request: u32, answer: &str) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let (synthesizer, plans) = &mut *state;
        let place = usize::try_from(session).ok().and_then(|session| plans.sessions.get(session)).cloned();
        if let Some((tree, rows)) = place
            && let Some(tree) = plans.trees.get_mut(tree)
        {
            // An answer that cannot be put into a prompt leaves the made-up one there.
            synthesizer.answered(tree, rows.start + u64::from(request), &Answer { text: answer, tokens: None });
        }
    }

    fn wants_answers(&self) -> bool {
        self.answers
    }
}
