//! Other trace formats, from outside: what comes back, what is said, and that a broken file is named by place and leaves nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use tempfile::tempdir;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracecloak")).current_dir(folder).args(arguments).env_clear().output().unwrap()
}

fn works(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(folder, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn request(t: f64, ids: std::ops::RangeInclusive<u64>, more: &Value) -> Value {
    let input = ids.end() * 64 + 5;
    let mut request = json!({
        "t": t, "type": "n", "model": "claude-opus-4-6", "in": input, "out": 10, "hash_ids": ids.collect::<Vec<_>>(),
        "input_types": ["tool_result"], "output_types": ["text", "tool_use"], "stop": "tool_use", "api_time": 1.25,
        "think_time": 0.0,
    });
    for (key, value) in more.as_object().unwrap() {
        request[key] = value.clone();
        if value.is_null() {
            request.as_object_mut().unwrap().remove(key);
        }
    }
    request
}

/// A session of kv-cache-tester with a finished agent, written where its result came back, and one in the background.
fn tester() -> Value {
    let agent = |t: f64, id: &str, more: &Value, requests: Value| {
        let mut agent = json!({
            "t": t, "type": "subagent", "agent_id": id, "subagent_type": "Explore", "duration_ms": null, "total_tokens": null,
            "tool_use_count": null, "status": "async_launched", "requests": requests, "models": ["claude-haiku-4-5-20251001"],
            "tool_tokens": 20, "system_tokens": 30,
        });
        more.as_object().unwrap().iter().for_each(|(key, value)| agent[key] = value.clone());
        agent
    };
    let haiku = json!({"model": "claude-haiku-4-5-20251001"});
    let nested = |ids: [u64; 4]| {
        let mut first = request(0.0, 1..=2, &haiku);
        let mut second = request(2.0, 1..=2, &json!({"model": "claude-haiku-4-5-20251001", "think_time": 0.8}));
        first["hash_ids"] = json!([ids[0], ids[1]]);
        second["hash_ids"] = json!([ids[0], ids[1], ids[2], ids[3]]);
        second["in"] = json!(4 * 64 + 63);
        json!([first, second])
    };
    let done = json!({"duration_ms": 4500, "total_tokens": 777, "tool_use_count": 3, "status": "completed"});
    let requests = json!([
        request(0.0, 1..=3, &json!({})),
        request(2.0, 1..=5, &json!({"type": "s", "ttft": 0.5, "think_time": 0.7})),
        agent(8.2, "agent_001", &done, nested([10, 11, 12, 13])),
        request(10.0, 1..=7, &json!({"think_time": 6.8})),
        agent(12.0, "agent_002", &json!({}), nested([14, 15, 16, 17])),
        request(13.0, 1..=8, &json!({"think_time": null, "api_time": null, "stop": "", "output_types": []})),
        request(40.0, 1..=9, &json!({"input_types": ["text"], "think_time": 25.0, "stop": "end_turn", "out": 0})),
    ]);
    let main: u64 = [3, 5, 7, 8, 9].iter().map(|blocks| blocks * 64 + 5).sum();
    let nested = 2 * (2 * 64 + 5 + 4 * 64 + 63);
    json!({
        "id": "trace_0042", "models": ["claude-opus-4-6"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 100,
        "system_tokens": 50, "requests": requests,
        "totals": {
            "parent_tokens": {"input": main, "output": 40}, "subagent_tokens": {"input": nested, "output": 40},
            "combined_tokens": {"input": main + nested, "output": 80}, "subagent_count": 2,
        },
    })
}

#[test]
fn a_session_of_kv_cache_tester_comes_back_equal_and_what_is_odd_in_it_is_said() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("in.json"), serde_json::to_string_pretty(&tester()).unwrap()).unwrap();
    let report = works(folder.path(), &["import", "in.json", "-o", "trace"]);
    assert_eq!(report["totals"]["requests"], 9);
    assert_eq!(report["anomalies"], json!({"end-as-start": 1, "empty-output": 1}));
    assert_eq!(report["inferred"]["spawn"], 2);
    assert_eq!(report["inferred"]["join"], 1);
    assert_eq!(report["inferred"]["sequence"], 1);
    works(folder.path(), &["export", "trace", "--to", "weka", "-o", "out.json"]);
    let back: Value = serde_json::from_slice(&fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(back, tester());
}

#[test]
fn agentx_files_have_ids_from_0_absolute_times_and_every_model() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("in.jsonl"), tester().to_string()).unwrap();
    works(folder.path(), &["import", "in.jsonl", "-o", "trace"]);
    works(folder.path(), &["export", "trace", "--to", "weka", "--dialect", "agentx", "-o", "dataset"]);
    let back: Value =
        serde_json::from_slice(&fs::read(folder.path().join("dataset/trace_0042.json")).unwrap()).unwrap();
    assert_eq!(back["models"], json!(["claude-haiku-4-5-20251001", "claude-opus-4-6"]));
    assert_eq!(back["requests"][0]["hash_ids"], json!([0, 1, 2]));
    assert_eq!(back["requests"][2]["t"], json!(3.7));
    assert_eq!(back["requests"][2]["requests"][1]["t"], json!(5.7));
    assert!(fs::read_to_string(folder.path().join("dataset/README.md")).unwrap().contains("path: \"trace_*.json\""));
    let again = works(folder.path(), &["import", "dataset", "-o", "again"]);
    assert_eq!((&again["totals"]["requests"], &again["skipped_files"]), (&json!(9), &json!(1)));
    assert_eq!(again["inferred"]["absolute-times"], 2);
    let few = run(folder.path(), &["export", "trace", "--to", "weka", "--select", "agentx", "-o", "none"]);
    assert_eq!((few.status.code(), folder.path().join("none").exists()), (Some(2), false));
}

