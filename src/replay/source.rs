//! Prompts of a replay from the synthesizer.
//!
//! Invariant: it holds the plans of the sessions that are replayed, a few numbers a request, and no prompt.

use std::sync::{Mutex, PoisonError};

use super::PromptSource;
use super::prompt::{Answer, Prompt, PromptError, PromptSynthesizer, PromptTree, TreeBase};
use crate::trace::Session;
use crate::trace::vocab::Scope;

/// Plans prompts, session after session; all of them, in their order, whether they are replayed or not.
pub struct Planner {
    synthesizer: PromptSynthesizer,
    base: TreeBase,
    scope: Scope,
    plans: Plans,
    next_request: u64,
    answers: bool,
}

#[derive(Default)]
struct Plans {
    trees: Vec<PromptTree>,
    /// For each session that is replayed: its tree, and the row id of its first request.
    sessions: Vec<(usize, u64)>,
}

impl Planner {
    /// A planner for a trace of this scope. `answers` says that later prompts hold what was answered.
    pub fn new(synthesizer: PromptSynthesizer, scope: Scope, answers: bool) -> Self {
        Self { synthesizer, base: TreeBase::default(), scope, plans: Plans::default(), next_request: 0, answers }
    }

    /// Plans the next session of the trace; `replayed` says whether it is replayed.
    ///
    /// # Errors
    /// Where a prefix request is not in the session, though the scope says so.
    pub fn add(&mut self, session: &Session, replayed: bool) -> Result<(), PromptError> {
        let first = self.next_request;
        self.next_request += u64::try_from(session.requests.len()).unwrap_or(u64::MAX);
        if self.scope == Scope::Session {
            let tree = self.synthesizer.tree(&mut self.base, [session])?;
            if replayed {
                self.plans.trees.push(tree);
            }
        }
        if replayed {
            let tree = if self.scope == Scope::Session { self.plans.trees.len() - 1 } else { 0 };
            self.plans.sessions.push((tree, first));
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
    /// Where a prefix request is not in the trace.
    pub fn all<'a>(&mut self, sessions: impl IntoIterator<Item = &'a Session>) -> Result<(), PromptError> {
        self.plans.trees = vec![self.synthesizer.tree(&mut self.base, sessions)?];
        Ok(())
    }

    /// The prompts of what was planned.
    pub fn finish(self) -> Synthesized {
        Synthesized { state: Mutex::new((self.synthesizer, self.plans)), answers: self.answers }
    }
}

/// Prompts made when they are asked for.
pub struct Synthesized {
    state: Mutex<(PromptSynthesizer, Plans)>,
    answers: bool,
}

impl PromptSource for Synthesized {
    fn prompt(&self, session: u32, request: u32) -> Result<Prompt, PromptError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (synthesizer, plans) = &mut *state;
        let outside = PromptError::OutsideTree { request: request.into() };
        let place = usize::try_from(session).ok().and_then(|session| plans.sessions.get(session));
        let (tree, first) = place.ok_or(outside.clone())?;
        synthesizer.prompt(plans.trees.get(*tree).ok_or(outside)?, first + u64::from(request))
    }

    fn answered(&self, session: u32, request: u32, answer: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (synthesizer, plans) = &mut *state;
        let place = usize::try_from(session).ok().and_then(|session| plans.sessions.get(session)).copied();
        if let Some((tree, first)) = place
            && let Some(tree) = plans.trees.get_mut(tree)
        {
            // An answer that cannot be put into a prompt leaves the made-up one there.
            synthesizer.answered(tree, first + u64::from(request), &Answer { text: answer, tokens: None });
        }
    }

    fn wants_answers(&self) -> bool {
        self.answers
    }
}
