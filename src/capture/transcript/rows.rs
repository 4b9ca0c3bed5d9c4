//! The rows of one transcript, taken in as a whole: requests refer backwards and answers are spread over rows.
//!
//! Invariant: a row that cannot be read is counted and the others are kept; rows of kinds that hold no part of a conversation are
//! passed over.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use serde::Deserialize;

use super::Broken;
use crate::capture::exchange::{LogError, Moment, Position, SkipReason};
use crate::capture::json::{self, Fields, Part};
use crate::capture::lines::Lines;
use crate::capture::moment::rfc3339;
use crate::capture::reader::Limits;
use crate::capture::text::Text;

/// A row that has a place in the conversation.
pub(super) struct Row {
    pub(super) position: Position,
    pub(super) uuid: String,
    pub(super) parent: Option<String>,
    pub(super) time: Option<Moment>,
    pub(super) said: Said,
}

/// What a row says.
pub(super) enum Said {
    /// Blocks that were sent, under a role.
    Sent { role: &'static str, blocks: Vec<Arc<Text>> },
    /// Blocks of an answer.
    Answered { id: String, blocks: Vec<Arc<Text>> },
    /// Nothing: a row between others.
    Nothing,
}

/// An answer: what all its rows say together.
pub(super) struct Answer {
    pub(super) id: String,
    /// Its first row, and its last.
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) model: Option<Text>,
    pub(super) stop: Option<Text>,
    /// Of the row that states most output.
    pub(super) usage: Option<Text>,
    pub(super) output: u64,
    pub(super) request_id: Option<Text>,
    /// The kept request that it answers.
    pub(super) reference: Option<String>,
    pub(super) agent: Option<Text>,
}

/// A request as the client kept it: the first messages of another one, and more.
pub(super) struct Kept {
    pub(super) position: Position,
    pub(super) id: String,
    pub(super) time: Option<Moment>,
    pub(super) shape: String,
    pub(super) params: Option<Text>,
    pub(super) base: Option<String>,
    pub(super) keep: usize,
    pub(super) tail: Vec<String>,
    /// Places of cache marks: message and block.
    pub(super) marks: Vec<(usize, usize)>,
    pub(super) agent: Option<Text>,
    /// How it failed, where the client said so: status, time, and the provider's id.
    pub(super) failed: Option<(Option<u16>, Option<Moment>, Option<Text>)>,
}

/// One transcript.
#[derive(Default)]
pub(super) struct Transcript {
    pub(super) rows: Vec<Row>,
    pub(super) by_uuid: HashMap<String, usize>,
    pub(super) answers: Vec<Answer>,
    pub(super) kept: Vec<Kept>,
    /// Messages by hash.
    pub(super) blobs: HashMap<String, Arc<Text>>,
    /// System and tools by hash.
    pub(super) shapes: HashMap<String, (Option<Text>, Option<Text>)>,
    pub(super) last_shape: Option<String>,
    pub(super) session: Option<Text>,
    pub(super) version: Option<Text>,
    /// The last row of the parent's conversation that a fork began from.
    pub(super) fork_of: Option<String>,
    pub(super) broken: Vec<Broken>,
    pub(super) input: u32,
    by_message: HashMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fact<'a> {
    #[serde(borrow, rename = "type")]
    kind: Part<'a>,
    #[serde(borrow)]
    subtype: Part<'a>,
    #[serde(borrow)]
    uuid: Part<'a>,
    #[serde(borrow)]
    parent_uuid: Part<'a>,
    #[serde(borrow)]
    timestamp: Part<'a>,
    #[serde(borrow)]
    session_id: Part<'a>,
    #[serde(borrow)]
    agent_id: Part<'a>,
    #[serde(borrow)]
    version: Part<'a>,
    #[serde(borrow)]
    message: Part<'a>,
    #[serde(borrow)]
    request_id: Part<'a>,
    #[serde(borrow)]
    request_ref: Part<'a>,
    #[serde(borrow)]
    rendered: Part<'a>,
    #[serde(borrow)]
    rendered_role: Part<'a>,
    #[serde(borrow)]
    error: Part<'a>,
    #[serde(borrow)]
    is_api_error_message: Part<'a>,
    #[serde(borrow)]
    parent_last_uuid: Part<'a>,
    #[serde(borrow)]
    hash: Part<'a>,
    #[serde(borrow)]
    shape_hash: Part<'a>,
    #[serde(borrow)]
    shape: Part<'a>,
    #[serde(borrow)]
    id: Part<'a>,
    #[serde(borrow)]
    base: Part<'a>,
    #[serde(borrow)]
    keep: Part<'a>,
    #[serde(borrow)]
    tail: Part<'a>,
    #[serde(borrow)]
    params: Part<'a>,
    #[serde(borrow)]
    cache_control: Part<'a>,
}

