//! What of a session a format has no place for.
//!
//! Invariant: only words of the format's own list are counted, each once for every request, agent or tool call that it hits.

use super::Tally;
use crate::format::count;
use crate::trace::vocab::{AgentType, Loss, RequestKind, Status};
use crate::trace::{Model, Parts, Session, Usage};

/// Counts what `session` holds of the things that `loss` lists and that can be seen in single columns.
pub(super) fn count_held(session: &Session, loss: &[Loss], lost: &mut Tally<Loss>) {
    let mut note = |word: Loss, times: usize| {
        if loss.contains(&word) {
            lost.add(word, count(times));
        }
    };
    let requests = |holds: fn(&crate::trace::Request) -> bool| session.requests.iter().filter(|row| holds(row)).count();
    note(Loss::Usage, requests(|row| row.usage != Usage::default()));
    note(Loss::Durations, requests(|row| row.duration_ms.is_some() || row.ttft_ms.is_some()));
    note(Loss::Starts, requests(|row| row.start_ms.is_some()));
    note(Loss::Outputs, requests(|row| row.output_tokens.is_none()));
    note(Loss::Models, requests(|row| row.model != Model::other(0)));
    note(Loss::Parts, requests(|row| (row.input_parts, row.output_parts) != (Parts::default(), Parts::default())));
    note(Loss::Stops, requests(|row| row.stop.is_some()));
    note(Loss::PartTokens, requests(|row| row.tools_tokens.is_some() || row.system_tokens.is_some()));
    note(Loss::Kinds, requests(|row| row.kind != RequestKind::Turn || row.status != Status::Ok || row.attempt > 0));
    note(Loss::Settings, requests(|row| row.streaming.is_some() || row.max_tokens.is_some() || row.messages.is_some()));
    note(Loss::PartialBlocks, requests(|row| row.prefix.extends));
    note(Loss::Tools, session.tools.len());
    note(Loss::Agents, session.agents.len() - 1);
    note(Loss::Depth, session.agents.iter().filter(|agent| agent.depth > 1).count());
    let told = |agent: &&crate::trace::Agent| {
        !matches!(agent.agent_type, AgentType::Main | AgentType::Custom)
            || agent.status.is_some()
            || agent.total_tokens.is_some()
            || agent.tool_calls.is_some()
    };
    note(Loss::AgentTypes, session.agents.iter().filter(told).count());
    note(Loss::Arrivals, usize::from(session.start_ms.is_some()));
    note(Loss::Identifiers, usize::from(session.source_number.is_some()));
}
