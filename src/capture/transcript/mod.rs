//! Claude Code transcripts: `projects/<folder>/<session>.jsonl`, and `<session>/subagents/**/agent-<id>.jsonl` with its `.meta.json`.
//!
//! Invariant: a record is a request: each answer of the API (all its rows), and each request that got none. Where the client kept
//! requests exactly (`api-request` rows, 2.1.332) they come out exactly; else they are rebuilt from the rows, without system
//! prompt and tools, and say so.
//!
//! What lies beside a file is read where its name tells that it is a transcript: the facts of an agent (who called it), and the
//! session that a fork began from.

mod exact;
mod rebuild;
mod rows;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::rows::Transcript as Rows;
use super::exchange::SkipReason;
use super::outline::{Outline, sniff_lines};
use super::reader::{Limits, LogReader, Records, Sniff};
use super::text::Text;

/// The reader of transcripts.
pub(super) struct Transcript;

impl LogReader for Transcript {
    fn name(&self) -> &'static str {
        "claude-code-transcript"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        sniff_lines(head, judge)
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        rebuild::records(Rows::read(source, limits, input), None, Facts::default(), limits)
    }

    fn read_file(&self, path: &Path, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        let own = Rows::read(source, limits, input);
        let workflow = path.iter().any(|folder| folder == "workflows");
        let facts = Facts { workflow, ..facts(path, limits).unwrap_or_default() };
        let parent = own.fork_of.as_ref().and_then(|_| session(path)).and_then(|path| File::open(path).ok());
        let parent = parent.map(|file| Rows::read(Box::new(file), limits, input));
        rebuild::records(own, parent, facts, limits)
    }
}

fn judge(outline: &Outline) -> Sniff {
    let has = |key: &str| outline.iter().any(|(parent, found)| parent.is_empty() && *found == key.as_bytes());
    // The others may come behind a message that is larger than the head.
    let row = has("parentUuid") && (has("isSidechain") || has("uuid") && has("timestamp"));
    // Kinds of rows that have no place in the tree; journals of workflows hold no requests.
    let other = has("type")
        && has("sessionId")
        && (has("operation") || has("leafUuid") || has("shapeHash") || has("lastPrompt"));
    let aside = has("type") && (has("parentSessionId") && has("contextLength") || has("leafUuid") && has("summary"));
    if row || other || aside { Sniff::Match } else { Sniff::Mismatch }
}

/// What is known of the agent of a file.
#[derive(Default)]
struct Facts {
    /// The call that started it.
    call: Option<Text>,
    /// The agent that made the call, unless the main one did.
    parent: Option<Text>,
    /// It lies among the agents of a workflow.
    workflow: bool,
}

/// The facts in `agent-<id>.meta.json`, beside `agent-<id>.jsonl`.
fn facts(path: &Path, limits: Limits) -> Option<Facts> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        tool_use_id: Option<String>,
        parent_agent_id: Option<String>,
    }
    let stem = path.file_name()?.to_str()?.split_once(".jsonl")?.0;
    let file = File::open(path.with_file_name(format!("{stem}.meta.json"))).ok()?;
    let mut text = Vec::new();
    file.take(limits.record_bytes.min(1 << 20)).read_to_end(&mut text).ok()?;
    let meta: Meta = serde_json::from_slice(&text).ok()?;
    Some(Facts {
        call: meta.tool_use_id.map(Text::from),
        parent: meta.parent_agent_id.map(Text::from),
        workflow: false,
    })
}

/// The file of the session that an agent's file belongs to.
fn session(path: &Path) -> Option<PathBuf> {
    let folder =
        path.ancestors().find(|folder| folder.file_name().is_some_and(|name| name == "subagents"))?.parent()?;
    Some(folder.with_file_name(format!("{}.jsonl", folder.file_name()?.to_str()?)))
}

