//! Sessions to rows and back: local row numbers become dataset-wide ids by adding the session's base.
//!
//! Invariant: the two directions are inverse for every session that passes the [`Checker`](crate::format::Checker).

use super::schema::{AgentRow, EdgeRow, RequestRow, SessionRow, ToolRow};
use crate::format::count;
use crate::trace::manifest::Totals;
use crate::trace::{Agent, Edge, Prefix, Request, Session, ToolCall, Usage};

/// Where the rows of a session begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    session: u32,
    agent: u32,
    request: u64,
}

/// The column whose row id lies outside the session.
pub(crate) type Outside = &'static str;

impl Base {
    /// The base of the session that follows these totals; they fit, as the checker saw to it.
    pub(crate) fn after(totals: &Totals) -> Self {
        let narrow = |rows: u64| u32::try_from(rows).unwrap_or(u32::MAX);
        Self { session: narrow(totals.sessions), agent: narrow(totals.agents), request: totals.requests }
    }

    fn agent(self, local: u32) -> u32 {
        self.agent.saturating_add(local)
    }

    fn request(self, local: u32) -> u64 {
        self.request.saturating_add(local.into())
    }

    fn local_agent(self, agent: u32, column: Outside) -> Result<u32, Outside> {
        agent.checked_sub(self.agent).ok_or(column)
    }

    fn local_request(self, request: u64, column: Outside) -> Result<u32, Outside> {
        request.checked_sub(self.request).and_then(|local| local.try_into().ok()).ok_or(column)
    }

    /// The row of the session itself.
    pub(crate) fn session_row(self, session: &Session) -> SessionRow {
        let Session { start_ms, harness, source_number, .. } = *session;
        SessionRow { session: self.session, start_ms, harness, source_number }
    }

    /// The row of agent `local`.
    pub(crate) fn agent_row(self, local: usize, agent: &Agent) -> AgentRow {
        let Agent {
            parent_agent,
            depth,
            kind,
            agent_type,
            status,
            spawn_request,
            join_request,
            total_tokens,
            tool_calls,
        } = *agent;
        AgentRow {
            agent: self.agent(u32::try_from(local).unwrap_or(u32::MAX)),
            session: self.session,
            parent_agent: parent_agent.map(|parent| self.agent(parent)),
            depth,
            kind,
            agent_type,
            status,
            spawn_request: spawn_request.map(|request| self.request(request)),
            join_request: join_request.map(|request| self.request(request)),
            total_tokens,
            tool_calls,
        }
    }

    /// The agent of a row.
    pub(crate) fn agent_of(self, row: &AgentRow) -> Result<Agent, Outside> {
        let AgentRow { depth, kind, agent_type, status, total_tokens, tool_calls, .. } = *row;
        let request = |request: Option<u64>, column| request.map(|id| self.local_request(id, column)).transpose();
        Ok(Agent {
            parent_agent: row.parent_agent.map(|id| self.local_agent(id, "parent_agent")).transpose()?,
            depth,
            kind,
            agent_type,
            status,
            spawn_request: request(row.spawn_request, "spawn_request")?,
            join_request: request(row.join_request, "join_request")?,
            total_tokens,
            tool_calls,
        })
    }

    /// The row of request `local`.
    pub(crate) fn request_row(self, local: usize, request: &Request) -> RequestRow {
        let Request { turn, kind, model, input_tokens, output_tokens, start_ms, duration_ms, ttft_ms, .. } = *request;
        let Request { stop, status, attempt, streaming, max_tokens, tools_tokens, system_tokens, .. } = *request;
        let Request { messages, input_parts, output_parts, prefix, usage, .. } = *request;
        RequestRow {
            request: self.request.saturating_add(count(local)),
            session: self.session,
            agent: self.agent(request.agent),
            turn,
            prefix_request: prefix.request,
            shared_blocks: prefix.shared_blocks,
            extends: prefix.extends,
            first_block: prefix.first_block,
            input_tokens,
            output_tokens,
            start_ms,
            duration_ms,
            ttft_ms,
            kind,
            model,
            stop,
            status,
            attempt,
            streaming,
            max_tokens,
            usage_input: usage.input,
            usage_cache_read: usage.cache_read,
            usage_cache_write_5m: usage.cache_write_5m,
            usage_cache_write_1h: usage.cache_write_1h,
            usage_output: usage.output,
            usage_reasoning: usage.reasoning,
            tools_tokens,
            system_tokens,
            messages,
            input_parts,
            output_parts,
        }
    }

