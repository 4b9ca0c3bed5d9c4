//! Files made to exhaust or to fool the auditor: bombs, counts that lie, parts that point outside, containers in circles.
//!
//! Each is given to the program itself, under a limit on its address space, and has to end as findings, failed or not auditable
//! within seconds.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::tempdir;

/// Most that one audit here may take.
const SECONDS: u64 = 60;
const KILOBYTES: u64 = 2 << 20;

/// Audits a file of this name; gives the exit code.
#[expect(clippy::disallowed_methods, reason = "a file must not take for ever")]
fn audit(name: &str, bytes: &[u8]) -> i32 {
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let begun = Instant::now();
    let limit = format!("ulimit -v {KILOBYTES}; exec \"$0\" audit \"$1\"");
    let output = Command::new("sh")
        .args(["-c", &limit, env!("CARGO_BIN_EXE_tracecloak")])
        .arg(&path)
        .env_clear()
        .output()
        .unwrap();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(SECONDS), "{name}: {took:?}");
    let shown = String::from_utf8_lossy(&output.stderr);
    output.status.code().unwrap_or_else(|| panic!("{name} was killed: {shown}"))
}

/// What a hostile file may come to: it is never clean, and never a crash.
fn is_refused(name: &str, bytes: &[u8]) {
    let code = audit(name, bytes);
    assert!([1, 2, 3].contains(&code), "{name}: exit {code}");
}

