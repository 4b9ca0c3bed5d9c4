//! What a file holds, value by value, for who wants more than checks: the comparison with the logs.
//!
//! Invariant: a sink gets every value that no declaration proves, and the raw bytes wherever they are more than a function of the
//! values.

use super::fact::{Facts, Kind};

/// Takes what readers decode.
pub trait Sink: std::fmt::Debug {
    /// A string that a declaration proved: it may stand in any log.
    fn proved(&mut self, word: &[u8]);
    /// A string that nothing proved.
    fn text(&mut self, column: &str, text: &[u8]);
    /// Numbers of one column, in row order.
    fn numbers(&mut self, column: &str, values: &mut dyn Iterator<Item = u64>);
    /// A document or container that holds bytes beside its values.
    fn raw(&mut self, bytes: &[u8]);
}

/// Facts that say: these bytes are no function of the values alone.
const LOOSE: &[Kind] = &[
    Kind::Name,
    Kind::FileName,
    Kind::FileWord,
    Kind::Unowned,
    Kind::KeyValue,
    Kind::ArrowSchema,
    Kind::ArrowMetadata,
    Kind::Statistics,
    Kind::Bloom,
    Kind::UnusedEntry,
    Kind::NullSlot,
    Kind::Padding,
    Kind::Archive,
    Kind::Undecodable,
    Kind::Spelling,
];

/// Whether a file's bytes hold something beside the values that were read from it.
pub(crate) fn is_loose(facts: &Facts) -> bool {
    LOOSE.iter().any(|kind| facts.any(*kind))
}
