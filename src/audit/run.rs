//! An audit from paths to an outcome.
//!
//! Invariant: every file below the paths is looked at or reported as not audited; labels are relative, and names that are not made
//! of generic words are shown as a number.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::check::{CHECKS, Check, find};
use super::finding::{Finding, Place, Severity};
use super::own;
use super::report::Report;
use super::risk::{ColumnBits, Risk, assess};
use super::rules::Rules;
use super::view::{Dataset, Facts, Feed, FileView, Kind, Limits, open};
use super::vocab::words::{is_plain_file, is_plain_name};

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
    /// Whether the source check runs too; otherwise L104 says that it did not.
    pub source: bool,
    /// Whether the system would write a core dump.
    pub core_dumps: bool,
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
}

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
    };
    let mut run = Run { options, files: Vec::new(), columns: Vec::new() };
    for (number, path) in paths.iter().enumerate() {
        let io = |error: io::Error| AuditError::Path(number + 1, error.kind());
        if fs::metadata(path).map_err(io)?.is_dir() {
            run.folder(path, Path::new(""), number, &mut feed).map_err(io)?;
        } else {
            let name = path.file_name().map_or(path.as_path(), Path::new);
            run.file(path, name, number, &mut feed).map_err(io)?;
        }
        if run.files.len() > FILES {
            return Err(AuditError::TooMany);
        }
    }
    let Run { files, columns, .. } = run;
    CHECKS.iter().for_each(|check| check.dataset(&dataset, &mut report));
    report.begin("all files");
    if !options.source {
        note(&mut report, "L104", "the logs were not given");
    }
    if options.core_dumps {
        note(&mut report, "L141", "the system writes core dumps");
    }
    let undecodable = report.undecodable;
    let (findings, accepted): (Vec<_>, Vec<_>) =
        report.into_findings().into_iter().partition(|finding| !is_accepted(finding, options));
    Ok(Outcome {
        findings,
        accepted: crate::audit::wide(accepted.len()),
        files,
        undecodable,
        risk: assess(&dataset, columns, options.local),
    })
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
                if !is_plain_name(name.as_encoded_bytes()) {
                    feed.report.begin(&self.label(&relative, number));
                    let mut view = FileView::default();
                    view.facts.add(
                        Kind::FileName,
                        Place::default(),
                        "a folder name that is not made of generic words",
                        None,
                    );
                    conclude(&view, feed);
                }
                self.folder(&path, &relative, number, feed)?;
            } else if kind.is_file() {
                self.file(&path, &relative, number, feed)?;
            } else {
                feed.report.begin(&self.label(&relative, number));
                let mut view = FileView::default();
                view.facts.add(Kind::Undecodable, Place::default(), "a link, a socket or a device", None);
                conclude(&view, feed);
            }
        }
        Ok(())
    }

    fn label(&self, relative: &Path, number: usize) -> String {
        let plain = relative
            .iter()
            .all(|part| part.to_str().is_some_and(|part| is_plain_file(part) || is_plain_name(part.as_bytes())));
        match relative.to_str() {
            Some(text) if plain && !super::detect::has_date(text) && !text.is_empty() => text.to_owned(),
            Some("") => format!("path {}", number + 1),
            _ => format!("file {}", self.files.len() + 1),
        }
    }

    fn file(&mut self, path: &Path, relative: &Path, number: usize, feed: &mut Feed<'_>) -> io::Result<()> {
        let label = self.label(relative, number);
        feed.report.begin(&label);
        let mut bytes = Vec::new();
        let most = crate::audit::wide(feed.limits.bytes);
        fs::File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        let mut view = if bytes.len() > feed.limits.bytes {
            let mut view = FileView::default();
            view.facts.add(Kind::Undecodable, Place::default(), "a file larger than can be looked at", None);
            view
        } else {
            open(&bytes, 0, feed)
        };
        names(relative, &mut view.facts);
        process(path, &bytes, &mut view.facts);
        conclude(&view, feed);
        self.keep(label, &bytes, &view);
        Ok(())
    }

    fn keep(&mut self, file: String, bytes: &[u8], view: &FileView) {
        use sha2::Digest;
        let sha256 = crate::trace::manifest::Sha256(sha2::Sha256::digest(bytes).into()).to_string();
        self.files.push(AuditedFile {
            file,
            bytes: crate::audit::wide(bytes.len()),
            sha256,
            format: view.format.map(|format| format.name),
        });
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
            if !expected && kind.is_dir() {
                self.folder(&path, &relative, number, feed)?;
            } else if !expected || damaged {
                self.file(&path, &relative, number, feed)?;
            } else {
                let bytes = fs::read(&path)?;
                let label = self.label(&relative, number);
                self.keep(label, &bytes, &FileView::default());
            }
        }
        Ok(())
    }
}

/// What is known of a file goes to the checks.
fn conclude(view: &FileView, feed: &mut Feed<'_>) {
    let checks: &[&dyn Check] = feed.checks;
    checks.iter().for_each(|check| check.file(view, feed.report));
}

/// Facts about a file's own name.
fn names(relative: &Path, facts: &mut Facts) {
    let name = relative.file_name().and_then(|name| name.to_str()).unwrap_or("\u{fffd}");
    if !is_plain_file(name) {
        facts.add(Kind::FileName, Place::default(), "a name that is not made of generic words", None);
    }
    if super::detect::has_date(name) {
        facts.add(Kind::NameDate, Place::default(), "a date in a file name", None);
    }
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
