//! Arrow IPC: files and streams.
//!
//! Invariant: messages follow one another without a gap; every buffer of a batch belongs to a column, and what lies between, below
//! and behind values is looked at.

mod column;
mod flat;
mod schema;

use std::collections::BTreeMap;
use std::ops::Range;

use self::column::{Batch, Column};
use self::flat::{Flat, Table};
use self::schema::{Field, SMALL, Type};
use super::collect::{Collector, Feed};
use super::fact::{Facts, Kind};
use super::names::INNER;
use super::{FileView, choices, compress, lz4};
use crate::audit::finding::Place;
use crate::audit::vocab::{Format, Role};

pub(crate) use schema::is_plain as schema_is_plain;

/// A file: a stream between two magics, with a footer.
pub(crate) fn read_file(input: &[u8], feed: &mut Feed<'_>) -> FileView {
    let body = input.strip_suffix(b"ARROW1").and_then(|body| {
        let (rest, size) = body.split_last_chunk::<4>()?;
        let size = crate::audit::narrow(u32::from_le_bytes(*size).into());
        let start = rest.len().checked_sub(size)?;
        Some((start, rest.get(start..)?))
    });
    let Some((end, footer)) = body.filter(|(end, _)| *end >= 8) else {
        let mut view = FileView::default();
        view.facts.add(Kind::Undecodable, Place::default(), "an Arrow file whose footer can't be read", None);
        return view;
    };
    let mut facts = Facts::default();
    if input.get(6..8) != Some(&[0, 0]) {
        facts.add(Kind::Padding, Place::at(6), "padding of a buffer that is not zero", None);
    }
    let mut stream = Stream::new(input.get(..end).unwrap_or_default(), 8, feed);
    stream.footer = Some(footer);
    stream.read(facts, feed)
}

pub(crate) fn read_stream(input: &[u8], feed: &mut Feed<'_>) -> FileView {
    Stream::new(input, 0, feed).read(Facts::default(), feed)
}

struct Stream<'b> {
    input: &'b [u8],
    at: usize,
    dictionaries: BTreeMap<i64, (Column, Vec<bool>)>,
    /// Of a file: what stands behind its messages.
    footer: Option<&'b [u8]>,
    /// Where dictionaries and batches lie: offset, and bytes of the message's head and body.
    blocks: [Vec<[usize; 3]>; 2],
    /// Values that the batches may still have.
    values: usize,
}

struct Message<'b> {
    flat: Flat<'b>,
    kind: i64,
    header: Table,
    body: Range<usize>,
    at: usize,
}

impl<'b> Stream<'b> {
    fn new(input: &'b [u8], at: usize, feed: &Feed<'_>) -> Self {
        let values = input.len().saturating_mul(64).saturating_add(1 << 22).min(feed.limits.values.saturating_mul(16));
        Self { input, at, dictionaries: BTreeMap::new(), footer: None, blocks: Default::default(), values }
    }

    fn read(mut self, mut facts: Facts, feed: &mut Feed<'_>) -> FileView {
        let fields = self.message(&mut facts).flatten().and_then(|mut message| {
            let (fields, metadata) = schema::read(&mut message.flat, message.header).filter(|_| message.kind == 1)?;
            if metadata || !message.flat.is_accounted() {
                facts.add(
                    Kind::ArrowMetadata,
                    Place::at(message.at),
                    "metadata or loose bytes inside the Arrow schema",
                    None,
                );
            }
            Some(fields)
        });
        let Some(fields) = fields else {
            facts.add(Kind::Undecodable, Place::at(self.at), "an Arrow schema that can't be read", None);
            return FileView { facts, ..FileView::default() };
        };
        let names: Vec<&[u8]> = fields.iter().map(|field| field.name.as_slice()).collect();
        let mut to = Collector::new(feed, facts, Format::recognise(&names), false);
        let nodes: Vec<Nodes> = fields.iter().map(|field| Nodes::of(field, 0, &mut to)).collect();
        if self.batches(&fields, &nodes, &mut to).is_none() {
            to.view.facts.add(Kind::Undecodable, Place::at(self.at), "an Arrow message that can't be decoded", None);
        }
        self.unused(&mut to.view.facts);
        if let Some(footer) = self.footer
            && self.repeats(footer, &fields) != Some(true)
        {
            let (place, message) = (Place::at(self.input.len()), "a footer that is not what the messages say");
            to.view.facts.add(Kind::ArrowMetadata, place, message, None);
        }
        to.finish()
    }

