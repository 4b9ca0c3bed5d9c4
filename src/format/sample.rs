//! Made-up sessions for tests.
//!
//! Invariant: every one is valid; they come from a number generator, nothing in them from a real trace.

use crate::trace::manifest::{Named, Quanta, ToolName, ToolVersion, Totals};
use crate::trace::vocab::{
    AgentKind, AgentType, DelayKind, Evidence, Harness, KUnit, Keep, License, Normalizer, Profile, PromptScale,
    Relation, RequestKind, Scope, SourceFormat, Status, Stop, TemplateName, TokenizerName, ToolClass, Trigger,
    Vocabulary,
};
use crate::trace::{Agent, Edge, Manifest, Model, Parts, Prefix, PrefixTree, Request, Session, ToolCall, Usage};

/// A plain generator of numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0, below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.next().is_multiple_of(of)
    }

    fn any<V: Vocabulary>(&mut self) -> V {
        V::ALL[self.below(V::ALL.len())]
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.one_in(3)).then(|| value(self))
    }

    fn wide(&mut self) -> u32 {
        self.next() as u32 >> (self.next() % 32)
    }
}

/// A manifest before the tables are known.
pub(crate) fn head(scope: Scope) -> Manifest {
    Manifest {
        format_version: 1,
        tool: ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 1, patch: 0 },
        profile: Profile::Public,
        kept: vec![Keep::Usage, Keep::ExactLengths],
        block_size: 64,
        scope,
        k: (scope == Scope::Shared).then_some(3),
        k_unit: (scope == Scope::Shared).then_some(KUnit::Contributor),
        tokenizer: Named { name: TokenizerName::Builtin, sha256: None },
        chat_template: Named { name: TemplateName::Neutral, sha256: None },
        normalizers: vec![Normalizer::CacheControl],
        quanta: Quanta { input_tokens: 1, output_tokens: 1, machine_ms: 10, user_ms: 1000 },
        prompt_scale: PromptScale::None,
        source_formats: vec![SourceFormat::Har],
        totals: Totals::default(),
        loss: Vec::new(),
        skip_counts: None,
        license: Some(License::CcBy4),
        files: Vec::new(),
    }
}

/// Valid sessions of every shape.
pub(crate) fn dataset(seed: u64, count: usize, scope: Scope) -> Vec<Session> {
    let mut numbers = Numbers(seed);
    let (mut tree, mut lengths) = (PrefixTree::new(), Vec::new());
    (0..count).map(|_| session(&mut numbers, &mut tree, &mut lengths, scope)).collect()
}

fn session(numbers: &mut Numbers, tree: &mut PrefixTree, lengths: &mut Vec<u32>, scope: Scope) -> Session {
    let base = lengths.len();
    if scope == Scope::Session {
        tree.begin_session();
    }
    let first_visible = if scope == Scope::Session { base } else { 0 };
    let (agent_count, request_count) = (1 + numbers.below(3), 1 + numbers.below(12));
    let mut agents: Vec<Agent> = Vec::new();
    for row in 0..agent_count {
        let parent_agent = if row == 0 { None } else { numbers.maybe(|numbers| numbers.below(row) as u32) };
        let spawn_request = numbers.maybe(|numbers| numbers.below(request_count) as u32);
        let join_request = spawn_request.map(|spawn| spawn + 1).filter(|join| (*join as usize) < request_count);
        agents.push(Agent {
            parent_agent,
            depth: parent_agent.map_or((row > 0).into(), |parent| agents[parent as usize].depth + 1),
            kind: if row == 0 { AgentKind::Main } else { AgentKind::ALL[1 + numbers.below(5)] },
            agent_type: numbers.any(),
            status: numbers.maybe(Numbers::any),
            spawn_request,
            join_request,
            total_tokens: numbers.maybe(Numbers::wide),
            tool_calls: numbers.maybe(Numbers::wide),
        });
    }
    let (mut start, mut others) = (0, 0);
    let requests: Vec<Request> = (0..request_count)
        .map(|row| {
            let with = (lengths.len() > first_visible && !numbers.one_in(8))
                .then(|| first_visible + numbers.below(lengths.len() - first_visible));
            let theirs = with.map_or(0, |with| lengths[with] / 64);
            let shared = if numbers.one_in(2) { theirs } else { numbers.below(theirs as usize + 1) as u32 };
            let blocks = shared + numbers.below(6) as u32;
            let mut prefix = tree.insert(with.map(|with| with as u64), shared, blocks);
            let input_tokens = blocks * 64 + numbers.below(64) as u32;
            let whole = prefix.request.is_some_and(|earlier| {
                let length = lengths[earlier as usize];
                earlier >= base as u64 && length / 64 == prefix.shared_blocks && length <= input_tokens
            });
            prefix.extends = whole && numbers.one_in(2);
            lengths.push(input_tokens);
            start += u64::from(numbers.wide()) * u64::from(row > 0);
            let model = if numbers.one_in(4) {
                others += 1;
                Model::other(others - 1)
            } else {
                Model::parse(Model::public_names()[numbers.below(Model::public_names().len())]).unwrap()
            };
            Request {
                agent: numbers.below(agent_count) as u32,
                turn: numbers.below(row + 1) as u32,
                kind: numbers.any(),
                model,
                input_tokens,
                output_tokens: numbers.maybe(Numbers::wide),
                prefix,
                start_ms: numbers.maybe(|_| start),
                duration_ms: numbers.maybe(Numbers::wide),
                ttft_ms: numbers.maybe(Numbers::wide),
                stop: numbers.maybe(Numbers::any),
                status: numbers.any(),
                attempt: numbers.next() as u8,
                streaming: numbers.maybe(|numbers| numbers.one_in(2)),
                max_tokens: numbers.maybe(Numbers::wide),
                usage: Usage {
                    input: numbers.maybe(Numbers::wide),
                    reasoning: numbers.maybe(Numbers::wide),
                    ..Usage::default()
                },
                tools_tokens: numbers.maybe(Numbers::wide),
                system_tokens: numbers.maybe(Numbers::wide),
                messages: numbers.maybe(|numbers| numbers.next() as u16),
                input_parts: Parts(numbers.next() as u16 & 127),
                output_parts: Parts(numbers.next() as u16 & 127),
            }
        })
        .collect();
    let mut edges: Vec<Edge> = (1..request_count as u32)
        .map(|to| Edge {
            to,
            from: numbers.below(to as usize) as u32,
            relation: numbers.any(),
            trigger: numbers.any(),
            delay_ms: numbers.next() >> numbers.below(64),
            delay_kind: numbers.any(),
            evidence: numbers.any(),
        })
        .collect();
    edges.sort_unstable();
    let mut tools = Vec::new();
    for request in 0..request_count as u32 {
        for index in 0..numbers.below(3) as u16 {
            tools.push(ToolCall {
                request,
                index,
                class: numbers.any(),
                is_error: numbers.maybe(|numbers| numbers.one_in(2)),
                consumer_request: Some(request + 1).filter(|next| (*next as usize) < request_count),
                child_agent: numbers.maybe(|numbers| numbers.below(agent_count) as u32),
                start_ms: numbers.maybe(Numbers::next),
                duration_ms: numbers.maybe(Numbers::wide),
                input_tokens: numbers.maybe(Numbers::wide),
                output_tokens: numbers.maybe(Numbers::wide),
            });
        }
    }
    let start_ms = numbers.maybe(Numbers::next);
    Session {
        start_ms,
        harness: numbers.any(),
        source_number: numbers.maybe(Numbers::wide),
        agents,
        requests,
        edges,
        tools,
    }
}

