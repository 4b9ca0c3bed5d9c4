//! One request of a replay: its prompt, its body, its attempts, its record.
//!
//! Invariant: every call gives exactly one record, whatever the endpoint does; a body is made once, of texts that others share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, DATE, RETRY_AFTER};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::PromptSource;
use super::chunks::Chunks;
use super::clock::Clock;
use super::dispatch::Stop;
use super::endpoint::{Answer, Ask, Endpoint};
use super::identity::Identity;
use super::prompt::Prompt;
use super::schedule::{Due, Id, Why};
use super::transport::{Call, Piece, Transport, TransportError};
use crate::metrics::{Ending, RequestRecord};
use crate::trace::vocab::Status;
use crate::trace::{Request, Session};
use crate::wire::Sse;

/// The most bytes of an answer in one piece.
const WHOLE_BYTES: usize = 1 << 24;

/// Headers by which gateways name the worker that answered.
const WORKER_HEADERS: [&str; 4] = ["x-worker-id", "x-dynamo-worker-id", "x-backend-id", "x-served-by"];

/// Without `retry-after`: the wait before the first new attempt; doubled for each one more.
const BACK_OFF: Duration = Duration::from_secs(1);

/// Who is told to wait longer gives up.
const LONGEST_WAIT: Duration = Duration::from_mins(10);

/// How requests are sent.
#[derive(Clone)]
pub struct Setup {
    /// The API.
    pub endpoint: &'static dyn Endpoint,
    /// The model's name at the endpoint.
    pub model: String,
    /// Answers in events; otherwise as recorded.
    pub always_stream: bool,
    /// Force the recorded lengths, where the API can.
    pub exact: bool,
    /// Headers of every request: the key, and what the user adds.
    pub headers: HeaderMap,
    /// Ids of sessions and agents.
    pub identity: Identity,
    /// How often a request that the server is too busy for is sent again.
    pub retries: u32,
}

/// Sends the requests of a replay.
pub struct Caller<T, C> {
    transport: T,
    clock: C,
    source: Arc<dyn PromptSource>,
    sessions: Arc<[(u32, Session)]>,
    setup: Setup,
    /// Requests that were answered only once they were sent again without the fields that force lengths.
    refused: AtomicU64,
    /// Whether nothing more is sent, or what is in flight is given up.
    halt: watch::Sender<Stop>,
    ready: Mutex<HashMap<Id, JoinHandle<Option<Made>>>>,
    workers: Mutex<Vec<Box<[u8]>>>,
}

/// A body and what is known of its prompt.
struct Made {
    body: Chunks,
    tokens: u32,
    shared: u32,
    /// Full blocks that the trace shares beyond those.
    short: Option<u32>,
    corrected: u32,
}

/// What one attempt brought.
#[derive(Default)]
struct Attempt {
    /// When it was sent again, since the connection had been closed.
    again: Vec<Duration>,
    status: Option<u16>,
    retry_after: Option<Duration>,
    worker: Option<u32>,
    first_byte: Option<Duration>,
    first_content: Option<Duration>,
    last_content: Option<Duration>,
    events: u32,
    answer: Answer,
    result: Option<TransportError>,
}

impl Attempt {
    /// Nothing yet; the answer's text is kept if `keep`.
    fn new(keep: bool) -> Self {
        Self { answer: Answer::new(keep), ..Self::default() }
    }
}

impl<T: Transport, C: Clock> Caller<T, C> {
    /// A caller for `sessions`.
    pub fn new(
        transport: T,
        clock: C,
        source: Arc<dyn PromptSource>,
        sessions: Arc<[(u32, Session)]>,
        setup: Setup,
    ) -> Self {
        let (refused, halt) = (AtomicU64::new(0), watch::Sender::new(Stop::No));
        let (ready, workers) = (Mutex::default(), Mutex::default());
        Self { transport, clock, source, sessions, setup, refused, halt, ready, workers }
    }

    /// The clock of the replay.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Sends nothing more; with [`Stop::Abort`], gives up what is in flight, too.
    pub fn halt(&self, stop: Stop) {
        self.halt.send_modify(|halt| *halt = stop.max(*halt));
    }

    /// Requests that were answered only without the fields that force lengths.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Begins to make the body of a request that will soon be due.
    pub fn prepare(self: &Arc<Self>, id: Id) {
        let body = self.begin(id, false);
        lock(&self.ready).insert(id, body);
    }