    /// Whether a footer holds the same schema as the messages, says where they lie, and nothing else.
    fn repeats(&self, footer: &[u8], fields: &[Field]) -> Option<bool> {
        let mut flat = Flat::new(footer);
        let root = flat.root()?;
        let loose = schema::metadata(&mut flat, root, 4)?;
        let version = flat.number(root, 0, 2)?;
        let table = flat.child(root, 1)?;
        let (again, metadata) = schema::read(&mut flat, table)?;
        let mut same = !loose && !metadata && (0..=4).contains(&version) && again == fields;
        for (id, blocks) in [2, 3].into_iter().zip(&self.blocks) {
            let (count, at) = flat.vector(root, id, 24)?;
            let word = |at: usize| footer.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            for block in 0..count {
                let stated = [0, 8, 16].map(|member| word(at + 24 * block + member).map(crate::audit::narrow));
                same &= blocks.get(block).is_some_and(|known| stated == known.map(Some));
            }
            same &= count == blocks.len();
        }
        Some(same && flat.is_accounted())
    }

    fn unused(&self, facts: &mut Facts) {
        let unused = self.dictionaries.values().flat_map(|(_, used)| used).filter(|used| !**used).count();
        if unused > 0 {
            let message = "dictionary entries that no row uses";
            facts.add(Kind::UnusedEntry, Place::default(), message, Some(crate::audit::wide(unused)));
        }
    }

