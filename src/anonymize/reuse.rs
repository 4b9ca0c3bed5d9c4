//! Bodies seen before: where a new one begins like an old one, it goes on from there.
//!
//! Invariant: a body is reused only as far as the bytes of its messages are equal, up to the end of a whole one, and only if what
//! stands around them is equal too, or was read again and gives the same beginning of the prompt; so the result is that of reading
//! it from the start. What is kept is bounded.

use std::collections::{HashMap, VecDeque};

use crate::capture::{Alike, Part, Text, common_prefix};
use crate::wire::anthropic::{Message, Role, messages_from};

use super::around::Around;
use super::key::Tag;
use super::reading::Reading;

/// How far a body was read, and what was known on the way.
#[derive(Clone)]
pub(super) struct Progress {
    /// What the body says outside its messages.
    pub(super) around: Around,
    /// How many bytes stand behind the messages, from the bracket that closes them.
    behind: usize,
    /// Offset behind the bracket that opens the messages.
    open: usize,
    /// Where each message ends, from there.
    ends: Vec<usize>,
    /// What was known before the first message.
    begin: Reading,
    /// What was known after each message.
    readings: Vec<Reading>,
    /// And after the next ones, which are to be read again.
    again: VecDeque<Reading>,
}

impl Progress {
    pub(super) fn new(around: Around, open: usize, behind: usize, begin: Reading) -> Self {
        Self { around, behind, open, ends: Vec::new(), begin, readings: Vec::new(), again: VecDeque::new() }
    }

    /// How many messages were read.
    pub(super) fn messages(&self) -> usize {
        self.ends.len()
    }

    /// Where the next message begins, or white space or a comma before it.
    pub(super) fn end(&self) -> usize {
        self.open + self.ends.last().copied().unwrap_or(0)
    }

    /// Offset of the last byte that was read.
    pub(super) fn last(&self) -> usize {
        self.end().saturating_sub(1)
    }

    /// The bytes of the messages that follow, with the byte before them and the bracket behind them.
    pub(super) fn ahead<'a>(&self, body: &'a Text) -> Part<'a> {
        body.part(self.last()..(body.len() + 1).saturating_sub(self.behind))
    }

    /// The messages in those bytes; nothing if they don't end where they should, or none is of the user.
    pub(super) fn rest(ahead: &[u8]) -> Option<Vec<Message<'_>>> {
        let (messages, close) = messages_from(std::str::from_utf8(ahead).ok()?, 1).ok()?;
        let asked = messages.iter().any(|message| message.role == Role::User);
        (asked && close + 1 == ahead.len()).then_some(messages)
    }

    /// What is known now.
    pub(super) fn reading(&self) -> &Reading {
        self.readings.last().unwrap_or(&self.begin)
    }

    pub(super) fn push(&mut self, end: usize, reading: Reading) {
        self.ends.push(end - self.open);
        self.readings.push(reading);
    }

    /// What was known after the next message when what may be the same one was read.
    pub(super) fn known(&mut self) -> Option<Reading> {
        self.again.pop_front()
    }

    /// Goes on from the messages of another body, which has the same ones.
    pub(super) fn go_on_from(&mut self, other: Self) {
        (self.ends, self.readings, self.again) = (other.ends, other.readings, other.again);
    }

    /// Goes back to the start.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
        self.readings.clear();
        self.again.clear();
    }

    /// The progress after the first `messages`, and no further than the last answer among them, so that what follows an answer is
    /// read again as a whole.
    fn back_to(mut self, messages: usize) -> Self {
        let answered = messages.checked_sub(1).and_then(|last| self.readings.get(last)).map_or(0, |last| last.answered);
        self.again = self.readings.split_off(answered.min(self.readings.len())).into();
        self.ends.truncate(answered);
        self
    }
}

/// A body that was read.
struct Seen {
    body: Text,
    progress: Progress,
    used: u64,
}

/// Who sent a body (session and agent): bodies of one sender are likely to go on from each other.
pub(super) type Sender = (Option<Tag>, Option<Tag>);

