//! An audit from paths to an outcome.
//!
//! Invariant: every file below the paths is looked at or reported as not audited; labels are relative, and names that are not made
//! of generic words are shown as a number.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::Digest as _;

use super::check::{CHECKS, Check, find};
use super::finding::{Finding, Place, Severity};
use super::own;
use super::report::Report;
use super::risk::{ColumnBits, Risk, assess};
use super::rules::Rules;
use super::view::{Dataset, Facts, Feed, FileView, Kind, Limits, open_file};
use super::vocab::words::{Naming, naming};

/// Most names with a word of their own that are taken for the names of data sets.
const WORDS: usize = 3;

/// More than a key file has.
const HEAD: usize = 128;

/// Most files of one audit.
const FILES: usize = 1 << 17;

/// What to audit, and how.
#[derive(Debug)]
pub struct Options {
    /// Secret rules.
    pub rules: Rules,
    /// `(check, path)`: findings that are accepted, everywhere or in files whose label begins with the path.
    pub allow: Vec<(String, Option<String>)>,
    /// Findings that were there before.
    pub baseline: Baseline,
    /// A folder that does not exist yet, for writing our own traces again.
    pub scratch: PathBuf,
    /// Bounds.
    pub limits: Limits,
    /// Whether single sessions may be named.
    pub local: bool,
    /// What was found with the logs.
    pub source: SourceOutcome,
    /// Whether the system would write a core dump.
    pub core_dumps: bool,
}

/// What the checks that need the logs came to.
#[derive(Clone, Debug, Default)]
pub struct SourceOutcome {
    /// Those that ran, and saw everything. If L100 is none of them, L104 says so.
    pub ran: Vec<&'static str>,
    /// What they found.
    pub findings: Vec<Finding>,
    /// Whether logs were given.
    pub asked: bool,
}

/// Findings that were there before, as `id:file:column`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(pub BTreeSet<String>);

impl Baseline {
    /// Reads a baseline: one place a line.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
    }

    /// A baseline that holds these findings.
    pub fn of(findings: &[Finding]) -> String {
        let lines: BTreeSet<String> =
            findings.iter().filter(|finding| finding.severity > Severity::Info).map(Finding::key).collect();
        let lines = lines.into_iter().fold(String::new(), |all, line| all + &line + "\n");
        format!("# findings that were accepted: check, file, column\n{lines}")
    }
}

/// Why an audit could not begin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// There is nothing at this path, or it can't be read.
    #[error("path {0}: {1}")]
    Path(usize, io::ErrorKind),
    /// More files than one audit takes.
    #[error("more than {FILES} files")]
    TooMany,
    /// There is no file at or below the paths.
    #[error("no file to audit")]
    Nothing,
    /// `--allow` names no check.
    #[error("no check has this id")]
    NoCheck,
}

/// What an audit found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Findings, by file, worst first; without those that were allowed or there before.
    pub findings: Vec<Finding>,
    /// How many were allowed or there before.
    pub accepted: u64,
    /// Files looked at: label, bytes, sha256 and format.
    pub files: Vec<AuditedFile>,
    /// Whether something could not be decoded.
    pub undecodable: bool,
    /// What remains.
    pub risk: Risk,
    /// Checks that need the logs and did not run.
    pub not_run: Vec<&'static str>,
}

/// The checks that need the logs.
const NEED_LOGS: &[&str] = &["L100", "L101", "L102", "L103"];

/// A file that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct AuditedFile {
    /// Its label.
    pub file: String,
    /// Its bytes.
    pub bytes: u64,
    /// Of its bytes, in hexadecimal digits.
    pub sha256: String,
    /// The declared format it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<&'static str>,
}

