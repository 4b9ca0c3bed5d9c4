//! Parquet taken apart: footer, page headers, pages, dictionaries, statistics, indexes, bloom filters, metadata.
//!
//! Invariant: every byte of the file belongs to the magic, a page, an index, a bloom filter or the footer, or is a fact; values go
//! to the collector row by row.

mod chunk;
mod claims;
mod codec;
mod schema;
mod stats;
mod thrift;
mod values;

use std::cell::Cell;
use std::ops::Range;

use self::chunk::{Chunk, Source};
use self::schema::Leaf;
use self::thrift::Value;
use self::values::Physical;
use super::collect::{Collector, Feed};
use super::fact::{Facts, Kind};
use super::{FileView, choices};
use crate::audit::finding::Place;
use crate::audit::vocab::Format;

/// Largest footer.
const FOOTER: usize = 64 << 20;

/// Names that writers of Parquet give to themselves: name, and a version.
const WRITERS: &[&str] =
    &["parquet-cpp-arrow version ", "parquet-rs version ", "parquet-mr version ", "DuckDB version ", "Polars"];

/// Takes a file apart.
pub(crate) fn read(input: &[u8], feed: &mut Feed<'_>) -> FileView {
    match footer(input) {
        Some((footer, range)) => File { input, footer, range }.read(feed),
        None => {
            let mut view = FileView::default();
            view.facts.add(Kind::Undecodable, Place::default(), "a Parquet file whose footer can't be read", None);
            view
        }
    }
}

fn footer(input: &[u8]) -> Option<(Value, Range<usize>)> {
    let end = input.len().checked_sub(8)?;
    let tail = input.get(end..)?;
    let size = crate::audit::narrow(u32::from_le_bytes(*tail.first_chunk()?).into());
    if tail.get(4..) != Some(b"PAR1") || size > FOOTER {
        return None;
    }
    let start = end.checked_sub(size).filter(|start| *start >= 4)?;
    let (footer, stop) = thrift::read(input.get(..end)?, start, &thrift::FOOTER)?;
    Some((footer, start..stop))
}

struct File<'b> {
    input: &'b [u8],
    footer: Value,
    range: Range<usize>,
}

