//! Every recorder's log: the same session gives the same trace whatever recorded it, and several logs complete one another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/capture").join(name)
}

/// The summary and the graph of logs, with the private profile.
pub(super) fn convert(logs: &[PathBuf], flags: &[&str]) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let run = |arguments: &[&str]| -> Output {
        Command::new(env!("CARGO_BIN_EXE_tracecloak")).args(arguments).env_clear().output().unwrap()
    };
    let logs: Vec<&str> = logs.iter().map(|log| log.to_str().unwrap()).collect();
    let output =
        run(&[&["convert", "-o", trace.to_str().unwrap(), "--profile", "private", "--json"], flags, &logs].concat());
    assert!(output.status.success(), "{logs:?}: {}", String::from_utf8_lossy(&output.stderr));
    let graph = run(&["inspect", trace.to_str().unwrap(), "--json"]);
    (serde_json::from_slice(&output.stdout).unwrap(), serde_json::from_slice(&graph.stdout).unwrap())
}

/// What is left of a graph without what recorders differ in: times inside a stream, and who says that a call started an agent.
fn bare(graph: &Value) -> Value {
    let mut sessions = graph["sessions"].clone();
    for session in sessions.as_array_mut().unwrap() {
        for request in session["requests"].as_array_mut().unwrap() {
            let request = request.as_object_mut().unwrap();
            request.retain(|column, _| column != "ttft_ms" && !column.starts_with("usage"));
        }
        for edge in session["edges"].as_array_mut().unwrap() {
            if edge["relation"] == "spawn" && edge["evidence"] == "stated" {
                edge["evidence"] = "prompt".into();
            }
        }
        for tool in session["tools"].as_array_mut().unwrap() {
            tool.as_object_mut().unwrap().remove("start_ms");
        }
    }
    sessions
}

/// One session, as every recorder that keeps bodies whole wrote it down.
fn fanout() -> Vec<PathBuf> {
    [
        "native/fanout.jsonl",
        "har/fanout.har",
        "har/charles.har",
        "har/proxyman.har",
        "mitmproxy/fanout.flow",
        "claude-tap/export.jsonl",
        "claude-tap/compact.json",
        "claude-tap/store.sqlite3",
        "claude-code-transcript/fanout",
    ]
    .map(fixture)
    .to_vec()
}

#[test]
fn recorders_that_keep_bodies_whole_give_the_same_graph_and_the_same_prefix_tree() {
    let (_, native) = convert(&fanout()[..1], &[]);
    for log in &fanout()[1..] {
        let (_, graph) = convert(std::slice::from_ref(log), &[]);
        assert_eq!(bare(&graph), bare(&native), "{}", log.display());
    }
}

