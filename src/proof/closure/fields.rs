//! Fields and columns over their rows: the strings of one JSON key, or of one column of a table of lines, joined in order.
//!
//! Invariant: nothing has to be valid: what looks like a key is one; so a broken file is read as far as it goes.

use std::collections::BTreeMap;

use super::encodings::unescape;
use super::{Decoding, Detokenize, Emit, numbers};

/// Keys or columns of one piece.
const COLUMNS: usize = 1 << 12;

#[derive(Default)]
struct Column {
    text: Vec<u8>,
    strings: usize,
    numbers: Vec<u64>,
}

/// Reads fields of JSON and, where there are none, columns of lines. Gives whether all fitted.
pub(super) fn read(bytes: &[u8], detokenize: Option<Detokenize<'_>>, emit: Emit<'_>) -> bool {
    let mut columns = Columns::default();
    let json = json(bytes, &mut columns);
    let mut whole = columns.whole();
    emit_all(&columns, detokenize, emit);
    if !json {
        let mut columns = Columns::default();
        lines(bytes, &mut columns);
        whole &= columns.whole();
        emit_all(&columns, detokenize, emit);
    }
    whole
}

#[derive(Default)]
struct Columns<'a> {
    by_key: BTreeMap<(usize, &'a [u8]), Column>,
    over: bool,
}

impl<'a> Columns<'a> {
    fn at(&mut self, key: (usize, &'a [u8])) -> Option<&mut Column> {
        if self.by_key.len() >= COLUMNS && !self.by_key.contains_key(&key) {
            self.over = true;
            return None;
        }
        Some(self.by_key.entry(key).or_default())
    }

    fn whole(&self) -> bool {
        !self.over
    }
}

fn emit_all(columns: &Columns<'_>, detokenize: Option<Detokenize<'_>>, emit: Emit<'_>) {
    for column in columns.by_key.values() {
        if column.strings > 1 {
            emit(Decoding::Joined, &column.text);
        }
        if column.numbers.len() > 1 {
            numbers::read(std::slice::from_ref(&column.numbers), detokenize, emit);
        }
    }
}

/// Gives whether there was a key.
fn json<'a>(bytes: &'a [u8], columns: &mut Columns<'a>) -> bool {
    let (mut rest, mut before, mut key) = (bytes, 0, None);
    let is_start = |byte: &u8| *byte == b'"' || byte.is_ascii_digit();
    while let Some(at) = rest.iter().position(is_start) {
        let minus = at.checked_sub(1).map_or(before, |at| rest.get(at).copied().unwrap_or(0)) == b'-';
        let here = rest.get(at..).unwrap_or_default();
        if let [b'"', inside @ ..] = here {
            let (string, after) = string(inside);
            rest = after;
            if after.trim_ascii_start().first() == Some(&b':') {
                key = Some(string);
                // Keys can spell text too.
                push(columns.at((1, b"")), string);
            } else {
                push(columns.at((0, key.unwrap_or_default())), string);
            }
        } else {
            let (value, after) = numbers::number(here, minus);
            rest = after;
            if let Some(key) = key
                && let Some(column) = columns.at((0, key))
            {
                column.numbers.push(value);
            }
        }
        before = 0;
    }
    key.is_some()
}

fn push(column: Option<&mut Column>, string: &[u8]) {
    if let Some(column) = column {
        unescape(string, &mut column.text);
        column.strings += 1;
    }
}

/// The string whose opening quote has been passed, escaped, and what follows its closing one.
pub(in crate::proof) fn string(inside: &[u8]) -> (&[u8], &[u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'"', b'\\', inside.get(from..).unwrap_or_default()) {
        let at = from + at;
        if inside.get(at) == Some(&b'"') {
            return (inside.get(..at).unwrap_or_default(), inside.get(at + 1..).unwrap_or_default());
        }
        from = at + 2;
    }
    (inside, &[])
}

fn lines<'a>(bytes: &'a [u8], columns: &mut Columns<'a>) {
    if memchr::memchr_iter(b'\n', bytes).nth(1).is_none() || memchr::memchr(0, bytes).is_some() {
        return;
    }
    for line in bytes.split(|byte| *byte == b'\n') {
        for (number, cell) in line.split(|byte| b",;\t|".contains(byte)).enumerate() {
            let cell = cell.trim_ascii();
            let digits = cell.strip_prefix(b"-").unwrap_or(cell);
            let Some(column) = columns.at((2 + number, b"")) else { break };
            if digits.first().is_some_and(u8::is_ascii_digit) && numbers::number(digits, false).1.is_empty() {
                column.numbers.push(numbers::number(digits, digits.len() < cell.len()).0);
            } else {
                column.text.extend_from_slice(cell);
                column.strings += 1;
            }
        }
    }
}