impl File<'_> {
    fn read(&self, feed: &mut Feed<'_>) -> FileView {
        let elements = self.footer.list(2);
        let names = schema::names(elements, self.input);
        let mut facts = Facts::default();
        let leaves = elements.iter().filter(|element| element.get(1).is_some()).count();
        self.metadata(leaves, &mut facts);
        let mut to = Collector::new(feed, facts, Format::recognise(&names), false);
        let undecodable =
            |to: &mut Collector<'_, '_>, place, message| to.view.facts.add(Kind::Undecodable, place, message, None);
        let mut owned = vec![0..4, self.range.clone(), self.input.len() - 8..self.input.len()];
        match schema::leaves(elements, self.input, &mut to) {
            None => undecodable(&mut to, Place::default(), "a schema that can't be read"),
            Some(leaves) => {
                let mut rows = 0usize;
                let mut sizes = Vec::new();
                let mut budget = self.input.len().saturating_mul(256).saturating_add(1 << 22);
                let left = Cell::new(to.feed.left);
                for (number, group) in self.footer.list(4).iter().enumerate() {
                    let place = Place::default().page(crate::audit::wide(number));
                    match self.group((number, group), &leaves, &mut budget, &left, &mut owned, &mut to) {
                        Some(read) => {
                            rows += read;
                            sizes.push(read);
                        }
                        None => undecodable(&mut to, place, "a row group that can't be decoded"),
                    }
                }
                let message = "row groups whose numbers of rows are characters of a text";
                choices::sizes(&sizes, &mut to.view.facts, message);
                if self.footer.size(3) != Some(rows) && !to.view.facts.any(Kind::Undecodable) {
                    to.view.facts.add(
                        Kind::Statistics,
                        Place::default(),
                        "a number of rows that the file does not have",
                        None,
                    );
                }
            }
        }
        account(self.input, owned, &mut to.view.facts);
        to.finish()
    }

    /// What the footer says beside the schema and the row groups.
    fn metadata(&self, leaves: usize, facts: &mut Facts) {
        let at = Place::at(self.range.start);
        if !thrift::FOOTER.knows(&self.footer) {
            facts.add(Kind::Unowned, at.clone(), "a footer with members that the format does not know", None);
        }
        let orders = self.footer.list(7);
        if !claims::schema(self.footer.list(2))
            || !matches!(self.footer.int(1), Some(0..=2))
            || !matches!(orders.len(), 0) && orders.len() != leaves
        {
            facts.add(Kind::Domain, at.clone(), "a footer with numbers that count nothing in the file", None);
        }
        if let Some(writer) = self.footer.bytes(6, self.input) {
            let text = std::str::from_utf8(writer).unwrap_or("\u{fffd}");
            let known = WRITERS.iter().find_map(|name| text.strip_prefix(name)).is_some_and(|version| {
                version.len() <= 80
                    && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b". ()-".contains(&byte))
                    && version.split(['.', ' ', '-']).filter(|word| !word.is_empty()).count() <= 7
                    && version.split(|c: char| !c.is_ascii_alphanumeric()).all(|word| {
                        (word.len() <= 3 && word.bytes().all(|byte| byte.is_ascii_digit()))
                            || ["", "build", "SNAPSHOT", "v1"].contains(&word)
                            || (word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
                    })
            });
            if text != "tracecloak" {
                let message = if known { "the writer names itself" } else { "a writer that no list names" };
                facts.add(if known { Kind::CreatedBy } else { Kind::KeyValue }, at.clone(), message, None);
            }
        }
        let mut groups: Vec<&[Value]> = vec![self.footer.list(5)];
        for column in self.footer.list(4).iter().flat_map(|group| group.list(1)) {
            groups.extend(column.get(3).map(|meta| meta.list(8)));
            if column.get(1).is_some() {
                facts.add(Kind::KeyValue, at.clone(), "a column that names another file", None);
            }
        }
        for pair in groups.into_iter().flatten() {
            let key = pair.bytes(1, self.input).unwrap_or_default();
            let value = pair.bytes(2, self.input).unwrap_or_default();
            if key != b"ARROW:schema" {
                facts.add(Kind::KeyValue, at.clone(), "key-value metadata", Some(crate::audit::wide(value.len())));
                if super::super::detect::has_date(&String::from_utf8_lossy(value)) {
                    facts.add(Kind::NameDate, at.clone(), "a date in key-value metadata", None);
                }
                continue;
            }
            facts.add(
                Kind::ArrowSchema,
                at.clone(),
                "an Arrow schema beside the Parquet schema",
                Some(crate::audit::wide(value.len())),
            );
            if !super::arrow::schema_is_plain(value) {
                facts.add(Kind::ArrowMetadata, at.clone(), "metadata or loose bytes inside the Arrow schema", None);
            }
        }
        self.numbers(&self.footer, &at, facts);
    }

    /// No number of the footer needs to be larger than the file; sizes before compression are checked where they belong.
    fn numbers(&self, value: &Value, at: &Place, facts: &mut Facts) {
        let most = i64::try_from(self.input.len()).unwrap_or(i64::MAX).saturating_mul(300).max(1 << 26);
        match value {
            Value::Int(number) if !(-1..=most).contains(number) => {
                facts.add(Kind::Domain, at.clone(), "a number in the footer that counts nothing in the file", None);
            }
            Value::List(values) => values.iter().for_each(|value| self.numbers(value, at, facts)),
            Value::Struct(members) => members.iter().for_each(|(_, value)| self.numbers(value, at, facts)),
            _ => (),
        }
    }

    fn group(
        &self,
        (number, group): (usize, &Value),
        leaves: &[Leaf],
        budget: &mut usize,
        left: &Cell<usize>,
        owned: &mut Vec<Range<usize>>,
        to: &mut Collector<'_, '_>,
    ) -> Option<usize> {
        let rows = group.size(3)?;
        let columns = group.list(1);
        // Rows of nothing could be as many as a number can say.
        if columns.len() != leaves.len() || (columns.is_empty() && rows > 0) {
            return None;
        }
        let mut chunks = Vec::new();
        let mut values_left = to.feed.limits.values;
        for (column, leaf) in columns.iter().zip(leaves) {
            let label = to.nodes.get(leaf.node).map(|node| node.label.clone()).unwrap_or_default();
            let meta = column.get(3)?;
            let source = Source { input: self.input, leaf, label: &label, left, budget: values_left.min(*budget) };
            let chunk = chunk::read(&source, meta, &mut to.view.facts)?;
            let values = chunk.def.len().max(chunk.values.len());
            values_left = values_left.checked_sub(values)?;
            *budget = budget.checked_sub(values)?;
            let starts = if leaf.max_rep > 0 { memchr::memchr_iter(0, &chunk.rep).count() } else { values };
            if starts != rows {
                return None;
            }
            if let (Some(sink), false) = (to.feed.sink.as_mut(), chunk.unused.is_empty()) {
                sink.raw(&chunk.unused);
            }
            owned.push(chunk.owned.clone());
            self.indexes(column, meta, &source, &chunk, owned, &mut to.view.facts);
            if !claims::chunk(column, meta, leaf, &chunk, self.input) {
                let message = "a column chunk that says something else than the file";
                to.view.facts.add(Kind::Statistics, Place::column(&label), message, None);
            }
            chunks.push(chunk);
        }
        if !claims::group(group, number, &chunks) {
            let place = Place::default().page(crate::audit::wide(number));
            let message = "a row group that says something else than the file";
            to.view.facts.add(Kind::Statistics, place, message, None);
        }
        emit(leaves, &chunks, rows, to);
        let pages = |chunk: &Chunk| chunk.pages.iter().map(|page| page.count).collect::<Vec<_>>();
        for chunk in &chunks {
            choices::sizes(&pages(chunk), &mut to.view.facts, "pages whose numbers of values are characters of a text");
        }
        Some(rows)
    }

    /// Page indexes and bloom filters.
    fn indexes(
        &self,
        column: &Value,
        meta: &Value,
        source: &Source<'_>,
        chunk: &Chunk,
        owned: &mut Vec<Range<usize>>,
        facts: &mut Facts,
    ) {
        let place = Place::column(source.label);
        let mut part = |offset: Option<usize>, length: Option<usize>, def| {
            let range = offset?..offset?.checked_add(length?)?;
            self.input.get(range.clone())?;
            owned.push(range.clone());
            let (value, end) = thrift::read(self.input.get(..range.end)?, range.start, def)?;
            (end == range.end).then_some(value)
        };
        if column.get(6).is_some() {
            let agrees = part(column.size(6), column.size(7), &thrift::COLUMN_INDEX)
                .is_some_and(|index| claims::column_index(&index, source.leaf, chunk, self.input));
            if !agrees {
                facts.add(Kind::Statistics, place.clone(), "a column index that the data do not have", None);
            }
        }
        if column.get(4).is_some() {
            let agrees = part(column.size(4), column.size(5), &thrift::OFFSET_INDEX)
                .is_some_and(|index| claims::offset_index(&index, source.leaf, chunk));
            if !agrees {
                facts.add(Kind::Statistics, place.clone(), "an offset index that the pages do not have", None);
            }
        }
        if let Some(offset) = meta.size(14) {
            facts.add(Kind::Bloom, place, "a bloom filter", meta.size(15).map(crate::audit::wide));
            if let Some(length) = meta.size(15) {
                owned.push(offset..offset.saturating_add(length));
            } else if let Some((header, end)) = thrift::read(self.input, offset, &thrift::NOTHING) {
                owned.push(offset..end.saturating_add(header.size(1).unwrap_or(0)));
            }
        }
    }
}