    /// The next message; the inner `None` is the end of the stream.
    #[expect(clippy::option_option, reason = "no message that can be read, and no further message, are two things")]
    fn message(&mut self, facts: &mut Facts) -> Option<Option<Message<'b>>> {
        let start = self.at;
        let Some(head) = self.input.get(start..).and_then(|rest| rest.first_chunk::<8>()) else {
            return self.input.get(start..).is_none_or(<[u8]>::is_empty).then_some(None);
        };
        let [0xff, 0xff, 0xff, 0xff, a, b, c, d] = *head else { return None };
        let size = crate::audit::narrow(u32::from_le_bytes([a, b, c, d]).into());
        self.at += 8;
        if size == 0 {
            let rest = self.input.get(self.at..).unwrap_or_default();
            if rest.iter().any(|byte| *byte != 0) {
                facts.add(
                    Kind::Unowned,
                    Place::at(self.at),
                    "bytes after the end of the stream",
                    Some(crate::audit::wide(rest.len())),
                );
            }
            return Some(None);
        }
        let end = self.at.checked_add(size)?;
        let mut flat = Flat::new(self.input.get(self.at..end)?);
        let root = flat.root()?;
        if !(0..=4).contains(&flat.number(root, 0, 2)?) {
            return None;
        }
        let kind = flat.number(root, 1, 1)?;
        let length = usize::try_from(flat.number(root, 3, 8)?).ok()?;
        if schema::metadata(&mut flat, root, 4)? {
            facts.add(Kind::ArrowMetadata, Place::at(start), "a message with metadata", None);
        }
        let header = flat.child(root, 2)?;
        let body = end..end.checked_add(length)?;
        self.input.get(body.clone())?;
        self.at = body.end;
        if let Some(blocks) = [2, 3].iter().position(|of| *of == kind).and_then(|which| self.blocks.get_mut(which)) {
            blocks.push([start, end - start, length]);
        }
        Some(Some(Message { flat, kind, header, body, at: start }))
    }

    fn batches(&mut self, fields: &[Field], nodes: &[Nodes], to: &mut Collector<'_, '_>) -> Option<()> {
        let mut lengths = Vec::new();
        while let Some(mut message) = self.message(&mut to.view.facts)? {
            let place = Place::at(message.at);
            match message.kind {
                2 => {
                    let id = message.flat.number(message.header, 0, 8).filter(|id| (0..SMALL).contains(id))?;
                    let delta = message.flat.number(message.header, 2, 1)?;
                    let field = find(fields, id).filter(|_| delta == 0)?;
                    let values = Field { dictionary: None, ..field.clone() };
                    let batch = message.flat.child(message.header, 1)?;
                    let columns = self.decode(&mut message, batch, &[values], to)?;
                    let column = columns.into_iter().next()?;
                    let used = vec![false; column.length];
                    self.unused(&mut to.view.facts);
                    self.dictionaries.insert(id, (column, used));
                }
                3 => {
                    let header = message.header;
                    let columns = self.decode(&mut message, header, fields, to)?;
                    let rows = usize::try_from(message.flat.number(header, 0, 8)?).ok()?;
                    if columns.iter().any(|column| column.length != rows) {
                        return None;
                    }
                    self.values = self.values.checked_sub(rows)?;
                    lengths.push(rows);
                    for row in 0..rows {
                        to.begin_object(0, None);
                        for ((field, column), nodes) in fields.iter().zip(&columns).zip(nodes) {
                            self.emit(field, column, nodes, row, to)?;
                        }
                        to.end_object(0);
                        to.end_record();
                    }
                }
                _ => return None,
            }
            if !message.flat.is_accounted() {
                to.view.facts.add(Kind::Unowned, place, "loose bytes in a message", None);
            }
        }
        choices::sizes(&lengths, &mut to.view.facts, "batches whose numbers of rows are characters of a text");
        Some(())
    }

    fn decode(
        &mut self,
        message: &mut Message<'_>,
        batch: Table,
        fields: &[Field],
        to: &mut Collector<'_, '_>,
    ) -> Option<Vec<Column>> {
        let flat = &mut message.flat;
        flat.number(batch, 0, 8)?;
        let pair = |flat: &mut Flat<'_>, at: usize| {
            Some((usize::try_from(flat.i64(at)?).ok()?, usize::try_from(flat.i64(at + 8)?).ok()?))
        };
        let (count, at) = flat.vector(batch, 1, 16)?;
        let nodes = (0..count).map(|node| pair(flat, at + 16 * node)).collect::<Option<Vec<_>>>()?;
        let (count, at) = flat.vector(batch, 2, 16)?;
        let ranges = (0..count).map(|buffer| pair(flat, at + 16 * buffer)).collect::<Option<Vec<_>>>()?;
        if flat.vector(batch, 4, 8)?.0 > 0 {
            return None;
        }
        let compression = match flat.child(batch, 3) {
            None => None,
            Some(table) => {
                if flat.number(table, 1, 1)? != 0 {
                    return None;
                }
                Some(flat.number(table, 0, 1)?)
            }
        };
        let body = self.input.get(message.body.clone())?;
        let mut owned: Vec<Range<usize>> =
            ranges.iter().map(|(offset, length)| Some(*offset..offset.checked_add(*length)?)).collect::<Option<_>>()?;
        owned.sort_by_key(|range| (range.start, range.end));
        let mut end = 0;
        for range in owned.into_iter().chain(std::iter::once(body.len()..body.len())) {
            // Shared bytes would be read as often as they are claimed.
            if range.start < end || range.end > body.len() {
                return None;
            }
            if body.get(end..range.start)?.iter().any(|byte| *byte != 0) {
                let place = Place::at(message.body.start + end);
                to.view.facts.add(Kind::Unowned, place, "bytes between the buffers of a batch", None);
            }
            end = range.end;
        }
        let mut buffers = Vec::new();
        for (offset, length) in ranges {
            let stored = body.get(offset..offset + length)?;
            buffers.push(match (compression, stored.split_first_chunk::<8>()) {
                (None, _) | (_, None) => stored.to_vec(),
                (Some(codec), Some((size, packed))) => match (i64::from_le_bytes(*size), codec) {
                    (-1, _) => packed.to_vec(),
                    (size, 0 | 1) => {
                        let size = usize::try_from(size).ok()?;
                        to.feed.left = to.feed.left.checked_sub(size)?;
                        let mut left = size;
                        let content = match codec {
                            0 => lz4::frame(packed, size),
                            _ => compress::whole(packed, &mut left, &mut to.view.facts),
                        };
                        content.filter(|content| content.len() == size)?
                    }
                    _ => return None,
                },
            });
            // A sink finds text in raw bytes, but not below this compression.
            if let (Some(0), Some(buffer), Some(sink)) = (compression, buffers.last(), to.feed.sink.as_mut()) {
                sink.raw(buffer);
            }
        }
        let place = Place::at(message.at);
        let budget = self.values.min(to.feed.limits.values);
        let mut batch =
            Batch { nodes: nodes.into_iter(), buffers: buffers.into_iter(), facts: &mut to.view.facts, place, budget };
        let columns = fields.iter().map(|field| batch.column(field)).collect::<Option<Vec<_>>>()?;
        let done = batch.nodes.len() == 0 && batch.buffers.len() == 0;
        self.values = self.values.saturating_sub(budget - batch.budget);
        done.then_some(columns)
    }

    fn emit(
        &mut self,
        field: &Field,
        column: &Column,
        nodes: &Nodes,
        row: usize,
        to: &mut Collector<'_, '_>,
    ) -> Option<()> {
        if !column.is_valid(row) {
            to.null(nodes.node);
            return Some(());
        }
        if let Some((id, _)) = field.dictionary {
            let index = usize::try_from(*column.ints.get(row)?).ok()?;
            let (values, mut used) = self.dictionaries.remove(&id)?;
            *used.get_mut(index)? = true;
            let plain = Field { dictionary: None, ..field.clone() };
            self.emit(&plain, &values, nodes, index, to)?;
            self.dictionaries.insert(id, (values, used));
            return Some(());
        }
        match field.kind {
            Type::Null => to.null(nodes.node),
            Type::Bool => to.boolean(nodes.node, column.ints.get(row) == Some(&1), None),
            Type::Int(_, signed) => {
                let value = *column.ints.get(row)?;
                to.int(nodes.node, value, !signed && value < 0, None);
            }
            Type::Instant(_) => to.int(nodes.node, *column.ints.get(row)?, false, None),
            Type::Float(_) => to.float(nodes.node, *column.floats.get(row)?, None),
            Type::Bytes(_) | Type::Fixed(_) => to.text(nodes.node, column.texts.get(row)?, None),
            Type::List(_) => {
                let element = to.begin_list(nodes.node, None);
                let (inner, child) = (field.children.first()?, column.children.first()?);
                for at in *column.offsets.get(row)?..*column.offsets.get(row + 1)? {
                    self.emit(inner, child, nodes.children.first()?, at, to)?;
                }
                to.end_list(element);
            }
            Type::Struct => {
                to.begin_object(nodes.node, None);
                for ((inner, child), nodes) in field.children.iter().zip(&column.children).zip(&nodes.children) {
                    self.emit(inner, child, nodes, row, to)?;
                }
                to.end_object(nodes.node);
            }
        }
        Some(())
    }
}

