//! CSV: a header and rows.
//!
//! Invariant: each row has as many cells as the header; a cell is a number, a bracketed list of numbers, true or false, empty, or
//! a string that the checks see.

use std::borrow::Cow;

use super::collect::Collector;
use super::fact::Kind;
use crate::audit::finding::Place;

/// Most columns.
const COLUMNS: usize = 4096;

/// Whether the first line may be a header: several names, no braces.
pub(crate) fn looks_like(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.len() < 1 << 16
        && line.contains(&b',')
        && std::str::from_utf8(line).is_ok_and(|line| !line.contains(['{', '[', '\0']))
        && !line.iter().any(|byte| *byte < 0x20 && *byte != b'\r' && *byte != b'\t')
}

/// Names of the columns.
pub(crate) fn header(bytes: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut at = 0;
    record(bytes, &mut at).unwrap_or_default()
}

/// Reads all rows.
pub(crate) fn read(bytes: &[u8], to: &mut Collector<'_, '_>) {
    let mut at = 0;
    let Some(names) = record(bytes, &mut at) else {
        to.view.facts.add(Kind::Undecodable, Place::at(0), "a header that is not CSV", None);
        return;
    };
    // The names are looked at even where no row follows.
    let header = to.begin_object(0, Some(0));
    for name in &names {
        to.member(header, 0, name, Some(0));
    }
    to.end_object(0);
    // Quotes that a cell does not need, and line ends of two kinds: each choice is a bit that can say something.
    let mut ways = vec![0u8; names.len() + 1];
    while at < bytes.len() {
        let start = at;
        let Some(cells) = record(bytes, &mut at) else {
            to.view.facts.add(Kind::Undecodable, Place::at(start).row(to.row), "a row that is not CSV", None);
            return;
        };
        if cells.len() != names.len() {
            let message = "a row with another number of cells than the header";
            to.view.facts.add(Kind::Spelling, Place::at(start).row(to.row), message, None);
        }
        let object = to.begin_object(0, Some(start));
        let returns = bytes.get(..at).unwrap_or_default().ends_with(b"\r\n");
        ways.iter_mut().take(1).for_each(|way| *way |= if returns { 1 } else { 2 });
        for (place, cell) in cells.iter().enumerate() {
            if let Some(way) = ways.get_mut(place + 1).filter(|_| !cell.iter().any(|byte| b",\"\r\n".contains(byte))) {
                *way |= if matches!(cell, Cow::Owned(_)) { 1 } else { 2 };
            }
            let name = names.get(place).map_or(b"?cell".as_slice(), |name| name);
            let node = to.member(object, 0, name, Some(start));
            value(to, node, cell, start);
        }
        to.end_object(0);
        to.end_record();
    }
    if ways.contains(&3) {
        to.view.facts.add(Kind::Spelling, Place::default(), "quotes or line ends used in two ways", None);
    }
}

fn value(to: &mut Collector<'_, '_>, node: usize, cell: &[u8], at: usize) {
    let text = std::str::from_utf8(cell).ok();
    if let Some(inner) = text.and_then(|text| text.strip_prefix('[')?.strip_suffix(']'))
        && inner.bytes().all(|byte| byte.is_ascii_digit() || b", ".contains(&byte))
    {
        let element = to.begin_list(node, Some(at));
        let mut ways: Vec<&str> = Vec::new();
        for number in inner.split([',', ' ']).filter(|number| !number.is_empty()) {
            scalar(to, element, number.as_bytes(), at);
        }
        ways.extend(inner.split(|c: char| c.is_ascii_digit()).filter(|way| !way.is_empty()));
        if ways.iter().any(|way| ![",", ", ", " "].contains(way) || Some(way) != ways.first()) {
            to.fact(Kind::Spelling, node, Some(at), "a list with separators of several kinds");
        }
        to.end_list(element);
    } else {
        scalar(to, node, cell, at);
    }
}

fn scalar(to: &mut Collector<'_, '_>, node: usize, cell: &[u8], at: usize) {
    let text = std::str::from_utf8(cell).unwrap_or("\u{fffd}");
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) && text.len() <= 40;
    if numeric && text.bytes().filter(u8::is_ascii_digit).count() > 20 {
        to.fact(Kind::Domain, node, Some(at), "a number with more digits than a number of 64 bits has");
        to.text(node, cell, Some(at));
    }
    let spelled = text.parse::<i64>().is_ok_and(|value| value.to_string() != text);
    if spelled && numeric {
        to.fact(Kind::Spelling, node, Some(at), "a number with digits or a sign that it does not need");
    }
    match text {
        "" => to.null(node),
        "true" | "True" => to.boolean(node, true, Some(at)),
        "false" | "False" => to.boolean(node, false, Some(at)),
        text if numeric && text.parse::<i64>().is_ok() => to.int(node, text.parse().unwrap_or(0), false, Some(at)),
        text if numeric && text.parse::<u64>().is_ok() => {
            to.int(node, text.parse::<u64>().unwrap_or(0).cast_signed(), true, Some(at));
        }
        text if numeric && text.parse::<f64>().is_ok() => to.float(node, text.parse().unwrap_or(0.0), Some(at)),
        _ => to.text(node, cell, Some(at)),
    }
}

/// The cells of the record at `at`, which moves behind it.
fn record<'b>(bytes: &'b [u8], at: &mut usize) -> Option<Vec<Cow<'b, [u8]>>> {
    let mut cells = Vec::new();
    loop {
        let rest = bytes.get(*at..)?;
        if cells.len() > COLUMNS {
            return None;
        }
        let end = if rest.first() == Some(&b'"') {
            let mut cell = Vec::new();
            let mut from = 1;
            loop {
                let quote = from + memchr::memchr(b'"', rest.get(from..)?)?;
                cell.extend(rest.get(from..quote)?);
                if rest.get(quote + 1) != Some(&b'"') {
                    cells.push(Cow::Owned(cell));
                    break quote + 1;
                }
                cell.push(b'"');
                from = quote + 2;
            }
        } else {
            let end = memchr::memchr2(b',', b'\n', rest).unwrap_or(rest.len());
            let cell = rest.get(..end)?;
            cells.push(Cow::Borrowed(cell.strip_suffix(b"\r").unwrap_or(cell)));
            end
        };
        let end = if rest.get(end) == Some(&b'\r') { end + 1 } else { end };
        *at += end + 1;
        match rest.get(end) {
            Some(b',') => (),
            Some(b'\n') | None => return Some(cells),
            Some(_) => return None,
        }
    }
}