/// Linear sessions, each request one turn further, with numbers spread like those of a coding agent under the public profile.
pub(crate) fn linear(sessions: usize, requests: u32) -> Vec<Session> {
    let mut numbers = Numbers(7);
    let mut tree = PrefixTree::new();
    let mut row = 0;
    // Spread over powers of two, as lengths and times are.
    let spread =
        |numbers: &mut Numbers, bits: u64, step: u64| ((numbers.next() >> 40) >> (24 - numbers.next() % bits)) * step;
    let linear = |_| {
        tree.begin_session();
        let mut session = Session {
            start_ms: None,
            harness: Harness::ClaudeCode,
            source_number: None,
            agents: vec![Agent {
                parent_agent: None,
                depth: 0,
                kind: AgentKind::Main,
                agent_type: AgentType::Main,
                status: None,
                spawn_request: None,
                join_request: None,
                total_tokens: None,
                tool_calls: None,
            }],
            requests: Vec::new(),
            edges: Vec::new(),
            tools: Vec::new(),
        };
        let (mut blocks, mut now) = (300, 0);
        for turn in 0..requests {
            let shared = if turn == 0 { 0 } else { blocks };
            blocks += 1 + spread(&mut numbers, 7, 1) as u32;
            let prefix: Prefix = tree.insert((turn > 0).then(|| row - 1), shared, blocks);
            let delay_ms = spread(&mut numbers, 12, 10);
            now += if turn == 0 { 0 } else { delay_ms };
            let duration = 1000 + spread(&mut numbers, 12, 10);
            session.requests.push(Request {
                agent: 0,
                turn,
                kind: RequestKind::Turn,
                model: Model::parse("claude-opus-4-5").unwrap(),
                input_tokens: blocks * 64,
                output_tokens: Some(16 + spread(&mut numbers, 7, 16) as u32),
                prefix,
                start_ms: Some(now),
                duration_ms: Some(duration as u32),
                ttft_ms: Some((duration / 20 * 10) as u32),
                stop: Some(if numbers.one_in(8) { Stop::EndTurn } else { Stop::ToolUse }),
                status: Status::Ok,
                attempt: 0,
                streaming: Some(true),
                max_tokens: Some(32000),
                usage: Usage::default(),
                tools_tokens: None,
                system_tokens: None,
                messages: Some(turn as u16 * 2 + 1),
                input_parts: Parts::TEXT.with(Parts::TOOL_RESULT),
                output_parts: Parts::TOOL_USE,
            });
            if turn > 0 {
                session.edges.push(Edge {
                    to: turn,
                    from: turn - 1,
                    relation: Relation::Sequence,
                    trigger: Trigger::Completion,
                    delay_ms,
                    delay_kind: DelayKind::Tool,
                    evidence: Evidence::Prefix,
                });
            }
            now += duration;
            row += 1;
        }
        session
    };
    (0..sessions).map(linear).collect()
}

/// A tool call of which only its place is known.
pub(crate) fn tool_call(request: u32, index: u16) -> ToolCall {
    ToolCall {
        request,
        index,
        class: ToolClass::Read,
        is_error: None,
        consumer_request: None,
        child_agent: None,
        start_ms: None,
        duration_ms: None,
        input_tokens: None,
        output_tokens: None,
    }
}