impl Outcome {
    /// The worst severity.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}

/// Audits every file at and below `paths`.
///
/// # Errors
/// If a path can't be read, or there are too many files.
pub fn audit(paths: &[PathBuf], options: &Options) -> Result<Outcome, AuditError> {
    for (id, _) in &options.allow {
        find(id).ok_or(AuditError::NoCheck)?;
    }
    let mut report = Report::default();
    let mut dataset = Dataset::default();
    let mut feed = Feed {
        report: &mut report,
        dataset: &mut dataset,
        rules: &options.rules,
        limits: options.limits,
        checks: CHECKS,
        left: 0,
        sink: None,
    };
    let mut run = Run { options, files: Vec::new(), columns: Vec::new(), words: BTreeSet::new() };
    for (number, path) in paths.iter().enumerate() {
        let io = |error: io::Error| AuditError::Path(number + 1, error.kind());
        if fs::metadata(path).map_err(io)?.is_dir() {
            run.folder(path, &shown(path).unwrap_or_default(), number, &mut feed).map_err(io)?;
        } else {
            let name = shown(path).or_else(|| path.file_name().map(PathBuf::from)).unwrap_or_default();
            run.file(path, &name, number, &mut feed).map_err(io)?;
        }
        if run.files.len() > FILES {
            return Err(AuditError::TooMany);
        }
    }
    let Run { files, columns, .. } = run;
    if files.is_empty() && !report.undecodable {
        return Err(AuditError::Nothing);
    }
    CHECKS.iter().for_each(|check| check.dataset(&dataset, &mut report));
    report.begin("all files");
    let not_run: Vec<_> = NEED_LOGS.iter().copied().filter(|id| !options.source.ran.contains(id)).collect();
    if not_run.contains(&"L100") {
        let asked = "the logs, or what is audited, could not be looked at as a whole";
        note(&mut report, "L104", if options.source.asked { asked } else { "the logs were not given" });
    }
    if options.core_dumps {
        note(&mut report, "L141", "the system writes core dumps");
    }
    let undecodable = report.undecodable;
    let (findings, accepted): (Vec<_>, Vec<_>) = report
        .into_findings()
        .into_iter()
        .chain(options.source.findings.clone())
        .partition(|found| !is_accepted(found, options));
    Ok(Outcome {
        findings,
        accepted: crate::audit::wide(accepted.len()),
        files,
        undecodable,
        risk: assess(&dataset, columns, options.local),
        not_run,
    })
}

/// A path as it was asked for, if it is relative, leads down, and tells nothing: so that whoever reads a report finds the file.
fn shown(path: &Path) -> Option<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let generic = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().filter(|name| naming(name) == Naming::Generic).map(PathBuf::from),
        _ => None,
    };
    parts.map(generic).collect::<Option<PathBuf>>()
}

fn note(report: &mut Report, id: &str, message: &'static str) {
    if let Some(check) = find(id) {
        check.find(report, Place::default(), message, None);
    }
}

fn is_accepted(finding: &Finding, options: &Options) -> bool {
    let allowed = |(id, path): &(String, Option<String>)| {
        id.eq_ignore_ascii_case(finding.id) && path.as_ref().is_none_or(|path| finding.file.starts_with(path.as_str()))
    };
    options.allow.iter().any(allowed) || options.baseline.0.contains(&finding.key())
}

struct Run<'o> {
    options: &'o Options,
    files: Vec<AuditedFile>,
    columns: Vec<ColumnBits>,
    /// Names with a word of their own.
    words: BTreeSet<String>,
}

