//! What a profile lets through: the one place where numbers are rounded and columns emptied.
//!
//! Invariant: it sees rows, never text; after it, every number is a multiple of the quantum that the manifest states, and send
//! times are the latest of (trigger + delay) over the edges again.

use crate::trace::manifest::Quanta;
use crate::trace::vocab::{DelayKind, Keep, Profile, RequestKind, Trigger, Vocabulary};
use crate::trace::{Session, Usage};

/// A profile with the items moved over to it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The profile.
    pub profile: Profile,
    /// Items kept that the public profile would not keep, in vocabulary order.
    pub kept: Vec<Keep>,
    /// Tokens per block.
    pub block_size: u32,
}

/// Limits on the answer that clients ask for by default; any other is as telling as a fingerprint.
const DEFAULT_MAX_TOKENS: &[u32] =
    &[512, 1024, 2048, 4096, 8192, 16384, 20000, 21333, 32000, 32768, 64000, 65536, 128_000];

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl Rules {
    /// The rules of a profile. Items are put in vocabulary order; under the private profile only `arrivals` adds anything.
    pub fn new(profile: Profile, kept: &[Keep], block_size: u32) -> Self {
        let adds = |item: &Keep| kept.contains(item) && (profile == Profile::Public || *item == Keep::Arrivals);
        Self { profile, kept: Keep::ALL.iter().copied().filter(adds).collect(), block_size }
    }

    /// Whether an item is published.
    pub fn keeps(&self, item: Keep) -> bool {
        self.kept.contains(&item) || (self.profile == Profile::Private && item != Keep::Arrivals)
    }

    /// What numbers are rounded to.
    pub fn quanta(&self) -> Quanta {
        let exact = |item, else_step| if self.keeps(item) { 1 } else { else_step };
        Quanta {
            input_tokens: exact(Keep::ExactLengths, self.block_size),
            output_tokens: exact(Keep::ExactLengths, 16),
            machine_ms: exact(Keep::MachineTimes, 10),
            user_ms: exact(Keep::UserDelays, 1000),
        }
    }

    /// Applies the rules to a session whose requests stand in send order; gives for each row where it stood before.
    pub(super) fn apply(&self, session: &mut Session) -> Vec<usize> {
        self.lengths(session);
        self.columns(session);
        self.times(session)
    }

    fn lengths(&self, session: &mut Session) {
        if self.keeps(Keep::ExactLengths) {
            return;
        }
        for request in &mut session.requests {
            // A side request is short enough for its length to tell what it is about, so it is rounded up to a block, both ways.
            let side = request.kind == RequestKind::Auxiliary;
            let step = if side { self.block_size } else { 16 };
            request.output_tokens = request.output_tokens.map(|tokens| tokens.div_ceil(step).saturating_mul(step));
            let blocks = if side {
                request.input_tokens.div_ceil(self.block_size)
            } else {
                request.input_tokens / self.block_size
            };
            request.input_tokens = blocks.saturating_mul(self.block_size);
        }
    }

    fn columns(&self, session: &mut Session) {
        for request in &mut session.requests {
            if !self.keeps(Keep::Usage) {
                request.usage = Usage::default();
            }
            if !self.keeps(Keep::PartTokens) {
                request.tools_tokens = None;
                request.system_tokens = None;
            }
            if !self.keeps(Keep::MaxTokens) {
                request.max_tokens = request.max_tokens.filter(|limit| DEFAULT_MAX_TOKENS.contains(limit));
            }
        }
        for agent in &mut session.agents {
            if !self.keeps(Keep::Usage) {
                agent.total_tokens = None;
                agent.tool_calls = None;
            }
        }
        for tool in &mut session.tools {
            if !self.keeps(Keep::ToolSizes) {
                tool.input_tokens = None;
                tool.output_tokens = None;
            }
            if !self.keeps(Keep::ToolTimes) {
                tool.start_ms = None;
                tool.duration_ms = None;
            }
        }
    }

    /// Rounds durations and delays, computes the send times again, and puts the rows in the new send order.
    fn times(&self, session: &mut Session) -> Vec<usize> {
        let machine = u64::from(self.quanta().machine_ms);
        let round = |span: u64| nearest(span, machine);
        let narrow =
            |span: u32| u32::try_from(round(u64::from(span))).unwrap_or(u32::MAX - u32::MAX % self.quanta().machine_ms);
        for request in &mut session.requests {
            request.duration_ms = request.duration_ms.map(narrow);
            // What began within a call began within the rounded call, too.
            request.ttft_ms = request.ttft_ms.map(narrow).map(|ttft| ttft.min(request.duration_ms.unwrap_or(ttft)));
        }
        for edge in &mut session.edges {
            edge.delay_ms = match edge.delay_kind {
                DelayKind::User | DelayKind::None => self.user_delay(edge.delay_ms),
                DelayKind::Tool | DelayKind::Agent | DelayKind::Retry if machine == 1 || edge.delay_ms < MINUTE => {
                    round(edge.delay_ms)
                }
                // Minutes may hide a person who was asked for permission.
                DelayKind::Tool | DelayKind::Agent | DelayKind::Retry => nearest(edge.delay_ms, SECOND),
            };
        }
        if self.keeps(Keep::MachineTimes) && self.keeps(Keep::UserDelays) {
            return (0..session.requests.len()).collect();
        }
        let mut starts: Vec<u64> = Vec::with_capacity(session.requests.len());
        let mut edges = session.edges.iter().peekable();
        let mut before = (0, 0);
        for (at, request) in session.requests.iter().enumerate() {
            let exact = request.start_ms.unwrap_or(before.0);
            let mut due = None;
            while let Some(edge) = edges.next_if(|edge| usize::try_from(edge.to) == Ok(at)) {
                let from = usize::try_from(edge.from).ok();
                let from_start = from.and_then(|from| starts.get(from)).copied().unwrap_or(0);
                let duration = from
                    .and_then(|from| session.requests.get(from))
                    .and_then(|from| from.duration_ms)
                    .map_or(0, u64::from);
                let trigger = match edge.trigger {
                    Trigger::Completion => from_start + duration,
                    Trigger::Dispatch => from_start,
                };
                due = due.max(Some(trigger.saturating_add(edge.delay_ms)));
            }
            // What waits for nothing known keeps its distance from the request before it.
            let start = due.unwrap_or_else(|| before.1 + self.user_delay(exact.saturating_sub(before.0)));
            before = (exact, start);
            starts.push(start);
        }
        for (request, start) in session.requests.iter_mut().zip(&starts) {
            let shift = *start;
            request.start_ms = request.start_ms.map(|_| shift);
        }
        reorder(session, &starts)
    }

    /// A person's pause: by seconds up to a minute, by ten up to ten minutes, by minutes beyond, an hour at most.
    fn user_delay(&self, delay: u64) -> u64 {
        match delay {
            _ if self.keeps(Keep::UserDelays) => delay,
            0..MINUTE => nearest(delay, SECOND),
            MINUTE..600_000 => nearest(delay, 10 * SECOND),
            _ => nearest(delay, MINUTE).min(HOUR),
        }
    }
}

