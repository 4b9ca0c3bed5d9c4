//! `audit --self-test`: leaks that this program knows are planted in a small trace, to show that the instrument works.
//!
//! Invariant: everything planted is made up here; nothing of the user is looked at, and nothing stays behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::args::Globals;
use super::exit::Exit;
use super::output::Stdout;
use crate::audit::{Options, Severity, audit};
use crate::proof::{ERROR_WINDOW, Residual, SourceCheck};

/// What is planted, and stands in the log.
const TEXT: &str = "please tell nobody that the walrus moved to the north pier";

/// What was found of one leak.
struct Row {
    how: &'static str,
    /// From the file alone.
    file: bool,
    /// With the log.
    log: bool,
}

/// Plants each leak, and shows which are found.
pub(super) fn run(options: &Options, globals: Globals) -> anyhow::Result<Exit> {
    let folder = Folder::new().context("could not make a temporary folder")?;
    let clean = look(&folder.0.join("clean"), "trace.jsonl", &lines(&rows()), options)?;
    let mut found = Vec::new();
    for (number, (how, name, bytes)) in leaks()?.into_iter().enumerate() {
        let (file, log) = look(&folder.0.join(number.to_string()), name, &bytes, options)?;
        found.push(Row { how, file, log });
    }
    let good = clean == (false, false) && found.iter().all(|row| row.file || row.log);
    let mut stdout = Stdout::new();
    stdout.write_all(shown(&found, clean, globals.json).as_bytes()).and_then(|()| stdout.flush())?;
    Ok(if good { Exit::Fine } else { Exit::Findings })
}

fn shown(found: &[Row], clean: (bool, bool), as_json: bool) -> String {
    if as_json {
        let leaks: Vec<_> =
            found.iter().map(|row| json!({"leak": row.how, "file_alone": row.file, "with_source": row.log})).collect();
        let clean = json!({"file_alone": clean.0, "with_source": clean.1});
        return format!("{}\n", json!({"leaks": leaks, "clean": clean}));
    }
    let cell = |found: bool| if found { "found" } else { "-" };
    let line = |how: &str, file: &str, log: &str| format!("{how:48} {file:12} {log}\n");
    let mut text = line("planted in a small trace", "file alone", "with --source");
    for row in found {
        text += &line(row.how, cell(row.file), cell(row.log));
    }
    text += &line("nothing", cell(clean.0), cell(clean.1));
    let both = found.iter().filter(|row| row.file || row.log).count();
    text + &format!("{both} of {} found; the clean trace must show nothing\n", found.len())
}

/// Writes a file and looks at it both ways: whether it is found from the file alone, and with the log.
fn look(folder: &Path, name: &str, bytes: &[u8], options: &Options) -> anyhow::Result<(bool, bool)> {
    fs::create_dir(folder).and_then(|()| fs::write(folder.join(name), bytes)).context("could not write a file")?;
    let outcome = audit(&[folder.to_owned()], options).context("could not audit a planted file")?;
    let check = SourceCheck::new(&Residual::of(folder)?, ERROR_WINDOW, None)?;
    check.feed_text(format!("so {TEXT}, they said").as_bytes());
    check.feed_text(TEXT.as_bytes());
    let report = check.finish();
    let file = outcome.undecodable || outcome.worst() == Some(Severity::Error);
    Ok((file, !report.windows.is_empty() || !report.hashes.is_empty()))
}

/// A folder that goes with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tracecloak-self-test-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing in it is anyone's.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Requests of one session, each with a block more, as many as there are characters.
fn rows() -> Vec<serde_json::Value> {
    let row = |at: usize| {
        let ids: Vec<usize> = (1..=at / 8 + 1).collect();
        json!({
            "session": 0, "t_ms": at * 1000, "in_tokens": 64 * ids.len() + 5, "out_tokens": 40 + 16 * (at % 5),
            "model": "claude-opus-4", "block_size": 64, "hash_ids": ids,
        })
    };
    (0..TEXT.len()).map(row).collect()
}

fn lines(rows: &[serde_json::Value]) -> Vec<u8> {
    rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
}