    /// Forgets a body that will not be sent.
    pub fn forget(&self, id: Id) {
        lock(&self.ready).remove(&id);
    }

    /// The record of a request that is never sent.
    pub fn never_sent(&self, id: Id, why: Why) -> Option<RequestRecord> {
        let (number, _, request) = self.rows(id)?;
        let ending = match why {
            Why::SessionFailed => Ending::SessionFailed,
            Why::Stopped => Ending::Stopped,
        };
        Some(self.record(id, number, request, ending))
    }

    /// The record of a request whose task broke, which is a fault of this program.
    pub fn lost(&self, due: &Due) -> Option<RequestRecord> {
        let (number, _, request) = self.rows(due.id)?;
        let times = (Some(micros(due.due)), Some(micros(self.clock.now())));
        let record = self.record(due.id, number, request, Ending::Broken);
        Some(RequestRecord { due_us: times.0, held_us: micros(due.held), last_byte_us: times.1, ..record })
    }

    /// Sends a request, waits for its end, and says how it went.
    pub async fn call(self: Arc<Self>, due: Due) -> Option<RequestRecord> {
        let id = due.id;
        let (number, session, request) = self.rows(id)?;
        let blank = self.record(id, number, request, Ending::NoPrompt);
        let mut record = RequestRecord { due_us: Some(micros(due.due)), held_us: micros(due.held), ..blank };
        let mut halt = self.halt.subscribe();
        let mut plain = !self.setup.exact || !self.setup.endpoint.forces_lengths();
        let (mut without, mut sendings) = (false, 0);
        let mut made = self.made(id).await;
        loop {
            let Some(Made { body, tokens, shared, short, corrected }) = made else {
                record.last_byte_us = Some(micros(self.clock.now()));
                return Some(record);
            };
            (record.sent_tokens, record.planned_cached) = (Some(tokens), Some(shared));
            (record.short_blocks, record.corrected) = (short, corrected);
            let again = body.clone();
            let sent = self.clock.now();
            (record.attempts, sendings) = (record.attempts + 1, sendings + 1);
            match record.sent_us {
                Some(_) => record.resent_us = Some(micros(sent)),
                None => record.sent_us = Some(micros(sent)),
            }
            let headers = self.headers(number, session, request, id);
            let mut attempt = Attempt::new(self.source.wants_answers() && !id.prime);
            let cut = tokio::select! {
                () = self.attempt(&mut attempt, headers, body, request) => None,
                () = after(due.cancel_after) => Some(Ending::Cancelled),
                () = until(&mut halt, Stop::Abort) => Some(Ending::Aborted),
            };
            let ended = self.clock.now();
            record.attempts += u32::try_from(attempt.again.len()).unwrap_or(u32::MAX);
            record.resent_us = attempt.again.last().copied().map(micros).or(record.resent_us);
            if let Some(ending) = cut {
                self.fill(&mut record, attempt, ended, id);
                record.ending = ending;
                return Some(record);
            }
            let busy =
                matches!(attempt.status, Some(429)) || (attempt.status >= Some(500) && attempt.retry_after.is_some());
            record.rate_limited += u32::from(attempt.status == Some(429));
            let wait = attempt.retry_after.unwrap_or(BACK_OFF * 2_u32.saturating_pow(sendings - 1));
            if busy && sendings <= self.setup.retries && wait <= LONGEST_WAIT {
                let stopped = tokio::select! {
                    () = tokio::time::sleep(wait) => false,
                    () = until(&mut halt, Stop::Drain) => true,
                };
                if !stopped {
                    made = Some(Made { body: again, tokens, shared, short, corrected });
                    continue;
                }
            } else if matches!(attempt.status, Some(400 | 422)) && !plain && *halt.borrow() == Stop::No {
                // Once, without the fields that not every server knows.
                (plain, without) = (true, true);
                made = self.begin(id, true).await.ok().flatten();
                continue;
            }
            self.refused.fetch_add(u64::from(without && attempt.status == Some(200)), Ordering::Relaxed);
            self.fill(&mut record, attempt, ended, id);
            return Some(record);
        }
    }

