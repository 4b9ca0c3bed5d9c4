//! L029: ids of the wrong width.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::SessionView;

check! {
    /// An id in JSON is larger than 2^53: many readers round it, so that different blocks become one.
    L029 Warning "ids of the wrong width"; "use dense ids, below 2^53 in JSON";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        let wide = session.ids.iter().filter(|id| **id > 1 << 53).count();
        if session.json && wide > 0 {
            self.find(report, session.place(), "ids above 2^53 in JSON", Some(crate::audit::wide(wide)));
        }
    }
}
