//! The auditor from outside: each check's clean and leaking fixture, carriers of our own invention, our own traces, reports that
//! show nothing, and damaged files of every kind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::{TempDir, tempdir};
use tracecloak::audit::rules::Rules;
use tracecloak::audit::view::Limits;
use tracecloak::audit::{Baseline, CHECKS, Finding, Options, Outcome, Severity, SourceOutcome, audit, render};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit")
}

fn options(scratch: &TempDir) -> Options {
    Options {
        rules: Rules::builtin(),
        allow: Vec::new(),
        baseline: Baseline::default(),
        scratch: scratch.path().join("again"),
        limits: Limits { bytes: 64 << 20, values: 1 << 22, ..Limits::default() },
        local: false,
        source: SourceOutcome::default(),
        core_dumps: false,
    }
}

fn look(path: &Path) -> Outcome {
    let scratch = tempdir().unwrap();
    audit(&[path.to_owned()], &options(&scratch)).unwrap()
}

fn ids(outcome: &Outcome) -> BTreeSet<&'static str> {
    outcome.findings.iter().map(|finding| finding.id).collect()
}

fn errors(outcome: &Outcome) -> BTreeSet<&'static str> {
    outcome.findings.iter().filter(|finding| finding.severity == Severity::Error).map(|finding| finding.id).collect()
}

/// The fixture of this name, whatever its ending.
fn fixture(check: &str, name: &str) -> Option<PathBuf> {
    let folder = fs::read_dir(fixtures().join(check)).ok()?;
    folder.map(|entry| entry.unwrap().path()).find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name))
}

/// Checks whose leaks need our own format, a mode, or the process; the tests below make them.
const MADE_HERE: &[&str] =
    &["L026", "L041", "L075", "L080", "L084", "L100", "L101", "L102", "L103", "L104", "L140", "L141", "L142"];

#[test]
fn each_check_finds_its_leak_and_leaves_its_twin_alone() {
    for check in CHECKS {
        let id = check.meta().id;
        if MADE_HERE.contains(&id) {
            continue;
        }
        let clean = fixture(id, "clean").unwrap_or_else(|| panic!("fixtures/audit/{id}/clean.*"));
        let leak = fixture(id, "leak").unwrap_or_else(|| panic!("fixtures/audit/{id}/leak.*"));
        assert!(!ids(&look(&clean)).contains(id), "{id}: {:?}", look(&clean).findings);
        assert!(ids(&look(&leak)).contains(id), "{id}: {:?}", look(&leak).findings);
        assert_eq!(errors(&look(&clean)), BTreeSet::new(), "{id}: the clean twin");
    }
}

#[test]
fn carriers_of_our_own_invention_are_found() {
    let mut count = 0;
    for entry in fs::read_dir(fixtures().join("carriers")).unwrap() {
        let path = entry.unwrap().path();
        let folder = tempdir().unwrap();
        // Under a neutral name, so that only what is in it counts.
        let name = path.file_name().unwrap().to_str().unwrap();
        let neutral = folder.path().join(format!("trace.{}", name.split_once('.').unwrap().1));
        fs::copy(&path, &neutral).unwrap();
        let outcome = look(&neutral);
        assert!(outcome.undecodable || !errors(&outcome).is_empty(), "{name}: {:?}", outcome.findings);
        count += 1;
    }
    assert!(count >= 80, "{count}");
}

#[test]
fn no_report_shows_what_it_found() {
    let scratch = tempdir().unwrap();
    let outcome = audit(&[fixtures()], &options(&scratch)).unwrap();
    let shown = render::plain(&outcome)
        + &render::json(&outcome, true)
        + &render::sarif(&outcome)
        + &render::attest(&outcome)
        + &render::risk(&outcome.risk)
        + &Baseline::of(&outcome.findings);
    let planted = "please tell nobody that the walrus moved to the north pier";
    // Shorter windows, such as "that the", stand in our own words.
    for window in planted.as_bytes().windows(12) {
        assert!(!shown.as_bytes().windows(12).any(|part| part == window));
    }
    for word in ["walrus", "example.com", "20261129", "QQQQ", "0b5e9e0c", "5123456789012345", "1764420"] {
        assert!(!shown.contains(word), "{word}");
    }
}

