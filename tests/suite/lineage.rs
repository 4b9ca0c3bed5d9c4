//! Who asked whom: cases in which words, ids or order mislead. No edge is invented, and no request is lost.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::capture::{convert, fixture};

/// Calls of an answer: id, tool, input.
type Calls<'a> = &'a [(&'a str, &'a str, Value)];

/// An exchange of the Messages API, as a line.
fn exchange(at_ms: u64, headers: &[[&str; 2]], body: &Value, id: &str, calls: Calls) -> String {
    let content: Vec<Value> = std::iter::once(json!({"type": "text", "text": id}))
        .chain(
            calls.iter().map(|(id, name, input)| json!({"type": "tool_use", "id": id, "name": name, "input": input})),
        )
        .collect();
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let answer = json!({"id": id, "type": "message", "role": "assistant", "content": content, "stop_reason": stop,
        "usage": {"input_tokens": 9, "output_tokens": 9}});
    line(at_ms, headers, body, 200, &answer.to_string())
}

fn line(at_ms: u64, headers: &[[&str; 2]], body: &Value, status: u16, answer: &str) -> String {
    let start = (1_767_225_600_000 + at_ms) * 1000;
    let row = json!({"tracecloak_capture": 1, "method": "POST", "path": "/v1/messages", "start_us": start, "end_us": start + 400_000,
        "headers": headers, "body": body.to_string(), "status": status, "response": [[300_000, answer]]});
    format!("{row}\n")
}

/// A body with tools, so that it is a turn.
fn body(system: &str, messages: &Value) -> Value {
    json!({"model": "claude-opus-5-5", "system": system, "messages": messages,
        "tools": [{"name": "Task", "input_schema": {}}, {"name": "Read", "input_schema": {}}]})
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn called(id: &str, calls: Calls) -> Value {
    let blocks: Vec<Value> = std::iter::once(json!({"type": "text", "text": id}))
        .chain(
            calls.iter().map(|(id, name, input)| json!({"type": "tool_use", "id": id, "name": name, "input": input})),
        )
        .collect();
    json!({"role": "assistant", "content": blocks})
}

fn result(call: &str, text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]})
}

/// The summary and the graph of logs that hold these lines.
fn converted(logs: &[&[String]]) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..logs.len()).map(|log| folder.path().join(format!("{log}.jsonl"))).collect();
    for (path, lines) in paths.iter().zip(logs) {
        fs::write(path, lines.concat()).unwrap();
    }
    convert(&paths, &[])
}

fn edges<'a>(session: &'a Value, relation: &str) -> Vec<(u64, u64, &'a str)> {
    let edges = session["edges"].as_array().unwrap().iter().filter(|edge| edge["relation"] == relation);
    edges
        .map(|edge| (edge["from"].as_u64().unwrap(), edge["to"].as_u64().unwrap(), edge["evidence"].as_str().unwrap()))
        .collect()
}

const CLAUDE: [&str; 2] = ["X-Claude-Code-Session-Id", "0f0e"];

#[test]
fn calls_that_are_named_alike_do_not_make_two_requests_one() {
    for name in ["call_0", ""] {
        let mut messages = vec![said("user", "begin")];
        let mut lines = Vec::new();
        for turn in 0..6_u64 {
            let call = [(name, "Read", json!({"turn": turn}))];
            let (id, asked) = (format!("msg_{turn}"), body("s", &json!(messages)));
            lines.push(exchange(turn * 2000, &[["x-session-id", "one"]], &asked, &id, &call));
            messages.extend([called(&id, &call), result(name, &format!("turn {turn}"))]);
        }
        let (summary, _) = converted(&[&lines[..3], &lines[3..]]);
        assert_eq!((&summary["records"]["kept"], &summary["joined"]["merged"]), (&6.into(), &0.into()), "{name:?}");
    }
}

