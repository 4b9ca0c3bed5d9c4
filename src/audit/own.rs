//! Our own format: decoded, held to its manifest, written again, and compared byte by byte.
//!
//! Invariant: a trace without a finding is, byte for byte, what the one writer makes of its rows; so every byte is a function of
//! them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;

use super::detect::{entropy, is_hex_text};
use super::finding::Place;
use super::view::{ColumnView, Facts, Feed, FileView, Kind, SessionDigest};
use super::vocab::{Role, Shape};
use crate::format::parquet::{Limits, Reader, Writer};
use crate::format::{Fault, FileName, FormatError, TraceSink, TraceSource, card, manifest};
use crate::trace::vocab::{DelayKind, Keep, Profile, RequestKind, Vocabulary};
use crate::trace::{Manifest, Session};

/// Whether a folder is a trace of ours: by its manifest.
pub(crate) fn is_trace(path: &Path) -> bool {
    let path = path.join("manifest.json");
    let mut head = Vec::new();
    fs::symlink_metadata(&path).is_ok_and(|data| data.is_file())
        && fs::File::open(&path).and_then(|file| file.take(200).read_to_end(&mut head)).is_ok()
        && memchr::memmem::find(&head, b"\"format_version\"").is_some()
}

/// Audits a trace; also says whether its files have to be looked at one by one.
pub(crate) fn audit(path: &Path, names: &[OsString], scratch: &Path, feed: &mut Feed<'_>) -> (FileView, bool) {
    let mut view = FileView::default();
    let read = Reader::open(path, true).map_err(|error| fact(&mut view.facts, &error)).ok();
    let Some(reader) = read else { return (view, true) };
    let manifest = reader.manifest().clone();
    let files =
        manifest.files.iter().map(|file| FileName::Table { table: file.table, part: file.part, parts: file.parts });
    view.format_files = files.chain([FileName::Manifest, FileName::Card]).map(|name| name.to_string()).collect();
    for name in names {
        if !name.to_str().is_some_and(|name| view.format_files.contains(name)) {
            view.facts.add(Kind::UndeclaredFile, Place::default(), "a file that the manifest does not name", None);
        }
    }
    let mut rules = Held { manifest: &manifest, facts: &mut view.facts, numbers: BTreeMap::new() };
    rules.head();
    let mut writer = Writer::create(scratch, manifest.clone(), false, Limits::default()).map(Box::new);
    let mut failed = None;
    let mut row = 0u64;
    for session in reader {
        let session = match session {
            Ok(session) => session,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        rules.session(&session, row);
        feed.dataset.sessions.push(digest(&session, feed.report.file(), row));
        row += 1;
        if let Ok(sink) = &mut writer
            && let Err(error) = sink.session(&session)
        {
            writer = Err(error);
        }
    }
    let numbers = std::mem::take(&mut rules.numbers);
    for (column, values) in numbers.into_iter().filter(|(_, values)| !values.is_empty()) {
        columns(column, &values, &mut view, feed);
    }
    view.configuration = view.columns.iter().any(|(column, ..)| column.ends_with("tools_tokens"));
    view.rows = row;
    view.exact_lengths = manifest.quanta.input_tokens <= 1 || manifest.quanta.output_tokens <= 1;
    if let Some(error) = failed {
        fact(&mut view.facts, &error);
        return (view, true);
    }
    let same = writer.and_then(TraceSink::finish).map(|written| {
        let bytes = |name: FileName| fs::read(path.join(name.to_string())).unwrap_or_default();
        let json = manifest::to_json(&written).unwrap_or_default();
        written == manifest
            && bytes(FileName::Manifest) == json.as_bytes()
            && bytes(FileName::Card) == card::render(&manifest).as_bytes()
    });
    // What was written is of no further use.
    drop(fs::remove_dir_all(scratch));
    match same {
        Ok(true) => return (view, false),
        Ok(false) => view.facts.add(Kind::Reencoded, Place::default(), "written again, some byte differs", None),
        Err(_) => {
            view.facts.add(Kind::Undecodable, Place::default(), "it could not be written again for comparison", None);
        }
    }
    (view, true)
}

/// Lets the checks see a column's numbers.
fn columns(label: &'static str, values: &[i64], view: &mut FileView, feed: &mut Feed<'_>) {
    static COUNT: Shape = Shape::Int(u64::MAX);
    let column = ColumnView {
        label,
        shape: Some(&COUNT),
        role: Role::Plain,
        row: 0,
        values,
        lists: &[],
        floats: &[],
        bits: &[],
        json: false,
        outputs: &[],
    };
    let checks = feed.checks;
    checks.iter().for_each(|check| check.column(&column, feed.report));
    let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
    values.iter().for_each(|value| *counts.entry(*value).or_default() += 1);
    view.columns.push((label.to_owned(), super::wide(values.len()), entropy(counts.values().copied())));
}

fn digest(session: &Session, file: &str, row: u64) -> SessionDigest {
    let lengths =
        session.requests.iter().map(|request| (request.input_tokens.into(), request.output_tokens.unwrap_or(0).into()));
    let parts = session.requests.first().and_then(|request| request.tools_tokens.zip(request.system_tokens));
    let configuration = parts.map_or_else(Vec::new, |(tools, system)| vec![tools.into(), system.into()]);
    SessionDigest { file: file.to_owned(), row, lengths: lengths.collect(), configuration }
}

/// A broken rule of the format as a fact.
fn fact(facts: &mut Facts, error: &FormatError) {
    let (kind, message) = match error {
        FormatError::Value { fault: Fault::NotDense | Fault::Order | Fault::Orphan, .. } => {
            (Kind::Dense, "rows that are not dense and in order")
        }
        FormatError::Value { fault: Fault::Tree(_) | Fault::Extends, .. } => {
            (Kind::Canonical, "a prefix that is not the canonical one")
        }
        FormatError::Value { fault: Fault::OutOfSession | Fault::Direction, .. } => {
            (Kind::Scope, "a row that names a row of another session")
        }
        FormatError::Value { .. } | FormatError::Member { .. } => {
            (Kind::Domain, "a value that breaks a rule of the format")
        }
        FormatError::File { fault: Fault::Sha256, .. } => {
            (Kind::Reencoded, "a file with another sha256 than the manifest says")
        }
        FormatError::File { fault: Fault::Columns, .. } => (Kind::Undeclared, "columns that are not the declared ones"),
        FormatError::Json { .. } => (Kind::Domain, "a manifest with undeclared members or values"),
        _ => (Kind::Undecodable, "a table that can't be decoded"),
    };
    let place = match error {
        FormatError::Value { table, row, column, .. } => Place::column(&format!("{}.{column}", table.word())).row(*row),
        FormatError::File { file, .. } | FormatError::Io { file, .. } => Place::column(&file.to_string()),
        FormatError::Member { member, .. } => Place::column(member),
        _ => Place::default(),
    };
    facts.add(kind, place, message, None);
}

/// A trace is held to the profile that its manifest declares.
struct Held<'m> {
    manifest: &'m Manifest,
    facts: &'m mut Facts,
    /// Numbers that are no function of others, by column: they are written again whatever they spell.
    numbers: BTreeMap<&'static str, Vec<i64>>,
}

