//! The replayer against the mock endpoint: gates, calibration, shards, interrupts, faults and counters.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "tests may convert freely"
)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use tracecloak::mock::{Counting, Imitate, Options, Server, Timing};

use super::replay::{chat, run, serve, trace};

/// No time is spent, so that no test depends on it.
fn instant() -> Timing {
    Timing {
        ttft_base: Duration::ZERO,
        per_uncached_token: Duration::ZERO,
        per_output_token: Duration::ZERO,
        ..Timing::default()
    }
}

fn mock(change: impl FnOnce(&mut Options)) -> (Server, String) {
    let mut options = Options { timing: instant(), chunk_tokens: 1000, ..Options::default() };
    change(&mut options);
    let server = Server::start(options).unwrap();
    let url = format!("http://{}", server.addr());
    (server, url)
}

/// Replays a trace; gives exit code, stderr and the summary.
fn replay(trace: &str, out: &Path, url: &str, more: &[&str]) -> (Option<i32>, String, Value) {
    let model = if more.contains(&"--model") { &[][..] } else { &["--model", "mock"][..] };
    let think = if more.contains(&"--think-scale") { &[][..] } else { &["--think-scale", "0"][..] };
    let arguments = ["replay", trace, "--url", url, "-o", out.to_str().unwrap()];
    let output = run(&[&arguments[..], model, think, more].concat());
    let summary = std::fs::read(out.join("summary.json")).unwrap_or_default();
    let summary = serde_json::from_slice(&summary).unwrap_or_default();
    (output.status.code(), String::from_utf8(output.stderr).unwrap(), summary)
}

fn table(path: &Path) -> Vec<RecordBatch> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    reader.map(Result::unwrap).collect()
}

/// Session and row of every record, sorted.
fn keys(batches: &[RecordBatch]) -> Vec<(u32, u32)> {
    let column = |batch: &RecordBatch, name| batch.column_by_name(name).unwrap().as_primitive::<UInt32Type>().clone();
    let rows = |batch| {
        let (sessions, requests) = (column(batch, "session"), column(batch, "request"));
        (0..batch.num_rows()).map(|row| (sessions.value(row), requests.value(row))).collect::<Vec<_>>()
    };
    let mut keys: Vec<_> = batches.iter().flat_map(rows).collect();
    keys.sort_unstable();
    keys
}

fn sum(batches: &[RecordBatch], name: &str) -> u64 {
    batches
        .iter()
        .map(|batch| {
            let column = batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
            column.iter().flatten().sum::<u64>()
        })
        .sum()
}

#[test]
fn every_prompt_can_be_verified_without_an_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let output = run(&["replay", &trace, "--verify-prompts", "--tokenizer", "builtin", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), report["off"].as_u64()), (Some(0), Some(0)), "{report}");
    let plan = run(&["replay", &trace, "--dry-run", "--json", "--include", "retries,aux"]);
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    for exact in ["length_exact", "prefix_exact", "blocks_exact"] {
        assert_eq!(report[exact], report["requests"]);
    }
    let verified = report["requests"].as_u64().unwrap() + report["too_small"].as_u64().unwrap();
    assert!(verified >= plan["requests"].as_u64().unwrap(), "{report}\n{plan}");
    let named = report["named"].as_array().unwrap();
    assert_eq!(named.len() as u64, report["too_small"].as_u64().unwrap(), "each is named");
    // Without a tokenizer nothing can be rendered.
    assert_eq!(run(&["replay", &trace, "--verify-prompts"]).status.code(), Some(2));
}