#[test]
fn several_logs_of_a_session_complete_one_another_and_count_once() {
    let (alone, native) = convert(&fanout()[..1], &[]);
    let (summary, graph) = convert(&fanout(), &[]);
    assert_eq!(graph["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(bare(&graph), bare(&native));
    assert_eq!(graph["sessions"][0]["requests"][0]["ttft_ms"], native["sessions"][0]["requests"][0]["ttft_ms"]);
    let kept = alone["records"]["kept"].as_u64().unwrap();
    assert_eq!(summary["records"]["kept"], kept);
    assert_eq!(summary["joined"]["merged"], 8 * kept);
    assert_eq!(summary["joined"]["conflicts"], 0);
    // A log without answers and one without system prompts make a whole together, which is the less whole one's request.
    let linear = ["claude-code-router/linear.log", "litellm/linear.jsonl"].map(fixture);
    let (summary, graph) = convert(&linear, &[]);
    let requests = graph["sessions"][0]["requests"].as_array().unwrap();
    assert_eq!((graph["sessions"].as_array().unwrap().len(), requests.len()), (1, 6));
    assert!(
        requests.iter().all(|request| request["stop"] != Value::Null && request["system_tokens"].as_u64() > Some(0))
    );
    assert_eq!(summary["not_recorded"], serde_json::json!({"system": 0, "tools": 0, "answers": 0}));
    assert!(!graph["sessions"][0]["tools"].as_array().unwrap().is_empty());
}

#[test]
fn what_a_recorder_did_not_keep_is_said() {
    for (log, lost) in [
        ("litellm/linear.jsonl", ["system"].as_slice()),
        ("nginx/linear.log", &["answers"]),
        ("har/browser.har", &["answers"]),
        ("claude-code-transcript/rows", &["system", "tools"]),
    ] {
        let (summary, _) = convert(&[fixture(log)], &[]);
        for part in ["system", "tools", "answers"] {
            assert_eq!(summary["not_recorded"][part].as_u64() > Some(0), lost.contains(&part), "{log}: {part}");
        }
    }
}

#[test]
fn a_folder_of_all_formats_converts_in_one_command_and_the_summary_adds_up() {
    let (summary, _) = convert(&[fixture("")], &[]);
    let expected = glob::glob(fixture("*/*.json").to_str().unwrap()).unwrap().map(Result::unwrap);
    let expected = expected.filter(|path| path.to_str().unwrap().ends_with(".expected.json")).count();
    assert_eq!(summary["inputs"]["unknown"], expected);
    let records = &summary["records"];
    let skipped: u64 = records["skipped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(records["read"].as_u64().unwrap(), records["kept"].as_u64().unwrap() + skipped);
    let formats = summary["inputs"]["formats"].as_array().unwrap();
    assert_eq!(formats.len(), tracecloak::capture::READERS.len(), "{formats:?}");
}

#[test]
fn what_lies_beside_the_logs_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    fs::copy(fixture("native/linear.jsonl"), folder.path().join("log.jsonl")).unwrap();
    let (alone, _) = convert(&[folder.path().to_owned()], &[]);
    put("empty", b"");
    let others: [(&str, &[u8]); 12] = [
        ("package.json", br#"{"name":"x","version":"1.0.0","scripts":{"test":"node"},"dependencies":{"a":"1"}}"#),
        ("tsconfig.json", b"{\n  // a comment\n  \"compilerOptions\": {\"strict\": true},\n}"),
        ("graph.expected.json", b"{\"requests\":[\n{\"turn\":1,\"duration_ms\":4,\"request\":0,\"messages\":[]},\n{\"turn\":2,\"duration_ms\":4,\"messages\":3}\n]}"),
        ("rows.jsonl", b"{\"id\":1,\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n{\"id\":2}\n"),
        ("batch.jsonl", br#"{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[]}}"#),
        ("app.log", b"{\"level\":30,\"time\":1767225600000,\"pid\":7,\"hostname\":\"h\",\"reqId\":\"req-1\",\"req\":{\"method\":\"GET\",\"url\":\"/\"},\"msg\":\"incoming request\"}\n"),
        ("table.csv", b"timestamp,request,status\n1,2,3\n"),
        ("notes.md", b"# Notes\n\nA log begins with {\"tracecloak_capture\":1}.\n"),
        ("picture.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        ("numbers.json", b"[1,2,3]"),
        ("otel.json", br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"POST","attributes":[]}]}]}]}"#),
        ("weka.jsonl", br#"{"id":"s","models":["m"],"block_size":64,"requests":[{"t":0.0,"in":9,"hash_ids":[1]}]}"#),
    ];
    others.iter().for_each(|(name, bytes)| put(name, bytes));
    let store = rusqlite::Connection::open(folder.path().join("cookies.sqlite3")).unwrap();
    store.execute_batch("CREATE TABLE requests (id TEXT, url TEXT); CREATE TABLE records (session_id TEXT)").unwrap();
    drop(store);
    let (summary, _) = convert(&[folder.path().to_owned()], &[]);
    let inputs = &summary["inputs"];
    assert_eq!((&inputs["read"], &inputs["empty"]), (&1.into(), &1.into()), "{inputs}");
    assert_eq!(inputs["unknown"], others.len() + 1);
    assert_eq!(summary["records"], alone["records"]);
}

