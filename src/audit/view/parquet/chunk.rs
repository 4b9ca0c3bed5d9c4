//! One column chunk: its pages read, every byte accounted for.
//!
//! Invariant: values and levels agree in number with what pages and footer state; leftovers, padding, unused dictionary entries
//! and statistics that the data do not have are facts.

use std::cell::Cell;
use std::ops::Range;

use super::claims;
use super::codec::unpack;
use super::schema::Leaf;
use super::stats;
use super::thrift::{self, Value};
use super::values::{Dictionary, End, Values, decode, hybrid, plain};
use crate::audit::finding::Place;
use crate::audit::view::fact::{Facts, Kind};

/// A chunk decoded.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub(crate) rep: Vec<u8>,
    pub(crate) def: Vec<u8>,
    pub(crate) values: Values,
    /// Bytes of the file that its pages own.
    pub(crate) owned: Range<usize>,
    /// What its pages take unpacked, headers included.
    pub(crate) unpacked: usize,
    /// A dictionary page with entries that no row uses, unpacked.
    pub(crate) unused: Vec<u8>,
    /// Data pages.
    pub(crate) pages: Vec<Page>,
}

/// A data page.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its first byte in the file, and how many it has there.
    pub(crate) at: usize,
    pub(crate) size: usize,
    /// Its values, and how many there are with nulls.
    pub(crate) values: Range<usize>,
    pub(crate) count: usize,
    /// Rows that begin in it.
    pub(crate) rows: usize,
}

/// What a chunk is read with.
pub(crate) struct Source<'s> {
    pub(crate) input: &'s [u8],
    pub(crate) leaf: &'s Leaf,
    pub(crate) label: &'s str,
    /// Bytes that may still be unpacked.
    pub(crate) left: &'s Cell<usize>,
    /// Values that this row group may still have.
    pub(crate) budget: usize,
}

/// Reads the chunk that `meta` (a `ColumnMetaData`) describes; `None` where it can't be decoded.
pub(crate) fn read(source: &Source<'_>, meta: &Value, facts: &mut Facts) -> Option<Chunk> {
    let Source { input, leaf, label, .. } = source;
    let data = meta.size(9)?;
    let start = meta.size(11).filter(|dictionary| *dictionary > 0 && *dictionary < data).unwrap_or(data);
    let end = start.checked_add(meta.size(7)?)?;
    let region = input.get(..end).filter(|_| start >= 4)?;
    let codec = meta.int(4)?;
    let expected = meta.size(5).filter(|values| *values <= source.budget)?;
    let mut chunk = Chunk { owned: start..end, ..Chunk::default() };
    let mut dictionary = Dictionary::default();
    let (mut at, mut unpacked, mut number) = (start, 0usize, 0u64);
    let levels = |chunk: &Chunk| chunk.def.len().max(chunk.rep.len()).max(chunk.values.len());
    let mut seen = 0usize;
    while at < end {
        let place = Place::column(label).page(number).offset(at);
        let (header, body) = thrift::read(region, at, &thrift::PAGE)?;
        if !thrift::PAGE.knows(&header) {
            facts.add(Kind::Unowned, place.clone(), "a page header with members that the format does not know", None);
        }
        let (size, packed) = (header.size(2)?, header.size(3)?);
        let bytes = region.get(body..body.checked_add(packed)?)?;
        if let Some(crc) = header.int(4) {
            let mut sum = flate2::Crc::new();
            sum.update(bytes);
            if i64::from(sum.sum().cast_signed()) != crc {
                facts.add(Kind::Statistics, place.clone(), "a page checksum that is not the page's", None);
            }
        }
        unpacked += (body - at) + size;
        match header.int(1)? {
            2 if dictionary.base.is_none() => {
                let inner = header.get(7)?;
                let count = inner.size(1).filter(|count| *count <= source.budget)?;
                let page = unpack(codec, bytes, size, source.left, facts)?;
                if !matches!(inner.int(2)?, 0 | 2) {
                    return None;
                }
                let end = plain(leaf.order.kind, &page, count, &mut dictionary.values)?;
                leftovers(&page, end, &place, facts);
                chunk.unused = page;
                dictionary.base = Some(chunk.values.arena.len());
                dictionary.used = std::cell::RefCell::new(vec![false; count]);
                chunk.values.arena.extend(&dictionary.values.arena);
            }
            0 => {
                let inner = header.get(5)?;
                let count = inner.size(1).filter(|count| seen + *count <= expected)?;
                let page = unpack(codec, bytes, size, source.left, facts)?;
                let mut from = 0;
                for (most, into) in [(leaf.max_rep, true), (leaf.max_def, false)] {
                    if most > 0 {
                        let size = crate::audit::narrow(u32::from_le_bytes(*page.get(from..)?.first_chunk()?).into());
                        let coded = page.get(from + 4..(from + 4).checked_add(size)?)?;
                        let end = level(coded, most, count, if into { &mut chunk.rep } else { &mut chunk.def })?;
                        leftovers(coded, end, &place, facts);
                        from += 4 + size;
                    }
                }
                let values =
                    page_values(&mut chunk, leaf, page.get(from..)?, count, inner.int(2)?, &dictionary, &place, facts)?;
                check_stats(
                    inner.get(5),
                    source,
                    &chunk,
                    values.clone(),
                    count.checked_sub(values.len())?,
                    &place,
                    facts,
                );
                chunk.page(leaf, at..body + packed, values, count);
                seen += count;
            }
            3 => {
                let inner = header.get(8)?;
                let count = inner.size(1).filter(|count| seen + *count <= expected)?;
                let (def, rep) = (inner.size(5)?, inner.size(6)?);
                let first = level(bytes.get(..rep)?, leaf.max_rep, count, &mut chunk.rep)?;
                leftovers(bytes.get(..rep)?, first, &place, facts);
                let levels = bytes.get(rep..rep.checked_add(def)?)?;
                let second = level(levels, leaf.max_def, count, &mut chunk.def)?;
                leftovers(levels, second, &place, facts);
                let coded = bytes.get(rep + def..)?;
                let codec = if inner.get(7) == Some(&Value::Bool(false)) { 0 } else { codec };
                let page = unpack(codec, coded, size.checked_sub(rep + def)?, source.left, facts)?;
                let values = page_values(&mut chunk, leaf, &page, count, inner.int(4)?, &dictionary, &place, facts)?;
                if inner.size(2) != Some(count - values.len()) {
                    facts.add(Kind::Statistics, place.clone(), "a number of nulls that the page does not have", None);
                }
                check_stats(inner.get(8), source, &chunk, values.clone(), count - values.len(), &place, facts);
                chunk.page(leaf, at..body + packed, values, count);
                seen += count;
            }
            _ => return None,
        }
        if !claims::page(&header, chunk.pages.last().map_or(0, |page| page.rows)) {
            facts.add(Kind::Statistics, place, "a page header that says something else than the page", None);
        }
        at = body + packed;
        number += 1;
    }
    if seen != expected || at != end || levels(&chunk) > expected {
        return None;
    }
    // A reader that goes from page to page needs neither offset; the one of an old writer's first data page is its dictionary's.
    let (first, stated) = (chunk.pages.first().map_or(data, |page| page.at), meta.size(11).filter(|at| *at > 0));
    let has_dictionary = dictionary.base.is_some();
    let is_first = data == first || (stated.is_none() && has_dictionary && data == start);
    if !is_first || stated.is_some_and(|stated| !has_dictionary || stated != start) {
        facts.add(Kind::Statistics, Place::column(label), "an offset of a page at which it does not stand", None);
    }
    chunk.unpacked = unpacked;
    if meta.size(6) != Some(unpacked) {
        facts.add(Kind::Statistics, Place::column(label), "a stated size that the chunk does not have", None);
    }
    let unused = dictionary.used.borrow().iter().filter(|used| !**used).count();
    if unused == 0 {
        chunk.unused.clear();
    } else {
        let message = "dictionary entries that no row uses";
        facts.add(Kind::UnusedEntry, Place::column(label).offset(start), message, Some(crate::audit::wide(unused)));
    }
    let all = 0..chunk.values.len();
    check_stats(meta.get(12), source, &chunk, all, expected - chunk.values.len(), &Place::column(label), facts);
    Some(chunk)
}