/// Hands the rows of a row group to the collector.
fn emit(leaves: &[Leaf], chunks: &[Chunk], rows: usize, to: &mut Collector<'_, '_>) {
    let mut cursors = vec![(0usize, 0usize); leaves.len()];
    for _ in 0..rows {
        to.begin_object(0, None);
        for ((leaf, chunk), (level, value)) in leaves.iter().zip(chunks).zip(&mut cursors) {
            let ids = leaf.list.is_some() && to.is_ids(leaf.node);
            let from = to.ids_mut().len();
            let mut first = true;
            // The first entry of a row has repetition level 0; the others do not.
            while first || (leaf.max_rep > 0 && chunk.rep.get(*level).is_some_and(|rep| *rep > 0)) {
                first = false;
                let present = leaf.max_def == 0 || chunk.def.get(*level) == Some(&leaf.max_def);
                *level += 1;
                if !present {
                    to.null(leaf.node);
                } else if ids {
                    to.ids_mut().extend(chunk.values.ints.get(*value).map(|id| id.cast_unsigned()));
                    *value += 1;
                } else {
                    scalar(leaf, chunk, *value, to);
                    *value += 1;
                }
            }
            if ids {
                to.ids_added(leaf.node, from);
            } else if leaf.list.is_some() {
                to.end_list(leaf.node);
            }
        }
        to.end_object(0);
        to.end_record();
    }
}

fn scalar(leaf: &Leaf, chunk: &Chunk, at: usize, to: &mut Collector<'_, '_>) {
    match leaf.order.kind {
        Physical::Boolean => to.boolean(leaf.node, chunk.values.ints.get(at) == Some(&1), None),
        Physical::Int32 | Physical::Int64 | Physical::Int96 => {
            let value = chunk.values.ints.get(at).copied().unwrap_or(0);
            let value =
                if leaf.order.unsigned && leaf.order.kind == Physical::Int32 { value & 0xffff_ffff } else { value };
            let high = leaf.order.unsigned && value < 0;
            to.int(leaf.node, value, high, None);
        }
        Physical::Float | Physical::Double => {
            to.float(leaf.node, chunk.values.floats.get(at).copied().unwrap_or(0.0), None);
        }
        Physical::Bytes | Physical::Fixed(_) => to.text(leaf.node, chunk.values.bytes(at).unwrap_or_default(), None),
    }
}

/// Bytes that nothing owns, or that two things claim.
fn account(input: &[u8], mut owned: Vec<Range<usize>>, facts: &mut Facts) {
    owned.sort_by_key(|range| (range.start, range.end));
    let mut at = 0;
    for range in owned {
        if range.start > at {
            let gap = input.get(at..range.start).unwrap_or_default();
            let message = "bytes between the parts of the file";
            facts.add(Kind::Unowned, Place::at(at), message, Some(crate::audit::wide(gap.len())));
        } else if range.start < at {
            facts.add(Kind::Undecodable, Place::at(range.start), "two parts of the file that overlap", None);
        }
        at = at.max(range.end);
    }
}
