//! L021: looks like a raw hash.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::detect::is_hex_hash;
use crate::audit::report::Report;
use crate::audit::view::{ColumnView, SessionView, TextView};
use crate::audit::vocab::Role;

check! {
    /// Ids have the form of hashes: long hexadecimal strings, or numbers spread over more than 40 bits. If the hash has no secret key,
    /// whoever guesses a block can confirm the guess.
    L021 Warning "looks like a raw hash"; "renumber ids by first appearance";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        let wide = session.ids.iter().filter(|id| **id > 1 << 40).count();
        if wide > 0 {
            self.find(report, session.place(), "block ids spread like hashes", Some(crate::audit::wide(wide)));
        }
    }

    fn column(&self, column: &ColumnView<'_>, report: &mut Report) {
        // Times and packed text are large too, but close together or few.
        let wide = column.values.iter().filter(|value| value.unsigned_abs() > 1 << 56).count();
        if wide > 0 && column.role != Role::WallClock {
            self.find(report, column.place(), "numbers spread like hashes", Some(crate::audit::wide(wide)));
        }
    }

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        if is_hex_hash(&text.lossy()) {
            self.find(report, text.place(), "hexadecimal digits like those of a hash", Some(crate::audit::wide(text.bytes.len())));
        }
    }
}
