//! Encoded values of a page, decoded with every byte accounted for.
//!
//! Invariant: a decoder says where it stopped and whether padding was not zero; nothing is allocated for a count that the input
//! or the limits do not cover.

use super::thrift::{varint, zigzag};

/// Physical types, by Parquet's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Physical {
    Boolean,
    Int32,
    Int64,
    Int96,
    Float,
    Double,
    Bytes,
    Fixed(usize),
}

impl Physical {
    /// Parquet's number.
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Boolean => 0,
            Self::Int32 => 1,
            Self::Int64 => 2,
            Self::Int96 => 3,
            Self::Float => 4,
            Self::Double => 5,
            Self::Bytes => 6,
            Self::Fixed(_) => 7,
        }
    }

    pub(crate) fn parse(number: i64, length: Option<usize>) -> Option<Self> {
        Some(match number {
            0 => Self::Boolean,
            1 => Self::Int32,
            2 => Self::Int64,
            3 => Self::Int96,
            4 => Self::Float,
            5 => Self::Double,
            6 => Self::Bytes,
            7 => Self::Fixed(length?),
            _ => return None,
        })
    }
}

/// Values of one type, in order. Byte strings are spans of an arena.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    pub(crate) ints: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) arena: Vec<u8>,
    pub(crate) spans: Vec<(usize, usize)>,
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        self.ints.len().max(self.floats.len()).max(self.spans.len())
    }

    pub(crate) fn bytes(&self, at: usize) -> Option<&[u8]> {
        let (from, to) = *self.spans.get(at)?;
        self.arena.get(from..to)
    }

    /// Adds value `at` of a dictionary, whose arena lies at `base` of this one.
    fn take(&mut self, dictionary: &Self, at: usize, base: usize) -> Option<()> {
        if let Some(value) = dictionary.ints.get(at) {
            self.ints.push(*value);
        } else if let Some(value) = dictionary.floats.get(at) {
            self.floats.push(*value);
        } else {
            let (from, to) = *dictionary.spans.get(at)?;
            self.spans.push((base + from, base + to));
        }
        Some(())
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        let from = self.arena.len();
        self.arena.extend(bytes);
        self.spans.push((from, self.arena.len()));
    }
}

/// Where a decoder stopped, and whether padding was not zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) at: usize,
    pub(crate) padded: bool,
}

/// `count` values in PLAIN encoding.
pub(crate) fn plain(kind: Physical, input: &[u8], count: usize, to: &mut Values) -> Option<End> {
    let width = match kind {
        Physical::Boolean => {
            let bytes = count.div_ceil(8);
            let bits = input.get(..bytes)?;
            to.ints.extend((0..count).map(|at| bits.get(at / 8).map_or(0, |byte| i64::from(byte >> (at % 8) & 1))));
            let padded = !count.is_multiple_of(8) && bits.last().is_some_and(|last| last >> (count % 8) != 0);
            return Some(End { at: bytes, padded });
        }
        Physical::Bytes => {
            let mut at = 0usize;
            for _ in 0..count {
                let size = crate::audit::narrow(u32::from_le_bytes(*input.get(at..)?.first_chunk()?).into());
                to.push_bytes(input.get(at + 4..(at + 4).checked_add(size)?)?);
                at += 4 + size;
            }
            return Some(End { at, padded: false });
        }
        Physical::Int32 | Physical::Float => 4,
        Physical::Int64 | Physical::Double => 8,
        Physical::Int96 => 12,
        Physical::Fixed(size) => size,
    };
    let end = count.checked_mul(width)?;
    let values = input.get(..end)?;
    if width == 0 {
        return (count == 0).then_some(End { at: 0, padded: false });
    }
    values.chunks_exact(width).for_each(|value| fixed(kind, value, to));
    Some(End { at: end, padded: false })
}