#[derive(Deserialize)]
struct Mark<'a> {
    #[serde(borrow)]
    path: Vec<Part<'a>>,
}

impl Transcript {
    /// Reads all rows.
    pub(super) fn read(source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Self {
        let mut all = Self { input, ..Self::default() };
        let mut lines = Lines::new(source, limits.record_bytes, input);
        loop {
            let (position, reason) = match lines.next() {
                None => return all,
                Some(Ok(line)) => {
                    let taken = match std::str::from_utf8(line.bytes) {
                        Ok(text) => all.row(text, line.position, limits),
                        Err(_) => Err(SkipReason::NotUtf8),
                    };
                    match taken {
                        Ok(()) => continue,
                        Err(SkipReason::Truncated) if !line.unended => (line.position, SkipReason::Malformed),
                        Err(reason) => (line.position, reason),
                    }
                }
                Some(Err(LogError { position, reason })) => (position, reason),
            };
            all.broken.push((position.record, position.offset, reason));
        }
    }

    fn row(&mut self, text: &str, position: Position, limits: Limits) -> Result<(), SkipReason> {
        let fact: Fact = json::parse(text, limits)?;
        let kind = string(fact.kind).unwrap_or_default();
        self.session = self.session.take().or_else(|| json::text(fact.session_id?));
        self.version = self.version.take().or_else(|| json::text(fact.version?));
        match &*kind {
            "user" | "assistant" | "attachment" | "system" => {}
            "api-request" => {
                self.kept.extend(kept(&fact, position)?);
                return Ok(());
            }
            "api-request-blob" => {
                let hash = string(fact.hash).ok_or(SkipReason::Malformed)?;
                let message = fact.message.ok_or(SkipReason::Malformed)?;
                self.blobs.insert(hash, Arc::new(Text::from(message.get())));
                return Ok(());
            }
            "api-request-shape" => {
                let hash = string(fact.shape_hash).ok_or(SkipReason::Malformed)?;
                let shape = Fields::of(fact.shape).ok_or(SkipReason::Malformed)?;
                let part = |name| shape.get(name).map(|raw| Text::from(raw.get()));
                self.shapes.insert(hash.clone(), (part("system"), part("tools")));
                self.last_shape = Some(hash);
                return Ok(());
            }
            "fork-context-ref" => {
                self.fork_of = string(fact.parent_last_uuid);
                return Ok(());
            }
            _ => return Ok(()),
        }
        let Some(uuid) = string(fact.uuid) else {
            let holds = fact.message.is_some();
            return if holds { Err(SkipReason::Malformed) } else { Ok(()) };
        };
        let time = json::get(fact.timestamp, |raw| rfc3339(json::text(raw)?.as_str()?))?;
        let said = match &*kind {
            "user" => Said::Sent { role: "user", blocks: blocks(fact.message)?.1 },
            "assistant" => self.answer(&fact)?,
            "attachment" if fact.rendered.is_some() => {
                let role = if string(fact.rendered_role).as_deref() == Some("user") { "user" } else { "system" };
                // What an attachment became on the wire is known only where it says so.
                Said::Sent { role, blocks: listed(fact.rendered)?.into_iter().filter(is_block).collect() }
            }
            "system" if string(fact.subtype).as_deref() == Some("api_error") => {
                self.failed(&fact, time);
                Said::Nothing
            }
            _ => Said::Nothing,
        };
        self.by_uuid.insert(uuid.clone(), self.rows.len());
        self.rows.push(Row { position, uuid, parent: string(fact.parent_uuid), time, said });
        Ok(())
    }

    /// A row of an answer. What the client made up itself was sent later, as if it had been answered.
    fn answer(&mut self, fact: &Fact) -> Result<Said, SkipReason> {
        let (message, blocks) = blocks(fact.message)?;
        let id = string(message.get("id")).unwrap_or_default();
        let model = message.get("model").and_then(json::text);
        let here = self.rows.len();
        if id.is_empty() || model.as_ref().is_some_and(|model| model.as_bytes() == b"<synthetic>") {
            if fact.is_api_error_message.and_then(json::boolean) == Some(true)
                && let Some(kept) = self.kept.last_mut()
            {
                let time = fact.timestamp.and_then(|raw| rfc3339(json::text(raw)?.as_str()?));
                kept.failed = kept.failed.take().or(Some((None, time, None)));
            }
            return Ok(Said::Sent { role: "assistant", blocks });
        }
        let usage = Fields::of(message.get("usage"));
        let output = usage.as_ref().and_then(|usage| json::number(usage.get("output_tokens")?)).unwrap_or(0);
        let stated = message.get("usage").map(|usage| Text::from(usage.get()));
        let stop = message.get("stop_reason").and_then(json::text);
        let reference = string(fact.request_ref);
        let at = *self.by_message.entry(id.clone()).or_insert(self.answers.len());
        if let Some(answer) = self.answers.get_mut(at) {
            answer.last = here;
            answer.stop = stop.or(answer.stop.take());
            if output >= answer.output {
                (answer.usage, answer.output) = (stated, output);
            }
        } else {
            let request_id = fact.request_id.and_then(json::text);
            let agent = fact.agent_id.and_then(json::text);
            let (first, last, id) = (here, here, id.clone());
            self.answers.push(Answer {
                id,
                first,
                last,
                model,
                stop,
                usage: stated,
                output,
                request_id,
                reference,
                agent,
            });
        }
        Ok(Said::Answered { id, blocks })
    }

    /// An error of the API ends the request before it, if that got no answer.
    fn failed(&mut self, fact: &Fact, time: Option<Moment>) {
        let error = Fields::of(fact.error);
        let status = error.as_ref().and_then(|error| json::number(error.get("status")?));
        let message = error.as_ref().and_then(|error| json::text(error.get("message")?));
        let named = message.as_ref().and_then(Text::as_str).and_then(|text| text.split_once("\"request_id\":\""));
        let id = named.and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| Text::from(id));
        if let Some(kept) = self.kept.last_mut() {
            kept.failed = Some((status, time, id));
        }
    }
}