#[test]
fn mooncake_rows_come_back_and_a_partial_block_has_an_id_of_its_own() {
    let folder = tempdir().unwrap();
    let row = |timestamp: u64, input: u64, ids: &[u64]| {
        json!({"timestamp": timestamp, "input_length": input, "output_length": 7, "hash_ids": ids}).to_string()
    };
    let rows = [row(0, 1200, &[0, 1, 2]), row(0, 1024, &[0, 3]), row(3000, 2048, &[0, 1, 4, 5]), row(9000, 100, &[6])];
    fs::write(folder.path().join("in.jsonl"), rows.join("\n")).unwrap();
    let report = works(folder.path(), &["import", "in.jsonl", "-o", "trace"]);
    assert_eq!((&report["totals"]["sessions"], &report["scope"]), (&json!(3), &json!("dataset")));
    works(folder.path(), &["export", "trace", "--to", "mooncake", "-o", "out.jsonl"]);
    let expected =
        [row(0, 1200, &[0, 1, 2]), row(0, 1024, &[0, 3]), row(3000, 2048, &[0, 1, 4, 5]), row(9000, 100, &[6])];
    let parse = |text: &str| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
    assert_eq!(parse(&fs::read_to_string(folder.path().join("out.jsonl")).unwrap()), parse(&expected.join("\n")));
    works(folder.path(), &["export", "trace", "--to", "mooncake", "--block-size", "1024", "-o", "wide.jsonl"]);
    let wide = parse(&fs::read_to_string(folder.path().join("wide.jsonl")).unwrap());
    assert_eq!(
        wide.iter().map(|row| row["hash_ids"].clone()).collect::<Vec<_>>(),
        [json!([0, 1]), json!([2]), json!([0, 3]), json!([4])]
    );
    assert_eq!(
        run(folder.path(), &["export", "trace", "--to", "mooncake", "--block-size", "768", "-o", "x"]).status.code(),
        Some(2)
    );
    works(folder.path(), &["export", "trace", "--to", "mooncake", "--sessions", "-o", "turns.jsonl"]);
    let turns = parse(&fs::read_to_string(folder.path().join("turns.jsonl")).unwrap());
    assert_eq!(
        turns[1],
        json!({"session_id": "session-1", "input_length": 2048 - 1207, "delay": 3000, "output_length": 7})
    );
    let again = works(folder.path(), &["import", "turns.jsonl", "-o", "again"]);
    assert_eq!(again["totals"]["input_tokens"], report["totals"]["input_tokens"]);
    assert_eq!(again["inferred"]["lengths"], 1);
}

