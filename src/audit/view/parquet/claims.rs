//! What a footer, page headers and indexes claim beside what readers need.
//!
//! Invariant: every number and name that a reader could do without is compared with the file; so none of them says anything of
//! its own.

use std::ops::Range;

use super::chunk::{Chunk, Page};
use super::schema::Leaf;
use super::stats;
use super::thrift::{self, Value};
use super::values::Physical;

/// Largest number of an encoding, and most encodings of a chunk.
const ENCODINGS: i64 = 9;

fn count(length: usize) -> Value {
    Value::Int(i64::try_from(length).unwrap_or(-1))
}

/// Whether a member is left out, or is one of these.
fn is_one_of(value: &Value, id: i64, known: &[usize]) -> bool {
    value.get(id).is_none_or(|stated| known.iter().any(|known| *stated == count(*known)))
}

/// Whether the elements of a schema state types and nothing else.
pub(crate) fn schema(elements: &[Value]) -> bool {
    let within = |value: &Value, id, most: i64| {
        value.get(id).is_none_or(|stated| matches!(stated, Value::Int(number) if (0..=most).contains(number)))
    };
    let most = i64::try_from(elements.len()).unwrap_or(0) * 2 + 8;
    elements.iter().all(|element| {
        let (kind, converted) = (element.int(1), element.int(6));
        let logical = element.get(10);
        let decimal = converted == Some(5) || logical.is_some_and(|logical| logical.get(5).is_some());
        let digits = |value: &Value, scale, precision| within(value, scale, 76) && within(value, precision, 76);
        let width = logical.and_then(|logical| logical.get(10)).is_none_or(|integer| {
            matches!(integer.int(1), Some(8 | 16 | 32 | 64)) && matches!(integer.get(2), Some(Value::Bool(_)))
        });
        // Numbers that writers give to fields count them.
        (element.get(9) == Some(&Value::Int(-1)) || within(element, 9, most))
            && (kind == Some(7) || element.get(2).is_none_or(|length| *length == Value::Int(0)))
            && within(element, 6, 21)
            && (kind.is_some() || element.get(2).is_none())
            && if decimal { digits(element, 7, 8) } else { is_one_of(element, 7, &[0]) && is_one_of(element, 8, &[0]) }
            && logical.and_then(|logical| logical.get(5)).is_none_or(|decimal| digits(decimal, 1, 2))
            && width
    })
}

/// Whether a row group states its own size, place and number.
pub(crate) fn group(group: &Value, number: usize, chunks: &[Chunk]) -> bool {
    let sum = |size: fn(&Chunk) -> usize| chunks.iter().map(size).sum::<usize>();
    let first = chunks.first().map_or(0, |chunk| chunk.owned.start);
    let sorted = group.list(4).iter().all(|column| {
        column.size(1).is_some_and(|column| column < chunks.len())
            && matches!((column.get(2), column.get(3)), (Some(Value::Bool(_)), Some(Value::Bool(_))))
    });
    is_one_of(group, 2, &[sum(|chunk| chunk.unpacked), sum(|chunk| chunk.owned.len())])
        && is_one_of(group, 5, &[0, first])
        && is_one_of(group, 6, &[0, sum(|chunk| chunk.owned.len())])
        && is_one_of(group, 7, &[number % (1 << 15)])
        && sorted
        && group.list(4).len() <= chunks.len()
}

/// Whether a column chunk states its own path, type, place and encodings.
pub(crate) fn chunk(column: &Value, meta: &Value, leaf: &Leaf, chunk: &Chunk, input: &[u8]) -> bool {
    let text = |value: &Value| match value {
        Value::Bytes(range) => input.get(range.clone()).map(<[u8]>::to_vec),
        _ => None,
    };
    let path = meta.list(3).iter().map(text).collect::<Option<Vec<_>>>();
    let encoding = |value: &Value| matches!(value, Value::Int(number) if (0..=ENCODINGS).contains(number));
    let tallies = meta.list(13).iter().all(|tally| {
        tally.int(1).is_some_and(|page| (0..=3).contains(&page))
            && tally.get(2).is_some_and(encoding)
            && tally.size(3).is_some_and(|pages| pages <= chunk.pages.len() + 1)
    });
    let data = meta.size(9).unwrap_or(0);
    let Range { start, end } = chunk.owned;
    path.as_ref() == Some(&leaf.path)
        && meta.int(1) == Some(leaf.order.kind.number())
        && meta.list(2).len() <= 10
        && meta.list(2).iter().all(encoding)
        && meta.list(13).len() <= 10
        && tallies
        && meta.get(10).is_none()
        && is_one_of(meta, 11, &[0, start])
        && is_one_of(column, 2, &[0, 4, start, data, end])
        && sizes(meta.get(16), leaf, chunk)
}