/// The rows, each with another member.
fn with(member: &str, value: impl Fn(usize, u8) -> Option<serde_json::Value>) -> Vec<u8> {
    let mut rows = rows();
    for ((at, row), byte) in rows.iter_mut().enumerate().zip(TEXT.bytes()) {
        if let (Some(row), Some(value)) = (row.as_object_mut(), value(at, byte)) {
            row.insert(member.to_owned(), value);
        }
    }
    lines(&rows)
}

/// Each leak: how, the file's name, and its bytes.
fn leaks() -> anyhow::Result<Vec<(&'static str, &'static str, Vec<u8>)>> {
    let plain = lines(&rows());
    let once = |value: serde_json::Value| with("note", move |at, _| (at == 3).then(|| value.clone()));
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let gzip = {
        let mut encoder = flate2::GzBuilder::new().comment(TEXT).write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&plain)?;
        encoder.finish()?
    };
    let packed = zstd::encode_all(TEXT.as_bytes(), 3)?;
    let stream = zstd::encode_all(&plain[..], 3)?;
    let length = u32::try_from(TEXT.len())?.to_le_bytes();
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18][..], &length, TEXT.as_bytes(), &stream].concat();
    let digest = Sha256::digest(TEXT);
    let wide: Vec<u8> = String::from_utf8(once(json!(TEXT)))?.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bit = |at: usize| TEXT.as_bytes().get(at / 8 % TEXT.len()).is_some_and(|byte| byte >> (7 - at % 8) & 1 == 1);
    let absent: String = (0..8 * TEXT.len())
        .map(|at| format!("{{\"session\":0,\"t_ms\":{at}{}}}\n", if bit(at) { ",\"out_tokens\":16" } else { "" }))
        .collect();
    let words: Vec<&str> = TEXT.split(' ').collect();
    Ok(vec![
        ("a field", "trace.jsonl", once(json!(TEXT))),
        ("a field, as base64", "trace.jsonl", once(json!(STANDARD.encode(TEXT)))),
        ("a field, as hexadecimal digits", "trace.jsonl", once(json!(hex(TEXT.as_bytes())))),
        ("a field, zstd in base64", "trace.jsonl", once(json!(STANDARD.encode(packed)))),
        (
            "a field, its words in many rows",
            "trace.jsonl",
            with("note", |at, _| words.get(at).map(|word| json!(format!("{word} ")))),
        ),
        ("the name of a field", "trace.jsonl", with(TEXT, |at, _| (at == 3).then(|| json!(1)))),
        ("a list of code points", "trace.jsonl", once(json!(TEXT.bytes().collect::<Vec<u8>>()))),
        (
            "numbers of seven bytes",
            "trace.jsonl",
            once(json!(TEXT.as_bytes().chunks(7).map(number).collect::<Vec<_>>())),
        ),
        (
            "multiples of code points",
            "trace.jsonl",
            with("in_tokens", |_, byte| Some(json!(13 * u32::from(byte) + 5000))),
        ),
        (
            "the low byte of times",
            "trace.jsonl",
            with("t_ms", |at, byte| Some(json!(4096 * 256 * (at + 3) + usize::from(byte)))),
        ),
        ("members that are there or not", "trace.jsonl", absent.into_bytes()),
        (
            "a block id that is its hash",
            "trace.jsonl",
            with("hash_ids", |_, _| Some(json!([number(digest.first_chunk::<8>().map_or(&[], |bytes| bytes)) >> 1]))),
        ),
        ("a document of UTF-16", "trace.jsonl", [&[0xff, 0xfe][..], &wide].concat()),
        ("behind zero bytes at the end", "trace.jsonl", [&plain[..], &[0; 16], TEXT.as_bytes()].concat()),
        ("the comment of a gzip header", "trace.jsonl.gz", gzip),
        ("a zstd frame that readers skip", "trace.jsonl.zst", skipped),
        ("behind the end of a zstd stream", "trace.jsonl.zst", [&stream[..], TEXT.as_bytes()].concat()),
        ("the name of a file", "please tell nobody that the walrus moved.jsonl", plain),
    ])
}