/// Nodes of a field and of what it holds.
struct Nodes {
    node: usize,
    children: Vec<Self>,
}

impl Nodes {
    fn of(field: &Field, parent: usize, to: &mut Collector<'_, '_>) -> Self {
        let node = to.nodes.child(parent, &field.name, 0);
        Self::below(field, node, to)
    }

    fn below(field: &Field, node: usize, to: &mut Collector<'_, '_>) -> Self {
        if matches!(field.kind, Type::Instant(_))
            && let Some(node) = to.nodes.get_mut(node)
        {
            node.role = Role::WallClock;
        }
        let children = match field.kind {
            Type::List(_) => {
                if field.children.iter().any(|child| !INNER.contains(&&*child.name)) {
                    let message = "an inner name of a list that no writer gives";
                    to.view.facts.add(Kind::Name, Place::default(), message, None);
                }
                let element = to.nodes.element(node, 0);
                field.children.iter().map(|child| Self::below(child, element, to)).collect()
            }
            _ => field.children.iter().map(|child| Self::of(child, node, to)).collect(),
        };
        Self { node, children }
    }
}

fn find(fields: &[Field], id: i64) -> Option<&Field> {
    fields.iter().find_map(|field| {
        let own = field.dictionary.is_some_and(|(of, _)| of == id);
        if own { Some(field) } else { find(&field.children, id) }
    })
}
