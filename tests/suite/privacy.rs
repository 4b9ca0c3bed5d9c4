//! Nothing that a log says comes out: planted words, substitution, two keys, broken input.

mod log;
mod run;
mod substitute;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tracecloak::trace::vocab::{Profile, Scope};

use log::{Log, fixtures};
use run::{Out, check, library, program};
use substitute::{Words, substitute};

/// Strings that must stay for a record to be read at all; each is planted in by itself.
const STRUCTURE: &[&str] = &[
    "type",
    "role",
    "method",
    "startedDateTime",
    "version",
    "httpVersion",
    "encoding",
    "timestamp",
    "logged_at",
    "cut",
];

/// A word that stands nowhere else: 16 letters and digits that follow from a number.
fn planted(number: &mut u64) -> String {
    *number += 1;
    let hash = blake3::hash(&number.to_le_bytes());
    hash.as_bytes()[..16]
        .iter()
        .map(|byte| char::from(b"abcdefghijkmnpqrstuvwxyz23456789"[usize::from(byte % 32)]))
        .collect()
}

/// Plants a word in every string, and a member with a word for its key in every object, where `chosen` says so. Equal values stay
/// equal, so that sessions, agents and prefixes stay what they are.
fn plant(log: &mut Log, number: &mut u64, chosen: &dyn Fn(&[String], &Value) -> bool) -> Vec<String> {
    let first = *number;
    let mut words: BTreeMap<String, String> = BTreeMap::new();
    let mut planted = |value: &str| words.entry(value.to_owned()).or_insert_with(|| planted(number)).clone();
    log.edit(&mut |path, value| {
        if !chosen(path, value) {
            return;
        }
        match value {
            Value::String(text) => {
                // A word in a path would name another API; in a query it does not.
                if path.last().is_some_and(|last| last == "path") && !text.contains('?') {
                    text.push('?');
                }
                let word = planted(text);
                *text += &word;
            }
            Value::Object(members) => {
                let (key, word) = (planted(&format!("key {members:?}")), planted(&format!("{members:?}")));
                members.insert(key, word.into());
            }
            _ => {}
        }
    });
    (first..*number).map(|mut number| self::planted(&mut number)).collect()
}

fn is_structure(path: &[String], value: &Value) -> bool {
    let last = path.last().map_or("", String::as_str);
    // Formats are told by the members of a record and of its request.
    let tells = path.is_empty() || path == ["request"];
    // Names of headers, that sessions and agents are known by.
    let names = path.iter().any(|step| step.to_lowercase().ends_with("headers"));
    let is_name =
        |text: &str| last == "name" || text.to_lowercase().starts_with("x-") || text.eq_ignore_ascii_case("user-agent");
    tells || value.is_string() && STRUCTURE.contains(&last) || names && value.as_str().is_some_and(is_name)
}

#[test]
fn words_planted_in_every_string_and_key_and_header_do_not_come_out() {
    let (mut number, mut all) = (0, [0; 2]);
    for path in fixtures() {
        let mut log = Log::read(&path);
        let words = plant(&mut log, &mut number, &|path, value| !is_structure(path, value));
        assert!(words.len() > 50, "{}: {}", log.name, words.len());
        let bytes = log.render();
        let [plain, totals] =
            [&Log::read(&path).render(), &bytes].map(|bytes| library(bytes, Profile::Public, Scope::Session).totals());
        // Agents by name, and what a tool's name says, are gone; sessions, requests and what their prompts share are not.
        let [_, agents, requests, edges, shared] = totals;
        assert!(requests == plain[2] && shared + 1 >= plain[4], "{}: {plain:?} {totals:?}", log.name);
        all = [all[0] + agents, all[1] + edges];
        for flags in [&["--json"][..], &["--profile", "private", "--scope", "dataset", "--keep", "arrivals"]] {
            let out = program(&bytes, flags);
            assert!(out.requests > 0, "{}: {}", log.name, String::from_utf8_lossy(&out.said));
            out.holds_nothing_of(&bytes, &log.name);
            out.holds_none_of(&words, &log.name);
        }
    }
    assert!(all[0] > 50 && all[1] > 100, "{all:?}");
}

/// A value of each kind and place, and the first log that has it.
fn places() -> BTreeMap<(Vec<String>, bool), usize> {
    let mut places = BTreeMap::new();
    for (number, path) in fixtures().iter().enumerate() {
        Log::read(path).edit(&mut |path, value| {
            if value.is_string() || value.is_object() {
                places.entry((path.to_vec(), value.is_string())).or_insert(number);
            }
        });
    }
    places
}

#[test]
fn a_word_planted_in_one_place_only_does_not_come_out_whatever_it_breaks() {
    let logs: Vec<Log> = fixtures().iter().map(|path| Log::read(path)).collect();
    let mut number = 1 << 32;
    let places = places();
    assert!(places.len() > 100);
    for ((place, is_string), log) in places {
        let mut log = logs[log].clone();
        let words = plant(&mut log, &mut number, &|path, value| path == place && value.is_string() == is_string);
        let what = format!("{}: {}", log.name, place.join("/"));
        assert!(!words.is_empty(), "{what}");
        let bytes = log.render();
        let out = library(&bytes, Profile::Private, Scope::Session);
        out.holds_none_of(&words, &what);
        out.holds_nothing_of(&bytes, &what);
    }
}

