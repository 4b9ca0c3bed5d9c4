//! SQLite databases: no trace format, so not audited.
//!
//! Invariant: a database is never clean.

use super::FileView;
use super::collect::Feed;
use super::fact::Kind;
use crate::audit::finding::Place;

/// Says that a database is not audited.
pub(crate) fn read(input: &[u8], _feed: &mut Feed<'_>) -> FileView {
    let mut view = FileView::default();
    let message = "a database, which no trace format is";
    view.facts.add(Kind::Undecodable, Place::default(), message, Some(crate::audit::wide(input.len())));
    view
}
