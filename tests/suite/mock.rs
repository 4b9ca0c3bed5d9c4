//! The mock endpoint over real sockets, asked with plain HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tracecloak::mock::{Counting, Faults, Imitate, Options, Server, Timing};

/// No time is spent, so that no test depends on it.
fn instant(block_size: u32, cache_blocks: Option<u32>) -> Timing {
    Timing {
        ttft_base: Duration::ZERO,
        per_uncached_token: Duration::ZERO,
        per_output_token: Duration::ZERO,
        block_size,
        cache_blocks,
        ..Timing::default()
    }
}

fn options() -> Options {
    Options { timing: instant(16, None), counting: Counting::Words, ..Options::default() }
}

fn send(addr: SocketAddr, method: &str, path: &str, body: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: mock\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .unwrap();
    stream
}

/// Status, head and body. Chunks are put together.
pub(super) fn ask(addr: SocketAddr, method: &str, path: &str, body: &str, headers: &str) -> (u16, String, String) {
    let mut bytes = Vec::new();
    send(addr, method, path, body, headers).read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body = if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
    (status, head.to_owned(), body)
}

fn unchunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        out.push_str(&rest[..length]);
        body = rest[length..].trim_start_matches("\r\n");
    }
    out
}

fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let (status, _, text) = ask(server.addr(), "POST", path, &body.to_string(), "");
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// The value of a series of `/metrics`, by the start of its line.
fn metric(server: &Server, name: &str) -> u64 {
    let (_, _, text) = ask(server.addr(), "GET", "/metrics", "", "");
    let value = text.lines().find(|line| line.starts_with(name)).unwrap().rsplit(' ').next().unwrap();
    value.trim_end_matches(".0").parse().unwrap()
}

/// Token ids of prompt `name`, of this length, unlike those of any other.
fn ids(name: u32, length: u32) -> Vec<u32> {
    (0..length).map(|at| name * 10_000 + at).collect()
}

#[test]
fn two_passes_over_prompts_that_overflow_a_small_pool_and_counters_that_agree_with_usage() {
    // The measured case of the reference: 512 blocks of 32 tokens and prompts of 3,000 tokens (vLLM: 49.6 %, 24.0 %, 0 %).
    for (prompts, expected) in [(5, 496), (6, 224), (8, 0)] {
        let server = Server::start(Options { timing: instant(32, Some(512)), ..options() }).unwrap();
        let (mut asked, mut cached) = (0, 0);
        for name in (1..=prompts).chain(1..=prompts) {
            let (status, answer) =
                post(&server, "/v1/completions", &json!({"prompt": ids(name, 3_000), "max_tokens": 1}));
            assert_eq!(status, 200);
            asked += answer["usage"]["prompt_tokens"].as_u64().unwrap();
            cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
        }
        let permille = cached * 1_000 / asked;
        println!("{prompts} prompts: {cached} of {asked} tokens cached, {permille} ‰");
        assert!(permille.abs_diff(expected) < 20, "{prompts}: {permille}");
        assert_eq!(metric(&server, "vllm:prefix_cache_queries_total"), asked);
        assert_eq!(metric(&server, "vllm:prefix_cache_hits_total"), cached);
        let snapshot = server.stop();
        assert_eq!((snapshot.prompt_tokens, snapshot.cached_tokens), (asked, cached));
        assert_eq!((snapshot.completed, snapshot.running, snapshot.blocks_in_use), (u64::from(2 * prompts), 0, 0));
    }
}

#[test]
fn a_reset_empties_the_cache() {
    let server = Server::start(options()).unwrap();
    let cached = || {
        let (_, answer) = post(&server, "/v1/completions", &json!({"prompt": ids(1, 100), "max_tokens": 1}));
        answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
    };
    assert_eq!((cached(), cached()), (0, 96));
    assert_eq!(ask(server.addr(), "POST", "/reset_prefix_cache", "", "").0, 200);
    assert_eq!((cached(), cached()), (0, 96));
}

#[test]
fn every_api_streams_the_tokens_that_were_asked_for() {
    let server = Server::start(options()).unwrap();
    let words = |text: &str, field: &str| {
        let datas = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let events = datas.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        let pieces = events.filter_map(|event| Some(event.pointer(field)?.as_str()?.to_owned()));
        pieces.collect::<String>().split_whitespace().count()
    };
    let message = json!([{"role": "user", "content": "count to ten"}]);
    for (path, body, field) in [
        (
            "/v1/chat/completions",
            json!({"messages": message, "max_tokens": 10, "ignore_eos": true, "stream": true}),
            "/choices/0/delta/content",
        ),
        (
            "/v1/completions",
            json!({"prompt": "count", "max_tokens": 10, "ignore_eos": true, "stream": true}),
            "/choices/0/text",
        ),
        (
            "/v1/responses",
            json!({"input": "count", "max_output_tokens": 10, "ignore_eos": true, "stream": true}),
            "/delta",
        ),
    ] {
        let (status, head, text) = ask(server.addr(), "POST", path, &body.to_string(), "");
        assert_eq!((status, words(&text, field)), (200, 10), "{path}");
        assert!(head.contains("text/event-stream"));
    }
    let body = json!({"messages": message, "max_tokens": 3, "stream": true});
    let (_, _, text) = ask(server.addr(), "POST", "/v1/messages", &body.to_string(), "");
    assert!((1..=3).contains(&words(&text, "/delta/text")));
    assert!(text.contains("event: message_stop"));
}

