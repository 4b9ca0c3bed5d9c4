//! Thrift's compact protocol, as Parquet uses it, into a small tree.
//!
//! Invariant: every value takes at least a byte of input, so that no claimed length costs more than the input is long.

use std::ops::Range;

use self::Member::{Number, Of};

/// Deepest nesting.
const DEPTH: usize = 24;

/// Most values: each takes more room here than in the file.
const VALUES: usize = 1 << 22;

/// A value. Strings are ranges of the input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Int(i64),
    Double,
    Bytes(Range<usize>),
    List(Vec<Self>),
    Struct(Vec<(i64, Self)>),
}

impl Value {
    /// A member of a struct.
    pub(crate) fn get(&self, id: i64) -> Option<&Self> {
        match self {
            Self::Struct(members) => members.iter().find(|(member, _)| *member == id).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn int(&self, id: i64) -> Option<i64> {
        match self.get(id) {
            Some(Self::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// An integer member that counts something.
    pub(crate) fn size(&self, id: i64) -> Option<usize> {
        usize::try_from(self.int(id)?).ok()
    }

    pub(crate) fn bytes<'b>(&self, id: i64, input: &'b [u8]) -> Option<&'b [u8]> {
        match self.get(id) {
            Some(Self::Bytes(range)) => input.get(range.clone()),
            _ => None,
        }
    }

    pub(crate) fn list(&self, id: i64) -> &[Self] {
        match self.get(id) {
            Some(Self::List(values)) => values,
            _ => &[],
        }
    }
}

/// Reads a struct at the beginning of `input[at..]`; gives where it ends too. Nothing if it is not spelled as every writer does: what
/// can be spelled in two ways tells a bit.
pub(crate) fn read(input: &[u8], at: usize, def: &'static Def) -> Option<(Value, usize)> {
    let mut reader = Reader { input, at, left: VALUES };
    let value = reader.structure(0, Some(def))?;
    Some((value, reader.at))
}

struct Reader<'b> {
    input: &'b [u8],
    at: usize,
    left: usize,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.input.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let (value, at) = varint(self.input, self.at)?;
        self.at = at;
        Some(value)
    }

    fn structure(&mut self, depth: usize, def: Option<&'static Def>) -> Option<Value> {
        if depth > DEPTH {
            return None;
        }
        let mut members = Vec::new();
        let mut id = 0i64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Some(Value::Struct(members));
            }
            id = match head >> 4 {
                // Only for what is too far away to be told by its distance.
                0 => Some(zigzag(self.varint()?)).filter(|next| !(id + 1..id + 16).contains(next))?,
                delta => id + i64::from(delta),
            };
            let value = match head & 15 {
                1 => Value::Bool(true),
                2 => Value::Bool(false),
                kind => self.value(kind, depth, def.and_then(|def| def.member(id)))?,
            };
            members.push((id, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize, member: Option<Member>) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if let Some(Number(number)) = member
            && matches!(kind, 3..=6)
            && kind != number
        {
            return None;
        }
        Some(match kind {
            1 | 2 => Value::Bool(self.byte()? == 1),
            3 => Value::Int(i64::from(self.byte()?.cast_signed())),
            4..=6 => Value::Int(zigzag(self.varint()?)),
            7 => {
                self.at = self.at.checked_add(8).filter(|at| *at <= self.input.len())?;
                Value::Double
            }
            8 => {
                let size = usize::try_from(self.varint()?).ok()?;
                let end = self.at.checked_add(size).filter(|end| *end <= self.input.len())?;
                let range = self.at..end;
                self.at = end;
                Value::Bytes(range)
            }
            9 | 10 => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => usize::try_from(self.varint()?).ok().filter(|count| *count >= 15)?,
                    count => usize::from(count),
                };
                let mut values = Vec::new();
                for _ in 0..count {
                    values.push(self.value(head & 15, depth + 1, member)?);
                }
                Value::List(values)
            }
            12 => {
                let def = if let Some(Of(def)) = member { Some(def) } else { None };
                self.structure(depth + 1, def)?
            }
            _ => return None,
        })
    }
}

/// An unsigned varint of up to 64 bits, as short as it can be.
pub(crate) fn varint(input: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *input.get(at)?;
        at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (byte != 0 || shift == 0).then_some((value, at));
        }
    }
    None
}

pub(crate) fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// What members a struct may have.
#[derive(Debug)]
pub(crate) struct Def(&'static [(i64, Member)]);

/// What a member may be.
#[derive(Clone, Copy, Debug)]
enum Member {
    /// Numbers of this kind, or truths.
    Number(u8),
    /// Structs, or bytes.
    Of(&'static Def),
}

const I8: Member = Number(3);
const I16: Member = Number(4);
const I32: Member = Number(5);
const I64: Member = Number(6);

impl Def {
    fn member(&self, id: i64) -> Option<Member> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, member)| *member)
    }

    /// Whether all members, and theirs, are known.
    pub(crate) fn knows(&self, value: &Value) -> bool {
        match value {
            Value::Struct(members) => members.iter().enumerate().all(|(at, (id, value))| {
                let known = self.member(*id).is_some_and(|member| match member {
                    Of(def) => def.knows(value),
                    Number(_) => is_number(value),
                });
                // Few are known, so that one of many stands twice near the beginning.
                known && !members.iter().skip(at + 1).any(|(other, _)| other == id)
            }),
            Value::List(values) => values.iter().all(|value| self.knows(value)),
            Value::Bytes(_) => std::ptr::eq(self.0, BYTES.0),
            _ => false,
        }
    }
}

