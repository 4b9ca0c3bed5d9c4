//! [`Recent`]: the messages of the prompts made last. A prompt mostly goes on with one of them, and takes over what they share.
//!
//! Invariant: what is taken over is, word for word, what would be made anew; so nothing depends on what is kept here. Memory is
//! bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::ChatMessage;
use super::content::Cursor;
use super::stream::Shape;

/// Bytes of texts that are kept: a few hundred conversations.
const KEPT: usize = 32 << 20;

/// A prompt's tree, by its number, and its node there.
pub(super) type Name = (u64, usize);

/// A prompt that was made.
pub(super) struct Made {
    pub(super) shape: Shape,
    /// Each message, and where the writing stood behind it.
    pub(super) messages: Vec<(ChatMessage, Cursor)>,
}

/// Prompts made last.
#[derive(Default)]
pub(super) struct Recent {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    made: HashMap<Name, (u64, Arc<Made>)>,
    /// By when they were last looked at.
    order: BTreeMap<u64, Name>,
    next: u64,
    held: usize,
}

impl Recent {
    /// The first of these prompts that is kept.
    pub(super) fn first(&self, names: impl IntoIterator<Item = Name>) -> Option<(Name, Arc<Made>)> {
        let mut kept = self.kept();
        let (name, made) = names.into_iter().find_map(|name| Some((name, kept.take(name)?)))?;
        kept.put(name, Arc::clone(&made));
        Some((name, made))
    }

    /// Keeps a prompt, in the place of one that it holds whole.
    pub(super) fn put(&self, name: Name, made: Arc<Made>, replaced: Option<Name>) {
        let mut kept = self.kept();
        for old in replaced.into_iter().chain([name]) {
            kept.take(old);
        }
        kept.put(name, made);
        while kept.held > KEPT
            && let Some((_, &oldest)) = kept.order.first_key_value()
        {
            kept.take(oldest);
        }
    }

    /// Keeps nothing more of what was made so far.
    pub(super) fn clear(&self) {
        *self.kept() = Kept::default();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn take(&mut self, name: Name) -> Option<Arc<Made>> {
        let (when, made) = self.made.remove(&name)?;
        self.order.remove(&when);
        self.held -= size(&made);
        Some(made)
    }

    fn put(&mut self, name: Name, made: Arc<Made>) {
        self.held += size(&made);
        self.order.insert(self.next, name);
        self.made.insert(name, (self.next, made));
        self.next += 1;
    }
}

/// What a prompt holds, as if it shared nothing.
fn size(made: &Made) -> usize {
    made.messages.iter().map(|(message, _)| message.content.len() + size_of::<(ChatMessage, Cursor)>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenize::Role;

    fn made(bytes: usize) -> Arc<Made> {
        let content = "a".repeat(bytes).into();
        let messages = vec![(ChatMessage { role: Role::User, content }, Cursor::default())];
        Arc::new(Made { shape: Shape::default(), messages })
    }

    #[test]
    fn the_ones_looked_at_last_are_kept_within_the_bound() {
        let recent = Recent::default();
        for node in 0..6 {
            recent.put((0, node), made(KEPT / 4), None);
            assert!(recent.first([(9, 9), (0, 0)]).is_some(), "in use");
        }
        let kept = |name| recent.first([name]).is_some();
        assert!(!kept((0, 1)) && kept((0, 5)));
        assert!(recent.kept.lock().unwrap().held <= KEPT);
        recent.put((1, 0), made(1), Some((0, 5)));
        assert!(!kept((0, 5)) && kept((1, 0)));
        recent.put((2, 0), made(2 * KEPT), None);
        let kept = recent.kept.lock().unwrap();
        assert!(kept.held == 0 && kept.made.is_empty() && kept.order.is_empty(), "one that is too large is not kept");
    }
}