/// The latest bodies of each sender.
pub(super) struct Bodies {
    by_sender: HashMap<Sender, Vec<Seen>>,
    bytes: usize,
    limit: usize,
    clock: u64,
}

/// A thread, and a side request or two.
const PER_SENDER: usize = 3;

impl Bodies {
    /// Keeps bodies of `limit` bytes together; none if it is 0.
    pub(super) fn new(limit: usize) -> Self {
        Self { by_sender: HashMap::new(), bytes: 0, limit, clock: 0 }
    }

    /// How far `body` is known from one that was read before. The body that it replaces, if it goes on from all of it, is taken out.
    pub(super) fn take(&mut self, sender: Sender, body: &Text, alike: Option<&Alike>) -> Option<Progress> {
        // What the reader of the log found equal need not be compared.
        let known = alike.and_then(|alike| self.best(sender, |seen| seen.alike_messages(body, alike)));
        known.or_else(|| self.best(sender, |seen| seen.equal_messages(body.as_bytes())))
    }

    /// The same for a body in which what stands around the messages differs: by its messages, given what is known before them.
    pub(super) fn resume(&mut self, sender: Sender, body: &[u8], progress: &mut Progress) {
        if let Some(known) = self.best(sender, |seen| seen.same_messages(body, progress)) {
            progress.go_on_from(known);
        }
    }

    /// What is known of the body with most messages, as `equal` counts them.
    fn best(&mut self, sender: Sender, equal: impl Fn(&Seen) -> Option<usize>) -> Option<Progress> {
        // A fork's first body goes on from its session's main thread.
        let senders = [sender, (sender.0, None)];
        let senders = senders.get(..if sender.1.is_some() { 2 } else { 1 }).unwrap_or_default();
        let known = senders.iter().flat_map(|sender| {
            self.by_sender.get(sender).into_iter().flatten().enumerate().map(move |(at, seen)| (*sender, at, seen))
        });
        let known = known.filter_map(|(sender, at, seen)| Some((sender, at, equal(seen)?)));
        let (from, at, equal) = known.max_by_key(|(_, _, equal)| *equal).filter(|(_, _, equal)| *equal > 0)?;
        let seens = self.by_sender.get_mut(&from)?;
        let seen = seens.get(at)?;
        // The last message of a thread changes its form when the next one follows.
        if from == sender && equal + 1 >= seen.progress.messages() {
            let seen = seens.swap_remove(at);
            self.bytes -= seen.size();
            return Some(seen.progress.back_to(equal));
        }
        Some(seen.progress.clone().back_to(equal))
    }

    /// Keeps a body that was read to its end.
    pub(super) fn keep(&mut self, sender: Sender, body: Text, progress: Progress) {
        let opened = *body.part(progress.open.saturating_sub(1)..progress.open) == *b"[";
        if self.limit == 0 || !opened {
            return;
        }
        self.clock += 1;
        let seen = Seen { body, progress: Progress { again: VecDeque::new(), ..progress }, used: self.clock };
        self.bytes += seen.size();
        let seens = self.by_sender.entry(sender).or_default();
        let oldest = seens.iter().enumerate().min_by_key(|(_, seen)| seen.used).map(|(at, _)| at);
        if let Some(oldest) = oldest.filter(|_| seens.len() >= PER_SENDER) {
            self.bytes -= seens.swap_remove(oldest).size();
        }
        seens.push(seen);
        if self.bytes > self.limit {
            self.forget_half();
        }
    }

    /// Forgets the bodies that were used longest ago, until half the limit is free.
    fn forget_half(&mut self) {
        let mut ages: Vec<(u64, usize)> =
            self.by_sender.values().flatten().map(|seen| (seen.used, seen.size())).collect();
        ages.sort_unstable();
        let (mut last, mut needed) = (0, self.bytes.saturating_sub(self.limit / 2));
        for (used, size) in ages {
            if needed == 0 {
                break;
            }
            last = used;
            needed = needed.saturating_sub(size);
            self.bytes -= size;
        }
        self.by_sender.retain(|_, seens| {
            seens.retain(|seen| seen.used > last);
            !seens.is_empty()
        });
    }
}