#[test]
fn findings_are_json_by_their_schema() {
    let schema = include_str!("../../schemas/finding.v1.json");
    let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let scratch = tempdir().unwrap();
    let outcome = audit(&[fixtures()], &options(&scratch)).unwrap();
    let document: serde_json::Value = serde_json::from_str(&render::json(&outcome, true)).unwrap();
    let errors: Vec<_> = validator.iter_errors(&document).map(|error| error.to_string()).take(3).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let sarif: serde_json::Value = serde_json::from_str(&render::sarif(&outcome)).unwrap();
    // The schema of OASIS is no file of ours: an npm package that has it is named in CONTRIBUTING.md.
    match std::env::var_os("TRACECLOAK_SARIF_SCHEMA") {
        None => println!("not present, skipped: the schema of SARIF"),
        Some(path) => {
            let schema: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let errors: Vec<_> = validator.iter_errors(&sarif).map(|error| error.to_string()).take(3).collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
    }
    let run = &sarif["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    for result in run["results"].as_array().unwrap() {
        let at = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[at]["id"], result["ruleId"]);
    }
}

#[test]
fn what_is_allowed_or_was_there_before_is_counted_and_not_shown() {
    let scratch = tempdir().unwrap();
    let leak = fixture("L001", "leak").unwrap();
    let all = look(&leak);
    let allow = |entry: &str, path: Option<&str>| {
        let mut options = options(&scratch);
        options.allow = vec![(entry.to_owned(), path.map(str::to_owned))];
        audit(std::slice::from_ref(&leak), &options).unwrap()
    };
    assert!(!ids(&allow("L001", None)).contains("L001"));
    assert!(!ids(&allow("l001", Some("leak"))).contains("L001"));
    assert!(ids(&allow("L001", Some("other"))).contains("L001"));
    let mut options = options(&scratch);
    options.baseline = Baseline::parse(&Baseline::of(&all.findings));
    let later = audit(&[leak], &options).unwrap();
    assert!(errors(&later).is_empty());
    assert!(later.accepted > 0);
}

#[test]
fn the_source_check_and_core_dumps_are_spoken_of() {
    let scratch = tempdir().unwrap();
    let clean = fixture("L001", "clean").unwrap();
    let with = |source, core_dumps| {
        let source = SourceOutcome { ran: if source { vec!["L100"] } else { vec![] }, ..SourceOutcome::default() };
        audit(std::slice::from_ref(&clean), &Options { source, core_dumps, ..options(&scratch) }).unwrap()
    };
    assert!(ids(&with(false, false)).contains("L104") && !ids(&with(true, false)).contains("L104"));
    assert!(ids(&with(false, true)).contains("L141") && !ids(&with(false, false)).contains("L141"));
}