#[test]
fn broken_logs_give_no_text_away_either() {
    let mut number = 1 << 33;
    for path in fixtures() {
        let mut log = Log::read(&path);
        let words = plant(&mut log, &mut number, &|path, value| !is_structure(path, value));
        let bytes = log.render();
        let mut broken: Vec<Vec<u8>> = Vec::new();
        for part in 1..4 {
            // Cut somewhere, and a byte lost in the middle.
            let at = (bytes.len() * part / 4 + part * 37) % bytes.len();
            broken.push(bytes[..at].to_vec());
            broken.push([&bytes[..at], &bytes[at + 1..]].concat());
        }
        broken.push([&bytes[..bytes.len() / 2], b"\xff\xfe\x00 {\"", &bytes[bytes.len() / 2..]].concat());
        for (kind, wrong) in [json!(7), json!([]), json!({ "is": null }), json!("word")].into_iter().enumerate() {
            let mut log = log.clone();
            let mut seen = kind;
            log.edit(&mut |_, value| {
                seen += 1;
                if seen % 23 == 0 {
                    *value = wrong.clone();
                }
            });
            broken.push(log.render());
        }
        for (kind, bytes) in broken.iter().enumerate() {
            let out = library(bytes, Profile::Public, Scope::Session);
            let what = format!("{}: broken in way {kind}", log.name);
            out.holds_none_of(&words, &what);
            out.holds_nothing_of(bytes, &what);
        }
        let out = program(&broken[0], &["--json"]);
        out.holds_none_of(&words, &log.name);
        out.holds_nothing_of(&broken[0], &log.name);
    }
}

#[test]
fn two_keys_give_the_same_bytes() {
    for path in fixtures() {
        let bytes = std::fs::read(&path).unwrap();
        for (profile, scope) in [(Profile::Public, Scope::Session), (Profile::Private, Scope::Dataset)] {
            let [one, other] = [(); 2].map(|()| library(&bytes, profile, scope));
            assert!(one.requests > 0);
            same(&one, &other, &path.display().to_string());
        }
    }
    let bytes = std::fs::read(&fixtures()[0]).unwrap();
    let [one, other] = [(); 2].map(|()| program(&bytes, &[]));
    same(&one, &other, "the program");
}

#[test]
fn another_text_with_the_same_structure_gives_the_same_bytes() {
    let words = [Words::new(1), Words::new(2)];
    for path in fixtures() {
        let mut log = Log::read(&path);
        if log.is_native {
            let as_recorded = library(&std::fs::read(&path).unwrap(), Profile::Private, Scope::Session);
            let aligned = library(&log.render(), Profile::Private, Scope::Session);
            same(&as_recorded, &aligned, &format!("{}: other chunks", log.name));
        }
        // The order of members within a tool's schema is a part of the prompt; from here on it is sorted.
        log.edit(&mut |_, _| {});
        let plain = library(&log.render(), Profile::Public, Scope::Session);
        for words in &words {
            let other = substitute(&log, words);
            let text = library(&other.render(), Profile::Public, Scope::Session);
            same(&plain, &text, &format!("{}: other words", log.name));
        }
    }
}

fn same(one: &Out, other: &Out, what: &str) {
    let files = (one.files(), other.files());
    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&files.0), names(&files.1), "{what}");
    assert!(names(&files.0).len() >= 7, "{what}");
    let differing: Vec<&String> = files.0.keys().filter(|name| files.0[*name] != files.1[*name]).collect();
    let (one, other) = (one.rows(), other.rows());
    let rows = one.lines().zip(other.lines()).filter(|(one, other)| one != other).take(5);
    assert!(differing.is_empty(), "{what}: {differing:?} differ: {:#?}", rows.collect::<Vec<_>>());
}

#[test]
fn the_fixtures_pass_the_check_that_users_run() {
    for path in fixtures() {
        let bytes = std::fs::read(&path).unwrap();
        for flags in [&["--json"][..], &["--profile", "private"]] {
            check(&path, &program(&bytes, flags));
        }
    }
}

#[test]
fn the_check_sees_a_leak_in_every_file_of_a_trace() {
    let path = &fixtures()[0];
    let bytes = std::fs::read(path).unwrap();
    let out = program(&bytes, &[]);
    let leak = &bytes[bytes.len() / 2..][..40];
    for name in out.files().keys() {
        let file = out.folder.path().join("trace").join(name);
        let before = std::fs::read(&file).unwrap();
        std::fs::write(&file, [&before[..], leak].concat()).unwrap();
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| out.holds_nothing_of(&bytes, "")));
        assert!(seen.is_err(), "{name}");
        std::fs::write(&file, before).unwrap();
    }
    out.holds_nothing_of(&bytes, "as it was");
}
