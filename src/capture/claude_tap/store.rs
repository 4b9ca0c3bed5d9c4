//! The SQLite store of claude-tap.
//!
//! Invariant: rows are fetched one by one, by their row id, so that a broken one loses only itself.

use std::collections::hash_map::Entry;

use super::blobs::Blobs;
use super::exchange;
use crate::capture::database::Database;
use crate::capture::exchange::{Exchange, Position, SkipReason};
use crate::capture::reader::{Limits, Records};
use crate::capture::text::Text;

/// The records of a store.
pub(super) fn read(database: Database, limits: Limits, input: u32) -> Records {
    database.records("records", input, read_row, limits)
}

fn read_row(database: &Database, row: i64, position: Position, limits: Limits) -> Result<Exchange, SkipReason> {
    let (session, payload): (String, String) =
        database.one("SELECT session_id, payload_json FROM records WHERE rowid = ?1", &[&row], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    if u64::try_from(payload.len()).is_ok_and(|length| length > limits.record_bytes) {
        return Err(SkipReason::TooLarge);
    }
    let mut blobs = Blobs::default();
    let mut wanted = Blobs::wanted(&payload);
    while let Some(hash) = wanted.pop() {
        if let Entry::Vacant(place) = blobs.0.entry(hash) {
            let query = "SELECT payload_json FROM record_blobs WHERE session_id = ?1 AND hash = ?2";
            let blob: String =
                database.one(query, &[&session, place.key()], |row| row.get(0)).map_err(|_| SkipReason::BodyLost)?;
            wanted.extend(Blobs::wanted(&blob));
            place.insert(Text::from(blob));
        }
    }
    exchange(&payload, &blobs, position, limits).map_err(|reason| match reason {
        SkipReason::Truncated => SkipReason::Malformed,
        reason => reason,
    })
}