#[test]
fn consent_is_by_the_session_that_headers_or_bodies_name_and_nothing_else_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (log, consent) = (folder.path().join("log.jsonl"), folder.path().join("ids"));
    let row = |second: u32, headers: &str, body: &str| {
        let start = 1_767_225_600_000_000_u64 + u64::from(second) * 1_000_000;
        let row = serde_json::json!({"tracecloak_capture": 1, "method": "POST", "path": "/v1/messages", "start_us": start, "status": 200,
            "headers": serde_json::from_str::<Value>(headers).unwrap(), "body": body});
        format!("{row}\n")
    };
    let body = |user: &str| {
        let prompt = serde_json::json!([{"role": "user", "content": user}]);
        serde_json::json!({"model": "m", "metadata": {"user_id": user}, "messages": prompt}).to_string()
    };
    let json = r#"{"device_id":"d","session_id":"aaaa"}"#;
    let rows = [
        (true, "[]", body("user_00_account__session_AAAA")),
        (true, "[]", body(json)),
        (true, r#"[["X-Claude-Code-Session-Id","aaaa"]]"#, body("nobody")),
        (true, r#"[["x-session-id","child"],["x-parent-session-id","aaaa"]]"#, body("nobody")),
        // A header decides where there is one.
        (false, r#"[["X-Claude-Code-Session-Id","bbbb"]]"#, body(json)),
        (false, r#"[["session-id","bbbb"]]"#, body(json)),
        (false, "[]", body("user_00_account__session_bbbb")),
        (false, "[]", body("nobody")),
        // Would be counted as broken if they were read.
        (false, r#"[["X-Claude-Code-Session-Id","bbbb"]]"#, "{broken".into()),
        (false, "[]", r#"{"messages":7,"metadata":{"user_id":"user_00_account__session_bbbb"}}"#.into()),
        (false, "[]", "{broken".into()),
    ];
    let text: String = rows.iter().zip(0..).map(|((_, headers, body), second)| row(second, headers, body)).collect();
    fs::write(&log, text).unwrap();
    fs::write(&consent, "aAaA\n").unwrap();
    let (summary, _) = convert(&[log], &["--consent", consent.to_str().unwrap()]);
    let kept = rows.iter().filter(|(kept, ..)| *kept).count();
    assert_eq!(summary["records"]["kept"], kept);
    assert_eq!(summary["records"]["skipped"], serde_json::json!({"not_selected": rows.len() - kept}));
}

#[test]
fn a_selection_keeps_what_was_asked_for_and_counts_the_rest() {
    let log = fixture("native/interleaved.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let ids: Vec<&str> =
        text.match_indices("X-Claude-Code-Session-Id\",\"").map(|(at, mark)| &text[at + mark.len()..][..36]).collect();
    let folder = tempfile::tempdir().unwrap();
    let consent = folder.path().join("ids");
    fs::write(&consent, format!("# agreed\n{}\n", ids[0].to_uppercase())).unwrap();
    let logs = [log, fixture("native/codex.jsonl")];
    let all = 12;
    for (flags, kept) in [
        (vec!["--only-harness", "codex"], 5),
        (vec!["--until", "2100-01-01T00:00:00Z"], all),
        // What begins at that very moment is kept by the one and not by the other.
        (vec!["--since", "2026-03-19T09:00:00.930Z"], 4),
        (vec!["--until", "2026-03-19T09:00:00.930Z"], 8),
        (vec!["--since", "2026-03-11T09:00:04Z", "--until", "2026-03-19T09:00:02Z"], 4),
        (vec!["--consent", consent.to_str().unwrap()], ids.iter().filter(|id| **id == ids[0]).count()),
    ] {
        let (summary, _) = convert(&logs, &flags);
        let skipped = summary["records"]["skipped"]["not_selected"].as_u64().unwrap_or(0);
        let kept = u64::try_from(kept).unwrap();
        assert_eq!(
            (summary["records"]["kept"].as_u64().unwrap(), skipped),
            (kept, summary["records"]["read"].as_u64().unwrap() - kept),
            "{flags:?}"
        );
    }
}
