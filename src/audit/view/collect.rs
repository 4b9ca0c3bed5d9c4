//! Where every reader puts what it finds: values by path, requests, sessions.
//!
//! Invariant: a declared value is checked against its declaration here and then counted; what is left open goes to the checks,
//! string by string and column by column, and is forgotten.

use super::choices::{Choice, Orders, pack};
use super::fact::{Facts, Kind};
use super::node::Nodes;
use super::{ColumnView, Dataset, FileView, RequestView, SessionDigest, SessionView, Sink, TextView};
use crate::audit::check::Check;
use crate::audit::detect::{entropy, float};
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::rules::Rules;
use crate::audit::vocab::{Format, Role, Shape, closed};

/// Numbers of a column that are held before the checks see them.
const CHUNK: usize = 1 << 20;
/// Open strings of a file that all checks look at; the rest only counts as text.
const DEEP: u64 = 1 << 16;
/// Bytes of them.
const DEEP_BYTES: u64 = 64 << 20;
/// Bytes of a string that checks look at.
const TEXT: usize = 1 << 20;
/// Different values of a column that are counted one by one.
const DISTINCT: usize = 1 << 14;
/// Block ids of one session.
pub(crate) const IDS: usize = 1 << 26;

/// What is shared by all files of a run.
#[derive(Debug)]
pub struct Feed<'a> {
    /// Findings.
    pub report: &'a mut Report,
    /// What is kept across files.
    pub dataset: &'a mut Dataset,
    /// Secret rules.
    pub rules: &'a Rules,
    /// Bounds.
    pub limits: super::Limits,
    /// The checks to run.
    pub checks: &'a [&'static dyn Check],
    /// Bytes that may still be unpacked from the file.
    pub left: usize,
    /// Who else wants the values.
    pub sink: Option<&'a mut dyn Sink>,
}

impl std::fmt::Debug for dyn Check {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.meta().id)
    }
}

/// Takes one file's values.
#[derive(Debug)]
pub(crate) struct Collector<'f, 'a> {
    pub(crate) feed: &'f mut Feed<'a>,
    pub(crate) view: FileView,
    pub(crate) nodes: Nodes,
    pub(crate) row: u64,
    json: bool,
    texts: u64,
    objects: u64,
    frames: Vec<RequestView>,
    ids: Vec<u64>,
    requests: Vec<RequestView>,
    block_size: Option<u64>,
    scope: Option<bool>,
    configuration: Vec<u64>,
    session_row: u64,
    raw_ids: Vec<u64>,
    ids_label: String,
    pub(super) orders: Orders,
}

impl<'f, 'a> Collector<'f, 'a> {
    pub(crate) fn new(feed: &'f mut Feed<'a>, facts: Facts, format: Option<&'static Format>, json: bool) -> Self {
        Self {
            feed,
            view: FileView { facts, format, ..FileView::default() },
            nodes: Nodes::new(format.map(|format| &format.record)),
            row: 0,
            json,
            texts: 0,
            objects: 0,
            frames: Vec::new(),
            ids: Vec::new(),
            requests: Vec::new(),
            block_size: None,
            scope: None,
            configuration: Vec::new(),
            session_row: 0,
            raw_ids: Vec::new(),
            ids_label: String::new(),
            orders: Orders::default(),
        }
    }

    /// Adds a fact about a column.
    pub(crate) fn fact(&mut self, kind: Kind, node: usize, offset: Option<usize>, message: &'static str) {
        let label = self.nodes.get(node).map(|node| node.label.clone()).filter(|label| !label.is_empty());
        let place = Place { column: label, ..Place::default() }.row(self.row);
        let place = if let Some(offset) = offset { place.offset(offset) } else { place };
        self.view.facts.add(kind, place, message, None);
    }

    /// An object begins.
    pub(crate) fn begin_object(&mut self, node: usize, offset: Option<usize>) -> u64 {
        self.objects += 1;
        match self.nodes.shape(node) {
            Some(Shape::Request(_)) => {
                let at = self.ids.len();
                self.frames.push(RequestView { ids: at..at, row: self.row, ..RequestView::default() });
            }
            Some(Shape::Object(_)) | None => (),
            Some(_) => self.fact(Kind::Domain, node, offset, "an object where the format has none"),
        }
        if let Some(node) = self.nodes.get_mut(node) {
            node.objects += 1;
        }
        self.objects
    }

