//! Running a conversion, by the library and by the program, and looking for text in all that came out.
//!
//! Invariant: two searches that share no code: the source check, and a plain one for planted words.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tracecloak::anonymize::{Converter, Key, Options, Rules, Selection, normalizers};
use tracecloak::capture::{Inputs, Limits, open_stream};
use tracecloak::format::TraceFormat;
use tracecloak::format::parquet::Directory;
use tracecloak::proof::{Residual, SourceCheck, WARNING_WINDOW, check_logs};
use tracecloak::tokenize::{TokenizerSpec, load};
use tracecloak::trace::manifest::{FORMAT_VERSION, Named, SkipCounts, ToolName, ToolVersion, Totals};
use tracecloak::trace::vocab::{Keep, Profile, PromptScale, Scope, SourceFormat, TemplateName, TokenizerName};
use tracecloak::trace::{Manifest, vocab::Vocabulary};

/// All that a conversion gives: files by name, and what is said on the side.
pub(super) struct Out {
    pub(super) folder: tempfile::TempDir,
    pub(super) said: Vec<u8>,
    pub(super) requests: u64,
}

impl Out {
    /// The files.
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let trace = self.folder.path().join("trace");
        let entries = std::fs::read_dir(trace).into_iter().flatten();
        entries
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect()
    }

    /// The rows, one a line.
    pub(super) fn rows(&self) -> String {
        let sessions = tracecloak::format::open(&self.folder.path().join("trace")).unwrap();
        let rows = sessions.map(Result::unwrap).flat_map(|session| {
            let requests = session.requests.iter().map(|row| format!("{row:?}\n"));
            let edges = session.edges.iter().map(|row| format!("{row:?}\n"));
            let tools = session.tools.iter().map(|row| format!("{row:?}\n"));
            let agents = session.agents.iter().map(|row| format!("{row:?}\n"));
            requests.chain(edges).chain(tools).chain(agents).collect::<Vec<_>>()
        });
        rows.collect()
    }

    /// How many sessions, agents, requests, edges and shared blocks there are.
    pub(super) fn totals(&self) -> [usize; 5] {
        let sessions = tracecloak::format::open(&self.folder.path().join("trace")).unwrap().map(Result::unwrap);
        sessions.fold([0; 5], |[sessions, agents, requests, edges, shared], session| {
            let more: usize =
                session.requests.iter().map(|request| usize::from(request.prefix.request.is_some())).sum();
            [
                sessions + 1,
                agents + session.agents.len(),
                requests + session.requests.len(),
                edges + session.edges.len(),
                shared + more,
            ]
        })
    }

    fn residual(&self) -> Residual {
        let mut residual = Residual::of(&self.folder.path().join("trace")).unwrap_or_default();
        residual.push("said", without_own_words(&self.said));
        residual
    }

    /// Fails if the source check finds a window of the log, in its raw bytes or in the strings that its parser assembles.
    pub(super) fn holds_nothing_of(&self, log: &[u8], what: &str) {
        let mut check = SourceCheck::new(&self.residual(), WARNING_WINDOW, None).unwrap();
        check.feed_raw(log);
        if let Ok((_, records)) = open_stream(Box::new(std::io::Cursor::new(log.to_vec())), 0, Limits::default()) {
            records.filter_map(Result::ok).for_each(|exchange| check.feed_exchange(&exchange));
        }
        let report = check.finish();
        assert!(report.complete && report.coverage.bytes == log.len() as u64);
        assert!(report.windows.is_empty() && report.hashes.is_empty(), "{what}: {report:?}");
    }

    /// Fails if a planted word, or half of it, stands in a file, a page, or in what is said.
    pub(super) fn holds_none_of(&self, planted: &[String], what: &str) {
        let mut all: Vec<Vec<u8>> = self.files().into_values().collect();
        let pages: Vec<Vec<u8>> = all.iter().flat_map(|file| pages(file)).collect();
        all.extend(pages);
        all.push(self.said.clone());
        for word in planted {
            for part in [&word[..8], &word[8..16]] {
                let found = all.iter().any(|bytes| memchr::memmem::find(bytes, part.as_bytes()).is_some());
                assert!(!found, "{what}: a planted word came out");
            }
        }
    }
}

/// What was said, without words that stand in the program's own source. What is made of such words alone can't be told from the
/// program's own messages; planted words can.
fn without_own_words(said: &[u8]) -> Vec<u8> {
    static OWN: OnceLock<Vec<u8>> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let sources = glob::glob(concat!(env!("CARGO_MANIFEST_DIR"), "/src/**/*.rs")).unwrap();
        sources.flat_map(|source| std::fs::read(source.unwrap()).unwrap()).collect()
    });
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
    let mut rest = said.to_vec();
    for word in rest.chunk_by_mut(|one, next| is_word(one) == is_word(next)).filter(|word| is_word(&word[0])) {
        if memchr::memmem::find(own, word).is_some() {
            word.fill(0);
        }
    }
    rest
}