#[test]
fn a_request_that_has_no_prompt_is_named_and_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, trace) = (folder.path().join("rows.jsonl"), folder.path().join("trace"));
    std::fs::write(&rows, "{\"timestamp\":0,\"input_length\":1,\"output_length\":1,\"hash_ids\":[1]}\n").unwrap();
    let trace = trace.to_str().unwrap();
    let made = run(&["import", rows.to_str().unwrap(), "--from", "mooncake", "-o", trace]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let output = run(&["replay", trace, "--verify-prompts", "--tokenizer", "builtin"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("session 0 request 0 has 1 tokens, the template needs "), "{text}");
}

#[test]
fn an_endpoint_that_counts_otherwise_fails_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    // Its counts have one more digit.
    let (url, _) = serve(Arc::new(|_, _, body| {
        let (status, headers, events) = chat(body);
        Some((status, headers, events.replace("\"prompt_tokens\":", "\"prompt_tokens\":1")))
    }));
    let more = ["--tokenizer", "builtin", "--model", "m"];
    let (code, errors, summary) = replay(&trace, &folder.path().join("run"), &url, &more);
    assert_eq!((code, summary["gates"]["passed"].as_bool()), (Some(1), Some(false)), "{errors}");
    assert_eq!(summary["requests"]["failed"], 0);
    assert!(summary["length"]["prompts_off"].as_u64().unwrap() > 0 && errors.contains("GATE FAILED"), "{errors}");
    let (_server, url) = mock(|options| options.counting = Counting::Words);
    // Fitted to its counts they are right within the tolerance, and the errors are told.
    let (code, errors, summary) = replay(&trace, &folder.path().join("fitted"), &url, &[]);
    assert_eq!((code, summary["gates"]["passed"].as_bool()), (Some(0), Some(true)), "{errors}");
    assert!(errors.contains("lengths are fitted to ") && summary["gates"]["calibrated"]["prompts"].as_u64() > Some(3));
    assert_eq!(summary["gates"]["tolerance_permille"], 20);
    assert!(summary["length"]["prompt_error"]["count"].as_u64() > Some(20), "{summary}");
}

#[test]
fn an_endpoint_that_counts_nothing_cannot_be_fitted_to() {
    let folder = tempfile::tempdir().unwrap();
    let answer =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n";
    let (url, _) = serve(Arc::new(move |_, _, _| Some((200, "", answer.to_owned()))));
    let (code, errors, _) = replay(&trace(folder.path()), &folder.path().join("run"), &url, &["--model", "m"]);
    assert!(code == Some(2) && errors.contains("hint: give the endpoint's tokenizer"), "{errors}");
}

#[test]
fn shards_begin_together_and_their_records_add_up_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = mock(|_| {});
    let trace = trace(folder.path());
    let whole = folder.path().join("whole");
    let plain = ["--tokenizer", "builtin", "--concurrency", "4"];
    assert_eq!(replay(&trace, &whole, &url, &plain).0, Some(0));
    let start = (jiff::Timestamp::now() + Duration::from_secs(30)).to_string();
    let shards = std::thread::scope(|scope| {
        let shard = |index: &'static str| {
            let (out, trace, url, start, plain) = (folder.path().join(&index[..1]), &trace, &url, &start, &plain);
            scope.spawn(move || {
                let more = [&plain[..], &["--shard", index, "--start-time", start]].concat();
                let (code, errors, _) = replay(trace, &out, url, &more);
                assert_eq!(code, Some(0), "{errors}");
                out
            })
        };
        [shard("0/2"), shard("1/2")].map(|shard| shard.join().unwrap())
    });
    assert!(jiff::Timestamp::now() > start.parse().unwrap(), "nobody begins earlier");
    let tables: Vec<_> = shards.iter().map(|shard| table(&shard.join("records.parquet"))).collect();
    assert_eq!(tables[0][0].schema(), tables[1][0].schema(), "they can be written one behind the other");
    assert_eq!(keys(&tables.concat()), keys(&table(&whole.join("records.parquet"))));
    let (code, errors, _) = replay(
        &trace,
        &folder.path().join("late"),
        &url,
        &["--tokenizer", "builtin", "--start-time", "2020-01-01T00:00:00Z"],
    );
    assert!(code == Some(2) && errors.contains("--start-time is over"), "{errors}");
}

