//! The one joint: from exchanges, which hold text, to sessions, which hold none.
//!
//! Invariant: text ends in `extract`; everything behind it sees counts, times, vocabulary words, nodes and keyed tags, and what
//! is published depends on structure alone: for equal structure, equal rows, under any key.
//!
//! ```text
//! Exchange → extract → Draft → sessions → threads → lineage → edges → rows → profile → publish → Session
//! ```

mod api;
mod around;
mod chains;
mod draft;
mod edges;
mod extract;
mod joined;
mod key;
mod lineage;
mod markers;
mod news;
mod profile;
mod prompt;
mod publish;
mod reading;
mod reuse;
mod rows;
mod scale;
mod select;
mod sessions;
mod status;
mod threads;
mod waiting;

use std::collections::{BTreeMap, HashSet};

use crate::capture::{Exchange, LogError, SkipReason};
use crate::tokenize::{Encoder, Layout};
use crate::trace::Session;
use crate::trace::vocab::{Keep, Normalizer, PromptScale, RequestKind, Scope, Vocabulary};

pub use joined::Joined;
pub use key::Key;
pub use profile::Rules;
pub use prompt::Normalized;
pub use rows::Found;
pub use scale::Residual;
pub use select::Selection;

use draft::{Draft, Shape};
use extract::Extractor;

/// How to convert.
pub struct Options {
    /// What is published.
    pub rules: Rules,
    /// Which prompts share block ids.
    pub scope: Scope,
    /// What prompt lengths mean.
    pub prompt_scale: PromptScale,
    /// Leave auxiliary requests out.
    pub drop_auxiliary: bool,
    /// Leave sessions with fewer requests out.
    pub min_requests: usize,
    /// Which sessions to keep.
    pub selection: Selection,
    /// Bytes of bodies to keep, so that the next body of a thread is read from where it parts from the last; 0 reads each body from its
    /// start, which gives the same trace and takes longer.
    pub reuse: usize,
}

/// What became of the records. They add up: `read` = `kept` + the sum of `skipped` + `in_small_sessions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records read.
    pub read: u64,
    /// Requests in the trace.
    pub kept: u64,
    /// Of those, auxiliary ones.
    pub auxiliary: u64,
    /// Records left out, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Requests left out because their session has too few.
    pub in_small_sessions: u64,
    /// Sessions left out because they have too few requests.
    pub small_sessions: u64,
    /// What the normalizers did.
    pub normalized: Normalized,
    /// Links found and not found.
    pub found: Found,
    /// What `--prompt-scale usage` left over.
    pub residual: Option<Residual>,
    /// What recorders of the same sessions said to one another.
    pub joined: Joined,
    /// Requests in the trace of which the recorder kept no system prompt.
    pub no_system: u64,
    /// Requests in the trace of which the recorder kept no tool definitions.
    pub no_tools: u64,
    /// Requests in the trace of which the recorder kept no answer, though one came.
    pub no_answer: u64,
}

/// Converts exchanges to sessions.
pub struct Converter {
    options: Options,
    extractor: Extractor,
    drafts: Vec<Draft>,
    /// Exchanges that go on from a response which was not read yet.
    held: Vec<Exchange>,
    /// Exchanges by their identity and the input that told of them.
    seen: HashSet<(key::Tag, u32)>,
    summary: Summary,
}

impl Converter {
    /// A converter with a key, a layout for prompts, and an encoder for what is counted by itself (tool inputs and results).
    pub fn new(options: Options, key: &Key, layout: Box<dyn Layout>, encoder: Box<dyn Encoder>) -> Self {
        let scaler = (options.prompt_scale == PromptScale::Usage).then(scale::Scaler::default);
        let extractor =
            Extractor::new(key::Tagger::new(key), options.rules.block_size, layout, encoder, scaler, options.reuse);
        Self {
            options,
            extractor,
            drafts: Vec::new(),
            held: Vec::new(),
            seen: HashSet::new(),
            summary: Summary::default(),
        }
    }

    /// Takes the next record: an exchange, or why there is none. The exchange's text is not kept.
    ///
    /// # Errors
    /// If the record is left out because something is wrong with it, with the reason; it is counted all the same.
    pub fn push(&mut self, record: Result<Exchange, LogError>) -> Result<(), LogError> {
        self.summary.read += 1;
        let allowed = record.and_then(|exchange| {
            let left_out = LogError { position: exchange.position, reason: SkipReason::NotSelected };
            if self.options.selection.allows(&exchange) { Ok(exchange) } else { Err(left_out) }
        });
        match allowed {
            Ok(exchange) if self.extractor.responses.lacks(&exchange, &self.extractor.tagger) => {
                self.held.push(exchange);
                Ok(())
            }
            allowed => self.take(allowed),
        }
    }