#[test]
fn nothing_is_replaced_unless_told() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("in.jsonl"), tester().to_string()).unwrap();
    works(folder.path(), &["import", "in.jsonl", "-o", "trace"]);
    for arguments in
        [&["import", "in.jsonl", "-o", "trace"][..], &["export", "trace", "--to", "flat", "-o", "flat.parquet"]]
    {
        run(folder.path(), arguments);
        let again = run(folder.path(), arguments);
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("exist"), "{}", String::from_utf8_lossy(&again.stderr));
        works(folder.path(), &[arguments, &["--force"]].concat());
    }
    let flat = works(folder.path(), &["import", "flat.parquet", "-o", "back"]);
    assert_eq!(flat["totals"]["requests"], 9);
    for table in ["sessions", "agents", "requests", "edges", "tools"] {
        let read = |trace: &str| fs::read(folder.path().join(trace).join(format!("{table}.parquet"))).unwrap();
        assert_eq!(read("trace"), read("back"), "{table}");
    }
}

/// Each is refused with this place, and nothing is written.
fn refused(format: &str, cases: &[(Vec<u8>, &str)]) {
    assert!(cases.len() >= 10);
    for (content, place) in cases {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("in"), content).unwrap();
        let output = run(folder.path(), &["import", "in", "--from", format, "-o", "trace"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{place}: {message}");
        assert!(message.contains(place), "{format}: expected {place:?} in {message}");
        assert!(!message.contains("secret"), "{message}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{format}: {place}");
    }
}

#[test]
fn a_broken_weka_file_is_named_by_row_and_field() {
    let good = tester().to_string();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut second = tester();
        change(&mut second);
        [good.as_bytes(), b"\n", second.to_string().as_bytes()].concat()
    };
    let cases = [
        (good.as_bytes()[..good.len() / 2].to_vec(), "file 1, row 1, cut off"),
        ([good.as_bytes(), b"\nsecret"].concat(), "file 1, row 2, not JSON"),
        (with(&|trace| trace["block_size"] = json!("secret")), "row 2, block_size: not the kind"),
        (with(&|trace| trace["block_size"] = json!(32)), "row 2, "),
        (with(&|trace| trace["hash_id_scope"] = json!("secret")), "row 2, hash_id_scope: a word outside"),
        (with(&|trace| trace["requests"] = json!([])), "row 2, requests: empty"),
        (with(&|trace| trace["requests"] = Value::Null), "row 2, requests: missing"),
        (with(&|trace| trace["requests"][1]["in"] = json!(-3)), "row 2, requests[1].in: a number outside"),
        (with(&|trace| trace["requests"][3]["type"] = json!("secret")), "row 2, requests[3].type: a word outside"),
        (
            with(&|trace| trace["requests"][0]["hash_ids"] = json!([1, 2, 3, 4, 5])),
            "row 2, requests[0].hash_ids: too many",
        ),
        (
            with(&|trace| trace["requests"][0]["hash_ids"] = json!(["secret"])),
            "row 2, requests[0].hash_ids: not the kind",
        ),
        (
            with(&|trace| trace["requests"][2]["requests"][1]["t"] = json!("secret")),
            "row 2, requests[2].requests[1].t: not the kind",
        ),
        (
            with(&|trace| trace["requests"][2]["requests"][0]["type"] = json!("subagent")),
            "row 2, requests[2].requests[0].type",
        ),
        (with(&|trace| trace["requests"][4] = json!(5)), "row 2, requests[4]: not the kind"),
        (with(&|trace| trace["requests"][1]["model"] = Value::Null), "row 2, requests[1].model: missing"),
    ];
    refused("weka", &cases);
}

