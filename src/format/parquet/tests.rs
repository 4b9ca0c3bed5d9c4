//! Tests of the whole path: sessions to files and back.
//!
//! Invariant: what the reader accepts is what was written, or other valid sessions; anything else is an error and no panic.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::{Directory, Limits, Reader, Writer};
use crate::format::sample::{Numbers, dataset, head, linear};
use crate::format::{Fault, FileName, FormatError, TraceFormat, TraceSink, TraceSource, manifest};
use crate::trace::vocab::{Scope, Table, Vocabulary};
use crate::trace::{Manifest, Session};

fn write(path: &Path, scope: Scope, sessions: &[Session], limits: Limits) -> Manifest {
    let mut writer = Box::new(Writer::create(path, head(scope), false, limits).unwrap());
    for session in sessions {
        writer.session(session).unwrap();
    }
    writer.finish().unwrap()
}

fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

const SMALL: Limits = Limits { row_group: 7, groups: 2 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_come_back_equal_and_are_written_again_to_the_same_bytes(seed: u64, count in 0usize..12, scope in 0usize..3, small: bool) {
        let scope = Scope::ALL[scope];
        let sessions = dataset(seed, count, scope);
        let limits = if small { SMALL } else { Limits::default() };
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let written = write(&one, scope, &sessions, limits);
        let reader = Reader::open(&one, true).unwrap();
        prop_assert_eq!(reader.manifest(), &written);
        let read: Vec<Session> = reader.map(Result::unwrap).collect();
        prop_assert_eq!(&read, &sessions);
        write(&two, scope, &read, limits);
        prop_assert_eq!(files(&one), files(&two));
        let parts = manifest::files(&written, Table::Requests).count();
        prop_assert_eq!(parts, if small { (written.totals.requests as usize).div_ceil(14).max(1) } else { 1 });
    }

    #[test]
    fn damaged_files_end_in_an_error_or_in_valid_sessions(seed: u64, rounds in 1usize..4) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        write(&path, Scope::Session, &dataset(seed, 4, Scope::Session), Limits::default());
        let mut numbers = Numbers(seed ^ 1);
        let (name, mut bytes) = {
            let mut files = files(&path);
            files.retain(|(name, _)| name != "README.md");
            files.swap_remove(numbers.below(files.len()))
        };
        for _ in 0..rounds {
            let at = numbers.below(bytes.len());
            match numbers.below(5) {
                0 => bytes[at] ^= 1 << numbers.below(8),
                1 => bytes[at] = numbers.next() as u8,
                2 => drop(bytes.drain(at..(at + 1 + numbers.below(9)).min(bytes.len()))),
                3 => bytes.insert(at, numbers.next() as u8),
                _ => bytes[at] = [0, 127, 128, 255][numbers.below(4)],
            }
            if bytes.is_empty() { break }
        }
        fs::write(path.join(name), &bytes).unwrap();
        if let Ok(reader) = Reader::open(&path, false) {
            reader.for_each(drop);
        }
    }
}

fn trace() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    write(&path, Scope::Session, &dataset(1, 5, Scope::Session), Limits::default());
    (folder, path)
}

fn first_error(path: &Path, verify: bool) -> FormatError {
    Reader::open(path, verify).map_or_else(|error| error, |mut reader| reader.find_map(Result::err).unwrap())
}

fn file(table: Table) -> FileName {
    FileName::Table { table, part: 0, parts: 1 }
}

#[test]
fn linear_sessions_take_at_most_18_bytes_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let written = write(&path, Scope::Session, &linear(250, 80), Limits::default());
    let bytes: usize = files(&path).iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes as u64 <= 18 * written.totals.requests, "{bytes} bytes for {} requests", written.totals.requests);
}

