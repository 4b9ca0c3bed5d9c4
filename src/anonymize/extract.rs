//! From an exchange to a [`Draft`]: the last place that sees text.
//!
//! Invariant: the exchange ends here; what leaves is counts, times, vocabulary words, nodes and tags.

use serde::Deserialize;

use crate::capture::{Alike, Body, Exchange, LogError, Moment, ResponseBody, SkipReason, Text};
use crate::tokenize::{Encoder, Layout};
use crate::trace::vocab::{AgentKind, AgentType, Harness, Stop, ToolClass, Vocabulary};
use crate::trace::{Parts, Usage};
use crate::wire::anthropic::{self, Answer, AnswerReader, Block, Made, Message, Outline, Role};
use crate::wire::{WireError, openai_chat, openai_responses};

use super::api::{Api, Responses};
use super::around::{Around, Heads};
use super::chains::{Blocks, Chains, Node, Prompt};
use super::draft::{Call, Draft, Recorded, Shape, SpawnCall, Told};
use super::key::{Tag, Tagger};
use super::markers;
use super::news::News;
use super::prompt::{self, Normalized};
use super::reading::{Reader, Reading, part_of};
use super::reuse::{Bodies, Progress, Sender};
use super::scale::{Counted, Gap, Scaler};
use super::status::status;

/// Turns exchanges into drafts.
pub(super) struct Extractor {
    pub(super) tagger: Tagger,
    pub(super) blocks: Blocks,
    pub(super) threads: Chains,
    pub(super) scaler: Option<Scaler>,
    pub(super) normalized: Normalized,
    layout: Box<dyn Layout>,
    counter: Counter,
    bodies: Bodies,
    heads: Heads,
    pub(super) responses: Responses,
}

/// Counts tokens of texts by themselves.
pub(super) struct Counter {
    encoder: Box<dyn Encoder>,
    tokens: Vec<u32>,
}

/// What a body says.
struct Read {
    around: Around,
    reading: Reading,
    news: News,
    /// Answers among the messages that no request had before.
    told: Vec<Told>,
    /// What the messages show of the request's purpose.
    shape: Shape,
    directive: Option<(AgentKind, Tag)>,
}

impl Counter {
    pub(super) fn count(&mut self, text: &str) -> u32 {
        self.tokens.clear();
        self.encoder.encode(text, &mut self.tokens);
        clamp(self.tokens.len())
    }
}

impl Extractor {
    /// Keeps up to `reuse` bytes of bodies, to go on from them; with 0, each is read from its start.
    pub(super) fn new(
        tagger: Tagger,
        block_size: u32,
        layout: Box<dyn Layout>,
        encoder: Box<dyn Encoder>,
        scaler: Option<Scaler>,
        reuse: usize,
    ) -> Self {
        let reuse = if layout.is_additive() && scaler.is_none() { reuse } else { 0 };
        Self {
            tagger,
            blocks: Blocks::new(block_size),
            threads: Chains::new(),
            scaler,
            normalized: Normalized::default(),
            layout,
            counter: Counter { encoder, tokens: Vec::new() },
            bodies: Bodies::new(reuse),
            heads: Heads::new(reuse),
            responses: Responses::default(),
        }
    }