#[test]
fn the_servers_counters_agree_with_the_sum_of_what_it_reported() {
    for imitate in [Imitate::Vllm, Imitate::LlamaCpp, Imitate::Dynamo] {
        let folder = tempfile::tempdir().unwrap();
        let (_server, url) = mock(|options| options.imitate = imitate);
        let out = folder.path().join("run");
        let (code, errors, summary) = replay(&trace(folder.path()), &out, &url, &["--tokenizer", "builtin"]);
        assert_eq!(code, Some(0), "{errors}");
        let records = table(&out.join("records.parquet"));
        let counted = |name: &str| summary["counters"][name].as_f64().unwrap();
        for (counter, column) in [("hit_tokens", "cached_tokens"), ("asked_tokens", "prompt_tokens")] {
            assert_eq!(counted(counter) as u64, sum(&records, column), "{imitate:?} {counter}");
        }
        let samples = table(&out.join("counters.parquet"));
        let (measure, value) =
            (samples[0].column(1).as_string::<i32>(), samples[0].column(2).as_primitive::<Float64Type>());
        let last = (0..measure.len()).rfind(|row| measure.value(*row) == "asked_tokens").unwrap();
        assert_eq!(value.value(last) as u64, sum(&records, "prompt_tokens"));
    }
}

#[test]
fn every_fault_of_the_mock_is_in_the_records_and_nothing_hangs_or_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let whole = {
        let (_server, url) = mock(|_| {});
        let out = folder.path().join("whole");
        assert_eq!(replay(&trace, &out, &url, &["--tokenizer", "builtin"]).0, Some(0));
        keys(&table(&out.join("records.parquet")))
    };
    // Each on its own, for half of the requests; the preflight must pass, which a seed decides.
    let faults = [
        ("429", "rate_limited"),
        ("500", "server_error"),
        ("400", "refused"),
        ("reset", "broken"),
        ("stall", "timed_out"),
        ("cut", "cut"),
        ("garbage", "unreadable"),
    ];
    for (fault, ending) in faults {
        let run = |seed: u64| {
            let (_server, url) = mock(|options| {
                options.faults = format!("{fault}:0.3").parse().unwrap();
                (options.seed, options.retry_after) = (seed, Duration::ZERO);
                options.chunk_tokens = 1;
            });
            let out = folder.path().join(format!("{fault}-{seed}"));
            let more =
                ["--tokenizer", "builtin", "--on-error", "continue", "--idle-timeout", "300ms", "--retries", "1"];
            let (code, errors, summary) = replay(&trace, &out, &url, &more);
            // A fault that befell the preflight: nothing was measured.
            if code == Some(2) && !out.exists() {
                return None;
            }
            Some((code, errors, summary, table(&out.join("records.parquet"))))
        };
        let (code, errors, summary, table) = (0..20).find_map(run).unwrap();
        assert_eq!(code, Some(1), "{fault}: {errors}");
        assert_eq!(keys(&table), whole, "{fault}: nothing is lost");
        let requests = &summary["requests"];
        assert!(requests["endings"][ending].as_u64().unwrap() > 0, "{fault}: {requests}");
        let failed: u64 = requests["endings"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(word, _)| *word != "ok" && *word != "cancelled")
            .filter_map(|(_, count)| count.as_u64())
            .sum();
        assert_eq!(requests["failed"].as_u64(), Some(failed), "{fault}: {requests}");
        let words = |batch: &RecordBatch| {
            let words = batch.column_by_name("ending").unwrap().as_string::<i32>();
            words.iter().filter(|word| *word == Some(ending)).count()
        };
        let recorded: usize = table.iter().map(words).sum();
        assert_eq!(requests["endings"][ending].as_u64(), Some(recorded as u64), "{fault}: the records say the same");
    }
}