/// Whether a value is a number, true or false, or a list of them.
fn is_number(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::Int(_) => true,
        Value::List(values) => values.iter().all(|value| matches!(value, Value::Bool(_) | Value::Int(_))),
        _ => false,
    }
}

/// Members that are bytes, and lists of such.
static BYTES: Def = Def(&[(i64::MIN, I32)]);

pub(crate) static NOTHING: Def = Def(&[]);
static TIME_UNIT: Def = Def(&[(1, Of(&NOTHING)), (2, Of(&NOTHING)), (3, Of(&NOTHING))]);
static TIME: Def = Def(&[(1, I32), (2, Of(&TIME_UNIT))]);
static LOGICAL: Def = Def(&[
    (1, Of(&NOTHING)),
    (2, Of(&NOTHING)),
    (3, Of(&NOTHING)),
    (4, Of(&NOTHING)),
    (5, Of(&Def(&[(1, I32), (2, I32)]))),
    (6, Of(&NOTHING)),
    (7, Of(&TIME)),
    (8, Of(&TIME)),
    (10, Of(&Def(&[(1, I8), (2, I32)]))),
    (11, Of(&NOTHING)),
    (12, Of(&NOTHING)),
    (13, Of(&NOTHING)),
    (14, Of(&NOTHING)),
    (15, Of(&NOTHING)),
]);
static ELEMENT: Def = Def(&[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, Of(&BYTES)),
    (5, I32),
    (6, I32),
    (7, I32),
    (8, I32),
    (9, I32),
    (10, Of(&LOGICAL)),
]);
static STATISTICS: Def =
    Def(&[(1, Of(&BYTES)), (2, Of(&BYTES)), (3, I64), (4, I64), (5, Of(&BYTES)), (6, Of(&BYTES)), (7, I32), (8, I32)]);
static KEY_VALUE: Def = Def(&[(1, Of(&BYTES)), (2, Of(&BYTES))]);
static ENCODING_STATS: Def = Def(&[(1, I32), (2, I32), (3, I32)]);
static SIZES: Def = Def(&[(1, I64), (2, I64), (3, I64)]);
static CHUNK: Def = Def(&[
    (1, I32),
    (2, I32),
    (3, Of(&BYTES)),
    (4, I32),
    (5, I64),
    (6, I64),
    (7, I64),
    (8, Of(&KEY_VALUE)),
    (9, I64),
    (10, I64),
    (11, I64),
    (12, Of(&STATISTICS)),
    (13, Of(&ENCODING_STATS)),
    (14, I64),
    (15, I32),
    (16, Of(&SIZES)),
]);
static COLUMN: Def = Def(&[(1, Of(&BYTES)), (2, I64), (3, Of(&CHUNK)), (4, I64), (5, I32), (6, I64), (7, I32)]);
static SORTING: Def = Def(&[(1, I32), (2, I32), (3, I32)]);
static GROUP: Def = Def(&[(1, Of(&COLUMN)), (2, I64), (3, I64), (4, Of(&SORTING)), (5, I64), (6, I64), (7, I16)]);
static ORDER: Def = Def(&[(1, Of(&NOTHING)), (2, Of(&NOTHING))]);

/// `FileMetaData`, without what encrypts.
pub(crate) static FOOTER: Def = Def(&[
    (1, I32),
    (2, Of(&ELEMENT)),
    (3, I64),
    (4, Of(&GROUP)),
    (5, Of(&KEY_VALUE)),
    (6, Of(&BYTES)),
    (7, Of(&ORDER)),
]);

/// `PageHeader`.
pub(crate) static PAGE: Def = Def(&[
    (1, I32),
    (2, I32),
    (3, I32),
    (4, I32),
    (5, Of(&Def(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, Of(&STATISTICS))]))),
    (7, Of(&Def(&[(1, I32), (2, I32), (3, I32)]))),
    (8, Of(&Def(&[(1, I32), (2, I32), (3, I32), (4, I32), (5, I32), (6, I32), (7, I32), (8, Of(&STATISTICS))]))),
]);

/// `ColumnIndex`.
pub(crate) static COLUMN_INDEX: Def =
    Def(&[(1, I32), (2, Of(&BYTES)), (3, Of(&BYTES)), (4, I32), (5, I64), (6, I64), (7, I64)]);

/// `OffsetIndex`.
pub(crate) static OFFSET_INDEX: Def = Def(&[(1, Of(&Def(&[(1, I64), (2, I32), (3, I64)]))), (2, I64)]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_spelled_in_two_ways_is_read_in_one() {
        // FileMetaData: version 1, number of rows 3.
        let read = |bytes: &[u8]| read(bytes, 0, &FOOTER).map(|(value, end)| (value.int(1), value.int(3), end));
        assert_eq!(read(&[0x15, 2, 0x26, 6, 0]), Some((Some(1), Some(3), 5)));
        for other in [
            // A number of another size, one with an empty byte, a member told by its id, a list whose count stands behind it.
            &[0x16, 2, 0x26, 6, 0][..],
            &[0x15, 0x82, 0, 0x26, 6, 0],
            &[0x15, 2, 0x06, 6, 6, 0],
            &[0x15, 2, 0x26, 6, 0x19, 0xfc, 1, 0, 0],
        ] {
            assert_eq!(read(other), None, "{other:?}");
        }
    }
}