fn kept(fact: &Fact, position: Position) -> Result<Option<Kept>, SkipReason> {
    let marks: Vec<Mark> = fact
        .cache_control
        .map_or(Ok(Vec::new()), |raw| serde_json::from_str(raw.get()).map_err(|_| SkipReason::Malformed))?;
    let place = |mark: Mark| {
        let number = |at: usize| mark.path.get(at).copied().flatten().and_then(json::number);
        let in_messages = string(mark.path.first().copied().flatten()).as_deref() == Some("messages");
        in_messages.then(|| Some((number(1)?, number(3)?))).flatten()
    };
    Ok(Some(Kept {
        position,
        id: string(fact.id).ok_or(SkipReason::Malformed)?,
        time: json::get(fact.timestamp, |raw| rfc3339(json::text(raw)?.as_str()?))?,
        shape: string(fact.shape_hash).unwrap_or_default(),
        params: fact.params.map(|params| Text::from(params.get())),
        base: string(fact.base),
        keep: json::get(fact.keep, json::number)?.unwrap_or(0),
        tail: fact
            .tail
            .map_or(Ok(Vec::new()), |raw| serde_json::from_str(raw.get()).map_err(|_| SkipReason::Malformed))?,
        marks: marks.into_iter().filter_map(place).collect(),
        agent: fact.agent_id.and_then(json::text),
        failed: None,
    }))
}

/// A string that is an identifier or a word.
fn string(part: Part) -> Option<String> {
    json::text(part?)?.as_str().map(str::to_owned)
}

/// The fields of a message, and its blocks; of a string, one block of text. What the client notes on blocks is left out.
fn blocks(message: Part<'_>) -> Result<(Fields<'_>, Vec<Arc<Text>>), SkipReason> {
    let message = Fields::of(message).ok_or(SkipReason::Malformed)?;
    let content = message.get("content");
    let blocks = match content {
        Some(text) if text.get().starts_with('"') => {
            vec![Arc::new(Text::from(format!("{{\"type\":\"text\",\"text\":{}}}", text.get())))]
        }
        content => listed(content)?,
    };
    Ok((message, blocks))
}

fn listed(list: Part) -> Result<Vec<Arc<Text>>, SkipReason> {
    let list: Vec<&serde_json::value::RawValue> =
        list.map_or(Ok(Vec::new()), |raw| serde_json::from_str(raw.get())).map_err(|_| SkipReason::Malformed)?;
    let plain = |raw: &serde_json::value::RawValue| match Fields::of(Some(raw)) {
        Some(fields) if fields.get("caller").is_some() => {
            let parts: Vec<(&str, Part)> =
                fields.0.iter().filter_map(|(name, value)| Some((name.as_str()?, Some(*value)))).collect();
            json::object(&parts.into_iter().filter(|(name, _)| *name != "caller").collect::<Vec<_>>())
        }
        _ => Text::from(raw.get()),
    };
    Ok(list.into_iter().map(|raw| Arc::new(plain(raw))).collect())
}

fn is_block(block: &Arc<Text>) -> bool {
    block.as_str().is_some_and(|block| block.starts_with('{') && block.contains("\"type\""))
}