/// It could not be looked at as a whole, and this is said.
fn is_not_audited(name: &str, bytes: &[u8]) {
    assert_eq!(audit(name, bytes), 3, "{name}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A zip archive of entries: name, packed bytes, stated size and checksum.
fn zip(entries: &[(&str, &[u8], u32, u32)]) -> Vec<u8> {
    let (mut local, mut central) = (Vec::new(), Vec::new());
    for (name, packed, size, sum) in entries {
        let length = u32::try_from(packed.len()).unwrap().to_le_bytes();
        let name_length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let common = [
            &[20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0][..],
            &sum.to_le_bytes(),
            &length,
            &size.to_le_bytes(),
            &name_length,
            &[0, 0],
        ]
        .concat();
        let at = u32::try_from(local.len()).unwrap().to_le_bytes();
        local.extend([b"PK\x03\x04", &common[..], name.as_bytes(), packed].concat());
        central.extend([b"PK\x01\x02\x14\0", &common[..], &[0; 10], &at, name.as_bytes()].concat());
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let (size, at) =
        (u32::try_from(central.len()).unwrap().to_le_bytes(), u32::try_from(local.len()).unwrap().to_le_bytes());
    [&local[..], &central, b"PK\x05\x06\0\0\0\0", &count, &count, &size, &at, &[0, 0]].concat()
}

fn zipped(name: &str, content: &[u8]) -> Vec<u8> {
    let mut sum = flate2::Crc::new();
    sum.update(content);
    zip(&[(name, &deflate(content), u32::try_from(content.len()).unwrap(), sum.sum())])
}

/// A Parquet file of one list column.
fn parquet(columns: usize) -> Vec<u8> {
    use std::sync::Arc;
    let column: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1, 2, 3]));
    let named = (0..columns).map(|at| (format!("column{at}"), Arc::clone(&column)));
    let batch = arrow_array::RecordBatch::try_from_iter(named).unwrap();
    let mut bytes = Vec::new();
    let mut writer = parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

fn footer_of(bytes: &[u8]) -> std::ops::Range<usize> {
    let end = bytes.len() - 8;
    let size = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
    end - usize::try_from(size).unwrap()..end
}

/// A record with nothing wrong with it.
const CLEAN: &[u8] = b"{\"timestamp\":0,\"input_length\":600,\"output_length\":16,\"hash_ids\":[0,1]}\n";

#[test]
fn clean_archives_made_here_are_clean() {
    assert_eq!(audit("trace.jsonl", CLEAN), 0);
    assert_eq!(audit("trace.jsonl.gz", &gzip(CLEAN)), 0);
    assert_eq!(audit("traces.zip", &zipped("trace.jsonl", CLEAN)), 0);
    assert_eq!(audit("traces.zip", &zipped("traces.zip", &zipped("trace.jsonl", CLEAN))), 0);
}

#[test]
fn streams_that_grow_without_end_are_cut_off() {
    let zeros = vec![b' '; 400 << 20];
    is_not_audited("trace.jsonl.gz", &gzip(&zeros));
    is_not_audited("trace.jsonl.zst", &zstd::encode_all(&zeros[..], 19).unwrap());
    is_not_audited("traces.zip", &zipped("trace.jsonl", &zeros));
    drop(zeros);
    // A bomb in a bomb: 64 GiB behind 7 KB.
    let inner = zstd::encode_all(std::io::Read::take(std::io::repeat(b' '), 64 << 20), 19).unwrap();
    let middle = zstd::encode_all(&inner.repeat(1000)[..], 19).unwrap();
    is_not_audited("trace.jsonl.zst", &middle);
    let text = [b"{\"a\":\"".to_vec(), vec![b'a'; 200 << 20], b"\"}\n".to_vec()].concat();
    is_refused("trace.jsonl.gz", &gzip(&text));
}

#[test]
fn archives_in_archives_end_somewhere() {
    let mut nested = zipped("trace.jsonl", b"{}");
    for _ in 0..20 {
        nested = zipped("traces.zip", &nested);
    }
    is_not_audited("traces.zip", &nested);
    let mut nested = gzip(b"{}");
    for _ in 0..20 {
        nested = gzip(&nested);
    }
    is_not_audited("trace.jsonl.gz", &nested);
    // Sixteen archives in each of sixteen, three times over, with 16 MiB in the last.
    let zeros = vec![b' '; 16 << 20];
    let mut wide = zipped("trace.jsonl", &zeros);
    for _ in 0..3 {
        let packed = deflate(&wide);
        let mut sum = flate2::Crc::new();
        sum.update(&wide);
        let entry = ("traces.zip", &packed[..], u32::try_from(wide.len()).unwrap(), sum.sum());
        wide = zip(&[entry; 16]);
    }
    is_not_audited("traces.zip", &wide);
}

#[test]
fn archives_whose_parts_lie_or_overlap_are_refused() {
    let good = zipped("trace.jsonl", CLEAN);
    let plain = seen(&good);
    let kind = good.windows(4).position(|window| window == b"PK\x01\x02").unwrap() + 41;
    for at in 0..good.len() {
        for value in [0xff, 0x7f, 0x80] {
            let mut bad = good.clone();
            bad[at] = value;
            // That an entry is a plain file may be told or not.
            assert!(bad == good || seen(&bad) != plain || (at, value) == (kind, 0x80), "{value} at {at}");
        }
    }
    // Two entries of the list that are one of the archive, as in overlapping bombs.
    let two = zip(&[("trace.jsonl", b"\x03\0", 0, 0), ("trace.jsonl", b"\x03\0", 0, 0)]);
    let mut overlap = two.clone();
    let second = two.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
    overlap[second + 42..second + 46].fill(0);
    is_refused("traces.zip", &overlap);
    // 4 GiB claimed for an entry of a few bytes.
    is_refused("traces.zip", &zip(&[("trace.jsonl", b"\x03\0", u32::MAX, 0)]));
    let mut header = vec![0u8; 1024];
    header[..11].copy_from_slice(b"trace.jsonl");
    header[124..136].copy_from_slice(b"77777777777\0");
    let sum: u32 = header[..512].iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    is_not_audited("traces.tar", &header);
}

/// What is said of an archive, in this process: for many small files. None if it can't be audited.
fn seen(bytes: &[u8]) -> Option<Vec<(&'static str, &'static str)>> {
    use tracecloak::audit;
    let folder = tempdir().unwrap();
    let path = folder.path().join("traces.zip");
    std::fs::write(&path, bytes).unwrap();
    let options = audit::Options {
        rules: audit::rules::Rules::default(),
        allow: Vec::new(),
        baseline: audit::Baseline::default(),
        scratch: folder.path().join("again"),
        limits: audit::view::Limits::default(),
        local: false,
        source: audit::SourceOutcome::default(),
        core_dumps: false,
    };
    let outcome = audit::audit(&[path], &options).unwrap();
    let said = outcome.findings.iter().map(|finding| (finding.id, finding.message));
    (!outcome.undecodable).then(|| said.collect())
}

#[test]
fn footers_that_lie_are_refused() {
    let good = parquet(2);
    let footer = footer_of(&good);
    // A footer of 4 GiB, one that begins before the file, and one that is the whole file.
    for size in [u32::MAX, u32::try_from(good.len()).unwrap(), u32::try_from(good.len() - 12).unwrap(), 0] {
        let mut bad = good.clone();
        let end = bad.len() - 8;
        bad[end..end + 4].copy_from_slice(&size.to_le_bytes());
        is_not_audited("trace.parquet", &bad);
    }
    let plain = seen(&good);
    // Every varint of the footer, made as large as its bytes allow.
    for at in footer {
        let mut bad = good.clone();
        for value in [0x7f, 0xff] {
            bad[at] = value;
            assert!(bad == good || seen(&bad) != plain, "{value} at {at}");
        }
    }
}

/// A Parquet file with this footer and nothing else.
fn only_footer(footer: &[u8]) -> Vec<u8> {
    let size = u32::try_from(footer.len()).unwrap().to_le_bytes();
    [b"PAR1", footer, &size, b"PAR1"].concat()
}

#[test]
fn footers_that_claim_much_or_nest_deeply_are_refused() {
    // A list of two thousand million structs, of a few bytes.
    is_not_audited("trace.parquet", &only_footer(&[0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]));
    // Structs in structs, as deep as the file is long.
    is_not_audited("trace.parquet", &only_footer(&vec![0x1c; 1 << 20]));
    // 32 Mi small values.
    let many = [&[0x19, 0xf3, 0x80, 0x80, 0x80, 0x10][..], &vec![1; 32 << 20], &[0]].concat();
    is_not_audited("trace.parquet", &only_footer(&many));
    // A byte string of 10 GB.
    is_not_audited("trace.parquet", &only_footer(&[0x18, 0x80, 0xc8, 0xaf, 0xa0, 0x25]));
}

#[test]
fn arrow_messages_that_lie_are_refused() {
    let good = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit/L077/clean.arrow")).unwrap();
    assert_eq!(audit("trace.arrow", &good), 0);
    for at in (0..good.len()).step_by(3) {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("trace.arrow"), &bad).unwrap();
        is_bounded(&folder.path().join("trace.arrow"));
    }
    for claim in [[0xff, 0xff, 0xff, 0x7f], [0, 0, 0, 0x40]] {
        is_not_audited("trace.arrow", &[&[0xff; 4][..], &claim, &[0; 64]].concat());
    }
}