    fn rows(&self, id: Id) -> Option<(u32, &Session, &Request)> {
        let (number, session) = self.sessions.get(usize::try_from(id.session).ok()?)?;
        Some((*number, session, session.requests.get(usize::try_from(id.request).ok()?)?))
    }

    fn headers(&self, number: u32, session: &Session, request: &Request, id: Id) -> HeaderMap {
        let mut headers = self.setup.identity.headers(number, session, request.agent, id.request);
        headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
        for (name, value) in self.setup.endpoint.headers() {
            headers.insert(*name, hyper::header::HeaderValue::from_static(value));
        }
        for (name, value) in &self.setup.headers {
            headers.insert(name, value.clone());
        }
        headers
    }

    fn stream(&self, request: &Request) -> bool {
        self.setup.always_stream || request.streaming != Some(false)
    }

    /// The body of a request, from where it was prepared or made now.
    async fn made(self: &Arc<Self>, id: Id) -> Option<Made> {
        let ready = lock(&self.ready).remove(&id);
        ready.unwrap_or_else(|| self.begin(id, false)).await.ok().flatten()
    }

    /// Makes a body where it keeps nothing else waiting; `plain` leaves the fields out that force lengths.
    fn begin(self: &Arc<Self>, id: Id, plain: bool) -> JoinHandle<Option<Made>> {
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            let (_, _, request) = this.rows(id)?;
            let prompt = this.source.prompt(id.session, id.request).ok()?;
            let exact = this.setup.exact && !plain && !id.prime;
            let (max_tokens, stream) = (max_tokens(request, id), this.stream(request));
            let ask = Ask { model: &this.setup.model, max_tokens, stream, exact };
            let body = this.setup.endpoint.body(&ask, &prompt.form)?;
            let short = prompt.shortfall.map(|short| short.asked_blocks - short.shared_blocks.min(short.asked_blocks));
            let Prompt { tokens, planned_shared: shared, corrected, .. } = prompt;
            Some(Made { body, tokens, shared, short, corrected })
        })
    }

    /// Sends once. What came is in `attempt` also if this is dropped before its end.
    async fn attempt(&self, attempt: &mut Attempt, headers: HeaderMap, body: Chunks, request: &Request) {
        let endpoint = self.setup.endpoint;
        let (mut sse, mut whole, mut streamed) = (Sse::new(), Vec::new(), self.stream(request));
        let mut each = |piece: Piece<'_>| match piece {
            Piece::Head(status, headers) => {
                attempt.status = Some(status);
                attempt.first_byte = Some(self.clock.now());
                attempt.retry_after = retry_after(headers);
                attempt.worker = self.worker(headers);
                let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
                streamed = status == 200
                    && (kind.starts_with(b"text/event-stream") || (streamed && !kind.starts_with(b"application/json")));
            }
            Piece::Body(bytes) if streamed => sse.push(bytes, |event| {
                if endpoint.event(event.data, &mut attempt.answer) {
                    let now = self.clock.now();
                    attempt.first_content.get_or_insert(now);
                    attempt.last_content = Some(now);
                    attempt.events += 1;
                }
            }),
            Piece::Body(bytes) if whole.len() < WHOLE_BYTES => whole.extend_from_slice(bytes),
            Piece::Body(_) => {}
            Piece::Again => attempt.again.push(self.clock.now()),
        };
        let call = Call { path: endpoint.path().to_owned(), headers, body: Some(body) };
        attempt.result = self.transport.send(call, &mut each).await.err();
        if !streamed && attempt.status == Some(200) {
            endpoint.whole(&whole, &mut attempt.answer);
        }
    }

    fn fill(&self, record: &mut RequestRecord, attempt: Attempt, ended: Duration, id: Id) {
        let counts = attempt.answer.counts();
        let time = |at: Option<Duration>| at.map(micros);
        record.ending = ending(&attempt);
        record.status = attempt.status;
        record.worker = attempt.worker;
        record.first_byte_us = time(attempt.first_byte);
        record.first_content_us = time(attempt.first_content);
        record.last_content_us = time(attempt.last_content);
        record.last_byte_us = Some(micros(ended));
        record.events = attempt.events;
        (record.prompt_tokens, record.cached_tokens, record.answer_tokens) =
            (counts.prompt, counts.cached, counts.output);
        if let Some(text) = attempt.answer.text.filter(|_| record.ending == Ending::Ok) {
            self.source.answered(id.session, id.request, &text);
        }
    }

    /// The number of the worker that a header names.
    fn worker(&self, headers: &HeaderMap) -> Option<u32> {
        let name = WORKER_HEADERS.iter().find_map(|header| headers.get(*header))?.as_bytes();
        let mut workers = lock(&self.workers);
        let known = workers.iter().position(|worker| **worker == *name);
        let place = known.unwrap_or_else(|| {
            workers.push(name.into());
            workers.len() - 1
        });
        u32::try_from(place).ok()
    }

    fn record(&self, id: Id, number: u32, request: &Request, ending: Ending) -> RequestRecord {
        RequestRecord {
            session: number,
            request: id.request,
            agent: request.agent,
            turn: request.turn,
            id: self.setup.identity.request(number, id.request),
            prime: id.prime,
            ending,
            status: None,
            attempts: 0,
            rate_limited: 0,
            due_us: None,
            held_us: 0,
            sent_us: None,
            resent_us: None,
            first_byte_us: None,
            first_content_us: None,
            last_content_us: None,
            last_byte_us: None,
            events: 0,
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            sent_tokens: None,
            max_tokens: max_tokens(request, id),
            planned_cached: None,
            short_blocks: None,
            corrected: 0,
            prompt_tokens: None,
            cached_tokens: None,
            answer_tokens: None,
            worker: None,
        }
    }
}

