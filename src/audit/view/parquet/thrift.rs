//! Thrift's compact protocol, as Parquet uses it, into a small tree.
//!
//! Invariant: every value takes at least a byte of input, so that no claimed length costs more than the input is long.

use std::ops::Range;

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
        if let Some(Member::Number(number)) = member
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
            12 => self.structure(
                depth + 1,
                match member {
                    Some(Member::Struct(def)) => Some(def),
                    _ => None,
                },
            )?,
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

/// What members a struct may have: bytes, structs, or numbers and truths; and which numbers are not of 32 bits.
#[derive(Debug)]
pub(crate) struct Def(pub(crate) &'static [(i64, Option<&'static Self>)], pub(crate) &'static [(i64, u8)]);

/// What a member may be.
#[derive(Clone, Copy)]
enum Member {
    /// A number of this kind.
    Number(u8),
    Struct(&'static Def),
}

/// Kinds of numbers.
const I8: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;

impl Def {
    fn member(&self, id: i64) -> Option<Member> {
        let (_, def) = self.0.iter().find(|(known, _)| *known == id)?;
        let kind = || self.1.iter().find(|(known, _)| *known == id).map_or(I32, |(_, kind)| *kind);
        Some(def.map_or_else(|| Member::Number(kind()), Member::Struct))
    }

    /// Whether all members, and theirs, are known.
    pub(crate) fn knows(&self, value: &Value) -> bool {
        match value {
            Value::Struct(members) => members.iter().enumerate().all(|(at, (id, value))| {
                let known = self.0.iter().find(|(known, _)| known == id).is_some_and(|(_, def)| match def {
                    Some(def) => def.knows(value),
                    None => is_number(value),
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
static BYTES: Def = Def(&[(i64::MIN, None)], &[]);

pub(crate) static NOTHING: Def = Def(&[], &[]);
static TIME_UNIT: Def = Def(&[(1, Some(&NOTHING)), (2, Some(&NOTHING)), (3, Some(&NOTHING))], &[]);
static TIME: Def = Def(&[(1, None), (2, Some(&TIME_UNIT))], &[]);
static LOGICAL: Def = Def(
    &[
        (1, Some(&NOTHING)),
        (2, Some(&NOTHING)),
        (3, Some(&NOTHING)),
        (4, Some(&NOTHING)),
        (5, Some(&Def(&[(1, None), (2, None)], &[]))),
        (6, Some(&NOTHING)),
        (7, Some(&TIME)),
        (8, Some(&TIME)),
        (10, Some(&Def(&[(1, None), (2, None)], &[(1, I8)]))),
        (11, Some(&NOTHING)),
        (12, Some(&NOTHING)),
        (13, Some(&NOTHING)),
        (14, Some(&NOTHING)),
        (15, Some(&NOTHING)),
    ],
    &[],
);
static ELEMENT: Def = Def(
    &[
        (1, None),
        (2, None),
        (3, None),
        (4, Some(&BYTES)),
        (5, None),
        (6, None),
        (7, None),
        (8, None),
        (9, None),
        (10, Some(&LOGICAL)),
    ],
    &[],
);
static STATISTICS: Def = Def(
    &[
        (1, Some(&BYTES)),
        (2, Some(&BYTES)),
        (3, None),
        (4, None),
        (5, Some(&BYTES)),
        (6, Some(&BYTES)),
        (7, None),
        (8, None),
    ],
    &[(3, I64), (4, I64)],
);
static KEY_VALUE: Def = Def(&[(1, Some(&BYTES)), (2, Some(&BYTES))], &[]);
static ENCODING_STATS: Def = Def(&[(1, None), (2, None), (3, None)], &[]);
static SIZES: Def = Def(&[(1, None), (2, None), (3, None)], &[(1, I64), (2, I64), (3, I64)]);
static CHUNK: Def = Def(
    &[
        (1, None),
        (2, None),
        (3, Some(&BYTES)),
        (4, None),
        (5, None),
        (6, None),
        (7, None),
        (8, Some(&KEY_VALUE)),
        (9, None),
        (10, None),
        (11, None),
        (12, Some(&STATISTICS)),
        (13, Some(&ENCODING_STATS)),
        (14, None),
        (15, None),
        (16, Some(&SIZES)),
    ],
    &[(5, I64), (6, I64), (7, I64), (9, I64), (10, I64), (11, I64), (14, I64)],
);
static COLUMN: Def = Def(
    &[(1, Some(&BYTES)), (2, None), (3, Some(&CHUNK)), (4, None), (5, None), (6, None), (7, None)],
    &[(2, I64), (4, I64), (6, I64)],
);
static SORTING: Def = Def(&[(1, None), (2, None), (3, None)], &[]);
static GROUP: Def = Def(
    &[(1, Some(&COLUMN)), (2, None), (3, None), (4, Some(&SORTING)), (5, None), (6, None), (7, None)],
    &[(2, I64), (3, I64), (5, I64), (6, I64), (7, I16)],
);
static ORDER: Def = Def(&[(1, Some(&NOTHING)), (2, Some(&NOTHING))], &[]);

/// `FileMetaData`, without what encrypts.
pub(crate) static FOOTER: Def = Def(
    &[
        (1, None),
        (2, Some(&ELEMENT)),
        (3, None),
        (4, Some(&GROUP)),
        (5, Some(&KEY_VALUE)),
        (6, Some(&BYTES)),
        (7, Some(&ORDER)),
    ],
    &[(3, I64)],
);

/// `PageHeader`.
pub(crate) static PAGE: Def = Def(
    &[
        (1, None),
        (2, None),
        (3, None),
        (4, None),
        (5, Some(&Def(&[(1, None), (2, None), (3, None), (4, None), (5, Some(&STATISTICS))], &[]))),
        (7, Some(&Def(&[(1, None), (2, None), (3, None)], &[]))),
        (
            8,
            Some(&Def(
                &[(1, None), (2, None), (3, None), (4, None), (5, None), (6, None), (7, None), (8, Some(&STATISTICS))],
                &[],
            )),
        ),
    ],
    &[],
);

/// `ColumnIndex`.
pub(crate) static COLUMN_INDEX: Def = Def(
    &[(1, None), (2, Some(&BYTES)), (3, Some(&BYTES)), (4, None), (5, None), (6, None), (7, None)],
    &[(5, I64), (6, I64), (7, I64)],
);

/// `OffsetIndex`.
pub(crate) static OFFSET_INDEX: Def =
    Def(&[(1, Some(&Def(&[(1, None), (2, None), (3, None)], &[(1, I64), (3, I64)]))), (2, None)], &[(2, I64)]);

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