/// Puts requests in the order of `starts`, ties as they stood, and renumbers what points to them.
fn reorder(session: &mut Session, starts: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..session.requests.len()).collect();
    order.sort_by_key(|row| starts.get(*row));
    let mut place = vec![0; order.len()];
    for (new, old) in order.iter().enumerate() {
        if let Some(place) = place.get_mut(*old) {
            *place = u32::try_from(new).unwrap_or(u32::MAX);
        }
    }
    let moved = |row: u32| usize::try_from(row).ok().and_then(|row| place.get(row)).copied().unwrap_or(row);
    session.requests = order.iter().filter_map(|row| session.requests.get(*row)).copied().collect();
    for edge in &mut session.edges {
        edge.to = moved(edge.to);
        edge.from = moved(edge.from);
    }
    session.edges.sort_unstable();
    for tool in &mut session.tools {
        tool.request = moved(tool.request);
        tool.consumer_request = tool.consumer_request.map(moved);
    }
    session.tools.sort_by_key(|tool| (tool.request, tool.index));
    for agent in &mut session.agents {
        agent.spawn_request = agent.spawn_request.map(moved);
        agent.join_request = agent.join_request.map(moved);
    }
    order
}

/// `span` rounded to the nearest multiple of `step`, halves up.
fn nearest(span: u64, step: u64) -> u64 {
    (span.saturating_add(step / 2) / step).saturating_mul(step)
}