impl Run<'_> {
    /// A folder: one of our traces, or files of any kind.
    fn folder(&mut self, path: &Path, relative: &Path, number: usize, feed: &mut Feed<'_>) -> io::Result<()> {
        let mut entries =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()?;
        entries.sort();
        if own::is_trace(path) {
            return self.own(path, relative, number, &entries, feed);
        }
        for name in entries {
            let (path, relative) = (path.join(&name), relative.join(&name));
            let kind = fs::symlink_metadata(&path)?.file_type();
            if self.files.len() > FILES {
                return Ok(());
            }
            if kind.is_dir() {
                feed.report.begin(&self.label(&relative, number));
                let mut view = FileView::default();
                self.names(&relative, &mut view.facts);
                conclude(&view, feed);
                self.folder(&path, &relative, number, feed)?;
            } else if kind.is_file() {
                self.file(&path, &relative, number, feed)?;
            } else {
                self.special(&relative, number, feed);
            }
        }
        Ok(())
    }

    /// A link, a socket or a device: what is packed with the rest is not what could be read here.
    fn special(&self, relative: &Path, number: usize, feed: &mut Feed<'_>) {
        feed.report.begin(&self.label(relative, number));
        let mut view = FileView::default();
        view.facts.add(Kind::Undecodable, Place::default(), "a link, a socket or a device", None);
        conclude(&view, feed);
    }

    fn label(&self, relative: &Path, number: usize) -> String {
        let plain = relative.iter().all(|part| part.to_str().is_some_and(|part| naming(part) == Naming::Generic));
        match relative.to_str() {
            Some(text) if plain && !super::detect::has_date(text) && !text.is_empty() => text.to_owned(),
            Some("") => format!("path {}", number + 1),
            _ => format!("file {}", self.files.len() + 1),
        }
    }

    fn file(&mut self, path: &Path, relative: &Path, number: usize, feed: &mut Feed<'_>) -> io::Result<()> {
        let label = self.label(relative, number);
        feed.report.begin(&label);
        let mut seen = Digest::default();
        let mut view = open_file(fs::File::open(path)?, &mut |bytes| seen.update(bytes), feed)?;
        self.names(relative, &mut view.facts);
        process(path, &seen.head, &mut view.facts);
        conclude(&view, feed);
        self.keep(label, seen, &view);
        Ok(())
    }

    /// Facts about the name of a file or folder. Many names with a word each are a text.
    fn names(&mut self, relative: &Path, facts: &mut Facts) {
        let name = relative.file_name().unwrap_or_default();
        let text = name.to_string_lossy();
        if naming(&text) == Naming::Word && self.words.insert(text.to_string()) && self.words.len() > WORDS {
            facts.add(Kind::FileName, Place::default(), "one of many names with a word that is not generic", None);
        } else {
            facts.name(name.as_encoded_bytes(), Place::default());
        }
    }

    fn keep(&mut self, file: String, seen: Digest, view: &FileView) {
        let sha256 = crate::trace::manifest::Sha256(seen.sha256.finalize().into()).to_string();
        self.files.push(AuditedFile { file, bytes: seen.bytes, sha256, format: view.format.map(|format| format.name) });
        for (column, values, bits) in &view.columns {
            let bits = (*bits > 0.0).then_some(*bits);
            self.columns.push(ColumnBits { column: column.clone(), values: *values, bits });
        }
    }

    /// One of our traces.
    fn own(
        &mut self,
        path: &Path,
        relative: &Path,
        number: usize,
        names: &[std::ffi::OsString],
        feed: &mut Feed<'_>,
    ) -> io::Result<()> {
        let label = self.label(relative, number);
        feed.report.begin(&label);
        let (view, damaged) = own::audit(path, names, &self.options.scratch, feed);
        conclude(&view, feed);
        for name in names {
            let (path, relative) = (path.join(name), relative.join(name));
            let kind = fs::symlink_metadata(&path)?.file_type();
            let expected = view.format_files.contains(name.to_str().unwrap_or_default());
            if !kind.is_dir() && !kind.is_file() {
                self.special(&relative, number, feed);
            } else if !expected && kind.is_dir() {
                self.folder(&path, &relative, number, feed)?;
            } else if !expected || damaged {
                self.file(&path, &relative, number, feed)?;
            } else {
                let mut seen = Digest::default();
                seen.update(&fs::read(&path)?);
                let label = self.label(&relative, number);
                self.keep(label, seen, &FileView::default());
            }
        }
        Ok(())
    }
}

/// What of a file's bytes is kept: how many, their hash, and the first few.
#[derive(Default)]
struct Digest {
    bytes: u64,
    sha256: sha2::Sha256,
    head: Vec<u8>,
}

impl Digest {
    fn update(&mut self, bytes: &[u8]) {
        self.bytes += crate::audit::wide(bytes.len());
        self.sha256.update(bytes);
        let room = HEAD.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// What is known of a file goes to the checks.
fn conclude(view: &FileView, feed: &mut Feed<'_>) {
    let checks: &[&dyn Check] = feed.checks;
    checks.iter().for_each(|check| check.file(view, feed.report));
}

/// Facts about what must not lie beside a trace.
fn process(path: &Path, bytes: &[u8], facts: &mut Facts) {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ends = [".log", ".journal", ".core", "-wal", "-shm", ".swp", ".tmp"].iter().any(|end| name.ends_with(end));
    if ends || name == "core" || name.starts_with("core.") {
        facts.add(Kind::DebugLog, Place::default(), "a log, a core dump or a journal", None);
    }
    let key = bytes.len() == 65 && bytes.iter().take(64).all(u8::is_ascii_hexdigit);
    if key || bytes.starts_with(b"AGE-SECRET-KEY-1") {
        use std::os::unix::fs::PermissionsExt;
        let open = fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
        facts.add(
            Kind::KeyMode,
            Place::default(),
            if open { "a key file that others can read" } else { "a key file beside the trace" },
            None,
        );
    }
}
