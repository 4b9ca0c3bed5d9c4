//! From an exchange to a [`Draft`]: the last place that sees text.
//!
//! Invariant: the exchange is borrowed; what leaves is counts, times, vocabulary words, nodes and tags.

use serde::Deserialize;

use crate::capture::{Body, Cut, Exchange, LogError, ResponseBody, SkipReason};
use crate::tokenize::{Encoder, Layout};
use crate::trace::vocab::{AgentKind, AgentType, Harness, Status, Stop, ToolClass};
use crate::trace::{Model, Parts, Usage};
use crate::wire::anthropic::{self, Answer, AnswerReader, Block, ContentBlock, Made, MessagesRequest, Role};

use super::chains::{Blocks, Chains};
use super::draft::{Call, Draft, ModelName, Notice, Shape, SpawnCall, Tally, ToolResult};
use super::key::{Tag, Tagger};
use super::markers;
use super::prompt::{self, Normalized};
use super::scale::Scaler;

/// Turns exchanges into drafts.
pub(super) struct Extractor {
    pub(super) tagger: Tagger,
    pub(super) blocks: Blocks,
    pub(super) threads: Chains,
    pub(super) layout: Box<dyn Layout>,
    pub(super) encoder: Box<dyn Encoder>,
    pub(super) scaler: Option<Scaler>,
    pub(super) normalized: Normalized,
    tokens: Vec<u32>,
}

/// What the messages that are new in a request bring.
#[derive(Default)]
struct News {
    results: Vec<ToolResult>,
    notices: Vec<Notice>,
    user_text: bool,
}

impl Extractor {
    pub(super) fn new(
        tagger: Tagger,
        block_size: u32,
        layout: Box<dyn Layout>,
        encoder: Box<dyn Encoder>,
        scaler: Option<Scaler>,
    ) -> Self {
        let (blocks, threads) = (Blocks::new(block_size), Chains::new());
        Self { tagger, blocks, threads, layout, encoder, scaler, normalized: Normalized::default(), tokens: Vec::new() }
    }

    /// The draft of an exchange.
    ///
    /// # Errors
    /// With the reason why the exchange can't be kept.
    pub(super) fn draft(&mut self, exchange: &Exchange) -> Result<Draft, LogError> {
        let error = |reason| LogError { position: exchange.position, reason };
        let is_count = api(exchange).ok_or(error(SkipReason::OtherApi))?;
        let body = match &exchange.body {
            Body::Bytes(body) => body.as_bytes(),
            Body::Lost => return Err(error(SkipReason::BodyLost)),
            Body::Empty => return Err(error(SkipReason::BadBody)),
        };
        let request = MessagesRequest::parse(body)
            .map_err(|wire| error(if wire.too_deep { SkipReason::TooDeep } else { SkipReason::BadBody }))?;
        let start_us =
            exchange.start.or(exchange.first_byte).or(exchange.end).ok_or(error(SkipReason::NoTime))?.unix_us;
        self.normalized.cache_control += count(body, b"\"cache_control\"");
        self.normalized.thinking_signature += count(body, b"\"signature\"");

        let laid = self
            .layout
            .lay(&prompt::build(&request, &self.tagger, &mut self.normalized))
            .map_err(|_| error(SkipReason::BadBody))?;
        let answer = answer(exchange);
        let usage = usage(&answer.usage);
        let stated = [usage.input, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h]
            .into_iter()
            .flatten()
            .fold(0, u32::saturating_add);
        let laid = match &mut self.scaler {
            Some(scaler) if !is_count => scaler.scale(&laid, stated),
            _ => laid,
        };
        let place = self.blocks.insert(&laid.tokens, &self.tagger);
        let (thread, seen) = prompt::thread(&request, &self.tagger, &mut self.threads);
        let news = self.news(&request, seen);
        let first_user = request
            .messages
            .iter()
            .find(|message| message.role == Role::User)
            .map(|message| &message.blocks[..])
            .unwrap_or_default();
        let last_user = request
            .messages
            .iter()
            .rfind(|message| message.role == Role::User)
            .map(|message| &message.blocks[..])
            .unwrap_or_default();
        let duration = |moment: Option<crate::capture::Moment>| {
            moment.map(|moment| u64::try_from(moment.unix_us.saturating_sub(start_us)).unwrap_or(0))
        };
        let (status, cut_by_unknown) = status(exchange, &answer);
        Ok(Draft {
            position: exchange.position,
            session: self.session(exchange, &request),
            agent: exchange.headers.get("x-claude-code-agent-id").map(|id| self.tagger.text(id)),
            parent_agent: exchange.headers.get("x-claude-code-parent-agent-id").map(|id| self.tagger.text(id)),
            identity: self.identity(exchange, &answer),
            harness: harness(exchange, &request),
            shape: shape(exchange, &request, is_count, last_text(last_user)),
            model: Model::recognize(&request.model)
                .map_or_else(|| ModelName::Unlisted(self.tagger.text(&request.model)), ModelName::Listed),
            start_us,
            duration_us: duration(exchange.end),
            ttft_us: answer.first_content_us,
            prompt: place,
            tools_tokens: laid.tools,
            system_tokens: laid.system,
            thread,
            messages: clamp(request.messages.len()),
            streaming: Some(request.stream == Some(true)),
            max_tokens: request.max_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            input_parts: request
                .messages
                .iter()
                .flat_map(|message| &message.blocks)
                .fold(Parts::default(), |parts, block| parts.with(part_of(block))),
            status,
            cut_by_unknown,
            stop: stop(&answer.stop_reason),
            usage,
            output_parts: answer.made.iter().fold(Parts::default(), |parts, made| {
                parts.with(match made {
                    Made::Text(_) => Parts::TEXT,
                    Made::Thinking => Parts::THINKING,
                    Made::ToolUse { .. } => Parts::TOOL_USE,
                    Made::Other => Parts::OTHER,
                })
            }),
            calls: answer.made.iter().filter_map(|made| self.call(made)).collect(),
            results: news.results,
            notices: news.notices,
            user_text: news.user_text,
            continues: texts(first_user).any(markers::is_continuation),
            opening: last_text(first_user).map(|text| self.tagger.text(text)),
            directive: self.directive(first_user, last_user),
        })
    }