#[test]
fn the_built_in_tokenizer_counts_alike_everywhere() {
    let server = Server::start(Options { counting: Counting::default(), ..options() }).unwrap();
    let messages = json!([{"role": "user", "content": "Show me the file, please."}]);
    let (_, counted) = post(&server, "/v1/messages/count_tokens", &json!({"messages": messages}));
    let (_, tokenized) = post(&server, "/tokenize", &json!({"messages": messages}));
    let (_, answered) = post(&server, "/v1/chat/completions", &json!({"messages": messages, "max_tokens": 1}));
    assert_eq!(counted["input_tokens"], tokenized["count"]);
    assert_eq!(counted["input_tokens"], answered["usage"]["prompt_tokens"]);
    assert_eq!(json!(tokenized["tokens"].as_array().unwrap().len()), tokenized["count"]);
}

#[test]
fn what_arrived_is_recorded_without_a_word_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("arrived.jsonl");
    let server =
        Server::start(Options { record: Some(record.clone()), record_headers: vec!["x-mine".into()], ..options() })
            .unwrap();
    let secret = "sk-secret ".repeat(40);
    let headers = "x-claude-code-session-id: s1\r\nx-mine: 5\r\nauthorization: Bearer sk-secret\r\n";
    for tail in ["one", "two"] {
        let body = json!({"messages": [{"role": "user", "content": format!("{secret}{tail}")}], "max_tokens": 1});
        ask(server.addr(), "POST", "/v1/messages", &body.to_string(), headers);
    }
    server.stop();
    let text = std::fs::read_to_string(record).unwrap();
    assert!(!text.contains("secret"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["headers"], json!({"x-claude-code-session-id": "s1", "x-mine": "5"}));
    // A role, a text mark and 41 words: two full blocks, equal in both.
    assert_eq!(
        (&lines[0]["input_tokens"], &lines[0]["blocks"], &lines[1]["blocks"]),
        (&json!(43), &json!([[0, 2]]), &json!([[0, 2]]))
    );
}

#[test]
fn faults_befall_requests_as_told() {
    let body = json!({"prompt": ids(1, 40), "max_tokens": 20, "ignore_eos": true, "stream": true}).to_string();
    let whole = json!({"prompt": ids(1, 40), "max_tokens": 20, "ignore_eos": true}).to_string();
    let with = |fault: &str| {
        let faults: Faults = format!("{fault}:1").parse().unwrap();
        Server::start(Options { faults, retry_after: Duration::from_secs(7), ..options() }).unwrap()
    };
    let server = with("429");
    let (status, head, _) = ask(server.addr(), "POST", "/v1/completions", &body, "");
    assert!(status == 429 && head.contains("retry-after: 7"));
    assert_eq!(server.stop().failed, 1);

    let server = with("reset");
    let mut bytes = Vec::new();
    let error = send(server.addr(), "POST", "/v1/completions", &body, "").read_to_end(&mut bytes).unwrap_err();
    assert_eq!((error.kind(), bytes.len()), (ErrorKind::ConnectionReset, 0));

    for body in [&body, &whole] {
        let server = with("cut");
        let mut bytes = Vec::new();
        send(server.addr(), "POST", "/v1/completions", body, "").read_to_end(&mut bytes).ok();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("HTTP/1.1 200") && !text.contains("[DONE]") && !text.ends_with("0\r\n\r\n"));
        assert_eq!(server.stop().aborted, 1);
    }

    for body in [&body, &whole] {
        let server = with("garbage");
        let mut bytes = Vec::new();
        send(server.addr(), "POST", "/v1/completions", body, "").read_to_end(&mut bytes).unwrap();
        assert!(String::from_utf8(bytes).is_err());
    }

    let server = with("stall");
    let mut stream = send(server.addr(), "POST", "/v1/completions", &body, "");
    let mut head = [0; 15];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    assert_eq!(server.snapshot().running, 1, "it stalls until its client goes");
}

#[test]
fn what_an_engine_would_refuse_is_refused() {
    let server = Server::start(Options { refuse: vec!["ignore_eos".into()], max_model_len: 50, ..options() }).unwrap();
    let status = |body: Value| post(&server, "/v1/completions", &body).0;
    assert_eq!(status(json!({"prompt": [1, 2], "ignore_eos": true})), 422);
    assert_eq!(status(json!({"prompt": [1, 2], "max_tokens": 5})), 200);
    assert_eq!(status(json!({"prompt": [1, 2], "max_tokens": 49})), 400);
    assert_eq!(status(json!({"prompt": []})), 400);
    assert_eq!(ask(server.addr(), "GET", "/nowhere", "", "").0, 404);
    assert_eq!(ask(server.addr(), "POST", "/nowhere", "{}", "").0, 404);
    assert_eq!(server.stop().failed, 3);
    let server = Server::start(Options { imitate: Imitate::Dynamo, ..options() }).unwrap();
    let call = json!([{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let chat = |content: Value| {
        let messages =
            json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": content, "tool_calls": call}]);
        post(&server, "/v1/chat/completions", &json!({"messages": messages, "max_tokens": 1})).0
    };
    assert_eq!((chat(Value::Null), chat(json!(""))), (400, 200));
}