#[test]
fn keys_and_logs_beside_a_trace_are_seen() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    fs::copy(fixture("L001", "clean").unwrap(), folder.path().join("trace.jsonl")).unwrap();
    assert!(ids(&look(folder.path())).is_disjoint(&BTreeSet::from(["L140", "L142"])));
    fs::write(folder.path().join("debug.log"), "x").unwrap();
    fs::write(folder.path().join("key"), format!("{:064}\n", 7)).unwrap();
    fs::set_permissions(folder.path().join("key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(ids(&look(folder.path())).is_superset(&BTreeSet::from(["L140", "L142"])));
}

/// Every small fixture, by path.
fn small() -> Vec<PathBuf> {
    let files =
        walkdir::WalkDir::new(fixtures()).sort_by_file_name().into_iter().map(|entry| entry.unwrap().into_path());
    files.filter(|path| path.is_file() && fs::metadata(path).unwrap().len() < 8192).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_of_every_kind_end_in_findings(which: prop::sample::Index, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..5u8), 1..6)) {
        let files = small();
        let path = &files[which.index(files.len())];
        let mut bytes = fs::read(path).unwrap();
        for (at, byte, how) in &changes {
            if bytes.is_empty() { break }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] ^= 1 << (byte % 8),
                1 => bytes[at] = *byte,
                2 => { bytes.drain(at..(at + 1 + usize::from(byte % 9)).min(bytes.len())); }
                3 => bytes.insert(at, *byte),
                _ => bytes[at] = [0, 127, 128, 255][usize::from(byte % 4)],
            }
        }
        let folder = tempdir().unwrap();
        let damaged = folder.path().join(path.file_name().unwrap());
        fs::write(&damaged, &bytes).unwrap();
        let outcome = look(&damaged);
        prop_assert!(outcome.files.len() == 1);
    }
}

/// A trace of ours, made from a fixture log.
fn own(flags: &[&str]) -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let trace = folder.path().join("trace");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/capture/native/linear.jsonl");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tracecloak"));
    let output = command.env_clear().arg("convert").arg(log).arg("-o").arg(&trace).args(flags).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, trace)
}

fn edit(path: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    fs::write(path, change(fs::read(path).unwrap())).unwrap();
}

#[test]
fn our_own_traces_are_clean_and_every_changed_byte_of_them_is_seen() {
    for flags in [&[][..], &["--profile", "private"], &["--keep", "usage,exact-lengths,tool-sizes"]] {
        let (_folder, trace) = own(flags);
        let outcome = look(&trace);
        assert_eq!(errors(&outcome), BTreeSet::new(), "{flags:?}: {:?}", outcome.findings);
        // Sizes of tools and system prompts are a fingerprint, which the private profile publishes as it says.
        let said = |finding: &Finding| finding.severity == Severity::Info || finding.id == "L053";
        assert!(!outcome.undecodable && outcome.findings.iter().all(said), "{flags:?}: {:?}", outcome.findings);
        let files: Vec<PathBuf> = fs::read_dir(&trace).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(outcome.files.len(), files.len());
        for file in files {
            let whole = fs::read(&file).unwrap();
            for at in [whole.len() / 3, whole.len() / 2, whole.len() - 5] {
                edit(&file, |mut bytes| {
                    bytes[at] ^= 4;
                    bytes
                });
                let outcome = look(&trace);
                assert!(outcome.undecodable || !errors(&outcome).is_empty(), "{} at {at}", file.display());
                fs::write(&file, &whole).unwrap();
            }
        }
    }
}

#[test]
fn a_trace_is_held_to_its_manifest() {
    let (_folder, trace) = own(&["--profile", "private"]);
    fs::write(trace.join("notes.csv"), "session,hash_ids\n0,[1]\n").unwrap();
    assert!(ids(&look(&trace)).contains("L084"));
    fs::remove_file(trace.join("notes.csv")).unwrap();
    edit(&trace.join("README.md"), |bytes| [&bytes[..], b" "].concat());
    assert!(ids(&look(&trace)).contains("L080"));

    let (_folder, trace) = own(&["--profile", "private"]);
    let manifest = trace.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let finer = text.replace("\"output_tokens\": 1,", "\"output_tokens\": 7,");
    assert_ne!(finer, text);
    fs::write(&manifest, finer).unwrap();
    assert!(ids(&look(&trace)).contains("L041"), "{:?}", look(&trace).findings);
    fs::write(&manifest, text.replace("\"profile\": \"private\"", "\"profile\": \"public\"")).unwrap();
    assert!(errors(&look(&trace)).contains("L056"), "{:?}", look(&trace).findings);
}

