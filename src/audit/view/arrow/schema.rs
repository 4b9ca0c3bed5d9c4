//! Arrow schemas.
//!
//! Invariant: a schema is plain if it holds names, types and nothing else; custom metadata and loose bytes are seen.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::flat::{Flat, Table};
use crate::audit::vocab::words::is_plain_name;

/// Deepest nesting.
const DEPTH: usize = 32;

/// More dictionaries than a file has.
pub(super) const SMALL: i64 = 1 << 12;

/// Types that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Null,
    Bool,
    /// Bytes of a value, and whether it has a sign.
    Int(usize, bool),
    Float(usize),
    /// Whether offsets have 64 bits.
    Bytes(bool),
    Fixed(usize),
    List(bool),
    Struct,
    /// Dates and timestamps, by bytes.
    Instant(usize),
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Type,
    pub(crate) children: Vec<Self>,
    /// Id of its dictionary, and the type of the indices.
    pub(crate) dictionary: Option<(i64, Type)>,
}

/// Fields of a schema, and whether there is metadata in it.
pub(crate) fn read(flat: &mut Flat<'_>, schema: Table) -> Option<(Vec<Field>, bool)> {
    let mut metadata = metadata(flat, schema, 2)?;
    // Little-endian, and no features: both could say something.
    metadata |= flat.number(schema, 0, 2)? != 0 || flat.vector(schema, 3, 8)?.0 > 0;
    let tables = flat.tables(schema, 1)?;
    let fields = tables.into_iter().map(|table| field(flat, table, 0, &mut metadata)).collect::<Option<_>>()?;
    Some((fields, metadata))
}

/// Whether there is custom metadata; an empty list is none.
pub(crate) fn metadata(flat: &mut Flat<'_>, table: Table, id: usize) -> Option<bool> {
    Some(flat.has(table, id) && flat.vector(table, id, 4)?.0 > 0)
}

fn field(flat: &mut Flat<'_>, table: Table, depth: usize, metadata: &mut bool) -> Option<Field> {
    if depth > DEPTH {
        return None;
    }
    *metadata |= self::metadata(flat, table, 6)?;
    let name = flat.string(table, 0)?.to_vec();
    *metadata |= !(0..=1).contains(&flat.number(table, 1, 1)?);
    let which = flat.number(table, 2, 1)?;
    let kind = flat.child(table, 3);
    let kind = type_of(flat, which, kind)?;
    let dictionary = match flat.child(table, 4) {
        None => None,
        Some(dictionary) => {
            let id = flat.number(dictionary, 0, 8)?;
            let ordered = (0..=1).contains(&flat.number(dictionary, 2, 1)?);
            *metadata |= !ordered || flat.number(dictionary, 3, 2)? != 0 || !(0..SMALL).contains(&id);
            let index = flat.child(dictionary, 1);
            Some((id, index.map_or(Some(Type::Int(4, true)), |index| type_of(flat, 2, Some(index)))?))
        }
    };
    let children = flat.tables(table, 5)?;
    let children = children.into_iter().map(|child| field(flat, child, depth + 1, metadata)).collect::<Option<_>>()?;
    Some(Field { name, kind, children, dictionary })
}

fn type_of(flat: &mut Flat<'_>, which: i64, table: Option<Table>) -> Option<Type> {
    let table = table?;
    let bytes = |bits: i64| usize::try_from(bits / 8).ok().filter(|bytes| [1, 2, 4, 8].contains(bytes));
    Some(match which {
        1 => Type::Null,
        2 => {
            let bits = flat.number(table, 0, 4)?;
            Type::Int(bytes(bits)?, flag(flat.number(table, 1, 1)?)?)
        }
        3 => Type::Float(match flat.number(table, 0, 2)? {
            1 => 4,
            2 => 8,
            _ => return None,
        }),
        4 | 5 => Type::Bytes(false),
        19 | 20 => Type::Bytes(true),
        6 => Type::Bool,
        8 => Type::Instant(if flat.has(table, 0) && flat.number(table, 0, 2)? == 0 { 4 } else { 8 }),
        10 => {
            unit(flat.number(table, 0, 2)?)?;
            // A zone is a place.
            if !flat.string(table, 1)?.is_empty() {
                return None;
            }
            Type::Instant(8)
        }
        9 => {
            unit(flat.number(table, 0, 2)?)?;
            match flat.number(table, 1, 4)? {
                64 => Type::Int(8, true),
                0 | 32 => Type::Int(4, true),
                _ => return None,
            }
        }
        18 => {
            unit(flat.number(table, 0, 2)?)?;
            Type::Int(8, true)
        }
        12 => Type::List(false),
        21 => Type::List(true),
        13 => Type::Struct,
        15 => Type::Fixed(usize::try_from(flat.number(table, 0, 4)?).ok()?),
        _ => return None,
    })
}

/// A byte that is true or false.
fn flag(number: i64) -> Option<bool> {
    (0..=1).contains(&number).then_some(number == 1)
}

/// Seconds to nanoseconds.
fn unit(number: i64) -> Option<()> {
    (0..=3).contains(&number).then_some(())
}

/// Whether `ARROW:schema` of a Parquet file holds names, types and nothing else.
pub(crate) fn is_plain(encoded: &[u8]) -> bool {
    let Ok(bytes) = STANDARD.decode(encoded) else { return false };
    let body = bytes.strip_prefix(&[0xff; 4]).unwrap_or(&bytes);
    let Some((size, message)) = body.split_first_chunk::<4>() else { return false };
    let size = crate::audit::narrow(u32::from_le_bytes(*size).into());
    let Some((message, rest)) = message.split_at_checked(size) else { return false };
    let mut flat = Flat::new(message);
    let parse = |flat: &mut Flat<'_>| -> Option<bool> {
        let root = flat.root()?;
        let loose = metadata(flat, root, 4)?;
        let version = flat.number(root, 0, 2)?;
        if !(0..=4).contains(&version) || flat.number(root, 3, 8)? != 0 || flat.number(root, 1, 1)? != 1 {
            return None;
        }
        let schema = flat.child(root, 2)?;
        let (fields, metadata) = read(flat, schema)?;
        Some(!loose && !metadata && names_are_plain(&fields))
    };
    parse(&mut flat) == Some(true) && flat.is_accounted() && rest.iter().all(|byte| *byte == 0)
}

fn names_are_plain(fields: &[Field]) -> bool {
    fields.iter().all(|field| is_plain_name(&field.name) && names_are_plain(&field.children))
}