impl Seen {
    /// How many leading messages of `body` are these, by what it is known to have in common with this one.
    fn alike_messages(&self, body: &Text, alike: &Alike) -> Option<usize> {
        let Progress { open, behind, ends, .. } = &self.progress;
        let known = self.messages(alike.length);
        let mut at = alike.length;
        let is_equal = |end: &&usize| {
            let part = std::mem::replace(&mut at, open + **end)..open + **end;
            *self.body.part(part.clone()) == *body.part(part)
        };
        let end = |body: &Text| body.len().saturating_sub(*behind)..body.len();
        let close = || alike.behind >= *behind || *self.body.part(end(&self.body)) == *body.part(end(body));
        let around = alike.body.is(&self.body) && alike.length >= *open && close();
        around.then(|| known + ends.iter().skip(known).take_while(is_equal).count())
    }

    /// How many leading messages of `body` are these, byte for byte; nothing if what stands around the messages differs.
    fn equal_messages(&self, body: &[u8]) -> Option<usize> {
        let own = self.body.as_bytes();
        let Progress { open, behind, .. } = &self.progress;
        let (messages, close) = own.split_at_checked(own.len().checked_sub(*behind)?)?;
        let around = own.get(..*open) == body.get(..*open) && body.ends_with(close);
        around.then(|| self.messages(common_prefix(messages, body)))
    }

    /// How many messages are whole in the first bytes. They end in a bracket, so one whose last byte is equal is whole.
    fn messages(&self, equal: usize) -> usize {
        self.progress.ends.partition_point(|end| self.progress.open + end <= equal)
    }

    /// How many leading messages of `body`, of which only what stands around them was read, are these, byte for byte; nothing if the
    /// prompt begins otherwise.
    fn same_messages(&self, body: &[u8], progress: &Progress) -> Option<usize> {
        let Progress { open, behind, ends, begin, .. } = &self.progress;
        let own = self.body.as_bytes();
        let own = own.get(*open..own.len().checked_sub(*behind)?)?;
        let equal = common_prefix(own, body.get(progress.open..body.len().checked_sub(progress.behind)?)?);
        (begin.prompt == progress.begin.prompt).then(|| ends.partition_point(|end| *end <= equal))
    }