impl Chunk {
    fn page(&mut self, leaf: &Leaf, bytes: Range<usize>, values: Range<usize>, count: usize) {
        let rows = match leaf.max_rep {
            0 => count,
            _ => self.rep.iter().rev().take(count).filter(|level| **level == 0).count(),
        };
        self.pages.push(Page { at: bytes.start, size: bytes.len(), values, count, rows });
    }
}

/// Levels of one kind, all at most `most`.
fn level(coded: &[u8], most: u8, count: usize, to: &mut Vec<u8>) -> Option<End> {
    if most == 0 {
        return Some(End { at: 0, padded: false });
    }
    let (levels, end) = hybrid(coded, u8::BITS - most.leading_zeros(), count)?;
    for level in levels {
        to.push(u8::try_from(level).ok().filter(|level| *level <= most)?);
    }
    Some(end)
}

#[expect(clippy::too_many_arguments, reason = "a page is what its chunk, header and dictionary make of it")]
fn page_values(
    chunk: &mut Chunk,
    leaf: &Leaf,
    coded: &[u8],
    count: usize,
    encoding: i64,
    dictionary: &Dictionary,
    place: &Place,
    facts: &mut Facts,
) -> Option<Range<usize>> {
    let present = match leaf.max_def {
        0 => count,
        most => chunk.def.iter().rev().take(count).filter(|level| **level == most).count(),
    };
    let from = chunk.values.len();
    // A page of nulls alone may have no bytes at all.
    let end = if present == 0 && coded.is_empty() {
        End { at: 0, padded: false }
    } else {
        decode(encoding, leaf.order.kind, coded, present, dictionary, &mut chunk.values)?
    };
    leftovers(coded, end, place, facts);
    Some(from..chunk.values.len())
}

/// Facts about what a decoder left.
fn leftovers(coded: &[u8], end: End, place: &Place, facts: &mut Facts) {
    let rest = coded.get(end.at..).unwrap_or_default();
    if rest.iter().any(|byte| *byte != 0) || rest.len() > 8 {
        facts.add(
            Kind::Unowned,
            place.clone(),
            "bytes after the values of a page",
            Some(crate::audit::wide(rest.len())),
        );
    }
    if end.padded {
        facts.add(Kind::Padding, place.clone(), "padding of a page that is not zero", None);
    }
}

fn check_stats(
    stated: Option<&Value>,
    source: &Source<'_>,
    chunk: &Chunk,
    range: Range<usize>,
    nulls: usize,
    place: &Place,
    facts: &mut Facts,
) {
    if let Some(stated) = stated
        && !stats::agree(stated, source.input, source.leaf.order, &chunk.values, range, nulls)
    {
        facts.add(Kind::Statistics, place.clone(), "statistics that the data do not have", None);
    }
}