    /// The draft of an exchange.
    ///
    /// # Errors
    /// With the reason why the exchange can't be kept.
    pub(super) fn draft(&mut self, mut exchange: Exchange) -> Result<Draft, LogError> {
        let position = exchange.position;
        let error = |reason| LogError { position, reason };
        let api = Api::of(&exchange).ok_or(error(SkipReason::OtherApi))?;
        let is_count = api == Api::CountTokens;
        let answer = answer(&exchange);
        let body = match std::mem::replace(&mut exchange.body, Body::Empty) {
            Body::Bytes(body) => body,
            Body::Lost => return Err(error(SkipReason::BodyLost)),
            Body::Empty => return Err(error(SkipReason::BadBody)),
        };
        let body = if api == Api::Responses {
            self.responses.whole(&exchange, body, &answer, &self.tagger).map_err(error)?
        } else {
            body
        };
        let header = |name| exchange.headers.get(name).filter(|id| !id.is_empty()).map(str::to_ascii_lowercase);
        let session = header("x-claude-code-session-id").map(|session| self.tagger.session(&session));
        let agent = header("x-claude-code-agent-id").map(|agent| self.tagger.text(&agent));
        let usage = usage(&answer.usage);
        let gap = Gap::new(&exchange.provenance, (session, agent), &self.tagger);
        let read = self.read(api, (session, agent), body, exchange.alike.as_ref(), (&usage, gap));
        let read = read.map_err(|wire| error(if wire.too_deep { SkipReason::TooDeep } else { SkipReason::BadBody }))?;
        let start_us =
            exchange.start.or(exchange.first_byte).or(exchange.end).ok_or(error(SkipReason::NoTime))?.unix_us;
        let Read { around, reading, news, told, shape, directive } = read;
        self.normalized.add(&around.dropped);
        self.normalized.add(&reading.dropped);
        let class = header("x-claude-code-request-class").unwrap_or_default();
        let shape = match (&*class, around.shape) {
            _ if is_count => Shape::CountTokens,
            ("compaction", _) => Shape::Compaction,
            ("auxiliary" | "side_reply", _) => Shape::Side,
            (_, Shape::Thread | Shape::Bare) if shape != Shape::Thread => shape,
            (_, around) => around,
        };
        let since = |moment: Option<Moment>| {
            moment.map(|moment| u64::try_from(moment.unix_us.saturating_sub(start_us)).unwrap_or(0))
        };
        let (status, cut_by_unknown) = status(&exchange, &answer);
        let (other_session, parent_session) = self.other_session(&exchange);
        let names = [exchange.response_headers.get("request-id").unwrap_or_default(), &answer.id];
        let provenance = &exchange.provenance;
        let task = reading.opening.and_then(|opening| opening.text).filter(|_| provenance.in_workflow);
        Ok(Draft {
            position,
            session: session.or(around.session).or(other_session),
            parent_session: parent_session.filter(|_| session.or(around.session).is_none()),
            spawn_call: provenance.spawn_call.as_ref().and_then(Text::as_str).map(|id| self.tagger.text(id)),
            names: names.iter().filter(|name| !name.is_empty()).map(|name| self.tagger.text(name)).collect(),
            trust: provenance.trust,
            recorded: Recorded {
                system: !provenance.no_system,
                tools: !provenance.no_tools,
                answer: matches!(exchange.response, ResponseBody::Pieces(_)),
            },
            told,
            agent,
            parent_agent: header("x-claude-code-parent-agent-id").map(|agent| self.tagger.text(&agent)),
            identity: self.identity(&exchange, &answer, &reading),
            harness: harness(&exchange, session.or(around.session).is_some()),
            shape,
            model: around.model,
            system: around.system,
            by_header: session.or(agent).or(other_session).is_some(),
            start_us,
            duration_us: since(exchange.end),
            ttft_us: answer.first_content_us,
            tools_tokens: around.tools_tokens,
            system_tokens: around.system_tokens,
            thread: reading.thread,
            messages: clamp(reading.messages),
            streaming: Some(around.stream),
            max_tokens: around.max_tokens,
            input_parts: reading.parts,
            continues: reading.opening.is_some_and(|opening| opening.continues),
            opening: reading.opening.and_then(|opening| opening.text),
            prompt: reading.prompt,
            status,
            cut_by_unknown,
            stop: (!answer.stop_reason.is_empty()).then(|| Stop::parse(&answer.stop_reason).unwrap_or(Stop::Other)),
            usage,
            output_parts: answer.made.iter().fold(Parts::default(), |parts, made| parts.with(made_part(made))),
            calls: answer.made.iter().filter_map(|made| self.call(made)).collect(),
            results: news.results,
            notices: news.notices,
            user_text: news.user_text,
            directive: directive.or(task.map(|task| (AgentKind::Workflow, task))),
        })
    }