#[test]
fn row_ids_of_our_own_traces_are_dense() {
    use sha2::Digest;
    let (_folder, trace) = own(&[]);
    let sha = |path: &Path| -> String {
        sha2::Sha256::digest(fs::read(path).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let sessions = trace.join("sessions.parquet");
    let before = sha(&sessions);
    // One value, 0: block size 128, 4 miniblocks, 1 value, first value 0.
    edit(&sessions, |mut bytes| {
        let at = bytes.windows(5).position(|window| window == [0x80, 1, 4, 1, 0]).unwrap();
        bytes[at + 4] = 2;
        bytes
    });
    let after = sha(&sessions);
    edit(&trace.join("manifest.json"), |bytes| String::from_utf8(bytes).unwrap().replace(&before, &after).into_bytes());
    assert!(ids(&look(&trace)).contains("L026"), "{:?}", look(&trace).findings);
}

#[test]
fn the_self_test_finds_what_it_plants_and_nothing_in_the_clean_trace() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tracecloak"))
        .args(["audit", "--self-test", "--json"])
        .env_clear()
        .output()
        .unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let leaks = shown["leaks"].as_array().unwrap();
    assert!(leaks.len() >= 15);
    assert!(leaks.iter().all(|leak| leak["file_alone"] == true), "{shown}");
    assert!(leaks.iter().filter(|leak| leak["with_source"] == true).count() >= 12, "{shown}");
    assert_eq!(shown["clean"], serde_json::json!({"file_alone": false, "with_source": false}));
}

#[test]
fn canaries_and_the_key_are_found_where_they_are_and_nowhere_else() {
    let (folder, trace) = own(&[]);
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_tracecloak"));
    let (canaries, key) = (folder.path().join("canaries"), folder.path().join("key"));
    fs::write(&canaries, "the heron counts to nine\nand the otter to ten\n").unwrap();
    assert!(program().env_clear().arg("keygen").arg(&key).output().unwrap().status.success());
    let digits = fs::read_to_string(&key).unwrap().trim().to_owned();
    let found = |path: &Path| {
        let mut audit = program();
        audit.env_clear().arg("audit").arg(path).arg("--canary").arg(&canaries).arg("--key-file").arg(&key);
        let shown = audit.arg("--json").output().unwrap().stdout;
        let shown: serde_json::Value = serde_json::from_slice(&shown).unwrap();
        let findings = shown["findings"].as_array().unwrap().iter();
        let ids: BTreeSet<String> = findings.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect();
        (ids.contains("L101"), ids.contains("L103"))
    };
    assert_eq!(found(&trace), (false, false));
    let planted = folder.path().join("planted.jsonl");
    for (text, expected) in [
        ("and no otter, and no heron".to_owned(), (false, false)),
        ("and the otter to ten".to_owned(), (true, false)),
        (digits.to_uppercase(), (false, true)),
        (format!("the heron counts to nine {digits}"), (true, true)),
    ] {
        fs::write(&planted, serde_json::json!({ "a": text }).to_string() + "\n").unwrap();
        assert_eq!(found(&planted), expected, "{text}");
    }
}

#[test]
fn a_bloom_filter_is_seen() {
    use parquet::file::properties::WriterProperties;
    use std::sync::Arc;
    let write = |bloom| {
        let column: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
        let batch = arrow_array::RecordBatch::try_from_iter([("session", column)]).unwrap();
        let properties = WriterProperties::builder().set_bloom_filter_enabled(bloom).build();
        let mut bytes = Vec::new();
        let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    };
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    for bloom in [false, true] {
        fs::write(&path, write(bloom)).unwrap();
        let outcome = look(&path);
        assert_eq!(ids(&outcome).contains("L075"), bloom, "{:?}", outcome.findings);
        assert!(!ids(&outcome).contains("L070") && !ids(&outcome).contains("L074"), "{:?}", outcome.findings);
    }
}