    /// Makes a draft of an exchange, or counts why there is none.
    fn take(&mut self, exchange: Result<Exchange, LogError>) -> Result<(), LogError> {
        let draft = exchange.and_then(|exchange| self.extractor.draft(exchange));
        let result = draft.and_then(|draft| {
            let leave_out = |reason| Err(LogError { position: draft.position, reason });
            if draft.shape == Shape::CountTokens && !self.options.rules.keeps(Keep::CountTokens) {
                return leave_out(SkipReason::CountTokens);
            }
            if draft.identity.is_some_and(|identity| !self.seen.insert((identity, draft.position.input))) {
                return leave_out(SkipReason::Duplicate);
            }
            self.drafts.push(draft);
            Ok(())
        });
        if let Err(error) = &result {
            *self.summary.skipped.entry(error.reason).or_default() += 1;
        }
        // What a profile or a flag leaves out is not wrong.
        result.or_else(|error| {
            let meant = [SkipReason::CountTokens, SkipReason::Duplicate, SkipReason::NotSelected];
            if meant.contains(&error.reason) { Ok(()) } else { Err(error) }
        })
    }

    /// Takes what was held, in the order in which it becomes whole. What lacks something to the end is counted.
    fn take_held(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.sort_by_key(|exchange| exchange.start.map(|start| start.unix_us));
        loop {
            let before = held.len();
            for exchange in std::mem::take(&mut held) {
                if self.extractor.responses.lacks(&exchange, &self.extractor.tagger) {
                    held.push(exchange);
                } else {
                    self.take(Ok(exchange)).ok();
                }
            }
            if held.len() == before {
                break;
            }
        }
        held.into_iter().for_each(|exchange| {
            self.take(Ok(exchange)).ok();
        });
    }

    /// The sessions, in published order, and what became of the records.
    pub fn finish(mut self) -> (Vec<Session>, Summary) {
        self.take_held();
        let Self { options, extractor, drafts, mut summary, .. } = self;
        let mut exact = Vec::new();
        let (mut drafts, joined) = joined::join(drafts);
        joined::recall(&mut drafts);
        summary.joined = joined;
        if joined.merged > 0 {
            *summary.skipped.entry(SkipReason::SeenTwice).or_default() += joined.merged;
        }
        for session in sessions::group(drafts, &extractor.threads) {
            let harness = session.iter().map(|draft| draft.harness).min();
            if harness.is_some_and(|harness| !options.selection.allows_harness(harness)) {
                let left_out = u64::try_from(session.len()).unwrap_or(u64::MAX);
                *summary.skipped.entry(SkipReason::NotSelected).or_default() += left_out;
                continue;
            }
            let lost = Lost::of(&session);
            let mut rows = rows::build(session, &extractor.threads);
            if options.drop_auxiliary {
                let dropped = rows.drop_kind(RequestKind::Auxiliary);
                *summary.skipped.entry(SkipReason::Auxiliary).or_default() += dropped;
            }
            let requests = rows.session.requests.len();
            if requests == 0 {
                continue;
            }
            if requests < options.min_requests {
                summary.small_sessions += 1;
                summary.in_small_sessions += u64::try_from(requests).unwrap_or(u64::MAX);
                continue;
            }
            summary.kept += u64::try_from(requests).unwrap_or(u64::MAX);
            summary.no_system += lost.system;
            summary.no_tools += lost.tools;
            summary.no_answer += lost.answers;
            let auxiliary =
                rows.session.requests.iter().filter(|request| request.kind == RequestKind::Auxiliary).count();
            summary.auxiliary += u64::try_from(auxiliary).unwrap_or(u64::MAX);
            summary.found.add(&rows.found);
            exact.push(rows);
        }
        summary.normalized = extractor.normalized;
        summary.residual = extractor.scaler.as_ref().map(|scaler| scaler.residual);
        let sessions = publish::publish(exact, &extractor.blocks, &options.rules, options.scope);
        (sessions, summary)
    }
}

/// What the recorders of a session did not keep, in requests.
struct Lost {
    system: u64,
    tools: u64,
    answers: u64,
}

impl Lost {
    fn of(session: &[Draft]) -> Self {
        let count = |lost: fn(&Draft) -> bool| {
            u64::try_from(session.iter().filter(|draft| lost(draft)).count()).unwrap_or(u64::MAX)
        };
        let answers = count(|draft| draft.status == crate::trace::vocab::Status::Ok && !draft.recorded.answer);
        Self { system: count(|draft| !draft.recorded.system), tools: count(|draft| !draft.recorded.tools), answers }
    }
}

/// The rewritings that every conversion does, in vocabulary order.
pub fn normalizers() -> Vec<Normalizer> {
    Normalizer::ALL.to_vec()
}