/// One value of a fixed width.
fn fixed(kind: Physical, value: &[u8], to: &mut Values) {
    match (kind, value) {
        (Physical::Int32, &[a, b, c, d]) => to.ints.push(i32::from_le_bytes([a, b, c, d]).into()),
        (Physical::Float, &[a, b, c, d]) => to.floats.push(f32::from_le_bytes([a, b, c, d]).into()),
        (Physical::Int64, &[a, b, c, d, e, f, g, h]) => to.ints.push(i64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (Physical::Double, &[a, b, c, d, e, f, g, h]) => to.floats.push(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        (Physical::Int96, &[a, b, c, d, e, f, g, h, i, j, k, l]) => {
            // Nanoseconds of a Julian day; 2,440,588 is 1970-01-01.
            let day = i64::from(i32::from_le_bytes([i, j, k, l])) - 2_440_588;
            let nanos = i64::from_le_bytes([a, b, c, d, e, f, g, h]);
            to.ints.push(day.saturating_mul(86_400_000_000_000).saturating_add(nanos));
        }
        _ => to.push_bytes(value),
    }
}

/// `count` numbers of `width` bits in the RLE and bit-packing hybrid.
pub(crate) fn hybrid(input: &[u8], width: u32, count: usize) -> Option<(Vec<u32>, End)> {
    let mut values = Vec::new();
    let (mut at, mut padded) = (0, false);
    if width > 32 {
        return None;
    }
    while values.len() < count {
        let (head, next) = varint(input, at)?;
        at = next;
        let left = count - values.len();
        if head & 1 == 0 {
            let run = crate::audit::narrow(head >> 1);
            let bytes = crate::audit::narrow(u64::from(width.div_ceil(8)));
            let value = input.get(at..at + bytes)?.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            if run == 0 || (width < 32 && value >> width != 0) {
                return None;
            }
            at += bytes;
            padded |= run > left;
            values.resize(values.len() + run.min(left), value);
        } else {
            let groups = crate::audit::narrow(head >> 1);
            let bytes = groups.checked_mul(crate::audit::narrow(width.into()))?;
            let packed = input.get(at..at.checked_add(bytes)?)?;
            at += bytes;
            let n = groups.checked_mul(8)?;
            // Only the last group may hold more than is left.
            if n == 0 || n >= left + 8 {
                return None;
            }
            let mut bits = Bits { input: packed, at: 0 };
            for _ in 0..n.min(left) {
                values.push(u32::try_from(bits.take(width)?).ok()?);
            }
            padded |= bits.rest();
        }
    }
    Some((values, End { at, padded }))
}

/// Little-endian bits.
struct Bits<'b> {
    input: &'b [u8],
    at: usize,
}

impl Bits<'_> {
    fn take(&mut self, width: u32) -> Option<u64> {
        let (mut value, mut got) = (0u64, 0u32);
        while got < width {
            let byte = *self.input.get(self.at / 8)?;
            let skip = u32::try_from(self.at % 8).ok()?;
            let take = (8 - skip).min(width - got);
            let bits = u64::from(byte >> skip) & ((1 << take) - 1);
            value |= bits << got;
            got += take;
            self.at += crate::audit::narrow(take.into());
        }
        Some(value)
    }

    /// Whether a bit that was not taken is set.
    fn rest(&self) -> bool {
        let first = self.input.get(self.at / 8).is_some_and(|byte| byte >> (self.at % 8) != 0);
        first || self.input.get(self.at / 8 + 1..).unwrap_or_default().iter().any(|byte| *byte != 0)
    }
}

/// Integers in DELTA_BINARY_PACKED; `most` bounds their number.
pub(crate) fn delta(input: &[u8], most: usize) -> Option<(Vec<i64>, End)> {
    let (block, at) = varint(input, 0)?;
    let (minis, at) = varint(input, at)?;
    let (count, at) = varint(input, at)?;
    let (first, mut at) = varint(input, at)?;
    let (block, minis, count) = (crate::audit::narrow(block), crate::audit::narrow(minis), crate::audit::narrow(count));
    if minis == 0 || minis > 512 || block > 1 << 20 || count > most || block % minis != 0 || (block / minis) % 8 != 0 {
        return None;
    }
    let per = block / minis;
    let mut values = Vec::new();
    let mut padded = false;
    let mut last = zigzag(first);
    if count > 0 {
        values.push(last);
    } else {
        padded |= first != 0;
    }
    while values.len() < count {
        let (lowest, next) = varint(input, at)?;
        let widths = input.get(next..next + minis)?;
        at = next + minis;
        for width in widths {
            if values.len() >= count {
                padded |= *width != 0;
                continue;
            }
            let bytes = usize::from(*width).checked_mul(per)? / 8;
            let mut bits = Bits { input: input.get(at..at + bytes)?, at: 0 };
            if *width > 64 || (per == 0) {
                return None;
            }
            at += bytes;
            for _ in 0..per.min(count - values.len()) {
                last = last.wrapping_add(zigzag(lowest)).wrapping_add(bits.take((*width).into())?.cast_signed());
                values.push(last);
            }
            padded |= bits.rest();
        }
    }
    Some((values, End { at, padded }))
}