impl Held<'_> {
    /// Whether the profile lets an item through.
    fn keeps(&self, item: Keep) -> bool {
        self.manifest.profile != Profile::Public || self.manifest.kept.contains(&item)
    }

    fn profile(&mut self, column: &str, row: u64, kept: bool) {
        if !kept {
            let place = Place::column(column).row(row);
            self.facts.add(Kind::Profile, place, "a value that the declared profile does not keep", None);
        }
    }

    fn number(&mut self, column: &'static str, value: Option<u64>) {
        self.numbers.entry(column).or_default().extend(value.and_then(|value| i64::try_from(value).ok()));
    }

    fn quantum(&mut self, column: &str, row: u64, value: impl Into<u64>, step: u32) {
        if step > 1 && value.into() % u64::from(step) != 0 {
            let place = Place::column(column).row(row);
            self.facts.add(Kind::Quantum, place, "a number that is no multiple of its declared step", None);
        }
    }

    fn head(&mut self) {
        let manifest = self.manifest;
        let quanta = manifest.quanta;
        let digests = [&manifest.tokenizer.sha256, &manifest.chat_template.sha256];
        if digests.iter().copied().flatten().any(|digest| is_hex_text(&digest.to_string())) {
            self.facts.add(Kind::Domain, Place::column("manifest.sha256"), "a digest that is a text", None);
        }
        let hash = manifest.tokenizer.sha256.is_some() || manifest.chat_template.sha256.is_some();
        self.profile("manifest.tokenizer", 0, !hash || self.keeps(Keep::TokenizerHash));
        self.profile("manifest.skip_counts", 0, manifest.skip_counts.is_none() || self.keeps(Keep::SkipCounts));
        let lengths = quanta.input_tokens >= manifest.block_size && quanta.output_tokens >= 16;
        self.profile("manifest.quanta", 0, lengths || self.keeps(Keep::ExactLengths));
        self.profile("manifest.quanta", 0, quanta.machine_ms >= 10 || self.keeps(Keep::MachineTimes));
        self.profile("manifest.quanta", 0, quanta.user_ms >= 1000 || self.keeps(Keep::UserDelays));
    }

    fn session(&mut self, session: &Session, row: u64) {
        let quanta = self.manifest.quanta;
        self.profile("sessions.start_ms", row, session.start_ms.is_none() || self.keeps(Keep::Arrivals));
        for request in &session.requests {
            let numbers = [
                ("requests.input_tokens", Some(u64::from(request.input_tokens))),
                ("requests.output_tokens", request.output_tokens.map(u64::from)),
                ("requests.duration_ms", request.duration_ms.map(u64::from)),
                ("requests.ttft_ms", request.ttft_ms.map(u64::from)),
                ("requests.tools_tokens", request.tools_tokens.map(u64::from)),
                ("requests.system_tokens", request.system_tokens.map(u64::from)),
            ];
            numbers.into_iter().for_each(|(column, value)| self.number(column, value));
            self.quantum("requests.input_tokens", row, request.input_tokens, quanta.input_tokens);
            self.quantum("requests.output_tokens", row, request.output_tokens.unwrap_or(0), quanta.output_tokens);
            for (column, value) in
                [("requests.duration_ms", request.duration_ms), ("requests.ttft_ms", request.ttft_ms)]
            {
                self.quantum(column, row, value.unwrap_or(0), quanta.machine_ms);
            }
            let usage = request.usage;
            let counts = [
                usage.input,
                usage.cache_read,
                usage.cache_write_5m,
                usage.cache_write_1h,
                usage.output,
                usage.reasoning,
            ];
            self.profile("requests.usage", row, counts.iter().all(Option::is_none) || self.keeps(Keep::Usage));
            let parts = request.tools_tokens.is_some() || request.system_tokens.is_some();
            self.profile("requests.tools_tokens", row, !parts || self.keeps(Keep::PartTokens));
            self.profile("requests.extends", row, !request.prefix.extends || self.keeps(Keep::ExactLengths));
            self.profile(
                "requests.kind",
                row,
                request.kind != RequestKind::CountTokens || self.keeps(Keep::CountTokens),
            );
        }
        for edge in &session.edges {
            self.number("edges.delay_ms", Some(edge.delay_ms));
            let user = edge.delay_kind == DelayKind::User;
            self.quantum("edges.delay_ms", row, edge.delay_ms, if user { quanta.user_ms } else { quanta.machine_ms });
        }
        for tool in &session.tools {
            let sizes = tool.input_tokens.is_some() || tool.output_tokens.is_some();
            let times = tool.start_ms.is_some() || tool.duration_ms.is_some();
            self.profile("tools.input_tokens", row, !sizes || self.keeps(Keep::ToolSizes));
            self.profile("tools.duration_ms", row, !times || self.keeps(Keep::ToolTimes));
        }
    }
}