    fn session(&self, exchange: &Exchange, request: &MessagesRequest<'_>) -> Option<Tag> {
        let header = exchange.headers.get("x-claude-code-session-id").map(str::to_owned);
        let named = header.or_else(|| markers::session_of_user_id(request.user_id.as_deref()?));
        let named = named.or_else(|| exchange.headers.get("x-session-id").map(str::to_owned));
        named.map(|session| self.tagger.tag([&b"session"[..], session.to_ascii_lowercase().as_bytes()]))
    }

    /// A tag of what the provider called the exchange, and of what was asked and answered.
    fn identity(&self, exchange: &Exchange, answer: &Answer) -> Option<Tag> {
        let named = exchange.response_headers.get("request-id").unwrap_or(&answer.id);
        let Body::Bytes(body) = &exchange.body else { return None };
        (!named.is_empty()).then(|| self.tagger.tag([named.as_bytes(), body.as_bytes()]))
    }

    /// What the new messages bring: those not seen before, and in any case those after the last answer.
    fn news(&mut self, request: &MessagesRequest<'_>, seen: usize) -> News {
        let answered =
            request.messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
        let mut news = News::default();
        let mut interrupted = false;
        for (at, message) in request
            .messages
            .iter()
            .enumerate()
            .skip(seen.min(answered))
            .filter(|(_, message)| message.role == Role::User)
        {
            for block in &message.blocks {
                match block {
                    Block::ToolResult { id, is_error, content } => {
                        let found = markers::agent_result(content_texts(content));
                        let result = ToolResult {
                            call: self.tagger.text(id),
                            is_error: *is_error,
                            agent: found.agent.map(|agent| self.tagger.text(agent)),
                            outcome: found.outcome,
                            tally: Tally { total_tokens: found.total_tokens, tool_calls: found.tool_calls },
                            tokens: content_texts(content).map(|text| self.count(text)).fold(0, u32::saturating_add),
                        };
                        news.results.push(result);
                    }
                    Block::Content(ContentBlock::Text(text)) => {
                        let notices = markers::notifications(text);
                        interrupted |= markers::is_interrupt(text);
                        news.user_text |= at >= answered
                            && notices.is_empty()
                            && !markers::is_reminder(text)
                            && !markers::is_interrupt(text);
                        news.notices.extend(notices.into_iter().map(|notice| Notice {
                            task: self.tagger.text(notice.task),
                            call: notice.call.map(|call| self.tagger.text(call)),
                            failed: notice.failed,
                            tally: Tally { total_tokens: notice.total_tokens, tool_calls: notice.tool_calls },
                        }));
                    }
                    Block::Content(_) => news.user_text |= at >= answered,
                    Block::Thinking(_) | Block::ToolUse { .. } => {}
                }
            }
        }
        // Text beside tool results is the harness's reminder, unless the user stopped the tools.
        news.user_text &= interrupted || news.results.is_empty();
        news
    }