#[test]
fn what_is_planned_as_cached_is_what_an_unbounded_cache_has_though_some_requests_are_not_sent() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    for more in [&[][..], &["--api", "completions"][..]] {
        // Blocks of one token: what is reported is what is shared, but for the last token, which is always computed.
        let (_server, url) = mock(|options| options.timing.block_size = 1);
        let out = folder.path().join(format!("run{}", more.len() + more.concat().len()));
        let plain = ["--tokenizer", "builtin", "--max-in-flight", "1", "--on-error", "continue"];
        let (code, errors, summary) = replay(&trace, &out, &url, &[&plain[..], more].concat());
        assert_eq!(code, Some(0), "{errors}");
        let records = table(&out.join("records.parquet"));
        let (mut more_than_planned, mut less) = (0, 0);
        for batch in &records {
            let planned = batch.column_by_name("planned_cached").unwrap().as_primitive::<UInt32Type>();
            let cached = batch.column_by_name("cached_tokens").unwrap().as_primitive::<UInt64Type>();
            let prompt = batch.column_by_name("prompt_tokens").unwrap().as_primitive::<UInt64Type>();
            for row in (0..batch.num_rows()).filter(|row| cached.is_valid(*row)) {
                let expected = u64::from(planned.value(row)).min(prompt.value(row) - 1);
                // The template's head is not planned for those that share nothing else.
                more_than_planned += u64::from(cached.value(row) > expected.max(8));
                less += u64::from(cached.value(row) < expected);
            }
        }
        assert_eq!((more_than_planned, less), (0, 0), "{more:?}: {}", summary["cache"]);
    }
}

#[test]
fn a_run_whose_time_is_up_says_that_it_is_partial() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = mock(|options| options.timing.ttft_base = Duration::from_millis(50));
    let more = ["--tokenizer", "builtin", "--duration", "300ms"];
    let (code, errors, summary) = replay(&trace(folder.path()), &folder.path().join("run"), &url, &more);
    assert_eq!((code, summary["partial"].as_bool()), (Some(0), Some(true)), "{errors}");
    assert!(summary["sessions"]["not_begun"].as_u64().unwrap() > 0);
}

#[test]
fn a_page_of_counters_that_hangs_holds_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("http://{}/metrics", listener.local_addr().unwrap());
    let (_server, url) = mock(|_| {});
    let start = jiff::Timestamp::now();
    let more = ["--tokenizer", "builtin", "--metrics", &hanging];
    let (code, errors, summary) = replay(&trace(folder.path()), &folder.path().join("run"), &url, &more);
    assert_eq!((code, &summary["counters"]), (Some(0), &Value::Null), "{errors}");
    assert!(jiff::Timestamp::now() < start + Duration::from_mins(1));
}

#[test]
fn the_preflight_waits_as_a_busy_server_says() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = mock(|options| {
        options.faults = "429:0.5".parse().unwrap();
        options.retry_after = Duration::ZERO;
    });
    let more = ["--tokenizer", "builtin", "--retries", "30"];
    let (code, errors, summary) = replay(&trace(folder.path()), &folder.path().join("run"), &url, &more);
    assert_eq!((code, summary["requests"]["failed"].as_u64()), (Some(0), Some(0)), "{errors}");
}

#[test]
fn a_slow_start_is_measured_and_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, url) = mock(|options| {
        options.faults = "slow-start:1".parse().unwrap();
        options.slow_start = Duration::from_millis(30);
    });
    let more = ["--tokenizer", "builtin", "--concurrency", "20"];
    let (code, errors, summary) = replay(&trace(folder.path()), &folder.path().join("run"), &url, &more);
    assert_eq!((code, summary["requests"]["failed"].as_u64()), (Some(0), Some(0)), "{errors}");
    assert!(summary["ttft_us"]["p50"].as_u64().unwrap() >= 30_000);
}

#[cfg(unix)]
#[test]
fn an_interrupt_drains_and_what_was_measured_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (server, url) = mock(|options| options.timing.ttft_base = Duration::from_millis(200));
    let (trace, out) = (trace(folder.path()), folder.path().join("run"));
    let before = server.snapshot().requests;
    let arguments =
        ["replay", &trace, "--url", &url, "--model", "mock", "-o", out.to_str().unwrap(), "--tokenizer", "builtin"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracecloak"));
    let mut child = child.env_clear().args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    // Two of the preflight, and the first of the run.
    while server.snapshot().requests < before + 3 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let errors =
        BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap).collect::<Vec<_>>().join("\n");
    assert_eq!(child.wait().unwrap().code(), Some(1), "{errors}");
    let summary: Value = serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert!(summary["partial"] == true && errors.contains("PARTIAL"), "{errors}");
    let endings = &summary["requests"]["endings"];
    assert!(endings["ok"].as_u64().unwrap() >= 1, "what was in flight came to its end: {endings}");
    assert_eq!(endings["aborted"], 0);
    let all: u64 = endings.as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(keys(&table(&out.join("records.parquet"))).len() as u64, all);
}

