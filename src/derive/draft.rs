//! A session with its prompts spelled out, so that they can be cut and joined.
//!
//! Invariant: a draft that nothing was done to is planted with the columns that it had.

use crate::format::tokens::{Planter, Prompt, Speller};
use crate::trace::vocab::Scope;
use crate::trace::{Manifest, Session};

use super::scale::Scale;

/// A session and the prompts of its requests, row by row. Prefix columns and `input_tokens` are those of the source until it is
/// planted.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) session: Session,
    pub(super) prompts: Vec<Prompt>,
}

/// Spells out the prompts of a trace, session by session.
#[derive(Debug)]
pub(super) struct Loader {
    scope: Scope,
    block_size: u32,
    scale: Scale,
    speller: Speller,
}

impl Loader {
    /// For a trace with this manifest, none of whose sessions were loaded yet.
    pub(super) fn new(manifest: &Manifest, scale: Scale) -> Self {
        Self { scope: manifest.scope, block_size: manifest.block_size, scale, speller: Speller::default() }
    }

    /// The next session of the trace. All have to come by, since prompts may share tokens with earlier sessions.
    pub(super) fn load(&mut self, session: Session) -> Draft {
        if self.scope == Scope::Session {
            self.speller.begin_session();
        }
        let scale = self.scale;
        let spell = |request| {
            self.speller.scaled(request, self.block_size, |tokens| scale.tokens(tokens), |tokens| scale.input(tokens))
        };
        Draft { prompts: session.requests.iter().map(spell).collect(), session }
    }
}

/// Turns drafts back into sessions, in published order.
#[derive(Debug)]
pub(super) struct Press {
    scope: Scope,
    planter: Planter,
}

impl Press {
    /// For a trace with this manifest that holds no session yet.
    pub(super) fn new(manifest: &Manifest) -> Self {
        Self { scope: manifest.scope, planter: Planter::new(manifest.block_size, manifest.quanta.input_tokens <= 1) }
    }

    /// Distinct blocks so far.
    pub(super) fn unique_blocks(&self) -> u64 {
        self.planter.unique_blocks()
    }

    /// Fills in the prefix columns and lengths of the next session.
    pub(super) fn plant(&mut self, draft: Draft) -> Session {
        let Draft { mut session, prompts } = draft;
        if self.scope == Scope::Session {
            self.planter.begin_session();
        }
        self.planter.fill(&mut session.requests, &prompts);
        session
    }
}
