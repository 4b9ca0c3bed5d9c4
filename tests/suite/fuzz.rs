//! Loops that damage files of each kind and give them to the auditor and to the source check, for as long as asked.
//!
//! `TRACECLOAK_FUZZ_SECONDS=600 cargo test --release --test suite -- fuzz` runs each for ten minutes; without it, for a second.
//! Whatever the bytes, there is an outcome: no panic, no stack overflow, no hang; and no report shows what was planted.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tracecloak::audit::rules::Rules;
use tracecloak::audit::view::Limits;
use tracecloak::audit::{Baseline, Options, SourceOutcome, audit, render};
use tracecloak::proof::{Residual, SourceCheck};

/// One file may take so long.
const SECONDS: u64 = 20;

/// A small generator of its own, since a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most.max(1)).unwrap()).unwrap()
    }
}

/// Small fixtures with one of these endings.
fn seeds(endings: &[&str]) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/audit");
    let files = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().map(|entry| entry.unwrap().into_path());
    let fits = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        endings.iter().any(|ending| name.ends_with(ending))
    };
    files
        .filter(|path| path.is_file() && fits(path))
        .map(|path| fs::read(path).unwrap())
        .filter(|bytes| bytes.len() < 1 << 16)
        .collect()
}

/// Numbers that break sizes and counts.
const EDGES: &[u64] =
    &[0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX >> 1, u64::MAX];

fn damage(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        match random.below(8) {
            _ if bytes.is_empty() => bytes.extend(other),
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next().to_le_bytes()[0],
            2 => {
                let end = (at + 1 + random.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            3 => bytes.insert(at, random.next().to_le_bytes()[0]),
            4 => {
                let (edge, width) = (EDGES[random.below(EDGES.len())], [1, 2, 4, 8][random.below(4)]);
                for (into, byte) in bytes.iter_mut().skip(at).zip(&edge.to_le_bytes()[..width]) {
                    *into = *byte;
                }
            }
            5 => bytes.truncate(at),
            6 => {
                let (from, length) = (random.below(other.len()), random.below(64));
                let part = other.get(from..(from + length).min(other.len())).unwrap_or_default().to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let end = (at + 1 + random.below(32)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part.repeat(1 + random.below(8)));
            }
        }
    }
}

/// Damages and audits until time is up; gives how many files it was.
#[expect(clippy::disallowed_methods, reason = "who fuzzes says for how long, and every file has its time")]
fn run(kind: &str, name: &str, seeds: &[Vec<u8>]) {
    assert!(!seeds.is_empty(), "{kind}: no fixtures");
    let seconds = std::env::var("TRACECLOAK_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seconds: u64 = seconds.unwrap_or(1);
    let begun = Instant::now();
    // Other files every time, where time was asked for.
    let start = if seconds > 1 { u64::from(std::process::id()) << 20 } else { 0x9e37_79b9 };
    let folder = tempdir().unwrap();
    let path = folder.path().join(name);
    let (rules, mut files) = (Rules::builtin(), 0u64);
    let mut options = Options {
        rules,
        allow: Vec::new(),
        baseline: Baseline::default(),
        scratch: folder.path().join("again"),
        limits: Limits { bytes: 64 << 20, values: 1 << 20, ..Limits::default() },
        local: true,
        source: SourceOutcome::default(),
        core_dumps: false,
    };
    while begun.elapsed() < Duration::from_secs(seconds) {
        let seed = start + files;
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let mut bytes = seeds[random.below(seeds.len())].clone();
        damage(&mut bytes, &seeds[random.below(seeds.len())], &mut random);
        fs::write(&path, &bytes).unwrap();
        let one = Instant::now();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let outcome = audit(std::slice::from_ref(&path), &options).unwrap();
            if files % 16 == 0 {
                let check = SourceCheck::new(&Residual::of(&path).unwrap(), 12, None).unwrap();
                check.feed_text(b"please tell nobody that the walrus moved to the north pier");
                assert!(!format!("{:?}", check.finish()).contains("walrus"));
            }
            outcome
        }));
        options.local = !options.local;
        let took = one.elapsed();
        let Ok(outcome) = outcome else { panic!("{kind}: seed {seed} panics") };
        assert!(took < Duration::from_secs(SECONDS), "{kind}: seed {seed} takes {took:?}");
        let shown = render::plain(&outcome) + &render::json(&outcome, true) + &render::sarif(&outcome);
        assert!(!shown.contains("walrus"), "{kind}: seed {seed} is shown");
        files += 1;
    }
    println!("{kind}: {files} files in {seconds} s");
}

macro_rules! fuzz {
    ($($test:ident $kind:literal $name:literal $endings:expr;)+) => {
        $(#[test]
        fn $test() {
            run($kind, $name, &seeds(&$endings));
        })+
    };
}

fuzz! {
    damaged_parquet_has_an_outcome "parquet" "trace.parquet" [".parquet"];
    damaged_arrow_has_an_outcome "arrow" "trace.arrow" [".arrow", ".arrows"];
    damaged_json_has_an_outcome "json" "trace.jsonl" [".json", ".jsonl"];
    damaged_csv_has_an_outcome "csv" "trace.csv" [".csv"];
    damaged_zip_has_an_outcome "zip" "traces.zip" [".zip"];
    damaged_tar_has_an_outcome "tar" "traces.tar" [".tar"];
    damaged_gzip_has_an_outcome "gzip" "trace.jsonl.gz" [".gz"];
    damaged_zstd_has_an_outcome "zstd" "trace.jsonl.zst" [".zst"];
}

#[test]
fn damaged_sqlite_has_an_outcome() {
    let folder = tempdir().unwrap();
    let made: Vec<Vec<u8>> = (0..3)
        .map(|at| {
            let path = folder.path().join(format!("{at}.db"));
            let connection = rusqlite::Connection::open(&path).unwrap();
            connection
                .execute_batch(&format!(
                    "PRAGMA page_size = 512; CREATE TABLE requests (session INTEGER, t REAL, note TEXT, raw BLOB);
                     CREATE INDEX sessions ON requests (session); CREATE VIEW v AS SELECT note FROM requests;
                     INSERT INTO requests VALUES ({at}, 0.5, 'the walrus moved', x'00ff'), (2, 1.5, NULL, NULL);"
                ))
                .unwrap();
            drop(connection);
            fs::read(&path).unwrap()
        })
        .collect();
    run("sqlite", "trace.db", &made);
}