    /// The request of a row.
    pub(crate) fn request_of(self, row: &RequestRow) -> Result<Request, Outside> {
        let RequestRow { turn, kind, model, input_tokens, output_tokens, start_ms, duration_ms, ttft_ms, .. } = *row;
        let RequestRow { stop, status, attempt, streaming, max_tokens, tools_tokens, system_tokens, .. } = *row;
        let RequestRow { messages, input_parts, output_parts, shared_blocks, extends, first_block, .. } = *row;
        Ok(Request {
            agent: self.local_agent(row.agent, "agent")?,
            turn,
            kind,
            model,
            input_tokens,
            output_tokens,
            prefix: Prefix { request: row.prefix_request, shared_blocks, extends, first_block },
            start_ms,
            duration_ms,
            ttft_ms,
            stop,
            status,
            attempt,
            streaming,
            max_tokens,
            usage: Usage {
                input: row.usage_input,
                cache_read: row.usage_cache_read,
                cache_write_5m: row.usage_cache_write_5m,
                cache_write_1h: row.usage_cache_write_1h,
                output: row.usage_output,
                reasoning: row.usage_reasoning,
            },
            tools_tokens,
            system_tokens,
            messages,
            input_parts,
            output_parts,
        })
    }

    /// The row of an edge.
    pub(crate) fn edge_row(self, edge: &Edge) -> EdgeRow {
        let Edge { to, from, relation, trigger, delay_ms, delay_kind, evidence } = *edge;
        let (from_request, to_request) = (self.request(from), self.request(to));
        EdgeRow { session: self.session, from_request, to_request, relation, trigger, delay_ms, delay_kind, evidence }
    }

    /// The edge of a row.
    pub(crate) fn edge_of(self, row: &EdgeRow) -> Result<Edge, Outside> {
        let EdgeRow { relation, trigger, delay_ms, delay_kind, evidence, .. } = *row;
        let to = self.local_request(row.to_request, "to_request")?;
        let from = self.local_request(row.from_request, "from_request")?;
        Ok(Edge { to, from, relation, trigger, delay_ms, delay_kind, evidence })
    }

    /// The row of a tool call.
    pub(crate) fn tool_row(self, tool: &ToolCall) -> ToolRow {
        let ToolCall { index, class, is_error, start_ms, duration_ms, input_tokens, output_tokens, .. } = *tool;
        ToolRow {
            request: self.request(tool.request),
            index,
            class,
            is_error,
            consumer_request: tool.consumer_request.map(|request| self.request(request)),
            child_agent: tool.child_agent.map(|agent| self.agent(agent)),
            start_ms,
            duration_ms,
            input_tokens,
            output_tokens,
        }
    }

    /// The tool call of a row.
    pub(crate) fn tool_of(self, row: &ToolRow) -> Result<ToolCall, Outside> {
        let ToolRow { index, class, is_error, start_ms, duration_ms, input_tokens, output_tokens, .. } = *row;
        let consumer = row.consumer_request.map(|request| self.local_request(request, "consumer_request"));
        Ok(ToolCall {
            request: self.local_request(row.request, "request")?,
            index,
            class,
            is_error,
            consumer_request: consumer.transpose()?,
            child_agent: row.child_agent.map(|agent| self.local_agent(agent, "child_agent")).transpose()?,
            start_ms,
            duration_ms,
            input_tokens,
            output_tokens,
        })
    }
}
