//! Columns of a record batch, decoded from its body.
//!
//! Invariant: offsets rise and stay inside their buffer; what lies below nulls, before the first and after the last value is
//! looked at.

use super::schema::{Field, Type};
use crate::audit::finding::Place;
use crate::audit::view::fact::{Facts, Kind};

/// A column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    pub(crate) length: usize,
    valid: Vec<bool>,
    pub(crate) ints: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) offsets: Vec<usize>,
    pub(crate) children: Vec<Self>,
}

impl Column {
    pub(crate) fn is_valid(&self, at: usize) -> bool {
        self.valid.get(at).copied().unwrap_or(true)
    }

    /// Whether there is something at a row, so that it should not be below a null.
    fn holds(&self, at: usize) -> bool {
        let span = self.offsets.get(at) != self.offsets.get(at + 1) && at + 1 < self.offsets.len();
        let inside = self.offsets.is_empty() && self.children.iter().any(|child| child.holds(at));
        let number = self.ints.get(at).is_some_and(|value| *value != 0)
            || self.floats.get(at).is_some_and(|value| value.to_bits() != 0);
        self.is_valid(at) && (number || span || inside || self.texts.get(at).is_some_and(|text| !text.is_empty()))
    }
}

/// What is left of a batch's nodes and buffers.
pub(crate) struct Batch<'b> {
    pub(crate) nodes: std::vec::IntoIter<(usize, usize)>,
    pub(crate) buffers: std::vec::IntoIter<Vec<u8>>,
    pub(crate) facts: &'b mut Facts,
    pub(crate) place: Place,
    /// Values that the batch may still have.
    pub(crate) budget: usize,
}

impl Batch<'_> {
    /// The next column in depth-first order.
    pub(crate) fn column(&mut self, field: &Field) -> Option<Column> {
        let (length, nulls) = self.nodes.next()?;
        self.budget = self.budget.checked_sub(length)?;
        let kind = field.dictionary.map_or(field.kind, |(_, index)| index);
        let mut column = Column { length, ..Column::default() };
        if kind == Type::Null {
            column.valid = vec![false; length];
            return Some(column);
        }
        let validity = self.buffers.next()?;
        if !validity.is_empty() {
            column.valid = bits(&validity, length)?;
            self.rest(&validity, length.div_ceil(8), length % 8);
        }
        if column.valid.iter().filter(|valid| !**valid).count() != nulls {
            self.facts.add(Kind::Statistics, self.place.clone(), "a number of nulls that the data do not have", None);
        }
        match kind {
            Type::Null => (),
            Type::Bool => {
                let data = self.buffers.next()?;
                column.ints = bits(&data, length)?.into_iter().map(i64::from).collect();
                self.rest(&data, length.div_ceil(8), length % 8);
                let hidden = column.ints.iter().enumerate().any(|(at, value)| *value != 0 && !column.is_valid(at));
                self.below_null(hidden);
            }
            Type::Int(size, _) | Type::Instant(size) | Type::Float(size) | Type::Fixed(size) => {
                let data = self.buffers.next()?;
                let end = length.checked_mul(size)?;
                let used = data.get(..end)?;
                self.rest(&data, end, 0);
                let hidden = |(at, value): (usize, &[u8])| !column.is_valid(at) && value.iter().any(|byte| *byte != 0);
                let any = size > 0 && used.chunks_exact(size).enumerate().any(hidden);
                self.below_null(any);
                for value in used.chunks_exact(size.max(1)) {
                    match kind {
                        Type::Float(4) => column.floats.push(f32::from_le_bytes(value.try_into().ok()?).into()),
                        Type::Float(_) => column.floats.push(f64::from_le_bytes(value.try_into().ok()?)),
                        Type::Fixed(_) => column.texts.push(value.to_vec()),
                        Type::Int(_, signed) => column.ints.push(int(value, signed)),
                        _ => column.ints.push(int(value, true)),
                    }
                }
            }
            Type::Bytes(wide) => {
                let offsets = self.offsets(length, wide)?;
                let data = self.buffers.next()?;
                self.span(&offsets, &column, data.len());
                for pair in offsets.windows(2) {
                    let [from, to] = *pair else { return None };
                    column.texts.push(data.get(from..to)?.to_vec());
                }
                let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
                let loose = data.get(..first)?.iter().chain(data.get(last..)?).any(|byte| *byte != 0);
                if loose {
                    self.facts.add(Kind::Unowned, self.place.clone(), "bytes of a buffer that no value reaches", None);
                }
            }
            Type::List(wide) => {
                column.offsets = self.offsets(length, wide)?;
                let child = self.column(field.children.first()?)?;
                let (first, last) =
                    (column.offsets.first().copied().unwrap_or(0), column.offsets.last().copied().unwrap_or(0));
                self.span(&column.offsets, &column, child.length);
                if last > child.length {
                    return None;
                }
                if first > 0 || last < child.length {
                    self.facts.add(Kind::Unowned, self.place.clone(), "values that no list reaches", None);
                }
                column.children.push(child);
            }
            Type::Struct => {
                for child in &field.children {
                    let child = self.column(child)?;
                    if child.length != length {
                        return None;
                    }
                    let hidden = (0..length).any(|at| !column.is_valid(at) && child.holds(at));
                    self.below_null(hidden);
                    column.children.push(child);
                }
            }
        }
        Some(column)
    }

    fn offsets(&mut self, length: usize, wide: bool) -> Option<Vec<usize>> {
        let buffer = self.buffers.next()?;
        let size = if wide { 8 } else { 4 };
        if length == 0 && buffer.is_empty() {
            return Some(vec![0]);
        }
        let end = (length + 1).checked_mul(size)?;
        self.rest(&buffer, end, 0);
        let values = buffer.get(..end)?.chunks_exact(size).map(|value| usize::try_from(int(value, true)).ok());
        let offsets = values.collect::<Option<Vec<_>>>()?;
        offsets.is_sorted().then_some(offsets)
    }

    /// A null whose offsets span something.
    fn span(&mut self, offsets: &[usize], column: &Column, _end: usize) {
        let hidden =
            offsets.windows(2).enumerate().any(|(at, pair)| pair.first() != pair.last() && !column.is_valid(at));
        self.below_null(hidden);
    }

    fn below_null(&mut self, hidden: bool) {
        if hidden {
            self.facts.add(Kind::NullSlot, self.place.clone(), "bytes below a null", None);
        }
    }

    /// What follows the values in a buffer.
    fn rest(&mut self, buffer: &[u8], end: usize, bits: usize) {
        let partial =
            bits > 0 && end.checked_sub(1).and_then(|at| buffer.get(at)).is_some_and(|last| last >> bits != 0);
        if partial || buffer.get(end..).unwrap_or_default().iter().any(|byte| *byte != 0) {
            // Buffers are filled up to 64 bytes; what is longer is no padding.
            if buffer.len().saturating_sub(end) > 64 {
                self.facts.add(Kind::Unowned, self.place.clone(), "bytes behind the values of a buffer", None);
            }
            self.facts.add(Kind::Padding, self.place.clone(), "padding of a buffer that is not zero", None);
        }
    }
}

fn bits(buffer: &[u8], length: usize) -> Option<Vec<bool>> {
    let bytes = buffer.get(..length.div_ceil(8))?;
    Some((0..length).map(|at| bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)).collect())
}

/// A little-endian integer of up to 8 bytes.
fn int(value: &[u8], signed: bool) -> i64 {
    let negative = signed && value.last().is_some_and(|last| *last >= 0x80);
    value.iter().rev().fold(if negative { -1 } else { 0 }, |all, byte| all << 8 | i64::from(*byte))
}