    /// A member of the object with this serial number begins: gives its node.
    pub(crate) fn member(&mut self, object: u64, parent: usize, name: &[u8], offset: Option<usize>) -> usize {
        let child = self.nodes.child(parent, name, self.row);
        let Some(node) = self.nodes.get_mut(child) else { return child };
        let twice = std::mem::replace(&mut node.stamp, object) == object && !node.overflow;
        if twice {
            self.fact(Kind::Spelling, child, offset, "a member stands twice in one object");
        } else {
            self.follows(object, parent, child);
        }
        child
    }

    /// An object ends.
    pub(crate) fn end_object(&mut self, node: usize) {
        if matches!(self.nodes.shape(node), Some(Shape::Request(_)))
            && let Some(request) = self.frames.pop()
            && (!request.ids.is_empty() || request.input.is_some() || request.output.is_some())
        {
            self.requests.push(request);
        }
    }

    /// A list begins: gives the node of its elements.
    pub(crate) fn begin_list(&mut self, node: usize, offset: Option<usize>) -> usize {
        if !matches!(self.nodes.shape(node), Some(Shape::List(_)) | None) {
            self.fact(Kind::Domain, node, offset, "a list where the format has none");
        }
        self.nodes.element(node, self.row)
    }

    /// A list ends.
    pub(crate) fn end_list(&mut self, element: usize) {
        let output = self.frames.last().and_then(|frame| frame.output);
        if let Some(node) = self.nodes.get_mut(element)
            && node.role != Role::Ids
            && (node.count > 0)
        {
            node.lists.push(node.values.len().max(node.floats.len()));
            node.outputs.extend(output);
        }
    }

    /// Whether numbers here are the block ids of a request, so that the fast way may be taken.
    pub(crate) fn is_ids(&self, element: usize) -> bool {
        self.nodes.get(element).is_some_and(|node| node.role == Role::Ids && node.shape.is_some())
    }

    /// Where block ids go.
    pub(crate) fn ids_mut(&mut self) -> &mut Vec<u64> {
        &mut self.ids
    }

    /// Block ids from `from` on were added the fast way.
    pub(crate) fn ids_added(&mut self, element: usize, from: usize) {
        let most = match self.nodes.shape(element) {
            Some(Shape::Int(most)) => *most,
            _ => u64::MAX,
        };
        if let Some(frame) = self.frames.last_mut() {
            // A request inside another one (of a subagent) has ids of its own.
            frame.ids = if frame.ids.is_empty() { from..self.ids.len() } else { frame.ids.start..self.ids.len() };
        }
        let new = self.ids.get(from..).unwrap_or_default();
        let raw = new.iter().copied().filter(|id| *id > 1 << 32).take(4096usize.saturating_sub(self.raw_ids.len()));
        self.raw_ids.extend(raw);
        let outside = new.iter().any(|id| *id > most);
        if self.ids_label.is_empty() {
            self.ids_label = self.nodes.get(element).map(|node| node.label.clone()).unwrap_or_default();
        }
        if outside {
            self.fact(Kind::Domain, element, None, "a block id that no dense numbering reaches");
        }
        if self.ids.len() > IDS {
            self.fact(Kind::Undecodable, element, None, "more block ids than can be held");
            self.ids.clear();
            self.requests.clear();
        }
    }

    /// An integer. Values from 2^63 to 2^64 come as their bit pattern, with `high` set.
    pub(crate) fn int(&mut self, node: usize, value: i64, high: bool, offset: Option<usize>) {
        let Some(at) = self.nodes.get_mut(node) else { return };
        at.count += 1;
        let (shape, role) = (at.shape, at.role);
        let value_u = if high || value >= 0 { Some(value.cast_unsigned()) } else { None };
        let fits = match shape {
            None => true,
            Some(Shape::Int(most) | Shape::Number(most)) => value_u.is_some_and(|value| value <= *most),
            Some(Shape::Signed(most)) => value == -1 || value_u.is_some_and(|value| value <= *most),
            Some(_) => false,
        };
        if role == Role::Ids && shape.is_some() {
            let from = self.ids.len();
            self.ids.push(value.cast_unsigned());
            self.ids_added(node, from);
            return;
        }
        at.values.push(value);
        at.choices.add(Choice::Fraction, false);
        at.choices.add(Choice::Null, false);
        if at.histogram.len() < DISTINCT {
            *at.histogram.entry(value).or_default() += 1;
        }
        let full = at.values.len() >= CHUNK;
        if !fits {
            self.fact(Kind::Domain, node, offset, "a number outside its domain");
        }
        self.role(node, role, value_u, value_u.map(float));
        if full {
            self.flush(node);
        }
    }