#[test]
fn a_file_that_was_changed_is_an_error_by_its_sha256() {
    let (_folder, path) = trace();
    fs::copy(path.join("edges.parquet"), path.join("tools.parquet")).unwrap();
    assert_eq!(first_error(&path, true), FormatError::File { file: file(Table::Tools), fault: Fault::Sha256 });
    assert_eq!(first_error(&path, false), FormatError::File { file: file(Table::Tools), fault: Fault::Columns });
    fs::remove_file(path.join("edges.parquet")).unwrap();
    let kind = std::io::ErrorKind::NotFound;
    assert_eq!(first_error(&path, true), FormatError::Io { file: file(Table::Edges), kind });
}

#[test]
fn a_manifest_that_disagrees_with_the_tables_is_an_error() {
    let (_folder, path) = trace();
    let json = fs::read_to_string(path.join("manifest.json")).unwrap();
    let mut changed: Manifest = serde_json::from_str(&json).unwrap();
    changed.totals.input_tokens += 1;
    fs::write(path.join("manifest.json"), manifest::to_json(&changed).unwrap()).unwrap();
    assert_eq!(first_error(&path, true), FormatError::Member { member: "totals", fault: Fault::Disagrees });
    fs::write(path.join("manifest.json"), json.replace("\"public\"", "\"sk-secret\"")).unwrap();
    assert!(!first_error(&path, true).to_string().contains("secret"));
    assert!(matches!(first_error(&path, true), FormatError::Json { line: 9, .. }));
}

#[test]
fn a_session_that_breaks_a_rule_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut sink = Directory.create(&path, head(Scope::Session), false).unwrap();
    let mut sessions = linear(2, 3);
    sessions[1].requests[1].prefix.first_block = 0;
    sink.session(&sessions[0]).unwrap();
    let error = sink.session(&sessions[1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "requests, row 4, prefix_request: first_block is not the running count of new blocks"
    );
    assert_eq!(sink.session(&sessions[0]), Err(FormatError::Abandoned));
    assert_eq!(sink.finish(), Err(FormatError::Abandoned));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Replaces the sessions of a trace by rows with this `harness`.
fn write_harness(path: &Path, word: &str, rows: usize) {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
    let out = fs::File::create(path.join("sessions.parquet")).unwrap();
    let schema = super::schema::parquet_type(Table::Sessions).unwrap();
    let properties = super::columns::properties(Table::Sessions).unwrap();
    let mut writer = parquet::file::writer::SerializedFileWriter::new(out, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let nulls = vec![0; rows];
    for column in 0..4 {
        let mut writer = group.next_column().unwrap().unwrap();
        match column {
            0 => {
                let ids: Vec<i32> = (0..).take(rows).collect();
                writer.typed::<Int32Type>().write_batch(&ids, None, None).unwrap();
            }
            1 => drop(writer.typed::<parquet::data_type::Int64Type>().write_batch(&[], Some(&nulls), None).unwrap()),
            2 => {
                let words = vec![ByteArray::from(word); rows];
                writer.typed::<ByteArrayType>().write_batch(&words, None, None).unwrap();
            }
            _ => drop(writer.typed::<Int32Type>().write_batch(&[], Some(&nulls), None).unwrap()),
        }
        writer.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    let json = fs::read_to_string(path.join("manifest.json")).unwrap();
    let mut changed: Manifest = serde_json::from_str(&json).unwrap();
    changed.totals.sessions = rows as u64;
    changed.files[0].rows = rows as u64;
    fs::write(path.join("manifest.json"), manifest::to_json(&changed).unwrap()).unwrap();
}

#[test]
fn a_word_outside_its_vocabulary_is_named_by_place_only() {
    let (_folder, path) = trace();
    write_harness(&path, "codex", 5);
    assert!(Reader::open(&path, false).unwrap().all(|session| session.is_ok()));
    write_harness(&path, "sk-secret", 5);
    let error = first_error(&path, false);
    assert_eq!(error.to_string(), "sessions, row 0, harness: a word outside its vocabulary");
}

#[test]
fn a_row_group_larger_than_ours_is_refused_before_it_is_read() {
    let (_folder, path) = trace();
    write_harness(&path, "codex", super::columns::ROW_GROUP + 1);
    assert_eq!(first_error(&path, false), FormatError::File { file: file(Table::Sessions), fault: Fault::TooLarge });
}
