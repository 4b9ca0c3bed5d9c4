//! [`Answer`]: the body of a response, whole or token by token.
//!
//! Invariant: tokens go out when the engine's model says, never before; tokens that are due together go out together. A fault takes
//! effect half-way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::Sleep;

use super::api::{Api, Said};
use super::fault::Fault;
use super::model::Started;
use super::shared::Ticket;

/// What stands in for a piece of an answer under [`Fault::Garbage`].
pub(super) const GARBAGE: &[u8] = b"data: {\"choices\":[{\"de\xff\xfe\x00lta\n\n";

/// Before a connection ends on purpose, so that what was said before is sent.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// The connection ends here, on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ended on purpose")]
pub(super) struct Broken;

/// A response body.
pub(super) enum Answer {
    /// All at once.
    Whole(Option<Bytes>),
    /// A part of what was announced; after a pause the connection ends.
    Half(Option<Bytes>, Pin<Box<Sleep>>),
    /// Token by token.
    Stream(Box<Stream>),
}

/// An answer on its way.
pub(super) struct Stream {
    pub(super) ticket: Ticket,
    pub(super) api: &'static dyn Api,
    pub(super) said: Said,
    /// A word a token.
    pub(super) words: Vec<&'static str>,
    pub(super) fault: Option<Fault>,
    phase: Phase,
    sleep: Pin<Box<Sleep>>,
    /// When the first token is due.
    first_token: Duration,
    sent: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Decoding,
    Stalled,
    Cut,
    Done,
}

impl Stream {
    pub(super) fn new(
        ticket: Ticket,
        api: &'static dyn Api,
        said: Said,
        words: Vec<&'static str>,
        fault: Option<Fault>,
    ) -> Self {
        let sleep = Box::pin(ticket.shared().clock.sleep_until(Duration::ZERO));
        Self { ticket, api, said, words, fault, phase: Phase::Queued, sleep, first_token: Duration::ZERO, sent: 0 }
    }

    fn begin(&mut self, started: Started) {
        let shared = self.ticket.shared();
        self.first_token = due(started, self.fault, shared.options.slow_start);
        self.said.cached_tokens = shared.options.report_cached.then_some(started.cached_tokens);
        self.said.prefill = self.first_token.saturating_sub(shared.clock.now());
        self.sleep.set(shared.clock.sleep_until(self.first_token));
        self.phase = Phase::Decoding;
    }

    /// What is due now. Leaves the sleep at the next token.
    fn tokens(&mut self) -> Bytes {
        let shared = self.ticket.shared();
        let (clock, per_token) = (shared.clock, shared.options.timing.per_output_token);
        let chunk = usize::try_from(shared.options.chunk_tokens.max(1)).unwrap_or(usize::MAX);
        let since = clock.now().saturating_sub(self.first_token);
        let due = since
            .as_nanos()
            .checked_div(per_token.as_nanos())
            .map_or(usize::MAX, |passed| usize::try_from(passed).unwrap_or(usize::MAX).saturating_add(1));
        let stops = matches!(self.fault, Some(Fault::Stall | Fault::Cut | Fault::Garbage));
        let half = self.words.len() / 2;
        let limit = if stops && self.sent <= half { half } else { self.words.len() };
        let end = due.clamp(self.sent, limit.max(self.sent));
        let mut out = String::with_capacity((end - self.sent) * 200 + 512);
        let opens = self.sent == 0;
        if opens {
            self.api.open(&self.said, &mut out);
        }
        // Whole chunks only, but for the last one.
        let end = if end < limit { self.sent + (end - self.sent) / chunk * chunk } else { end };
        let pieces = self.words.get(self.sent..end).unwrap_or_default().chunks(chunk);
        for (at, piece) in pieces.enumerate() {
            self.api.piece(&self.said, &piece.concat(), opens && at == 0, &mut out);
        }
        self.sent = end;
        self.ticket.sent(u32::try_from(end).unwrap_or(u32::MAX));
        let mut bytes = out.into_bytes();
        if end == limit && stops {
            match self.fault {
                Some(Fault::Stall) => self.phase = Phase::Stalled,
                Some(Fault::Cut) => {
                    self.phase = Phase::Cut;
                    self.sleep.set(clock.sleep_until(clock.now() + PAUSE));
                }
                _ => bytes.extend_from_slice(GARBAGE),
            }
            // Garbage comes once.
            self.fault = None;
        } else if end >= self.words.len() {
            let mut out = String::new();
            self.api.close(&self.said, &self.words.concat(), &mut out);
            bytes.extend_from_slice(out.as_bytes());
            self.ticket.end(self.said.by_length);
            self.phase = Phase::Done;
        }
        if self.phase == Phase::Decoding {
            let next = u32::try_from((self.sent + chunk).min(self.words.len()) - 1).unwrap_or(u32::MAX);
            self.sleep.set(clock.sleep_until(self.first_token + per_token.saturating_mul(next)));
        }
        bytes.into()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        loop {
            match self.phase {
                Phase::Queued => match ready!(self.ticket.poll_start(context)) {
                    Some(started) => self.begin(started),
                    None => return Poll::Ready(Some(Err(Broken))),
                },
                Phase::Decoding => {
                    ready!(self.sleep.as_mut().poll(context));
                    let bytes = self.tokens();
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                }
                // The connection still wakes this up when its client goes.
                Phase::Stalled => return Poll::Pending,
                Phase::Cut => return self.sleep.as_mut().poll(context).map(|()| Some(Err(Broken))),
                Phase::Done => return Poll::Ready(None),
            }
        }
    }
}

/// When the first token of a request is due.
pub(super) fn due(started: Started, fault: Option<Fault>, slow_start: Duration) -> Duration {
    started.first_token + if fault == Some(Fault::SlowStart) { slow_start } else { Duration::ZERO }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Half(bytes, pause) => match bytes.take() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => pause.as_mut().poll(context).map(|()| Some(Err(Broken))),
            },
            Self::Stream(stream) => stream.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Half(..) => false,
            Self::Stream(stream) => stream.phase == Phase::Done,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| u64::try_from(bytes.len()).unwrap_or(u64::MAX)))
            }
            _ => SizeHint::default(),
        }
    }
}