    fn role(&mut self, node: usize, role: Role, value: Option<u64>, time: Option<f64>) {
        if self.nodes.shape(node).is_none() {
            return;
        }
        match (role, self.frames.last_mut()) {
            (Role::Input, Some(frame)) => frame.input = value,
            (Role::Output, Some(frame)) => frame.output = value,
            (Role::Time, Some(frame)) => frame.time = time,
            (Role::Session, Some(frame)) => frame.session = value,
            (Role::BlockSize, _) => self.block_size = value.or(self.block_size),
            (Role::Configuration, frame) => {
                self.view.configuration |= value.is_some_and(|value| value > 0);
                if frame.is_none() {
                    self.configuration.extend(value);
                }
            }
            _ => (),
        }
        self.view.exact_lengths |= matches!(role, Role::Input | Role::Output);
    }

    /// A number with a fraction, or too long for 64 bits.
    pub(crate) fn float(&mut self, node: usize, value: f64, offset: Option<usize>) {
        let Some(at) = self.nodes.get_mut(node) else { return };
        at.count += 1;
        at.floats.push(value);
        at.choices.add(Choice::Fraction, true);
        at.choices.add(Choice::Null, false);
        if value == 0.0 {
            at.choices.add(Choice::Sign, value.is_sign_negative());
        }
        let (shape, role, full) = (at.shape, at.role, at.floats.len() >= CHUNK);
        let fits = match shape {
            None => true,
            Some(Shape::Number(most)) => (0.0..=float(*most)).contains(&value),
            Some(_) => false,
        };
        if !fits {
            self.fact(Kind::Domain, node, offset, "a number outside its domain");
        }
        self.role(node, role, None, Some(value));
        if full {
            self.flush(node);
        }
    }

    /// True or false.
    pub(crate) fn boolean(&mut self, node: usize, value: bool, offset: Option<usize>) {
        let Some(at) = self.nodes.get_mut(node) else { return };
        at.others_seen += 1;
        at.bits.push(value);
        at.choices.add(Choice::Null, false);
        let full = at.bits.len() >= CHUNK;
        if !matches!(self.nodes.shape(node), None | Some(Shape::Bool)) {
            self.fact(Kind::Domain, node, offset, "true or false where the format has another type");
        }
        if full {
            self.flush(node);
        }
    }

    /// Null: always allowed.
    pub(crate) fn null(&mut self, node: usize) {
        if let Some(at) = self.nodes.get_mut(node) {
            at.others_seen += 1;
            if at.choices.add(Choice::Null, true) {
                self.look(node);
            }
        }
    }

    /// A string.
    pub(crate) fn text(&mut self, node: usize, bytes: &[u8], offset: Option<usize>) {
        let Some(at) = self.nodes.get_mut(node) else { return };
        at.texts += 1;
        let full = at.choices.add(Choice::Null, false);
        let (shape, role) = (at.shape, at.role);
        if full {
            self.look(node);
        }
        if role == Role::Session
            && let Some(frame) = self.frames.last_mut()
        {
            frame.session = Some(xxhash_rust::xxh3::xxh3_64(bytes));
        }
        if role == Role::Scope {
            self.scope = Some(bytes == b"local");
        }
        if self.view.open_bytes > crate::audit::wide(self.feed.limits.bytes) {
            // A short dictionary can stand for strings without end.
            self.fact(Kind::Undecodable, node, offset, "more text than can be looked at");
            return;
        }
        let proved = bytes.is_empty() || shape.is_some_and(|shape| closed::proves(shape, bytes));
        if let Some(sink) = self.feed.sink.as_mut() {
            if proved {
                sink.proved(bytes);
            } else {
                sink.text(self.nodes.label(node), bytes);
            }
        }
        if proved {
            let numbered = matches!(shape, Some(Shape::Opaque | Shape::Numbered(_)));
            if let (Some(number), Some(at)) = (closed::number(bytes).filter(|_| numbered), self.nodes.get_mut(node)) {
                at.values.push(number);
            }
            return;
        }
        self.texts += 1;
        self.view.open_bytes += crate::audit::wide(bytes.len());
        let label = self.nodes.label(node).to_owned();
        let bytes = bytes.get(..TEXT).unwrap_or(bytes);
        let text = TextView { label: &label, shape, row: self.row, offset, bytes, rules: self.feed.rules };
        let checks = self.feed.checks;
        let deep = self.texts <= DEEP && self.view.open_bytes <= DEEP_BYTES;
        for check in checks.iter().filter(|check| deep || check.meta().id == "L001") {
            check.text(&text, self.feed.report);
        }
    }