/// Real time: run it where nothing else runs (`cargo test --release replayed -- --ignored`).
#[test]
#[ignore = "needs ten seconds of a machine with nothing else to do"]
fn a_session_with_spawns_and_joins_takes_the_time_that_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    // Every request takes 500 ms. Row in the trace: main 0, a, main 1, b, c, b, main 2, main 3.
    let request = |t: f64, ids: &str| {
        let blocks = ids.split(',').count();
        format!(
            r#"{{"t":{t},"type":"s","model":"m","in":{},"out":41,"hash_ids":[{ids}],"api_time":0.5,"ttft":0.1,"stop":"end_turn"}}"#,
            blocks * 64
        )
    };
    // The time of a subagent that completed is its end.
    let agent = |name: &str, t: f64, end: f64, requests: &[String]| {
        format!(
            r#"{{"t":{end},"type":"subagent","agent_id":"{name}","subagent_type":"Explore","status":"completed","duration_ms":{},"models":["m"],"requests":[{}]}}"#,
            (end - t) * 1000.0,
            requests.join(",")
        )
    };
    let requests = [
        request(0.0, "1,2"),
        agent("a", 2.0, 2.5, &[request(0.0, "11,12")]),
        request(3.5, "1,2,3"),
        agent("b", 4.2, 6.5, &[request(0.0, "21,22"), request(1.8, "21,22,23")]),
        agent("c", 4.6, 5.1, &[request(0.0, "31,32")]),
        request(8.0, "1,2,3,4"),
        request(9.5, "1,2,3,4,5"),
    ];
    let weka = format!(
        r#"{{"id":"t","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":0,"requests":[{}]}}"#,
        requests.join(",")
    );
    let (file, trace, out) = (folder.path().join("t.json"), folder.path().join("trace"), folder.path().join("run"));
    std::fs::write(&file, weka).unwrap();
    let trace = trace.to_str().unwrap();
    let made = run(&["import", file.to_str().unwrap(), "--from", "weka", "-o", trace]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (_server, url) = mock(|options| {
        options.timing.ttft_base = Duration::from_millis(100);
        options.timing.per_output_token = Duration::from_millis(10);
        options.chunk_tokens = 1;
    });
    let (code, errors, summary) = replay(trace, &out, &url, &["--tokenizer", "builtin", "--think-scale", "1"]);
    assert_eq!(code, Some(0), "{errors}");
    let records = table(&out.join("records.parquet"));
    let at = |row: u32, name: &str| {
        let place = records.iter().find_map(|batch| {
            let rows = batch.column_by_name("request").unwrap().as_primitive::<UInt32Type>();
            let found = (0..rows.len()).find(|at| rows.value(*at) == row)?;
            Some(batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().value(found))
        });
        place.unwrap() as f64 / 1000.0
    };
    let gaps =
        [(0, 1, 1500.0), (1, 2, 1000.0), (2, 3, 200.0), (2, 4, 600.0), (3, 5, 1300.0), (5, 6, 1500.0), (6, 7, 1000.0)];
    for (from, to, recorded) in gaps {
        let gap = at(to, "sent_us") - at(from, "last_byte_us");
        println!("request {from} to {to}: recorded {recorded} ms, replayed {gap:.2} ms");
        assert!((gap - recorded).abs() < 5.0, "{from} to {to}: {gap} ms for {recorded}");
    }
    let elapsed = summary["elapsed_us"].as_f64().unwrap() / 1e6;
    println!("in all: recorded 10 s, replayed {elapsed:.3} s");
    assert!((elapsed - 10.0).abs() < 0.1, "{elapsed} s for 10");
}