    /// The task that a fork (in its last user message) or a workflow agent (in its first) was given.
    fn directive(&self, first_user: &[Block<'_>], last_user: &[Block<'_>]) -> Option<(AgentKind, Tag)> {
        let fork = last_text(last_user)
            .and_then(markers::fork_directive)
            .map(|task| (AgentKind::Fork, self.tagger.text(task)));
        fork.or_else(|| {
            texts(first_user)
                .find_map(markers::workflow_directive)
                .map(|task| (AgentKind::Workflow, self.tagger.text(&task)))
        })
    }

    fn call(&mut self, made: &Made) -> Option<Call> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Input {
            prompt: String,
            subagent_type: String,
            script: String,
            to: String,
        }
        let Made::ToolUse { id, name, input, whole_at_us } = made else { return None };
        let class = markers::tool_class(name);
        let mut call = Call {
            id: self.tagger.text(id),
            class,
            spawn: None,
            to: None,
            whole_us: *whole_at_us,
            input_tokens: self.count(input),
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
                "SendMessage" => call.to = Some(self.tagger.text(&input.to)),
                _ => {}
            }
        }
        Some(call)
    }

    fn count(&mut self, text: &str) -> u32 {
        self.tokens.clear();
        self.encoder.encode(text, &mut self.tokens);
        clamp(self.tokens.len())
    }
}