/// A broken row, in its place among the records.
type Broken = (u64, u64, SkipReason);

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;
    use crate::capture::exchange::{Exchange, ResponseBody, Trust};
    use crate::capture::testing::{CANARY, body, read, response};

    fn row(kind: &str, uuid: &str, parent: Option<&str>, second: u32, more: Value) -> Value {
        let mut row = json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "version": "2.1.112",
            "isSidechain": false, "timestamp": format!("2026-03-02T09:00:{second:02}.000Z")});
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    }

    fn user(uuid: &str, parent: Option<&str>, second: u32, content: Value) -> Value {
        row("user", uuid, parent, second, json!({"message": {"role": "user", "content": content}}))
    }

    fn assistant(uuid: &str, parent: &str, second: u32, id: &str, block: Value) -> Value {
        let message = json!({"id": id, "type": "message", "role": "assistant", "model": "m", "content": [block],
            "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": second}});
        row("assistant", uuid, Some(parent), second, json!({"message": message, "requestId": format!("req-{id}")}))
    }

    fn call(id: &str) -> Value {
        json!({"type": "tool_use", "id": id, "name": "Read", "input": {"b": 1, "a": CANARY}, "caller": {"type": "direct"}})
    }

    fn result(id: &str) -> Value {
        json!([{"type": "tool_result", "tool_use_id": id, "content": "x"}])
    }

    fn log(rows: &[Value]) -> Vec<u8> {
        rows.iter().flat_map(|row| format!("{row}\n").into_bytes()).collect()
    }

    fn good(rows: &[Value]) -> Vec<Exchange> {
        read(&Transcript, &log(rows), Limits::default()).into_iter().map(|record| record.ok().unwrap()).collect()
    }

    fn messages(exchange: &Exchange) -> Vec<Value> {
        let body: Value = serde_json::from_str(body(exchange).unwrap()).unwrap();
        body["messages"].as_array().unwrap().clone()
    }

    #[test]
    fn requests_are_rebuilt_from_rows_with_results_of_parallel_calls_together() {
        let rows = [
            user("1", None, 1, json!("go")),
            assistant("2", "1", 2, "m1", json!({"type": "text", "text": "t"})),
            assistant("3", "2", 3, "m1", call("c1")),
            assistant("4", "3", 4, "m1", call("c2")),
            user("6", Some("4"), 5, result("c2")),
            user("5", Some("3"), 6, result("c1")),
            // A prompt that was taken back.
            user("7", Some("5"), 7, json!("taken back")),
            user("8", Some("5"), 8, json!("go on")),
            assistant("9", "8", 9, "m2", json!({"type": "text", "text": "u"})),
        ];
        let exchanges = good(&rows);
        assert_eq!(exchanges.len(), 2);
        let (first, second) = (messages(&exchanges[0]), messages(&exchanges[1]));
        assert_eq!(first.len(), 1);
        assert_eq!(second.len(), 3);
        assert_eq!(second[1]["content"].as_array().unwrap().len(), 3);
        assert_eq!(
            second[1]["content"][1],
            json!({"type": "tool_use", "id": "c1", "name": "Read", "input": {"b": 1, "a": CANARY}})
        );
        let kinds: Vec<_> =
            second[2]["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
        assert_eq!(kinds, ["tool_result", "tool_result", "text"]);
        assert!(exchanges[1].provenance.no_system && exchanges[1].provenance.trust == Trust::Partial);
        assert_eq!(exchanges[0].response_headers.get("request-id"), Some("req-m1"));
        let answer: Value = serde_json::from_str(&response(&exchanges[0]).unwrap()).unwrap();
        assert_eq!((&answer["usage"]["output_tokens"], answer["content"].as_array().unwrap().len()), (&json!(4), 3));
        let seconds = |exchange: &Exchange| {
            (exchange.start.unwrap().unix_us / 1_000_000 % 60, exchange.end.unwrap().unix_us / 1_000_000 % 60)
        };
        assert_eq!((seconds(&exchanges[0]), seconds(&exchanges[1])), ((1, 4), (8, 9)));
    }

    #[test]
    fn old_sidechains_and_compactions_begin_anew() {
        let mut side = user("s1", None, 3, json!("task"));
        let mut answer = assistant("s2", "s1", 4, "m2", json!({"type": "text", "text": "x"}));
        side["isSidechain"] = json!(true);
        answer["isSidechain"] = json!(true);
        let boundary = row("system", "b", None, 6, json!({"subtype": "compact_boundary", "logicalParentUuid": "2"}));
        let rows = [
            user("1", None, 1, json!("go")),
            assistant("2", "1", 2, "m1", json!({"type": "text", "text": "t"})),
            side,
            answer,
            boundary,
            user("c", Some("b"), 7, json!("summary")),
            assistant("d", "c", 8, "m3", json!({"type": "text", "text": "u"})),
        ];
        let exchanges = good(&rows);
        let opening: Vec<_> =
            exchanges.iter().map(|exchange| messages(exchange)[0]["content"][0]["text"].clone()).collect();
        assert_eq!(opening, ["go", "task", "summary"]);
        assert!(exchanges.iter().all(|exchange| messages(exchange).len() == 1));
    }

    #[test]
    fn kept_requests_come_out_exactly() {
        let base = json!({"type": "api-request", "id": "r1", "sessionId": "s-1", "agentId": "a1", "timestamp": "2026-03-02T09:00:01.000Z",
            "shapeHash": "h", "params": {"model": "m", "max_tokens": 5, "betas": []}, "keep": 0, "tail": ["k1"],
            "cacheControl": [{"path": ["messages", 0, "content", 1], "value": {"type": "ephemeral"}}]});
        let mut next = base.clone();
        let assistant_row = |mut row: Value, of: &str| {
            row["requestRef"] = json!(of);
            row["agentId"] = json!("a1");
            row
        };
        // Hashes are those of the message's canonical JSON.
        let hash = |message: &Value| {
            use sha2::Digest;
            sha2::Sha256::digest(exact::canonical(message)).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let made = json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Read", "input": {"b": 1, "a": CANARY}}]});
        next["id"] = json!("r2");
        next["base"] = json!("r1");
        next["keep"] = json!(1);
        next["tail"] = json!([hash(&made), hash(&json!({"role": "user", "content": result("c1")}))]);
        next["cacheControl"] = json!([]);
        let rows = [
            user("1", None, 1, json!("go")),
            json!({"type": "api-request-shape", "sessionId": "s-1", "shapeHash": "h", "shape": {"system": [{"type": "text", "text": "sys"}], "tools": [{"name": "Read"}]}}),
            json!({"type": "api-request-blob", "sessionId": "s-1", "hash": "k1", "message": {"role": "user", "content": [{"type": "text", "text": "reminder"}, {"type": "text", "text": "go"}]}}),
            base,
            assistant_row(assistant("2", "1", 2, "m1", call("c1")), "r1"),
            user("3", Some("2"), 3, result("c1")),
            next.clone(),
            row(
                "system",
                "4",
                Some("3"),
                4,
                json!({"subtype": "api_error", "error": {"status": 529, "message": "529 {\"request_id\":\"req_9\"}"}}),
            ),
            {
                next["id"] = json!("r3");
                next
            },
            assistant_row(assistant("5", "3", 6, "m2", json!({"type": "text", "text": "u"})), "r3"),
        ];
        let exchanges = good(&rows);
        assert_eq!(
            exchanges.iter().map(|exchange| exchange.status).collect::<Vec<_>>(),
            [Some(200), Some(529), Some(200)]
        );
        assert!(
            exchanges
                .iter()
                .all(|exchange| exchange.provenance.trust == Trust::Client && !exchange.provenance.no_system)
        );
        assert_eq!(exchanges[1].response_headers.get("request-id"), Some("req_9"));
        let first: Value = serde_json::from_str(body(&exchanges[0]).unwrap()).unwrap();
        assert_eq!(first["messages"][0]["content"][1]["cache_control"], json!({"type": "ephemeral"}));
        assert_eq!((&first["system"][0]["text"], &first["tools"][0]["name"]), (&json!("sys"), &json!("Read")));
        let third = messages(&exchanges[2]);
        assert_eq!((third.len(), &third[1]), (3, &made));
        assert_eq!(exchanges[0].headers.get("x-claude-code-agent-id"), Some("a1"));
    }

    #[test]
    fn what_lies_beside_a_file_is_read_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let agents = folder.path().join("s-1/subagents");
        fs::create_dir_all(&agents).unwrap();
        let mut main_answer = assistant("2", "1", 2, "m1", call("c1"));
        main_answer["requestRef"] = json!("r1");
        let shape = json!({"type": "api-request-shape", "sessionId": "s-1", "shapeHash": "h", "shape": {"system": "sys", "tools": []}});
        fs::write(folder.path().join("s-1.jsonl"), log(&[user("1", None, 1, json!("go")), shape, main_answer.clone()]))
            .unwrap();
        let fork = json!({"type": "fork-context-ref", "agentId": "a1", "parentSessionId": "s-1", "parentLastUuid": "1", "contextLength": 1});
        main_answer["parentUuid"] = Value::Null;
        let mut task = user("f1", Some("2"), 3, json!("directive"));
        let mut answer = assistant("f2", "f1", 4, "m2", json!({"type": "text", "text": "u"}));
        task["agentId"] = json!("a1");
        answer["agentId"] = json!("a1");
        let path = agents.join("agent-a1.jsonl");
        fs::write(&path, log(&[fork, main_answer, task, answer])).unwrap();
        fs::write(agents.join("agent-a1.meta.json"), r#"{"toolUseId":"c1","parentAgentId":"a0"}"#).unwrap();
        let source = Box::new(File::open(&path).unwrap());
        let records: Vec<_> = Transcript.read_file(&path, source, Limits::default(), 0).collect();
        assert_eq!(records.len(), 1, "the parent's answer is the parent's");
        let exchange = records[0].as_ref().ok().unwrap();
        let roles: Vec<_> = messages(exchange).iter().map(|message| message["role"].clone()).collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
        assert_eq!(exchange.provenance.spawn_call.as_ref().unwrap().as_str(), Some("c1"));
        assert_eq!(exchange.headers.get("x-claude-code-parent-agent-id"), Some("a0"));
        assert!(!exchange.provenance.no_system && matches!(exchange.response, ResponseBody::Pieces(_)));
    }

    #[test]
    fn a_wrong_type_anywhere_loses_no_other_answer() {
        let rows =
            [user("1", None, 1, json!("go")), assistant("2", "1", 2, "m1", json!({"type": "text", "text": "t"}))];
        for at in 0..rows.len() {
            for mutant in crate::capture::testing::mutations(&rows[at]) {
                let other = [
                    user("8", None, 8, json!("new")),
                    assistant("9", "8", 9, "m9", json!({"type": "text", "text": "t"})),
                ];
                let mut all = rows.to_vec();
                all[at] = mutant;
                let found = read(&Transcript, &log(&[&all[..], &other[..]].concat()), Limits::default());
                assert!(
                    found
                        .iter()
                        .flatten()
                        .any(|exchange| exchange.response_headers.get("request-id") == Some("req-m9"))
                );
            }
        }
    }
}
