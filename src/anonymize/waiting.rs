//! Calls that start an agent of which no request was seen yet.
//!
//! Invariant: a call waits until an agent is taken to be its own, or its result came back; one that only launched an agent still waits.

use std::collections::HashMap;

use super::draft::{Draft, Outcome};
use super::key::Tag;

/// Calls that wait, by the prompts they give; `T` is where the call was made.
pub(super) struct Waiting<T> {
    calls: HashMap<Tag, Vec<(Tag, T)>>,
    prompts: HashMap<Tag, Vec<Tag>>,
}

impl<T: Copy> Waiting<T> {
    pub(super) fn new() -> Self {
        Self { calls: HashMap::new(), prompts: HashMap::new() }
    }

    /// The calls that an answer made wait.
    pub(super) fn add(&mut self, draft: &Draft, place: T) {
        for (call, spawn) in draft.calls.iter().filter_map(|call| Some((call.id, call.spawn.as_ref()?))) {
            for prompt in &spawn.prompts {
                self.calls.entry(*prompt).or_default().push((call, place));
            }
            self.prompts.insert(call, spawn.prompts.clone());
        }
    }

    /// The calls whose results a request brings wait no more.
    pub(super) fn end(&mut self, draft: &Draft) {
        let ended = |outcome| matches!(outcome, Outcome::Returned | Outcome::Interrupted);
        draft.results.iter().filter(|result| ended(result.outcome)).for_each(|result| self.forget(result.call));
    }

    /// A call waits no more.
    pub(super) fn forget(&mut self, call: Tag) {
        for prompt in self.prompts.remove(&call).unwrap_or_default() {
            if let Some(calls) = self.calls.get_mut(&prompt) {
                calls.retain(|(waiting, _)| *waiting != call);
            }
        }
    }

    /// Whether a call with this prompt waits.
    pub(super) fn has(&self, prompt: Tag) -> bool {
        self.calls.get(&prompt).is_some_and(|calls| !calls.is_empty())
    }

    /// An agent with this prompt began: the first call with it waits no more.
    pub(super) fn take(&mut self, prompt: Tag) -> Option<T> {
        let calls = self.calls.get_mut(&prompt).filter(|calls| !calls.is_empty())?;
        Some(calls.remove(0).1)
    }
}