/// `count` values of a data page in any encoding, by Parquet's numbers.
pub(crate) fn decode(
    encoding: i64,
    kind: Physical,
    input: &[u8],
    count: usize,
    dictionary: &Dictionary,
    to: &mut Values,
) -> Option<End> {
    match encoding {
        0 => plain(kind, input, count, to),
        2 | 8 => {
            let width = u32::from(*input.first()?);
            let (indices, end) = hybrid(input.get(1..)?, width, count)?;
            let base = dictionary.base?;
            for index in indices {
                let index = crate::audit::narrow(index.into());
                *dictionary.used.borrow_mut().get_mut(index)? = true;
                to.take(&dictionary.values, index, base)?;
            }
            Some(End { at: end.at + 1, ..end })
        }
        3 if kind == Physical::Boolean => {
            let size = crate::audit::narrow(u32::from_le_bytes(*input.first_chunk()?).into());
            let (bits, end) = hybrid(input.get(4..4usize.checked_add(size)?)?, 1, count)?;
            to.ints.extend(bits.into_iter().map(i64::from));
            (end.at == size).then_some(End { at: 4 + size, ..end })
        }
        5 if matches!(kind, Physical::Int32 | Physical::Int64) => {
            let (values, end) = delta(input, count)?;
            let narrow = kind == Physical::Int32;
            let wrap = |value: i64| {
                let [a, b, c, d, ..] = value.to_le_bytes();
                i64::from(i32::from_le_bytes([a, b, c, d]))
            };
            to.ints.extend(values.iter().map(|value| if narrow { wrap(*value) } else { *value }));
            (values.len() == count).then_some(end)
        }
        6 => {
            let (lengths, end) = delta(input, count)?;
            let mut at = end.at;
            for length in &lengths {
                let next = at.checked_add(usize::try_from(*length).ok()?)?;
                to.push_bytes(input.get(at..next)?);
                at = next;
            }
            (lengths.len() == count).then_some(End { at, ..end })
        }
        7 => {
            let (prefixes, first) = delta(input, count)?;
            let (suffixes, second) = delta(input.get(first.at..)?, count)?;
            let mut at = first.at + second.at;
            let mut value: Vec<u8> = Vec::new();
            for (prefix, suffix) in prefixes.iter().zip(&suffixes) {
                let prefix = usize::try_from(*prefix).ok().filter(|prefix| *prefix <= value.len())?;
                let next = at.checked_add(usize::try_from(*suffix).ok()?)?;
                value.truncate(prefix);
                value.extend(input.get(at..next)?);
                // A short input may stand for a long output: each prefix repeats the last value.
                if to.arena.len() > input.len().saturating_mul(64).max(1 << 24) {
                    return None;
                }
                to.push_bytes(&value);
                at = next;
            }
            let all = prefixes.len() == count && suffixes.len() == count;
            all.then_some(End { at, padded: first.padded | second.padded })
        }
        9 => {
            let width = match kind {
                Physical::Int32 | Physical::Float => 4,
                Physical::Int64 | Physical::Double => 8,
                Physical::Fixed(size) => size,
                _ => return None,
            };
            let end = count.checked_mul(width)?;
            let input = input.get(..end)?;
            for at in 0..count {
                let value: Vec<u8> = (0..width).filter_map(|byte| input.get(byte * count + at).copied()).collect();
                fixed(kind, &value, to);
            }
            Some(End { at: end, padded: false })
        }
        _ => None,
    }
}

/// The dictionary of a column chunk.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    pub(crate) values: Values,
    /// Where its bytes lie in the arena of the chunk; none if there is no dictionary.
    pub(crate) base: Option<usize>,
    pub(crate) used: std::cell::RefCell<Vec<bool>>,
}