    /// A record ends.
    pub(crate) fn end_record(&mut self) {
        self.row += 1;
        if self.view.format.is_some_and(|format| format.local) {
            self.end_session();
        }
    }

    fn end_session(&mut self) {
        let session = SessionView {
            format: self.view.format,
            ids: &self.ids,
            requests: &self.requests,
            block_size: self.block_size.or(self.view.format.map(|format| format.block_size)).unwrap_or(0),
            scope: self.scope,
            row: self.session_row,
            label: &self.ids_label,
            json: self.json,
        };
        if let Some(sink) = self.feed.sink.as_mut().filter(|_| !session.is_canonical()) {
            sink.numbers(&self.ids_label, &mut self.ids.iter().copied());
        }
        if !session.requests.is_empty() {
            let checks = self.feed.checks;
            checks.iter().for_each(|check| check.session(&session, self.feed.report));
        }
        // Rows of one file: by session, where rows say which.
        let mut digests: std::collections::BTreeMap<Option<u64>, SessionDigest> = std::collections::BTreeMap::new();
        for request in &self.requests {
            let key = request.session.filter(|_| self.view.format.is_some_and(|format| !format.local));
            let digest = digests.entry(key).or_insert_with(|| SessionDigest {
                file: self.feed.report.file().to_owned(),
                row: request.row,
                configuration: self.configuration.clone(),
                lengths: Vec::new(),
            });
            digest.lengths.push((request.input.unwrap_or(0), request.output.unwrap_or(0)));
        }
        self.feed.dataset.sessions.extend(digests.into_values());
        self.ids.clear();
        self.requests.clear();
        self.configuration.clear();
        self.scope = None;
        self.session_row = self.row;
    }

    /// Lets the checks see a column's numbers, and forgets them.
    fn flush(&mut self, node: usize) {
        let Some(at) = self.nodes.get_mut(node) else { return };
        let (values, floats) = (std::mem::take(&mut at.values), std::mem::take(&mut at.floats));
        let (lists, outputs) = (std::mem::take(&mut at.lists), std::mem::take(&mut at.outputs));
        let bits = std::mem::take(&mut at.bits);
        let row = std::mem::replace(&mut at.first_row, self.row);
        self.look(node);
        if values.is_empty() && floats.is_empty() && bits.is_empty() {
            return;
        }
        let Some(at) = self.nodes.get(node) else { return };
        let (label, shape, role) = (at.label.clone(), at.shape, at.role);
        if let Some(sink) = self.feed.sink.as_mut() {
            sink.numbers(&label, &mut values.iter().map(|value| value.cast_unsigned()));
            sink.numbers(&label, &mut floats.iter().map(|value| value.to_bits()));
            pack(&bits, &mut |bytes| sink.numbers(&label, bytes));
        }
        let column = ColumnView {
            label: &label,
            shape,
            role,
            row,
            values: &values,
            lists: &lists,
            floats: &floats,
            bits: &bits,
            json: self.json,
            outputs: &outputs,
        };
        let checks = self.feed.checks;
        checks.iter().for_each(|check| check.column(&column, self.feed.report));
    }

    /// The file ends: the rest goes to the checks.
    pub(crate) fn finish(mut self) -> FileView {
        self.end_session();
        self.names();
        if self.orders.differ() {
            let message = "members in one order here and in another there";
            self.view.facts.add(Kind::Spelling, Place::default(), message, None);
        }
        (0..self.nodes.len()).for_each(|node| self.flush(node));
        if !self.raw_ids.is_empty() {
            let mut ids = std::mem::take(&mut self.raw_ids);
            ids.sort_unstable();
            ids.dedup();
            self.feed.dataset.raw_ids.push((self.feed.report.file().to_owned(), ids));
        }
        self.view.rows = self.row;
        self.view.columns = self
            .nodes
            .iter()
            .filter(|node| node.count > 0)
            .map(|node| {
                let bits =
                    if node.histogram.len() >= DISTINCT { 0.0 } else { entropy(node.histogram.values().copied()) };
                (node.label.clone(), node.count, bits)
            })
            .collect();
        self.view
    }
}
