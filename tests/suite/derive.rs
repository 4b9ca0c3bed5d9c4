//! `derive` from outside: the fixtures of the linear session and its fan-out, picking, splitting, and what is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::tempdir;
use tracecloak::analyze::compare::compare;
use tracecloak::format::foreign::ImportOptions;
use tracecloak::format::open;
use tracecloak::trace::Session;

use super::imported::{fixture, import};

/// Imports a fixture of Veeksha rows into a trace directory.
fn trace(target: &Path, name: &str) {
    let rows = fixture(&format!("veeksha/{name}"));
    import("veeksha", &rows, ImportOptions::default()).unwrap().0.write(target);
}

fn derive(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tracecloak"))
        .env_clear()
        .current_dir(folder)
        .arg("derive")
        .args(arguments.split(' '))
        .output()
        .unwrap()
}

fn derived(folder: &Path, arguments: &str) {
    let output = derive(folder, arguments);
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn sessions(path: &Path) -> Vec<Session> {
    open(path).unwrap().collect::<Result<_, _>>().unwrap()
}

#[test]
fn the_fan_out_of_the_linear_session_is_the_fixture() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    trace(&at("linear"), "linear.jsonl");
    trace(&at("fan-out"), "fan-out.jsonl");
    derived(folder.path(), "linear -o made --fan-out 3");
    let (made, fixture) = (open(&at("made")).unwrap(), open(&at("fan-out")).unwrap());
    let manifests = (made.manifest().clone(), fixture.manifest().clone());
    let comparison = compare((&manifests.0, &manifests.1), made, fixture).unwrap();
    assert!(comparison.equal(), "{:?}", comparison.first);
    assert_eq!(fs::read(at("made/requests.parquet")).unwrap(), fs::read(at("fan-out/requests.parquet")).unwrap());
}

#[test]
fn a_merged_fan_out_in_line_is_one_conversation_with_the_same_prompts() {
    let folder = tempdir().unwrap();
    trace(&folder.path().join("merge"), "merge.jsonl");
    derived(folder.path(), "merge -o line --linearize");
    let (merge, line) = (sessions(&folder.path().join("merge")), sessions(&folder.path().join("line")));
    assert_eq!((line[0].agents.len(), line[0].edges.len()), (1, 4));
    for (one, other) in merge[0].requests.iter().zip(&line[0].requests) {
        assert_eq!((one.prefix, one.input_tokens), (other.prefix, other.input_tokens));
    }
}

#[test]
fn deriving_twice_gives_the_same_bytes_and_leaves_the_source_alone() {
    let folder = tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    trace(&at("merge"), "merge.jsonl");
    let before = fs::read(at("merge/manifest.json")).unwrap();
    derived(folder.path(), "merge -o one --fan-out 2 --work burst --scale-lengths 0.5");
    derived(folder.path(), "merge -o two --fan-out 2 --work burst --scale-lengths 0.5");
    assert_eq!(fs::read(at("one/manifest.json")).unwrap(), fs::read(at("two/manifest.json")).unwrap());
    assert_eq!(fs::read(at("merge/manifest.json")).unwrap(), before);
    assert_eq!(sessions(&at("one"))[0].requests.len(), 9);
}

#[test]
fn what_cannot_be_derived_fails_and_leaves_nothing() {
    let folder = tempdir().unwrap();
    trace(&folder.path().join("linear"), "linear.jsonl");
    for (arguments, said) in [
        ("linear -o out", "required"),
        ("linear -o out --filter requests>=5", "no session of the trace passes the filter"),
        ("linear -o out --split 50", "a part of the split would hold no session"),
        ("linear -o out --filter nonsense", "conditions separated by commas"),
        ("linear -o out --scale-lengths 0", "a factor above 0"),
        ("linear -o out --work burst", "--fan-out"),
        ("linear -o linear --linearize", "--force"),
        ("nowhere -o out --linearize", "could not open nowhere"),
    ] {
        let output = derive(folder.path(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {errors}");
        assert!(errors.contains(said), "{arguments}: {errors}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{arguments}");
    }
}