/// Whether the exchange is a count_tokens request; none for another API.
fn api(exchange: &Exchange) -> Option<bool> {
    let path = exchange.path.as_str()?;
    let path = path.split(['?', '#']).next().unwrap_or(path).trim_end_matches('/');
    let posted = exchange.method.is_empty() || exchange.method.as_bytes().eq_ignore_ascii_case(b"POST");
    match () {
        () if !posted => None,
        () if path.ends_with("/v1/messages") => Some(false),
        () if path.ends_with("/v1/messages/count_tokens") => Some(true),
        () => None,
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

/// How the exchange ended, and whether it was cut without anybody having recorded on which side.
fn status(exchange: &Exchange, answer: &Answer) -> (Status, bool) {
    let cut = || match exchange.cut {
        Some(Cut::Client) => (Status::ClientCancelled, false),
        Some(Cut::Upstream) => (Status::NetworkError, false),
        Some(Cut::Unknown) | None => (Status::ClientCancelled, true),
    };
    match exchange.status {
        None | Some(0) => match exchange.cut {
            Some(Cut::Client) => (Status::ClientCancelled, false),
            _ => (Status::NetworkError, false),
        },
        Some(529 | 503) => (Status::Overloaded, false),
        Some(429) => (Status::RateLimited, false),
        Some(500..) => (Status::ServerError, false),
        Some(400..) => (Status::ClientError, false),
        // A client hangs up once it has read an error event, so the error comes before the cut.
        Some(_) => match (&exchange.response, &*answer.error) {
            (_, "overloaded_error") => (Status::Overloaded, false),
            (_, "rate_limit_error") => (Status::RateLimited, false),
            (_, "") if exchange.cut.is_some() => cut(),
            (_, "") if answer.whole => (Status::Ok, false),
            // Nothing was kept of the answer, so nothing says that it failed.
            (ResponseBody::Lost | ResponseBody::Empty, "") => (Status::Ok, false),
            (_, "") => cut(),
            _ => (Status::ServerError, false),
        },
    }
}

fn harness(exchange: &Exchange, request: &MessagesRequest<'_>) -> Harness {
    let agent = exchange.headers.get("user-agent").unwrap_or_default().to_ascii_lowercase();
    let claude = exchange.headers.get("x-claude-code-session-id").is_some()
        || request.user_id.as_deref().is_some_and(|id| id.contains("session_"));
    match () {
        () if claude || agent.starts_with("claude-cli") => Harness::ClaudeCode,
        () if agent.starts_with("codex") => Harness::Codex,
        () if agent.starts_with("opencode") => Harness::OpenCode,
        () => Harness::Other,
    }
}

fn shape(exchange: &Exchange, request: &MessagesRequest<'_>, is_count: bool, last_text: Option<&str>) -> Shape {
    let class = exchange.headers.get("x-claude-code-request-class").unwrap_or_default();
    let last_text = last_text.unwrap_or_default();
    let server_tools = request.tools.iter().any(|tool| tool.kind.starts_with("web_search"))
        && request.tools.iter().all(|tool| !tool.kind.is_empty());
    match () {
        () if is_count => Shape::CountTokens,
        () if class == "compaction" || markers::is_compaction(last_text) => Shape::Compaction,
        () if texts(&request.system).any(markers::is_summarizer) => Shape::Compaction,
        () if markers::is_recap(last_text) || asks_behind_the_mark(exchange, request) => Shape::Recap,
        () if class == "auxiliary" || class == "side_reply" || server_tools => Shape::Side,
        () if request.tools.is_empty() => Shape::Bare,
        () => Shape::Thread,
    }
}

/// Whether the last user text stands behind the last cache mark: Claude Code marks the end of what the thread will go on from, so
/// such a text asks something beside it.
fn asks_behind_the_mark(exchange: &Exchange, request: &MessagesRequest<'_>) -> bool {
    let claude = exchange.headers.get("x-claude-code-session-id").is_some();
    let marked = request.messages.iter().rposition(|message| message.last_mark.is_some());
    let asked = request.messages.iter().rposition(|message| message.role == Role::User);
    claude
        && marked.zip(asked).is_some_and(|(marked, asked)| {
            let block = request
                .messages
                .get(marked)
                .and_then(|message| message.last_mark.map(|mark| mark + 1 < message.blocks.len()));
            asked > marked || (asked == marked && block == Some(true))
        })
}

fn stop(reason: &str) -> Option<Stop> {
    use crate::trace::vocab::Vocabulary;
    (!reason.is_empty()).then(|| Stop::parse(reason).unwrap_or(Stop::Other))
}

fn usage(stated: &anthropic::Usage) -> Usage {
    let narrow = |count: Option<u64>| count.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Usage {
        input: narrow(stated.input),
        cache_read: narrow(stated.cache_read),
        cache_write_5m: narrow(stated.cache_write_5m),
        cache_write_1h: narrow(stated.cache_write_1h),
        output: narrow(stated.output),
        reasoning: None,
    }
}

fn part_of(block: &Block<'_>) -> Parts {
    match block {
        Block::Content(ContentBlock::Text(_)) => Parts::TEXT,
        Block::Content(ContentBlock::Image(_)) => Parts::IMAGE,
        Block::Content(ContentBlock::Document(_)) => Parts::DOCUMENT,
        Block::Content(ContentBlock::Other(_)) => Parts::OTHER,
        Block::Thinking(_) => Parts::THINKING,
        Block::ToolUse { .. } => Parts::TOOL_USE,
        Block::ToolResult { .. } => Parts::TOOL_RESULT,
    }
}

fn texts<'a>(blocks: &'a [Block<'a>]) -> impl DoubleEndedIterator<Item = &'a str> {
    blocks.iter().filter_map(|block| match block {
        Block::Content(ContentBlock::Text(text)) => Some(&**text),
        _ => None,
    })
}

fn last_text<'a>(blocks: &'a [Block<'a>]) -> Option<&'a str> {
    texts(blocks).next_back()
}

fn content_texts<'a>(blocks: &'a [ContentBlock<'a>]) -> impl Iterator<Item = &'a str> {
    blocks.iter().filter_map(|block| match block {
        ContentBlock::Text(text) => Some(&**text),
        ContentBlock::Image(_) | ContentBlock::Document(_) | ContentBlock::Other(_) => None,
    })
}

/// How often a member of this name stands in a JSON body. Inside a string its quotes would be escaped.
fn count(body: &[u8], name: &[u8]) -> u64 {
    u64::try_from(memchr::memmem::find_iter(body, name).count()).unwrap_or(u64::MAX)
}

fn clamp(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
