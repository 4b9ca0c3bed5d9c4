//! The replayer from outside: the built program against a server, and what it writes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tracecloak::metrics::{Calibrated, Collector, Ending, Gates, Rendered, RequestId, RequestRecord, Wants};
use tracecloak::tokenize::{Block, Content, Layout, Message, Neutral, Prompt, Role, Tokenizer};

/// What a test server answers to the n-th request with this path and body: status, headers, body; none closes the connection.
pub(super) type Answer = Arc<dyn Fn(usize, &str, &Value) -> Option<(u16, &'static str, String)> + Send + Sync>;

/// A server that lists the model `m` and answers posts as told. Gives its URL and the heads of the posts it got.
pub(super) fn serve(answer: Answer) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (heads, count) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (answer, seen, count) = (Arc::clone(&answer), Arc::clone(&seen), Arc::clone(&count));
            std::thread::spawn(move || connection(stream, &answer, &seen, &count));
        }
    });
    (url, heads)
}

fn connection(mut stream: TcpStream, answer: &Answer, seen: &Mutex<Vec<String>>, count: &AtomicUsize) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).is_ok_and(|read| read == 0) {
                return;
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let answered = match path.as_str() {
            "/v1/models" => Some((200, "", r#"{"data":[{"id":"m"}]}"#.to_owned())),
            "/metrics" => Some((404, "", String::new())),
            _ => {
                seen.lock().unwrap().push(head);
                let body = serde_json::from_slice(&body).unwrap();
                answer(count.fetch_add(1, Ordering::SeqCst), &path, &body)
            }
        };
        let Some((status, headers, body)) = answered else { return };
        let kind = if body.starts_with("data:") { "text/event-stream" } else { "application/json" };
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{headers}content-length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).is_err() {
            return;
        }
    }
}

/// A whole streamed chat answer of as many tokens as were asked for; half of the prompt was cached.
pub(super) fn chat(body: &Value) -> (u16, &'static str, String) {
    assert!(body["messages"].as_array().unwrap().iter().all(|message| message["content"].is_string()));
    let prompt = count(body);
    let events = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}}}}]}}\n\ndata: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":\"length\"}}]}}\n\ndata: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{},\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}}}\n\ndata: [DONE]\n\n",
        body["max_tokens"],
        prompt / 2
    );
    (200, "", events)
}

/// Tokens of a chat body as the builtin tokenizer and the neutral layout count them.
fn count(body: &Value) -> usize {
    static LAYOUT: OnceLock<Mutex<Neutral<Tokenizer>>> = OnceLock::new();
    let layout = LAYOUT.get_or_init(|| Mutex::new(Neutral::new(Tokenizer::builtin().unwrap())));
    let messages = body["messages"].as_array().unwrap().iter().map(|message| Message {
        role: if message["role"] == "assistant" { Role::Assistant } else { Role::User },
        blocks: vec![Block::Content(Content::Text(message["content"].as_str().unwrap().into()))],
    });
    layout.lock().unwrap().lay(&Prompt { messages: messages.collect(), ..Prompt::default() }).unwrap().tokens.len()
}

pub(super) fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracecloak")).env_clear().stdin(Stdio::null()).args(arguments).output().unwrap()
}

/// A trace of the included logs.
pub(super) fn trace(folder: &Path) -> String {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/capture/native");
    let trace = folder.join("trace").to_str().unwrap().to_owned();
    let made = run(&["convert", logs.to_str().unwrap(), "-o", &trace, "--quiet", "--profile", "private"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    trace
}

fn replay(folder: &Path, url: &str, more: &[&str]) -> (Option<i32>, String, Value) {
    let (trace, out) = (trace(folder), folder.join("run"));
    let model = if more.contains(&"--model") { &[][..] } else { &["--model", "m"][..] };
    let arguments = ["replay", &trace, "--url", url, "-o", out.to_str().unwrap(), "--think-scale", "0"];
    let output = run(&[&arguments[..], model, &["--concurrency", "4", "--tokenizer", "builtin"], more].concat());
    let summary = std::fs::read(out.join("summary.json")).unwrap_or_default();
    let errors = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), errors, serde_json::from_slice(&summary).unwrap_or_default())
}