/// Audited without a limit of its own: damage of one byte may not matter to what is there, but it ends.
#[expect(clippy::disallowed_methods, reason = "a file must not take for ever")]
fn is_bounded(path: &Path) {
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_tracecloak")).arg("audit").arg(path).env_clear().output().unwrap();
    assert!(output.status.code().is_some() && begun.elapsed() < Duration::from_secs(SECONDS));
}

#[test]
fn documents_that_nest_or_never_end_are_refused() {
    is_not_audited("trace.json", &vec![b'['; 8 << 20]);
    is_not_audited("trace.json", &b"{\"a\":".repeat(2 << 20));
    is_refused("trace.jsonl", &[&b"{\"a\":\""[..], &vec![b'a'; 64 << 20], b"\"}"].concat());
    is_not_audited("trace.jsonl", &[&b"{\"a\":\""[..], &vec![b'a'; 64 << 20]].concat());
    is_not_audited("trace.jsonl", &[&b"{\"a\":\""[..], &b"\\".repeat(64 << 20)].concat());
    let keys = (0..300_000).fold(String::from("{"), |mut all, at| {
        write!(all, "\"k{at}x\":1,").unwrap();
        all
    });
    is_refused("trace.jsonl", format!("{keys}\"z\":1}}\n").as_bytes());
    is_refused("trace.jsonl", &[&b"{\"a\":"[..], &vec![b'9'; 16 << 20], b"}"].concat());
    is_refused("trace.csv", &[&b"a,b\n"[..], &vec![b','; 16 << 20]].concat());
    is_refused("trace.csv", &[&b"a,b\n\""[..], &vec![b'"'; 16 << 20]].concat());
    is_refused("trace.csv", &vec![b','; 1 << 20]);
}

#[test]
fn truncated_streams_are_not_clean() {
    let record = CLEAN.repeat(20);
    for (name, packed) in [
        ("trace.jsonl.gz", gzip(&record)),
        ("trace.jsonl.zst", zstd::encode_all(&record[..], 3).unwrap()),
        ("traces.zip", zipped("trace.jsonl", &record)),
    ] {
        for length in 1..packed.len() {
            let folder = tempdir().unwrap();
            let path = folder.path().join(name);
            std::fs::write(&path, &packed[..length]).unwrap();
            if length % 7 == 0 || length + 12 > packed.len() {
                is_refused(name, &packed[..length]);
            }
        }
    }
}

#[test]
fn a_database_with_a_schema_that_never_ends_is_not_audited() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("trace.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE requests (session INTEGER, note TEXT); INSERT INTO requests VALUES (1, 'the walrus moved')",
        )
        .unwrap();
    drop(connection);
    let good = std::fs::read(&path).unwrap();
    is_not_audited("trace.db", &good);
    for at in (0..good.len()).step_by(97) {
        let mut bad = good.clone();
        bad[at] ^= 0xff;
        is_not_audited_or_text(&bad);
    }
}

fn is_not_audited_or_text(bytes: &[u8]) {
    let code = audit("trace.db", bytes);
    assert!([1, 3].contains(&code), "exit {code}");
}