/// Whether sizes and histograms of a chunk are its own.
fn sizes(stated: Option<&Value>, leaf: &Leaf, chunk: &Chunk) -> bool {
    stated.is_none_or(|stated| {
        let bytes = chunk.values.spans.iter().map(|(from, to)| to - from).sum();
        is_one_of(stated, 1, &[bytes])
            && histogram(stated.list(2), leaf.max_rep, &[&chunk.rep])
            && histogram(stated.list(3), leaf.max_def, &[&chunk.def])
    })
}

/// Whether a histogram, if there is one, counts these levels, part by part.
fn histogram(stated: &[Value], most: u8, parts: &[&[u8]]) -> bool {
    let mut counts = Vec::new();
    for part in parts {
        let mut of = vec![0usize; usize::from(most) + 1];
        part.iter().for_each(|level| of.iter_mut().skip(usize::from(*level)).take(1).for_each(|count| *count += 1));
        counts.extend(of.into_iter().map(count));
    }
    // Without levels there is nothing to count, and writers differ.
    stated.is_empty() || most == 0 && stated.len() <= parts.len() || stated == counts
}

/// Whether a page header says no more than the page: the encoding of its levels, and its rows.
pub(crate) fn page(header: &Value, rows: usize) -> bool {
    let levels = |inner: &Value, ids: [i64; 2]| ids.iter().all(|id| matches!(inner.int(*id), None | Some(3 | 4)));
    header.get(5).is_none_or(|inner| levels(inner, [3, 4]))
        && header.get(8).is_none_or(|inner| is_one_of(inner, 3, &[rows]))
}

/// The levels of each page.
fn parts<'l>(pages: &[Page], levels: &'l [u8]) -> Vec<&'l [u8]> {
    let mut at = 0;
    let part = |page: &Page| {
        let from = at;
        at += page.count;
        levels.get(from..at).unwrap_or_default()
    };
    pages.iter().map(part).collect()
}

/// Whether a column index is that of the pages.
pub(crate) fn column_index(index: &Value, leaf: &Leaf, chunk: &Chunk, input: &[u8]) -> bool {
    let pages = &chunk.pages;
    let text = |list: i64, at: usize| match index.list(list).get(at) {
        Some(Value::Bytes(range)) => input.get(range.clone()),
        _ => None,
    };
    let lists = [(1, true), (2, true), (3, true), (5, false)];
    let lengths = lists.iter().all(|(id, needed)| {
        let length = index.list(*id).len();
        length == pages.len() || (!needed && length == 0)
    });
    let page = |(at, page): (usize, &Page)| {
        let (Some(min), Some(max)) = (text(2, at), text(3, at)) else { return false };
        let nulls = index.list(5).get(at).is_none_or(|nulls| *nulls == count(page.count - page.values.len()));
        let empty = index.list(1).get(at) == Some(&Value::Bool(page.values.is_empty()));
        let limits = if page.values.is_empty() {
            min.is_empty() && max.is_empty()
        } else {
            stats::page_agrees(min, max, leaf.order, &chunk.values, page.values.clone())
        };
        nulls && empty && limits
    };
    thrift::COLUMN_INDEX.knows(index)
        && lengths
        && matches!(index.int(4), None | Some(0..=2))
        && pages.iter().enumerate().all(page)
        && histogram(index.list(6), leaf.max_rep, &parts(pages, &chunk.rep))
        && histogram(index.list(7), leaf.max_def, &parts(pages, &chunk.def))
}

/// Whether an offset index is that of the pages.
pub(crate) fn offset_index(index: &Value, leaf: &Leaf, chunk: &Chunk) -> bool {
    let mut row = 0;
    let bytes = |page: &Page| {
        let spans = chunk.values.spans.get(page.values.clone()).unwrap_or_default();
        count(spans.iter().map(|(from, to)| to - from).sum())
    };
    let strings = matches!(leaf.order.kind, Physical::Bytes);
    let same = index.list(1).len() == chunk.pages.len()
        && index.list(1).iter().zip(&chunk.pages).all(|(location, page)| {
            let first = row;
            row += page.rows;
            location.size(1) == Some(page.at) && location.size(2) == Some(page.size) && location.size(3) == Some(first)
        });
    let stated = index.list(2);
    let sums = stated.is_empty()
        || (strings
            && stated.len() == chunk.pages.len()
            && stated.iter().zip(&chunk.pages).all(|(stated, page)| *stated == bytes(page)));
    thrift::OFFSET_INDEX.knows(index) && same && sums
}