#[test]
fn a_run_writes_records_a_summary_a_page_and_a_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let (url, heads) = serve(Arc::new(|_, _, body| Some(chat(body))));
    let key = folder.path().join("key");
    std::fs::write(&key, "sesame\n").unwrap();
    let more = ["--api-key-file", key.to_str().unwrap(), "--affinity-header", "x-affinity", "--slo", "ttft_p95=1h"];
    let (code, errors, summary) = replay(folder.path(), &url, &more);
    assert_eq!((code, summary["requests"]["failed"].as_u64()), (Some(0), Some(0)), "{errors}");
    assert!(summary["requests"]["counted"].as_u64().unwrap() > 20);
    assert_eq!(summary["cache"]["reported_ratio"].as_f64().map(|ratio| (ratio * 10.0).round()), Some(5.0));
    assert_eq!(
        (summary["gates"]["passed"].as_bool(), summary["length"]["prompts_off"].as_u64()),
        (Some(true), Some(0))
    );
    assert!(summary["gates"]["rendered"]["requests"].as_u64().unwrap() > 20, "a trace so short is a sample of itself");
    assert_eq!(summary["goodput"]["requests_share"], 1.0);
    let heads = heads.lock().unwrap();
    assert!(heads.iter().all(|head| head.contains("authorization: Bearer sesame\r\n")));
    assert!(heads.iter().any(|head| head.contains("x-claude-code-agent-id: ") && head.contains("x-affinity: ")));
    for file in ["records.parquet", "counters.parquet", "summary.json", "report.html", "manifest.json"] {
        let bytes = std::fs::read(folder.path().join("run").join(file)).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"sesame"), "{file}");
    }
}

#[test]
fn every_fault_is_recorded_and_nothing_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let faulty: Answer = Arc::new(|number, _, body| match number {
        // The preflight.
        0 | 1 => Some(chat(body)),
        number if number % 7 == 3 => Some((500, "", "{}".to_owned())),
        number if number % 7 == 4 => None,
        number if number % 7 == 5 => Some((200, "", "data: {\"choi\n\n".to_owned())),
        number if number % 7 == 6 => Some((429, "retry-after: 0\r\n", "{}".to_owned())),
        _ => Some(chat(body)),
    });
    let (url, _) = serve(faulty);
    let (code, errors, summary) = replay(folder.path(), &url, &["--on-error", "continue", "--slo", "ttft_p95=1ms"]);
    assert_eq!(code, Some(1), "{errors}");
    let requests = &summary["requests"];
    for ending in ["server_error", "unreadable"] {
        assert!(requests["endings"][ending].as_u64().unwrap() > 0, "{ending}: {requests}");
    }
    assert!(requests["rate_limited"].as_u64().unwrap() > 0 && requests["resent"].as_u64().unwrap() > 0);
    let sum: u64 = requests["endings"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(requests["counted"].as_u64(), Some(sum));
}

#[test]
fn what_makes_a_run_pointless_is_said_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, errors, summary) = replay(folder.path(), &format!("http://{closed}"), &[]);
    assert_eq!((code, summary), (Some(2), Value::Null));
    assert!(errors.contains("does not answer") && errors.contains("hint: "), "{errors}");
    let folder = tempfile::tempdir().unwrap();
    let (url, _) = serve(Arc::new(|_, _, _| Some((401, "", "{}".to_owned()))));
    assert!(replay(folder.path(), &url, &[]).1.contains("status 401"));
    let folder = tempfile::tempdir().unwrap();
    let (code, errors, _) = replay(folder.path(), &url, &["--model", "other"]);
    assert!(code == Some(2) && errors.contains("does not list the model"), "{errors}");
}

#[test]
fn refused_fields_are_left_out_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let strict: Answer = Arc::new(|_, _, body| {
        Some(if body.get("ignore_eos").is_some() { (422, "", "{}".to_owned()) } else { chat(body) })
    });
    let (url, _) = serve(strict);
    let (code, errors, summary) = replay(folder.path(), &url, &[]);
    assert_eq!((code, summary["requests"]["resent"].as_u64()), (Some(0), Some(0)), "{errors}");
    assert!(errors.contains("are refused and left out"), "{errors}");
}

#[test]
fn a_request_that_is_refused_for_another_reason_changes_nothing_for_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&bodies);
    let (url, _) = serve(Arc::new(move |number, _, body| {
        seen.lock().unwrap().push(body.get("ignore_eos").is_some());
        // The third request of the run, with the fields and without.
        Some(if matches!(number, 4 | 5) { (400, "", "{}".to_owned()) } else { chat(body) })
    }));
    let (code, errors, summary) = replay(folder.path(), &url, &["--on-error", "continue", "--max-in-flight", "1"]);
    assert_eq!((code, summary["requests"]["endings"]["refused"].as_u64()), (Some(1), Some(1)), "{errors}");
    let plain: Vec<usize> =
        bodies.lock().unwrap().iter().enumerate().filter(|(_, exact)| !**exact).map(|(at, _)| at).collect();
    assert_eq!(plain, [5], "once, and only that one");
}

#[test]
fn a_dry_run_prints_the_plan_and_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&["replay", &trace(folder.path()), "--dry-run", "--json", "--concurrency", "2"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plan["requests"].as_u64().unwrap() > 20 && plan["duration_ms"].as_u64().unwrap() > 0);
    assert!(plan["hits"].as_array().unwrap().len() > 1);
}

