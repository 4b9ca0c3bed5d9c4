//! Sessions as JSON: agents, requests, edges and tool calls, with rows local to the session.
//!
//! Invariant: every value is a number, a word of a vocabulary, or null.

use serde_json::{Value, json};

use crate::analyze::{Overview, Quantiles};
use crate::trace::{Parts, Session};

pub(super) fn session(number: u32, session: &Session, first_request: u64, block_size: u32) -> Value {
    let local = |request: Option<u64>| request.map(|request| request.checked_sub(first_request));
    json!({
        "session": number,
        "harness": session.harness,
        "start_ms": session.start_ms,
        "source_number": session.source_number,
        "agents": session.agents.iter().map(|agent| json!({
            "kind": agent.kind, "type": agent.agent_type, "parent_agent": agent.parent_agent, "depth": agent.depth, "status": agent.status,
            "spawn_request": agent.spawn_request, "join_request": agent.join_request, "total_tokens": agent.total_tokens, "tool_calls": agent.tool_calls,
        })).collect::<Vec<_>>(),
        "requests": session.requests.iter().map(|request| json!({
            "agent": request.agent, "turn": request.turn, "kind": request.kind, "model": request.model.to_string(), "status": request.status,
            "stop": request.stop, "attempt": request.attempt, "streaming": request.streaming, "start_ms": request.start_ms,
            "duration_ms": request.duration_ms, "ttft_ms": request.ttft_ms, "messages": request.messages,
            "input_parts": parts(request.input_parts), "output_parts": parts(request.output_parts),
            "input_tokens": request.input_tokens, "output_tokens": request.output_tokens, "max_tokens": request.max_tokens,
            "blocks": request.blocks(block_size), "prefix_request": local(request.prefix.request).flatten(), "shared_blocks": request.prefix.shared_blocks,
            "extends": request.prefix.extends, "tools_tokens": request.tools_tokens, "system_tokens": request.system_tokens,
            "usage": {
                "input": request.usage.input, "cache_read": request.usage.cache_read, "cache_write_5m": request.usage.cache_write_5m,
                "cache_write_1h": request.usage.cache_write_1h, "output": request.usage.output, "reasoning": request.usage.reasoning,
            },
        })).collect::<Vec<_>>(),
        "edges": session.edges.iter().map(|edge| json!({
            "from": edge.from, "to": edge.to, "relation": edge.relation, "trigger": edge.trigger,
            "delay_ms": edge.delay_ms, "delay_kind": edge.delay_kind, "evidence": edge.evidence,
        })).collect::<Vec<_>>(),
        "tools": session.tools.iter().map(|tool| json!({
            "request": tool.request, "index": tool.index, "class": tool.class, "is_error": tool.is_error, "consumer_request": tool.consumer_request,
            "child_agent": tool.child_agent, "start_ms": tool.start_ms, "duration_ms": tool.duration_ms,
            "input_tokens": tool.input_tokens, "output_tokens": tool.output_tokens,
        })).collect::<Vec<_>>(),
    })
}

pub(super) fn overview(overview: &Overview) -> Value {
    let quantiles = |of: &Quantiles| json!({ "count": of.count, "p10": of.p10, "p50": of.p50, "p90": of.p90, "p99": of.p99, "max": of.max });
    let counts = |words: Vec<(&'static str, u64)>| {
        words.into_iter().map(|(word, count)| (word.to_owned(), json!(count))).collect::<serde_json::Map<_, _>>()
    };
    json!({
        "input_tokens": quantiles(&overview.input_tokens()), "output_tokens": quantiles(&overview.output_tokens()),
        "duration_ms": quantiles(&overview.durations()), "ttft_ms": quantiles(&overview.ttfts()), "user_delay_ms": quantiles(&overview.user_delays()),
        "requests_per_session": quantiles(&overview.requests_per_session()),
        "blocks": { "all": overview.blocks, "shared": overview.shared_blocks },
        "kinds": counts(overview.kinds()), "status": counts(overview.statuses()), "relations": counts(overview.relations()), "evidence": counts(overview.evidence()),
    })
}

/// The words of a set of parts, in bit order.
fn parts(parts: Parts) -> Vec<&'static str> {
    const WORDS: [(Parts, &str); 7] = [
        (Parts::TEXT, "text"),
        (Parts::THINKING, "thinking"),
        (Parts::TOOL_USE, "tool_use"),
        (Parts::TOOL_RESULT, "tool_result"),
        (Parts::IMAGE, "image"),
        (Parts::DOCUMENT, "document"),
        (Parts::OTHER, "other"),
    ];
    WORDS.iter().filter(|(part, _)| parts.contains(*part)).map(|(_, word)| *word).collect()
}
