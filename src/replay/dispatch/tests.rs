//! Whole replays against a fake transport, under paused time.
//!
//! Invariant: no real time and no socket; the same trace gives the same events.

use std::sync::Mutex;

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};

use super::*;
use crate::metrics::Ending;
use crate::replay::PromptSource;
use crate::replay::call::Setup;
use crate::replay::clock::Paused;
use crate::replay::endpoint::endpoint;
use crate::replay::identity::Identity;
use crate::replay::prompt::{Prompt, PromptError, PromptForm};
use crate::replay::schedule::reference::{family, ms};
use crate::replay::schedule::{OnError, Pacing};
use crate::replay::transport::{Call, Piece, TransportError};
use crate::trace::Session;

/// Prompts that say which request they are of.
struct Named;

impl PromptSource for Named {
    fn prompt(&self, session: u32, request: u32) -> Result<Prompt, PromptError> {
        assert!(request < 100, "a bug on purpose");
        let form = PromptForm::Text(format!("{session} {request}").into());
        Ok(Prompt { form, tokens: 100, planned_shared: 64, corrected: 0, shortfall: None })
    }
}

/// What the fake endpoint does with the n-th attempt at a request.
type Script = fn(session: u32, request: u32, attempt: u32) -> Act;

enum Act {
    /// First content after half of this time, the end after all of it.
    Answer(u64),
    Status(u16, Option<&'static str>),
    Break(TransportError),
    /// Some content, then the end of the stream.
    Stop,
    Garbage,
    Hang,
}

struct Fake {
    script: Script,
    attempts: Mutex<Vec<(u32, u32)>>,
}

impl Transport for Fake {
    async fn send(&self, call: Call, each: &mut (dyn FnMut(Piece<'_>) + Send)) -> Result<(), TransportError> {
        let body: serde_json::Value = serde_json::from_slice(&call.body.unwrap().to_vec()).unwrap();
        let said = body["messages"][0]["content"].as_str().unwrap();
        let (session, request) = said.split_once(' ').unwrap();
        let which = (session.parse().unwrap(), request.parse().unwrap());
        assert!(call.headers.contains_key("x-claude-code-session-id"));
        let attempt = {
            let mut attempts = self.attempts.lock().unwrap();
            attempts.push(which);
            attempts.iter().filter(|other| **other == which).count() as u32 - 1
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        let content = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        match (self.script)(which.0, which.1, attempt) {
            Act::Answer(took) => {
                tokio::time::sleep(ms(took / 2)).await;
                each(Piece::Head(200, &headers));
                each(Piece::Body(content));
                tokio::time::sleep(ms(took - took / 2)).await;
                each(Piece::Body(b"data: {\"choices\":[{\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\ndata: [DONE]\n\n"));
            }
            Act::Status(status, wait) => {
                if let Some(wait) = wait {
                    headers.insert(RETRY_AFTER, HeaderValue::from_static(wait));
                }
                each(Piece::Head(status, &headers));
            }
            Act::Break(error) => return Err(error),
            Act::Stop | Act::Garbage => {
                each(Piece::Head(200, &headers));
                each(Piece::Body(content));
                if matches!((self.script)(which.0, which.1, attempt), Act::Garbage) {
                    each(Piece::Body(b"data: {\"choi\xff\n\n"));
                }
            }
            Act::Hang => std::future::pending().await,
        }
        Ok(())
    }
}

async fn replay(
    sessions: Vec<Session>,
    pacing: Pacing,
    script: Script,
    until: Option<Duration>,
    stops: &[(u64, Stop)],
) -> Vec<RequestRecord> {
    let sessions: Arc<[_]> = (0..).zip(sessions).collect();
    let mut schedule = Schedule::new(Arc::clone(&sessions), pacing).unwrap();
    let setup = Setup {
        endpoint: endpoint("chat").unwrap(),
        model: "m".to_owned(),
        always_stream: true,
        exact: true,
        headers: HeaderMap::new(),
        identity: Identity::new([1; 32], None),
        retries: 2,
    };
    let clock = Paused(tokio::time::Instant::now());
    let fake = Fake { script, attempts: Mutex::default() };
    let caller = Arc::new(Caller::new(fake, clock, Arc::new(Named), sessions, setup));
    let (sender, stop) = watch::channel(Stop::No);
    let stops = stops.to_vec();
    tokio::spawn(async move {
        for (at, wanted) in stops {
            tokio::time::sleep(ms(at)).await;
            sender.send(wanted).unwrap();
        }
        std::future::pending::<()>().await;
    });
    let (mut sent, mut records) = (0, Vec::new());
    dispatch(&mut schedule, &caller, until, stop, |event| match event {
        Event::Sent(_) => sent += 1,
        Event::Ended(record) => records.push(*record),
    })
    .await;
    assert_eq!(sent, records.iter().filter(|record| record.due_us.is_some()).count());
    records.sort_by_key(|record| (record.session, record.request, !record.prime));
    records
}

/// As long as recorded.
fn recorded(_: u32, request: u32, _: u32) -> Act {
    Act::Answer([100, 50, 90, 900, 100][request as usize])
}

fn endings(records: &[RequestRecord]) -> Vec<Ending> {
    records.iter().map(|record| record.ending).collect()
}

#[tokio::test(start_paused = true)]
async fn recorded_latencies_give_the_recorded_times() {
    let records = replay(vec![family()], Pacing::default(), recorded, None, &[]).await;
    let sent: Vec<_> = records.iter().map(|record| record.sent_us.unwrap() / 1000).collect();
    let off = sent.iter().zip([0, 150, 150, 160, 300]).map(|(sent, due)| sent.abs_diff(due)).max();
    // The paused clock turns in milliseconds.
    assert!(off <= Some(1), "{sent:?}");
    let last = &records[4];
    assert_eq!((last.prompt_tokens, last.cached_tokens, last.answer_tokens), (Some(100), Some(32), Some(10)));
    assert_eq!((last.sent_tokens, last.planned_cached, last.events, last.attempts), (Some(100), Some(64), 1, 1));
    assert!(last.ttft_us().unwrap().abs_diff(50_000) < 2_000 && last.latency_us().unwrap().abs_diff(100_000) < 2_000);
    assert!(endings(&records).iter().all(|ending| *ending == Ending::Ok));
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_a_record_and_nothing_hangs() {
    let script: Script = |session, request, _| match (session, request) {
        (0, 0) => Act::Status(500, None),
        (1, 0) => Act::Status(404, None),
        (2, 0) => Act::Break(TransportError::Connect),
        (3, 0) => Act::Break(TransportError::IdleTimeout),
        (4, 0) => Act::Break(TransportError::Closed),
        (5, 0) => Act::Stop,
        (6, 0) => Act::Garbage,
        (7, 0) => Act::Status(429, Some("2")),
        (_, request) => recorded(0, request, 0),
    };
    let expected = [
        Ending::ServerError,
        Ending::Refused,
        Ending::NoConnection,
        Ending::TimedOut,
        Ending::Broken,
        Ending::Cut,
        Ending::Unreadable,
        Ending::RateLimited,
    ];
    let stopping = replay(vec![family(); 8], Pacing::default(), script, None, &[]).await;
    assert_eq!(stopping.len(), 40);
    for (rows, ending) in stopping.chunks(5).zip(expected) {
        assert_eq!(rows[0].ending, ending);
        // What does not wait for it may have gone out before.
        let unsent = |row: &RequestRecord| row.ending == Ending::SessionFailed;
        assert!(rows[1..].iter().all(|row| unsent(row) || (row.request == 3 && ending == Ending::RateLimited)));
    }
    let pacing = Pacing { on_error: OnError::Continue, ..Pacing::default() };
    let going_on = replay(vec![family(); 8], pacing, script, None, &[]).await;
    for (rows, ending) in going_on.chunks(5).zip(expected) {
        assert_eq!(rows[0].ending, ending);
        assert!(rows[1..].iter().all(|row| row.ending == Ending::Ok));
    }
    let limited = &going_on[35];
    assert_eq!((limited.attempts, limited.rate_limited), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_obeyed_and_a_refused_field_is_left_out_once() {
    let busy: Script = |_, request, attempt| match (request, attempt) {
        (0, 0) => Act::Status(429, Some("3")),
        _ => recorded(0, request, 0),
    };
    let records = replay(vec![family()], Pacing::default(), busy, None, &[]).await;
    let first = &records[0];
    assert_eq!((first.ending, first.attempts, first.rate_limited), (Ending::Ok, 2, 1));
    assert!(first.resent_us.unwrap() - first.sent_us.unwrap() >= 3_000_000);
    assert!(first.latency_us().unwrap() >= 3_000_000, "the wait is a part of what the user sees");

    let refusing: Script = |_, request, attempt| {
        if (request, attempt) == (0, 0) { Act::Status(422, None) } else { recorded(0, request, 0) }
    };
    let records = replay(vec![family()], Pacing::default(), refusing, None, &[]).await;
    assert_eq!(records.iter().map(|record| record.attempts).collect::<Vec<_>>(), [2, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_was_cancelled_is_cancelled_again() {
    let mut session = family();
    session.requests[3].status = crate::trace::vocab::Status::ClientCancelled;
    let hang: Script = |_, request, _| if request == 3 { Act::Hang } else { recorded(0, request, 0) };
    let records = replay(vec![session], Pacing::default(), hang, None, &[]).await;
    assert_eq!((records[3].ending, records[3].attempts), (Ending::Cancelled, 1));
    assert!(records[3].max_tokens > 900 / 5, "its answer is to last until then");
    assert!(records[3].latency_us().unwrap().abs_diff(900_000) < 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_stop_drains_and_a_second_one_gives_up() {
    let hang: Script = |_, request, _| if request == 3 { Act::Hang } else { recorded(0, request, 0) };
    let stops = [(200, Stop::Drain), (1000, Stop::Abort)];
    let records =
        replay(vec![family(), family()], Pacing { concurrency: Some(1), ..Pacing::default() }, hang, None, &stops)
            .await;
    let rest = [Ending::Stopped; 6];
    assert_eq!(endings(&records)[..5], [Ending::Ok, Ending::Ok, Ending::Ok, Ending::Aborted, Ending::Stopped]);
    assert_eq!(endings(&records)[5..], rest[1..]);
    assert!(records[3].attempts == 1 && records[3].sent_us.is_some(), "what was given up had been sent");
    let in_time = replay(vec![family()], Pacing::default(), recorded, Some(ms(155)), &[]).await;
    assert_eq!(endings(&in_time)[2..], [Ending::Ok, Ending::Stopped, Ending::Stopped]);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_cannot_be_made_fails_its_request_alone() {
    let mut session = family();
    while session.requests.len() < 101 {
        let last = *session.requests.last().unwrap();
        session.requests.push(last);
    }
    let script: Script = |_, _, _| Act::Answer(10);
    let pacing = Pacing { on_error: OnError::Continue, ..Pacing::default() };
    let records = replay(vec![session], pacing, script, None, &[]).await;
    assert_eq!((records[100].ending, records[100].sent_us), (Ending::NoPrompt, None));
    assert_eq!(endings(&records).iter().filter(|ending| **ending == Ending::Ok).count(), 100);
}