#[test]
fn an_attempt_that_failed_and_its_repeat_are_two_in_two_logs_as_in_one() {
    let asked = body("s", &json!([said("user", "begin")]));
    let failed = line(0, &[CLAUDE], &asked, 529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#);
    let lines = [failed, exchange(700, &[CLAUDE], &asked, "msg_1", &[])];
    let (one, _) = converted(&[&lines]);
    let (two, graph) = converted(&[&lines[..1], &lines[1..]]);
    assert_eq!((&one["records"]["kept"], &two["records"]["kept"]), (&2.into(), &2.into()));
    assert_eq!(graph["sessions"][0]["requests"][1]["attempt"], 1);
}

#[test]
fn a_log_in_any_order_gives_the_same_graph() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    for name in ["linear", "fanout", "cancelled", "resume", "auxiliary", "headerless", "codex", "opencode", "twins"] {
        let log = fixture(&format!("native/{name}.jsonl"));
        let text = fs::read_to_string(&log).unwrap();
        fs::write(&path, text.lines().rev().collect::<Vec<_>>().join("\n")).unwrap();
        let ((_, there), (_, back)) = (convert(&[log], &[]), convert(std::slice::from_ref(&path), &[]));
        assert_eq!(there["sessions"], back["sessions"], "{name}");
    }
}

#[test]
fn conversations_that_only_begin_alike_are_two() {
    let asked = |system| body(system, &json!([said("user", "hello")]));
    let lines =
        [exchange(0, &[], &asked("a poet"), "msg_1", &[]), exchange(600_000, &[], &asked("a lawyer"), "msg_2", &[])];
    let (_, graph) = converted(&[&lines]);
    assert_eq!(graph["sessions"].as_array().unwrap().len(), 2);
    // Nor is a question to another model a repeat of one that was answered.
    let models = ["claude-opus-5-5", "claude-sonnet-4-20250514", "claude-haiku-4-5-20251001"].map(|model| {
        let mut asked = asked("a poet");
        asked["model"] = model.into();
        asked
    });
    let lines: Vec<String> =
        (0..).zip(&models).map(|(at, asked)| exchange(at * 900, &[CLAUDE], asked, &format!("msg_{at}"), &[])).collect();
    let (_, graph) = converted(&[&lines]);
    assert!(graph["sessions"][0]["requests"].as_array().unwrap().iter().all(|request| request["attempt"] == 0));
}

#[test]
fn a_report_that_quotes_another_agent_does_not_take_its_call() {
    let calls = [("t1", "Task", json!({"prompt": "look left"})), ("t2", "Task", json!({"prompt": "look right"}))];
    let (one, two) = ("a1111111111111111", "a2222222222222222");
    let child = |id: &'static str| [CLAUDE, ["x-claude-code-agent-id", id]];
    let back = json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "t1", "content": format!("It said:\nagentId: {two}")},
        {"type": "tool_result", "tool_use_id": "t2", "content": "nothing there"}]});
    let begun = said("user", "look around");
    let lines = [
        exchange(0, &[CLAUDE], &body("s", &json!([begun])), "msg_1", &calls),
        exchange(1000, &child(one), &body("sub", &json!([said("user", "look left")])), "msg_2", &[]),
        exchange(1100, &child(two), &body("sub", &json!([said("user", "look right")])), "msg_3", &[]),
        exchange(3000, &[CLAUDE], &body("s", &json!([begun, called("msg_1", &calls), back])), "msg_4", &[]),
    ];
    let (summary, graph) = converted(&[&lines]);
    let session = &graph["sessions"][0];
    assert_eq!(edges(session, "spawn"), [(0, 1, "prompt"), (0, 2, "prompt")]);
    assert_eq!(edges(session, "join"), [(1, 3, "tool_result"), (2, 3, "tool_result")]);
    assert_eq!(summary["links"]["unmatched_agents"], 0);
}

#[test]
fn a_call_that_was_refused_starts_no_agent() {
    let call = [("t1", "Task", json!({"prompt": "look left"}))];
    let user = json!({"user_id": "user_00_account__session_0f0e"});
    let refused = result("t1", "The user doesn't want to proceed with this tool use.");
    let asked = |messages: Value| {
        let mut body = body("s", &messages);
        body["metadata"] = user.clone();
        body
    };
    let begun = said("user", "look around");
    let lines = [
        exchange(0, &[], &asked(json!([begun])), "msg_1", &call),
        exchange(1000, &[], &asked(json!([begun, called("msg_1", &call), refused])), "msg_2", &[]),
        exchange(60_000, &[], &asked(json!([said("user", "look left")])), "msg_3", &[]),
    ];
    let (summary, graph) = converted(&[&lines]);
    let session = &graph["sessions"][0];
    assert_eq!((edges(session, "spawn"), session["agents"].as_array().unwrap().len()), (vec![], 1));
    assert_eq!(summary["links"]["unmatched_calls"], 1);
}
