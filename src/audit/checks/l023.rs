//! L023: ids are not chained.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::SessionView;

check! {
    /// The same id follows different ids: it stands for a block alone, so it shows where passages were copied to, and how often
    /// they occur. A chained id stands for everything up to its block.
    L023 Warning "ids are not chained"; "make an id stand for the whole prefix, not for the block alone";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        let most = session.ids.iter().max().copied().unwrap_or(0);
        let dense = most < 4 * crate::audit::wide(session.ids.len()) + 1024;
        let mut before: Vec<u64> = if dense { vec![u64::MAX; crate::audit::narrow(most) + 1] } else { Vec::new() };
        let mut sparse = std::collections::HashMap::new();
        for request in session.requests {
            // One more than the id before, so that 0 is the beginning.
            let mut last = 0u64;
            for id in session.ids_of(request) {
                let known = match before.get_mut(crate::audit::narrow(*id)) {
                    Some(slot) => {
                        if *slot == u64::MAX {
                            *slot = last;
                        }
                        *slot
                    }
                    None => *sparse.entry(*id).or_insert(last),
                };
                if known != last {
                    return self.find(report, session.place().row(request.row), "an id that follows different ids", None);
                }
                last = id.wrapping_add(1);
            }
        }
    }
}
