//! L028: gaps in the ids.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::SessionView;

check! {
    /// Numbers are missing among the block ids: something was taken out after they were given, and the gaps tell how much and where.
    L028 Warning "gaps in the ids"; "renumber ids after leaving something out";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        let (Some(least), Some(most)) = (session.ids.iter().min(), session.ids.iter().max()) else { return };
        // Raw hashes have nothing but gaps; that is L021.
        let span = most - least;
        if span > 64 * crate::audit::wide(session.ids.len()) + 1024 {
            return;
        }
        let mut seen = vec![false; crate::audit::narrow(span) + 1];
        for id in session.ids {
            if let Some(slot) = seen.get_mut(crate::audit::narrow(id - least)) {
                *slot = true;
            }
        }
        let missing = seen.iter().filter(|seen| !**seen).count();
        if missing > 0 {
            self.find(report, session.place(), "numbers that no block has", Some(crate::audit::wide(missing)));
        }
    }
}
