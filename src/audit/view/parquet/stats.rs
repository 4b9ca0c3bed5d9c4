//! Statistics compared with the data.
//!
//! Invariant: a stated minimum or maximum is the data's own, or a shortened form of it that the format allows; anything else is a
//! fact.

use std::cmp::Ordering;

use super::thrift::Value;
use super::values::{Physical, Values};

/// The smallest and largest of a range of values.
#[derive(Clone, Debug)]
pub(crate) struct Extremes {
    min: Vec<u8>,
    max: Vec<u8>,
}

/// How values of a column compare.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) kind: Physical,
    pub(crate) unsigned: bool,
}

/// A value as statistics spell it.
fn spelled(order: Order, values: &Values, at: usize) -> Option<Vec<u8>> {
    Some(match order.kind {
        Physical::Boolean => vec![u8::from(*values.ints.get(at)? != 0)],
        Physical::Int32 => values.ints.get(at)?.to_le_bytes().get(..4)?.to_vec(),
        Physical::Int64 => values.ints.get(at)?.to_le_bytes().to_vec(),
        _ => values.bytes(at)?.to_vec(),
    })
}

pub(crate) fn extremes(order: Order, values: &Values, range: std::ops::Range<usize>) -> Option<Extremes> {
    let compare = |one: &usize, other: &usize| -> Ordering {
        if let (Some(one), Some(other)) = (values.ints.get(*one), values.ints.get(*other)) {
            let unsigned = order.unsigned && order.kind == Physical::Int64;
            let narrow = order.unsigned && order.kind == Physical::Int32;
            return if unsigned {
                one.cast_unsigned().cmp(&other.cast_unsigned())
            } else if narrow {
                (one & 0xffff_ffff).cmp(&(other & 0xffff_ffff))
            } else {
                one.cmp(other)
            };
        }
        values.bytes(*one).cmp(&values.bytes(*other))
    };
    let (min, max) = (range.clone().min_by(compare)?, range.max_by(compare)?);
    Some(Extremes { min: spelled(order, values, min)?, max: spelled(order, values, max)? })
}

/// Whether a statistics struct agrees with the data.
pub(crate) fn agree(
    stats: &Value,
    input: &[u8],
    order: Order,
    values: &Values,
    range: std::ops::Range<usize>,
    nulls: usize,
) -> bool {
    let stated_nulls = stats.int(3).is_none_or(|stated| usize::try_from(stated) == Ok(nulls));
    let distinct = stats.int(4).is_none_or(|stated| usize::try_from(stated).is_ok_and(|stated| stated <= range.len()));
    if !stated_nulls || !distinct {
        return false;
    }
    if matches!(order.kind, Physical::Float | Physical::Double | Physical::Int96) {
        return float_agrees(stats, input, order, values, range);
    }
    let known = extremes(order, values, range.clone());
    let member = |stated: &[u8]| range.clone().any(|at| spelled(order, values, at).as_deref() == Some(stated));
    // Fields 1 and 2 are the old ones, whose order was never defined: any value of the data is fine.
    let old = [1, 2].iter().all(|id| stats.bytes(*id, input).is_none_or(member));
    let limit = |id, upper| {
        let Some(stated) = stats.bytes(id, input) else { return true };
        let Some(known) = &known else { return false };
        bounds(stated, if upper { &known.max } else { &known.min }, upper, order)
            || (matches!(order.kind, Physical::Fixed(_)) && member(stated))
    };
    old && limit(5, true) && limit(6, false)
}

/// Whether `stated` is `actual`, or a shortened form of it that bounds it.
pub(crate) fn bounds(stated: &[u8], actual: &[u8], upper: bool, order: Order) -> bool {
    if stated == actual {
        return true;
    }
    if !matches!(order.kind, Physical::Bytes | Physical::Fixed(_)) || stated.len() >= actual.len() {
        return false;
    }
    let head = actual.get(..stated.len()).unwrap_or_default();
    if !upper {
        return head == stated;
    }
    // The last byte (or character) is one up.
    let mut last = stated.len();
    while last > 0 && stated.get(last - 1) == head.get(last - 1) {
        last -= 1;
    }
    let start = stated.iter().zip(head).take_while(|(one, two)| one == two).count();
    start < stated.len() && stated > head && stated.len() - start <= 4
}

/// Floating-point limits: by value, zeros alike.
fn float_agrees(stats: &Value, input: &[u8], order: Order, values: &Values, range: std::ops::Range<usize>) -> bool {
    if order.kind == Physical::Int96 {
        return [1, 2, 5, 6].iter().all(|id| stats.bytes(*id, input).is_none());
    }
    [1, 2, 5, 6].iter().all(|id| {
        let Some(stated) = stats.bytes(*id, input) else { return true };
        let Some(stated) = float(stated) else { return false };
        let all = values.floats.get(range.clone()).unwrap_or_default().iter().copied().filter(|value| !value.is_nan());
        let known =
            if [1, 5].contains(id) { all.fold(f64::NEG_INFINITY, f64::max) } else { all.fold(f64::INFINITY, f64::min) };
        // Equal by value, so that −0 and +0 are one.
        stated.partial_cmp(&known) == Some(Ordering::Equal)
    })
}

/// A stated limit of floats.
fn float(stated: &[u8]) -> Option<f64> {
    Some(match *stated {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

/// Limits of one page in a column index.
pub(crate) fn page_agrees(
    min: &[u8],
    max: &[u8],
    order: Order,
    values: &Values,
    range: std::ops::Range<usize>,
) -> bool {
    if matches!(order.kind, Physical::Float | Physical::Double) {
        let all =
            || values.floats.get(range.clone()).unwrap_or_default().iter().copied().filter(|value| !value.is_nan());
        let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
        let equal = |stated: &[u8], known: f64| {
            float(stated).and_then(|stated| stated.partial_cmp(&known)) == Some(Ordering::Equal)
        };
        return equal(min, low) && equal(max, high);
    }
    match extremes(order, values, range) {
        Some(known) => bounds(min, &known.min, false, order) && bounds(max, &known.max, true, order),
        None => min.is_empty() && max.is_empty(),
    }
}