#[test]
fn a_summary_keeps_the_published_schema_member_by_member() {
    let schema: Value = serde_json::from_str(include_str!("../../schemas/summary.v1.json")).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let slos = vec!["ttft_p95=2s".parse().unwrap(), "session_p50=1min".parse().unwrap()];
    let price = Some(tracecloak::metrics::Price::parse(["input=3", "hour=2"]).unwrap());
    let full = {
        let gates =
            Gates { rendered: Some(Rendered::default()), calibrated: Some(Calibrated::default()), ..Gates::default() };
        let mut collector = Collector::new(Wants { slos, price, gates });
        collector.add(&record());
        tracecloak::metrics::Summary {
            counters: Some(tracecloak::metrics::Counters {
                engine: "vllm".to_owned(),
                hit_tokens: Some(1.0),
                asked_tokens: Some(2.0),
                hit_ratio: Some(0.5),
                computed_tokens: Some(1.0),
                evictions: None,
                queue_seconds_p50: Some(0.1),
                queue_seconds_p95: None,
                ttft_seconds_p50: Some(0.1),
                ttft_seconds_p95: Some(0.2),
                resets: 0,
            }),
            ..collector.summary(false)
        }
    };
    let plain = Collector::new(Wants::default()).summary(true);
    for summary in [&full, &plain] {
        let json = serde_json::to_value(summary).unwrap();
        assert!(validator.is_valid(&json), "{:?}", validator.iter_errors(&json).next());
        assert_eq!(&serde_json::from_value::<tracecloak::metrics::Summary>(json.clone()).unwrap(), summary);
        for member in json.as_object().unwrap().keys() {
            let mut less = json.clone();
            less.as_object_mut().unwrap().remove(member);
            assert!(!validator.is_valid(&less), "{member} may be left out");
        }
    }
    // Every declared member is written, too.
    let json = serde_json::to_value(&full).unwrap();
    for (name, declared) in schema["properties"].as_object().unwrap() {
        let target = declared["$ref"].as_str().or(declared["anyOf"][0]["$ref"].as_str());
        let Some(target) = target.and_then(|target| target.rsplit('/').next()) else { continue };
        for member in schema["$defs"][target]["required"].as_array().unwrap() {
            assert!(json[name].get(member.as_str().unwrap()).is_some(), "{name}.{member}");
        }
    }
}

fn record() -> RequestRecord {
    RequestRecord {
        session: 0,
        request: 0,
        agent: 0,
        turn: 0,
        id: RequestId::default(),
        prime: false,
        ending: Ending::Ok,
        status: Some(200),
        attempts: 1,
        rate_limited: 0,
        due_us: Some(0),
        held_us: 0,
        sent_us: Some(100),
        resent_us: None,
        first_byte_us: Some(200),
        first_content_us: Some(300),
        last_content_us: Some(900),
        last_byte_us: Some(1000),
        events: 3,
        input_tokens: 100,
        output_tokens: Some(4),
        sent_tokens: Some(100),
        max_tokens: 4,
        planned_cached: Some(64),
        short_blocks: None,
        corrected: 0,
        prompt_tokens: Some(100),
        cached_tokens: Some(64),
        answer_tokens: Some(4),
        worker: None,
    }
}

#[test]
fn an_objective_is_missed_if_too_many_requests_fail_however_fast_the_others_are() {
    for (failed, met) in [(1, true), (2, false)] {
        let slos = vec!["ttft_p90=1s".parse().unwrap()];
        let mut collector = Collector::new(Wants { slos, ..Wants::default() });
        for session in 0..10 {
            let ending = if session < failed { Ending::ServerError } else { Ending::Ok };
            collector.add(&RequestRecord { session, ending, ..record() });
        }
        assert_eq!(collector.summary(false).meets_objectives(), met, "{failed} of 10");
    }
}

#[test]
fn a_failure_stays_in_every_denominator() {
    let mut collector = Collector::new(Wants { slos: vec!["ttft_p95=1s".parse().unwrap()], ..Wants::default() });
    collector.add(&record());
    collector.add(&RequestRecord { session: 1, ending: Ending::ServerError, ..record() });
    collector.add(&RequestRecord {
        session: 1,
        request: 1,
        ending: Ending::SessionFailed,
        sent_us: None,
        due_us: None,
        last_byte_us: None,
        ..record()
    });
    collector.add(&RequestRecord {
        session: 2,
        ending: Ending::Stopped,
        sent_us: None,
        due_us: None,
        last_byte_us: None,
        ..record()
    });
    collector.add(&RequestRecord { session: 3, prime: true, ..record() });
    let summary = collector.summary(true);
    assert_eq!((summary.requests.counted, summary.requests.succeeded, summary.requests.failed), (3, 1, 2));
    assert_eq!((summary.requests.stopped, summary.requests.primed), (1, 1));
    assert_eq!((summary.sessions.succeeded, summary.sessions.failed), (1, 1));
    assert_eq!((summary.sessions.unfinished, summary.sessions.not_begun), (0, 1));
    let goodput = summary.goodput.unwrap();
    assert!((goodput.requests_share - 1.0 / 3.0).abs() < 1e-9 && (goodput.sessions_share - 0.5).abs() < 1e-9);
    assert_eq!((summary.ttft_us.p50, summary.itl_us.p50, summary.lag_us.max), (Some(200), Some(200), Some(100)));
}