    /// Reads a body: from where it parts from one that was read before or, if there is none, from its start.
    fn read(
        &mut self,
        api: Api,
        sender: Sender,
        body: Text,
        alike: Option<&Alike>,
        counted: Counted<'_>,
    ) -> Result<Read, WireError> {
        let is_messages = matches!(api, Api::Messages | Api::CountTokens);
        if is_messages && let Some(mut progress) = self.bodies.take(sender, &body, alike) {
            let (ahead, start) = (progress.ahead(&body), progress.last());
            let messages = Progress::rest(&ahead);
            let read = messages.map(|messages| self.advance(&messages, (&ahead, start), &mut progress, sender));
            drop(ahead);
            if let Some(read) = read.transpose()? {
                self.bodies.keep(sender, body, progress);
                return Ok(read);
            }
        }
        self.read_whole(api, sender, body, counted)
    }

    /// Reads a body from its start.
    fn read_whole(
        &mut self,
        api: Api,
        sender: Sender,
        body: Text,
        (usage, gap): Counted<'_>,
    ) -> Result<Read, WireError> {
        let bytes = body.as_bytes();
        let mut outline = match api {
            Api::Messages | Api::CountTokens => Outline::read(bytes)?,
            Api::Chat => Outline::whole(openai_chat::parse(bytes)?),
            Api::Responses => Outline::whole(openai_responses::parse(bytes)?),
        };
        let refused = |_| WireError { line: 0, column: 0, too_deep: false };
        let mut begin = Reading::default();
        let by_message = self.by_message();
        let around = match self.heads.find(&outline) {
            Some((around, prompt)) => {
                begin.prompt = prompt.clone();
                Around::of(&outline.request, &self.tagger).with_head_of(around)
            }
            None => {
                outline.read_head()?;
                let mut around = Around::of(&outline.request, &self.tagger);
                if by_message {
                    let head = prompt::head(&outline.request, &self.tagger, &mut around.dropped);
                    let laid = self.layout.lay(&head).map_err(refused)?;
                    self.blocks.extend(&mut begin.prompt, &laid.tokens, &self.tagger);
                    (around.tools_tokens, around.system_tokens) = (laid.tools, laid.system);
                    self.heads.keep(&outline, &around, &begin.prompt);
                }
                around
            }
        };
        let Outline { mut request, messages: raw, .. } = outline;
        let close = match raw {
            Some(raw) => request.messages_at + raw.get().len().saturating_sub(2),
            None => request.messages.last().map_or(request.messages_at, |last| last.end),
        };
        let mut progress = Progress::new(around, request.messages_at, bytes.len().saturating_sub(close), begin);
        let ahead;
        let mut part = (bytes, 0);
        if let Some(raw) = raw {
            self.bodies.resume(sender, bytes, &mut progress);
            ahead = progress.ahead(&body);
            request.messages = match (progress.messages() > 0).then(|| Progress::rest(&ahead)).flatten() {
                Some(rest) => {
                    part = (&ahead, progress.last());
                    rest
                }
                None => {
                    progress.clear();
                    anthropic::messages(raw, bytes)?
                }
            };
        }
        let mut read = self.advance(&request.messages, part, &mut progress, sender)?;
        if !by_message {
            // The messages were counted when they were read.
            let mut head = prompt::head(&request, &self.tagger, &mut read.around.dropped);
            let messages = request.messages.iter();
            head.messages = messages
                .map(|message| prompt::laid_message(message, &self.tagger, &mut Normalized::default()))
                .collect();
            let laid = self.layout.lay(&head).map_err(refused)?;
            let parts = [usage.input, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h];
            let stated = parts.into_iter().flatten().fold(0, u32::saturating_add);
            let laid = self.scaler.as_mut().map_or_else(|| laid.clone(), |scaler| scaler.scale(&laid, stated, gap));
            read.reading.prompt = Prompt::default();
            self.blocks.extend(&mut read.reading.prompt, &laid.tokens, &self.tagger);
            (read.around.tools_tokens, read.around.system_tokens) = (laid.tools, laid.system);
        }
        drop(request);
        self.bodies.keep(sender, body, progress);
        Ok(read)
    }

