//! Every recorder's log: the same session gives the same trace whatever recorded it, several logs complete one another, and broken
//! logs lose only what is broken.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tracecloak::capture::{Inputs, Limits, SkipReason, open};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/capture").join(name)
}

/// The summary and the graph of logs, with the private profile.
fn convert(logs: &[PathBuf], flags: &[&str]) -> (Value, Value) {
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
    assert_eq!(summary["joined"]["merged"], 6 * kept);
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
    let records = &summary["records"];
    let skipped: u64 = records["skipped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(records["read"].as_u64().unwrap(), records["kept"].as_u64().unwrap() + skipped);
    let formats = summary["inputs"]["formats"].as_array().unwrap();
    assert_eq!(formats.len(), tracecloak::capture::READERS.len(), "{formats:?}");
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
        (vec!["--since", "2100-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z", "--only-harness", "codex"], 0),
        (vec!["--until", "2100-01-01T00:00:00Z"], all),
        (vec!["--consent", consent.to_str().unwrap()], ids.iter().filter(|id| **id == ids[0]).count()),
    ] {
        if kept == 0 {
            continue;
        }
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

/// How many records of a log are good, and how many were lost for which reason.
fn read(log: &Path) -> Option<(usize, BTreeMap<SkipReason, usize>)> {
    let inputs = Inputs::expand(&[log]).unwrap();
    let (_, records) = open(&inputs.list()[0], Limits::default()).ok()?;
    let (mut good, mut lost) = (0, BTreeMap::new());
    for record in records {
        match record {
            Ok(_) => good += 1,
            Err(error) => *lost.entry(error.reason).or_default() += 1,
        }
    }
    Some((good, lost))
}

/// A log of each format, and whether its records are lines.
const LOGS: [(&str, bool); 15] = [
    ("native/linear.jsonl", true),
    ("claude-trace/linear.jsonl", true),
    ("har/fanout.har", false),
    ("claude-tap/export.jsonl", true),
    ("claude-tap/old.jsonl", true),
    ("claude-tap/compact.json", false),
    ("claude-tap/lossy.json", false),
    ("claude-tap/store.sqlite3", false),
    ("mitmproxy/fanout.flow", false),
    ("claude-code-proxy/api.json", false),
    ("claude-code-proxy/store.sqlite3", false),
    ("litellm/linear.jsonl", true),
    ("claude-code-router/linear.log", true),
    ("envoy-tap/linear.json", true),
    ("nginx/linear.log", true),
];

#[test]
fn broken_logs_of_every_format_lose_only_what_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    for (name, by_line) in LOGS {
        let whole = fs::read(fixture(name)).unwrap();
        let read_bytes = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            read(&path)
        };
        let (all, lost) = read_bytes(&whole).unwrap();
        assert!(all > 3 && lost.is_empty(), "{name}");
        let length = whole.len();
        // Cut: what stood before is kept.
        let mut before = 0;
        for tenth in [3, 5, 8, 9] {
            let good = read_bytes(&whole[..length * tenth / 10]).map_or(0, |(good, _)| good);
            assert!(
                good >= before && good < all || name.ends_with("sqlite3") || name.contains("router"),
                "{name} cut at {tenth} tenths: {good} of {all}"
            );
            before = good;
        }
        // Bytes that are anything, in the middle: one record, or what follows it where nothing tells them apart.
        for (byte, at) in [(0, length / 2), (b'"', length / 3), (0xff, length * 2 / 3), (b'}', length / 2)] {
            let mut broken = whole.clone();
            broken[at] = byte;
            let found = read_bytes(&broken);
            assert!(!by_line || found.is_some_and(|(good, _)| good + 1 >= all), "{name}");
        }
        if by_line {
            let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
            let middle = lines.len() / 2;
            // Reordered: all are there.
            let reversed: Vec<u8> = lines.iter().rev().flat_map(|line| line.to_vec()).collect();
            assert!(name.contains("router") || read_bytes(&reversed).unwrap().0 == all, "{name} reordered");
            // Lines of another kind, of wrong types, half written.
            for line in [
                &b"{\"half\":\n"[..],
                b"garbage \xf0\x28\n",
                b"[[[[\n",
                &lines[middle][..lines[middle].len() / 2],
                b"{}\n",
            ] {
                let mut with = lines[..middle].concat();
                with.extend_from_slice(line);
                with.push(b'\n');
                with.extend_from_slice(&lines[middle..].concat());
                let (good, lost) = read_bytes(&with).unwrap();
                assert_eq!(good, all, "{name}");
                assert!(lost.values().sum::<usize>() <= 1, "{name}: {lost:?}");
            }
        }
    }
}

#[test]
fn a_broken_transcript_loses_only_what_is_broken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let main = fs::read_dir(fixture("claude-code-transcript/rows")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(main).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    fs::write(&path, &whole).unwrap();
    let (all, _) = read(&path).unwrap();
    for at in 0..lines.len().min(10) {
        let broken: Vec<u8> = lines
            .iter()
            .enumerate()
            .flat_map(|(line, text)| if line == at { b"{\"type\":\n".to_vec() } else { text.to_vec() })
            .collect();
        fs::write(&path, broken).unwrap();
        let (good, lost) = read(&path).unwrap();
        assert!(good + 1 >= all && lost.values().sum::<usize>() == 1);
    }
}