/// What the zstd frames of a file unpack to.
fn pages(file: &[u8]) -> Vec<Vec<u8>> {
    memchr::memmem::find_iter(file, &[0x28, 0xb5, 0x2f, 0xfd])
        .filter_map(|at| {
            let mut page = Vec::new();
            let mut decoder = zstd::Decoder::new(&file[at..]).ok()?.single_frame();
            std::io::copy(&mut decoder, &mut page).ok()?;
            Some(page)
        })
        .collect()
}

/// Converts a log by the library, under a fresh key.
pub(super) fn library(log: &[u8], profile: Profile, scope: Scope) -> Out {
    let folder = tempfile::tempdir().unwrap();
    let (tokenizer, layout, _) = load(&TokenizerSpec::Builtin).unwrap();
    let rules = Rules::new(profile, &[], 64);
    let options = Options {
        rules: rules.clone(),
        scope,
        prompt_scale: PromptScale::None,
        drop_auxiliary: false,
        min_requests: 1,
        selection: Selection::default(),
        reuse: 1 << 20,
    };
    let mut converter = Converter::new(options, &Key::fresh().unwrap(), layout, Box::new(tokenizer));
    let mut said = String::new();
    match open_stream(Box::new(std::io::Cursor::new(log.to_vec())), 0, Limits::default()) {
        Ok((_, records)) => {
            for record in records {
                if let Err(error) = converter.push(record) {
                    said += &format!("{error}\n{error:?}\n");
                }
            }
        }
        Err(error) => said += &format!("{error}\n{error:?}\n"),
    }
    let (sessions, summary) = converter.finish();
    said += &format!("{summary:?}");
    if !sessions.is_empty() {
        let skipped = summary.skipped.values().sum();
        let head = manifest(&rules, scope, SkipCounts { records: summary.read, skipped });
        let mut sink = Directory.create(&folder.path().join("trace"), head, false).unwrap();
        for session in &sessions {
            sink.session(session).unwrap();
        }
        sink.finish().unwrap();
    }
    Out { folder, said: said.into_bytes(), requests: summary.kept }
}

fn manifest(rules: &Rules, scope: Scope, counts: SkipCounts) -> Manifest {
    Manifest {
        format_version: FORMAT_VERSION,
        tool: ToolVersion { name: ToolName::Tracecloak, major: 0, minor: 0, patch: 0 },
        profile: rules.profile,
        kept: rules.kept.clone(),
        block_size: rules.block_size,
        scope,
        k: None,
        k_unit: None,
        tokenizer: Named { name: TokenizerName::Builtin, sha256: None },
        chat_template: Named { name: TemplateName::Neutral, sha256: None },
        normalizers: normalizers(),
        quanta: rules.quanta(),
        prompt_scale: PromptScale::None,
        source_formats: vec![SourceFormat::ALL[0]],
        totals: Totals::default(),
        loss: Vec::new(),
        skip_counts: rules.keeps(Keep::SkipCounts).then_some(counts),
        license: None,
        files: Vec::new(),
    }
}

/// Converts a log by the program; `flags` follow.
pub(super) fn program(log: &[u8], flags: &[&str]) -> Out {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("log"), folder.path().join("trace"));
    std::fs::write(&input, log).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracecloak"));
    command.args(["convert", input.to_str().unwrap(), "-o", output.to_str().unwrap()]).args(flags).env_clear();
    let result = command.output().unwrap();
    let code = result.status.code();
    assert!(matches!(code, Some(0 | 2)), "{code:?}: {}", String::from_utf8_lossy(&result.stderr));
    // The names of the folder are the user's own, who gave them.
    let mut said = [result.stdout, result.stderr].concat();
    let own = folder.path().to_str().unwrap().to_owned();
    said = String::from_utf8(said).unwrap().replace(&own, "").into_bytes();
    Out { folder, said, requests: u64::from(code == Some(0)) }
}

/// The check that users run, over files.
pub(super) fn check(log: &Path, out: &Out) {
    let report = check_logs(&Inputs::expand(&[log]).unwrap(), &out.residual(), WARNING_WINDOW, None, 2, &|_| {});
    let report = report.unwrap();
    assert!(report.complete && report.windows.is_empty() && report.hashes.is_empty(), "{report:?}");
    assert!(report.coverage.exchanges > 0 && report.coverage.strings > 0);
}