    /// Whether tokens can be made message by message.
    fn by_message(&self) -> bool {
        self.layout.is_additive() && self.scaler.is_none()
    }

    /// Reads on from what is known: messages in a part of a body that begins at an offset.
    fn advance(
        &mut self,
        messages: &[Message<'_>],
        (part, start): (&[u8], usize),
        progress: &mut Progress,
        sender: Sender,
    ) -> Result<Read, WireError> {
        let first = progress.messages();
        let (mut seen, mut answers) = (first, Vec::new());
        let by_message = self.by_message();
        let mut reader = Reader {
            tagger: &self.tagger,
            threads: &mut self.threads,
            blocks: &mut self.blocks,
            layout: by_message.then_some(&mut *self.layout),
        };
        for (at, message) in (first + 1..).zip(messages) {
            let raw = part.get(progress.end() - start..message.end).unwrap_or_default();
            let mut reading = progress.reading().clone();
            let asked = reading.thread;
            let new = reading.next(message, raw, progress.known(), &mut reader).map_err(|_| WireError {
                line: 0,
                column: 0,
                too_deep: false,
            })?;
            if !new {
                seen = at;
            } else if message.role == Role::Assistant {
                answers.push((asked, message));
            }
            progress.push(start + message.end, reading);
        }
        let told = answers.into_iter().map(|(asked, message)| self.told(asked, message)).collect();
        let reading = progress.reading().clone();
        let asked = messages.iter().rposition(|message| message.role == Role::User);
        let latest = asked.and_then(|asked| messages.get(asked)).map(|message| &message.blocks[..]).unwrap_or_default();
        Ok(Read {
            news: News::of(messages, first, seen, reading.answered, &self.tagger, |text| {
                self.layout.known_length(text).map_or_else(|| self.counter.count(text), clamp)
            }),
            shape: reading.shape(first + asked.unwrap_or(0), latest, sender.0.is_some()),
            directive: reading.directive(latest, progress.around.workflow, &self.tagger),
            around: progress.around.clone(),
            told,
            reading,
        })
    }

    /// What a message shows of the answer that it once was.
    fn told(&mut self, asked: Node, message: &Message<'_>) -> Told {
        let made = message.blocks.iter().filter_map(|block| match block {
            Block::ToolUse { id, name, input } => Some(Made::ToolUse {
                id: id.to_string(),
                name: name.to_string(),
                input: input.to_string(),
                whole_at_us: None,
            }),
            Block::Content(_) | Block::Thinking(_) | Block::ToolResult { .. } => None,
        });
        let calls = made.filter_map(|made| self.call(&made)).collect();
        let parts = message.blocks.iter().fold(Parts::default(), |parts, block| parts.with(part_of(block)));
        Told { asked, calls, parts }
    }

    /// The session that other harnesses name, and the session that started it.
    fn other_session(&self, exchange: &Exchange) -> (Option<Tag>, Option<Tag>) {
        let header = |name| exchange.headers.get(name).filter(|value| !value.is_empty()).map(str::to_ascii_lowercase);
        let found = markers::SESSION_HEADERS.iter().find_map(|(own, parent)| Some((header(own)?, header(parent))));
        let tag = |session: String| self.tagger.session(&session);
        found.map_or((None, None), |(own, parent)| (Some(tag(own)), parent.map(tag)))
    }

    /// A tag of what the provider called the exchange, and of the conversation that it was about.
    fn identity(&self, exchange: &Exchange, answer: &Answer, reading: &Reading) -> Option<Tag> {
        let named = exchange.response_headers.get("request-id").unwrap_or(&answer.id);
        let place = [reading.thread, reading.prompt.leaf, reading.prompt.tokens].map(u32::to_le_bytes).concat();
        (!named.is_empty()).then(|| self.tagger.tag([named.as_bytes(), &place]))
    }

    fn call(&mut self, made: &Made) -> Option<Call> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Input {
            prompt: String,
            subagent_type: String,
            script: String,
            to: String,
            message: String,
        }
        let Made::ToolUse { id, name, input, whole_at_us } = made else { return None };
        let class = markers::tool_class(name);
        let mut call = Call {
            id: self.tagger.text(id),
            has_id: !id.is_empty(),
            class,
            spawn: None,
            to: None,
            whole_us: *whole_at_us,
            input_tokens: self.counter.count(input),
        };
        if class == ToolClass::Agent {
            let input: Input = serde_json::from_str(input).unwrap_or_default();
            match &**name {
                "Agent" | "Task" => {
                    let agent_type = if input.subagent_type.is_empty() {
                        AgentType::GeneralPurpose
                    } else {
                        markers::agent_type(&input.subagent_type)
                    };
                    let kind = if agent_type == AgentType::Fork { AgentKind::Fork } else { AgentKind::Subagent };
                    call.spawn = Some(SpawnCall { prompts: vec![self.tagger.text(&input.prompt)], agent_type, kind });
                }
                "Workflow" => {
                    let prompts = markers::quoted(&input.script).map(|text| self.tagger.text(text)).collect();
                    call.spawn =
                        Some(SpawnCall { prompts, agent_type: AgentType::WorkflowSubagent, kind: AgentKind::Workflow });
                }
                "task" | "spawn_agent" => {
                    let prompt = if input.prompt.is_empty() { &input.message } else { &input.prompt };
                    let (agent_type, kind) = (AgentType::Custom, AgentKind::Subagent);
                    call.spawn = Some(SpawnCall { prompts: vec![self.tagger.text(prompt)], agent_type, kind });
                }
                "SendMessage" => call.to = Some(self.tagger.text(&input.to)),
                _ => {}
            }
        }
        Some(call)
    }
}