/// The recorded length; where nothing tells, or of a priming, one token. An answer that the client did not wait for is to last
/// until it is cancelled again, on a server that makes 200 tokens a second.
fn max_tokens(request: &Request, id: Id) -> u32 {
    let recorded = request.output_tokens.unwrap_or(1).max(1);
    match request.duration_ms {
        _ if id.prime => 1,
        Some(took) if request.status == Status::ClientCancelled => recorded.max(took / 5).saturating_add(64),
        _ => recorded,
    }
}

/// When the replay is stopped at least so far.
async fn until(halt: &mut watch::Receiver<Stop>, least: Stop) {
    halt.wait_for(|halt| *halt >= least).await.ok();
}

/// After a time, if there is one.
async fn after(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

fn ending(attempt: &Attempt) -> Ending {
    let answer = &attempt.answer;
    match (attempt.result, attempt.status) {
        (Some(TransportError::Connect | TransportError::ConnectTimeout | TransportError::Tls), _) => {
            Ending::NoConnection
        }
        (Some(TransportError::IdleTimeout), _) => Ending::TimedOut,
        (Some(TransportError::Protocol), _) => Ending::Unreadable,
        (Some(TransportError::Closed), Some(200)) => Ending::Cut,
        (Some(TransportError::Closed), _) | (None, None) => Ending::Broken,
        (None, Some(429)) => Ending::RateLimited,
        (None, Some(200)) if answer.error => Ending::ErrorEvent,
        (None, Some(200)) if answer.unreadable > 0 => Ending::Unreadable,
        (None, Some(200)) if !answer.whole => Ending::Cut,
        (None, Some(200)) => Ending::Ok,
        (None, Some(500..)) => Ending::ServerError,
        (None, Some(_)) => Ending::Refused,
    }
}

/// Seconds, or a date: by the server's own clock, as the answer's `date` tells it.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let said = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let wait = said(RETRY_AFTER)?;
    if let Ok(seconds) = wait.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = |text: &str| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok();
    let left = date(wait)?.as_second() - date(said(DATE)?)?.as_second();
    // A date that is over is now.
    Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn lock<V>(mutex: &Mutex<V>) -> std::sync::MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_says_when_in_seconds_or_by_its_own_clock() {
        let wait = |after: &str, now: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, after.parse().unwrap());
            now.into_iter().for_each(|now| drop(headers.insert(DATE, now.parse().unwrap())));
            retry_after(&headers).map(|wait| wait.as_millis())
        };
        let now = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(wait("3", None), Some(3000));
        assert_eq!(wait(" 0.5 ", now), Some(500));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:07 GMT", now), Some(30_000));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT", now), Some(0), "over");
        for (after, now) in [
            ("Sun, 06 Nov 1994 08:50:07 GMT", None),
            ("soon", now),
            ("-1", now),
            ("nan", now),
            ("inf", now),
            ("1e300", now),
        ] {
            assert_eq!(wait(after, now), None, "{after}");
        }
    }
}