#[test]
fn a_broken_mooncake_file_is_named_by_row_and_field() {
    let good = r#"{"timestamp":0,"input_length":600,"output_length":7,"hash_ids":[0,1]}"#;
    let second = |row: &str| [good, "\n", row].concat().into_bytes();
    let cases = [
        (second(r#"{"timestamp":0,"input_len"#), "file 1, row 2, cut off"),
        (second("secret"), "file 1, row 2, not JSON"),
        (second("[1]"), "file 1, row 2, not JSON"),
        (second(r#"{"timestamp":"secret","input_length":1}"#), "row 2, timestamp: not the kind"),
        (second(r#"{"timestamp":0,"output_length":1}"#), "row 2, input_length: missing"),
        (second(r#"{"timestamp":0,"input_length":-1}"#), "row 2, input_length: a number outside"),
        (second(r#"{"timestamp":0,"input_length":1.5}"#), "row 2, input_length: a number outside"),
        (second(r#"{"timestamp":0,"input_length":5000000000}"#), "row 2, input_length: a number outside"),
        (second(r#"{"timestamp":0,"input_length":9,"hash_ids":[1,2]}"#), "row 2, hash_ids: too many"),
        (second(r#"{"timestamp":0,"input_length":900,"hash_ids":[-1,2]}"#), "row 2, hash_ids: a number outside"),
        (second(r#"{"timestamp":0,"input_length":900,"hash_ids":"secret"}"#), "row 2, hash_ids: not the kind"),
        (second(r#"{"timestamp":0,"input_length":9,"output_length":"secret"}"#), "row 2, output_length: not the kind"),
        (second(r#"{"timestamp":0,"timestamp":1,"input_length":9}"#), "row 2, stands twice"),
    ];
    refused("mooncake", &cases);
}

/// A flat file of two rows with these columns besides, or instead of, the plain ones.
fn flat(columns: &[(&str, Option<ArrayRef>)]) -> Vec<u8> {
    let mut all: BTreeMap<&str, ArrayRef> = BTreeMap::from([
        ("session", numbers([Some(0), Some(1)])),
        ("input_tokens", numbers([Some(130), Some(70)])),
        ("hash_ids", lists([&[0, 1], &[2]])),
    ]);
    for (name, column) in columns {
        match column {
            Some(column) => drop(all.insert(name, Arc::clone(column))),
            None => drop(all.remove(name)),
        }
    }
    let batch = RecordBatch::try_from_iter_with_nullable(all.into_iter().map(|(name, column)| (name, column, true)));
    let batch = batch.unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn numbers(numbers: [Option<i64>; 2]) -> ArrayRef {
    Arc::new(Int64Array::from(numbers.to_vec()))
}

fn lists(lists: [&[i64]; 2]) -> ArrayRef {
    let mut builder = ListBuilder::new(Int64Builder::new());
    for list in lists {
        builder.append_value(list.iter().copied().map(Some));
    }
    Arc::new(builder.finish())
}

#[test]
fn a_flat_file_needs_three_columns_and_a_broken_one_is_named_by_row_and_field() {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("in.parquet"), flat(&[])).unwrap();
    let report = works(folder.path(), &["import", "in.parquet", "-o", "trace"]);
    assert_eq!((&report["totals"]["sessions"], &report["totals"]["unique_blocks"]), (&json!(2), &json!(3)));
    let good = flat(&[]);
    let words: ArrayRef = Arc::new(StringArray::from(vec!["claude-opus-4-6", "secret"]));
    let cases = [
        (good[..good.len() / 2].to_vec(), "file 1: not readable as Parquet"),
        (b"PAR1secret".to_vec(), "file 1: not readable as Parquet"),
        (flat(&[("session", None)]), "row 1, session: missing"),
        (flat(&[("input_tokens", None)]), "row 1, input_tokens: missing"),
        (flat(&[("hash_ids", None)]), "row 1, hash_ids: missing"),
        (flat(&[("hash_ids", Some(numbers([Some(1), None])))]), "row 1, hash_ids: not the kind"),
        (flat(&[("hash_ids", Some(lists([&[0, 1], &[-2]])))]), "row 2, hash_ids: a number outside"),
        (flat(&[("hash_ids", Some(lists([&[0, 1], &[2, 3, 4]])))]), "row 2, hash_ids: too many"),
        (flat(&[("input_tokens", Some(numbers([Some(130), Some(-1)])))]), "row 2, input_tokens: a number outside"),
        (flat(&[("input_tokens", Some(numbers([Some(130), None])))]), "row 2, input_tokens: empty"),
        (flat(&[("session", Some(Arc::clone(&words)))]), "row 1, session: not the kind"),
        (flat(&[("model", Some(words))]), "row 2, model: a word outside"),
        (flat(&[("block_size", Some(numbers([Some(64), Some(32)])))]), "block_size: does not agree"),
    ];
    refused("flat", &cases);
}