fn answer(exchange: &Exchange) -> Answer {
    let mut reader = AnswerReader::new();
    if let ResponseBody::Pieces(pieces) = &exchange.response {
        for piece in pieces {
            reader.push(piece.text.as_bytes(), piece.at_us);
        }
    }
    reader.finish()
}

fn harness(exchange: &Exchange, has_claude_session: bool) -> Harness {
    let agent = exchange.headers.get("user-agent").unwrap_or_default().to_ascii_lowercase();
    match () {
        () if has_claude_session || agent.starts_with("claude-cli") => Harness::ClaudeCode,
        () if agent.starts_with("codex") => Harness::Codex,
        () if agent.starts_with("opencode") => Harness::OpenCode,
        () => Harness::Other,
    }
}

fn usage(stated: &anthropic::Usage) -> Usage {
    let narrow = |count: Option<u64>| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Usage {
        input: narrow(stated.input),
        cache_read: narrow(stated.cache_read),
        cache_write_5m: narrow(stated.cache_write_5m),
        cache_write_1h: narrow(stated.cache_write_1h),
        output: narrow(stated.output),
        reasoning: narrow(stated.reasoning),
    }
}

fn made_part(made: &Made) -> Parts {
    match made {
        Made::Text(_) => Parts::TEXT,
        Made::Thinking => Parts::THINKING,
        Made::ToolUse { .. } => Parts::TOOL_USE,
        Made::Other => Parts::OTHER,
    }
}

fn clamp(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