    /// About what it takes in memory.
    fn size(&self) -> usize {
        self.body.size() + self.progress.readings.len() * 512
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::anonymize::{Converter, Key, Options, Rules, Selection, Summary};
    use crate::capture::{Limits, open_stream};
    use crate::tokenize::{Encoder, Neutral, Token};
    use crate::trace::Session;
    use crate::trace::vocab::{Profile, PromptScale, Scope};

    /// A token a character.
    struct Letters;

    impl Encoder for Letters {
        fn encode(&self, text: &str, out: &mut Vec<Token>) {
            out.extend(text.chars().map(u32::from));
        }
    }

    fn convert(log: &[u8], kept: usize) -> Option<(Vec<Session>, Summary)> {
        let options = Options {
            rules: Rules::new(Profile::Private, &[], 16),
            scope: Scope::Dataset,
            prompt_scale: PromptScale::None,
            drop_auxiliary: false,
            min_requests: 1,
            selection: Selection::default(),
            reuse: kept,
        };
        let key = Key::from_bytes([5; 32]);
        let mut converter = Converter::new(options, &key, Box::new(Neutral::new(Letters)), Box::new(Letters));
        let limits = Limits { kept_bytes: kept, ..Limits::default() };
        let (_, records) = open_stream(Box::new(std::io::Cursor::new(log.to_vec())), 0, limits).ok()?;
        records.for_each(|record| {
            converter.push(record).ok();
        });
        Some(converter.finish())
    }

    /// How what stands around the messages changes from request to request.
    #[derive(Clone, Copy, Debug)]
    enum Around {
        Same,
        /// A member before them that nothing depends on.
        Counted,
        /// The billing block, which is not part of the prompt.
        Billing,
        /// The system prompt, now and then.
        System,
    }

    /// A thread of a user and an assistant in which the cache mark moves, and the last message may be asked anew: with another text, or
    /// with its text in the result of a tool and not beside it.
    fn log(texts: &[String], around: Around, folds: bool) -> Vec<u8> {
        let text = |text: &str| json!({"type": "text", "text": text});
        let user = |at: usize, said: &str, folded: bool| {
            let id = at.saturating_sub(1).to_string();
            let result = if folded { vec![text("read"), text(said)] } else { vec![text("read")] };
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": result});
            let beside = if folded { vec![result] } else { vec![result, text(said)] };
            json!({"role": "user", "content": beside})
        };
        let message = |(at, text): (usize, &String)| match at % 2 {
            0 => user(at, text, false),
            _ => {
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": at.to_string(), "name": "Read", "input": {"path": text}}]})
            }
        };
        let mut lines = Vec::new();
        for turn in 0..texts.len() {
            let length = turn / 2 * 2 + 1;
            let mut messages: Vec<Value> = texts.iter().take(length).enumerate().map(message).collect();
            if turn % 2 == 1 {
                let again = if folds { texts[length - 1].clone() } else { format!("{} again", texts[length - 1]) };
                messages[length - 1] = user(length - 1, &again, folds);
            }
            messages[length - 1]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
            let system = match around {
                Around::Billing => format!("x-anthropic-billing-header: cch={turn:05x};"),
                Around::System => format!("{} {}", "system ".repeat(20), turn / 5),
                Around::Same | Around::Counted => "system ".repeat(20),
            };
            let tools =
                json!([{"name": "Read", "description": "reads ".repeat(1000), "input_schema": {"type": "object"}}]);
            let mut body = json!({"messages": messages, "system": [{"type": "text", "text": system}], "tools": tools});
            if matches!(around, Around::Counted) {
                body["a"] = json!(turn);
            }
            let record = json!({
                "tracecloak_capture": 1, "method": "POST", "path": "/v1/messages", "status": 200,
                "start_us": 1_700_000_000_000_000_u64 + 1_000_000 * turn as u64, "end_us": 1_700_000_000_500_000_u64 + 1_000_000 * turn as u64,
                "headers": [["x-claude-code-session-id", "s"]], "body": body.to_string(),
            });
            lines.push(record.to_string());
        }
        lines.join("\n").into_bytes()
    }

    #[test]
    fn a_text_that_moves_into_the_result_of_a_tool_is_another_prompt() {
        let texts = ["a", "b", "c", "d"].map(|text| text.repeat(100));
        let log = log(&texts, Around::Same, true);
        let [plain, kept] = [0, 1 << 20].map(|kept| convert(&log, kept).unwrap());
        assert_eq!(plain.0.iter().map(|session| session.requests.len()).sum::<usize>(), 4);
        assert!(plain == kept);
    }

    proptest! {
        #[test]
        fn reading_on_gives_what_reading_from_the_start_gives_whatever_was_changed(
            texts in proptest::collection::vec("[a-c \"\\\\\n\u{1f600}]{0,1200}", 4..16),
            around in prop_oneof![Just(Around::Same), Just(Around::Counted), Just(Around::Billing), Just(Around::System)],
            folds: bool,
            kept in prop_oneof![Just(20_000_usize), Just(60_000), Just(1 << 20)],
            edits in proptest::collection::vec((any::<prop::sample::Index>(), 0_usize..3, proptest::collection::vec(
                proptest::sample::select(&b"\"\\{}[],:0u d8.e"[..]), 0..4)), 0..6),
        ) {
            let mut log = log(&texts, around, folds);
            prop_assert!(!convert(&log, 0).unwrap().0.is_empty());
            for (at, cut, with) in &edits {
                let at = at.index(log.len());
                if !log[at..(at + cut).min(log.len())].contains(&b'\n') {
                    log.splice(at..(at + cut).min(log.len()), with.iter().copied());
                }
            }
            prop_assert!(convert(&log, 0) == convert(&log, kept));
        }
    }
}
