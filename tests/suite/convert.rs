//! `convert` on the fixtures finds the graph that their makers put in, and holds up on broken input.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn tracecloak(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracecloak")).args(arguments).env_clear().output().unwrap()
}

fn convert(log: &Path, flags: &[&str]) -> (tempfile::TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("trace");
    let arguments = [&["convert", log.to_str().unwrap(), "-o", output.to_str().unwrap()], flags].concat();
    let result = tracecloak(&arguments);
    (folder, result)
}

fn graph(folder: &tempfile::TempDir) -> Value {
    let output = tracecloak(&["inspect", folder.path().join("trace").to_str().unwrap(), "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every fixture with its expected graph.
fn cases() -> Vec<(PathBuf, Value)> {
    let pattern = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/capture/*/*.expected.json");
    let cases: Vec<_> = glob::glob(pattern)
        .unwrap()
        .map(Result::unwrap)
        .map(|expected| {
            let stem = expected.to_str().unwrap().strip_suffix(".expected.json").unwrap().to_owned();
            // A log is a file or, of transcripts, a folder.
            let endings = ["", ".jsonl", ".json", ".har", ".flow", ".log", ".sqlite3"];
            let log = endings
                .map(|ending| PathBuf::from(format!("{stem}{ending}")))
                .into_iter()
                .find(|log| log.exists())
                .unwrap();
            (log, serde_json::from_slice(&std::fs::read(&expected).unwrap()).unwrap())
        })
        .collect();
    assert!(cases.len() >= 33, "only {} fixtures found", cases.len());
    cases
}

#[test]
fn every_fixture_gives_the_graph_that_was_put_in() {
    let mut wrong = Vec::new();
    for (log, expected) in cases() {
        let (folder, output) = convert(&log, &["--profile", "private", "--json"]);
        assert!(output.status.success(), "{}: {}", log.display(), String::from_utf8_lossy(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = graph(&folder);
        let mut differ = |what: String| wrong.push(format!("{}: {what}", log.display()));
        for (reason, count) in expected["skipped"].as_object().unwrap() {
            if &summary["records"]["skipped"][reason] != count {
                differ(format!("skipped {reason}: {} instead of {count}", summary["records"]["skipped"][reason]));
            }
        }
        let sorted = |sessions: &Value| {
            // Published order is by structure; the fixtures list sessions as they began.
            let mut sessions = sessions.as_array().unwrap().clone();
            sessions.sort_by_key(|session| {
                (session["requests"].as_array().unwrap().len(), session["edges"].to_string().len())
            });
            sessions
        };
        let (found, wanted) = (sorted(&found["sessions"]), sorted(&expected["sessions"]));
        if found.len() != wanted.len() {
            differ(format!("{} sessions instead of {}", found.len(), wanted.len()));
        }
        for (found, wanted) in found.iter().zip(&wanted) {
            for table in ["agents", "requests", "edges", "tools"] {
                let (found, wanted) = (found[table].as_array().unwrap(), wanted[table].as_array().unwrap());
                if found.len() != wanted.len() {
                    differ(format!("{} {table} instead of {}", found.len(), wanted.len()));
                }
                for (row, (found, wanted)) in found.iter().zip(wanted).enumerate() {
                    for (column, wanted) in wanted.as_object().unwrap() {
                        let equal =
                            if column == "extends_request" { extends(found, wanted) } else { &found[column] == wanted };
                        if !equal {
                            differ(format!("{table}[{row}].{column}: {} instead of {wanted}", found[column]));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `extends` speaks of the prefix request alone, which may be a later one than the one that this prompt was made from.
fn extends(found: &Value, wanted: &Value) -> bool {
    let (prefix, extends) = (&found["prefix_request"], found["extends"] == true);
    match (prefix == wanted, wanted.is_null()) {
        (true, false) => extends,
        (_, true) => !extends,
        (false, false) => !extends || prefix.as_u64() > wanted.as_u64(),
    }
}

#[test]
fn the_summary_adds_up_and_the_second_run_overwrites_nothing() {
    for (log, _) in cases() {
        let (folder, output) = convert(&log, &["--json", "--min-requests", "4", "--drop-aux"]);
        if output.status.code() == Some(2) {
            continue;
        }
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let records = &summary["records"];
        let skipped: u64 = records["skipped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
        let accounted = records["kept"].as_u64().unwrap() + skipped + records["in_small_sessions"].as_u64().unwrap();
        assert_eq!(records["read"].as_u64().unwrap(), accounted, "{}", log.display());
        assert_eq!(summary["totals"]["requests"], records["kept"]);
        let trace = folder.path().join("trace");
        let again = tracecloak(&["convert", log.to_str().unwrap(), "-o", trace.to_str().unwrap()]);
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("--force"));
    }
}

#[test]
fn all_fixtures_convert_in_one_run_and_the_same_bytes_come_out_under_any_key() {
    let all = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/capture"));
    for flags in
        [&["--scope", "session"][..], &["--scope", "dataset", "--profile", "private"], &["--prompt-scale", "usage"]]
    {
        let (one, output) = convert(all, flags);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (two, _) = convert(all, flags);
        assert!(bytes(&one) == bytes(&two), "two keys give two traces under {flags:?}");
    }
}

/// Every file of a trace folder.
fn bytes(folder: &tempfile::TempDir) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries = std::fs::read_dir(folder.path().join("trace")).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn reading_on_from_earlier_bodies_gives_the_bytes_of_reading_each_from_its_start() {
    let all = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/capture"));
    for flags in [&["--profile", "private", "--keep", "skip-counts"][..], &["--scope", "dataset"]] {
        let (fast, _) = convert(all, flags);
        let (plain, _) = convert(all, &[flags, &["--reference"]].concat());
        assert!(bytes(&fast) == bytes(&plain));
    }
}

#[test]
fn broken_input_is_a_counted_skip_or_a_clear_error_and_says_nothing_of_its_content() {
    let good = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/capture/native/linear.jsonl")).unwrap();
    let line = good.split(|byte| *byte == b'\n').next().unwrap().to_vec();
    let with = |extra: &[u8]| [&good[..], extra, b"\n", &line].concat();
    let deep = format!("{{\"tracecloak_capture\":1,\"body\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: Vec<(&str, Vec<u8>, Option<&str>)> = vec![
        ("empty", Vec::new(), None),
        ("blank", b"\n\n \n".to_vec(), None),
        ("no known format", b"QUOTED not a log\n".to_vec(), None),
        ("cut last line", good[..good.len() - 100].to_vec(), Some("truncated")),
        ("invalid UTF-8", with(b"{\"tracecloak_capture\":1,\"method\":\"\xff\xfe QUOTED\"}"), Some("")),
        ("deep nesting", with(deep.as_bytes()), Some("")),
        ("wrong types", with(br#"{"tracecloak_capture":1,"method":["QUOTED"],"path":7,"headers":"QUOTED","body":{},"start_us":"QUOTED"}"#), Some("malformed")),
        ("unknown API", with(br#"{"tracecloak_capture":1,"method":"POST","path":"/v9/QUOTED","start_us":5,"body":"{}","status":200}"#), Some("other_api")),
        ("missing response", with(br#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":5,"body":"{\"messages\":[{\"role\":\"user\",\"content\":\"QUOTED\"}]}"}"#), Some("")),
        ("no body", with(br#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":5}"#), Some("bad_body")),
        ("no time", with(br#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","body":"{\"messages\":[]}"}"#), Some("no_time")),
        ("clock going backwards", with(br#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":9000000000000000,"end_us":-5,"body":"{\"messages\":[]}"}"#), Some("")),
        ("extreme times", with(br#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":9223372036854775807,"end_us":-9223372036854775808,"body":"{\"messages\":[]}"}"#), Some("")),
        ("the same record twice", [&good[..], &line].concat(), Some("duplicate")),
    ];
    for (name, bytes, reason) in cases {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.jsonl");
        std::fs::write(&log, bytes).unwrap();
        let (_, output) = convert(&log, &["--json"]);
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            !stdout.contains("QUOTED") && !stderr.contains("QUOTED") && !stderr.contains("panicked"),
            "{name}: {stderr}"
        );
        match reason {
            None => assert_eq!(output.status.code(), Some(2), "{name}: {stdout}"),
            Some(reason) => {
                assert_eq!(output.status.code(), Some(0), "{name}: {stderr}");
                let skipped = &serde_json::from_str::<Value>(&stdout).unwrap()["records"]["skipped"];
                assert!(reason.is_empty() || skipped[reason] == 1, "{name}: {skipped}");
            }
        }
    }
}

#[test]
fn a_compressed_bomb_is_skipped_in_bounded_memory_and_strict_stops_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("bomb.zst");
    let head = br#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":5,"body":""#;
    let mut bomb = zstd::Encoder::new(std::fs::File::create(&log).unwrap(), 1).unwrap();
    std::io::Write::write_all(&mut bomb, head).unwrap();
    let block = vec![b'x'; 1 << 20];
    for _ in 0..1100 {
        std::io::Write::write_all(&mut bomb, &block).unwrap();
    }
    std::io::Write::write_all(&mut bomb, b"\"}\n").unwrap();
    bomb.finish().unwrap();
    let (_, output) = convert(&log, &["--strict"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("record 1 at byte 0: too_large"), "{stderr}");
}
