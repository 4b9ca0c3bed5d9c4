//! L024: a partial block has an id.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::SessionView;

check! {
    /// The last block of a prompt has an id although it is not full. A block of few tokens is quickly guessed where ids can be
    /// recomputed, and its id shows which prompts end alike.
    L024 Warning "a partial block has an id"; "drop the last block where it is not full";

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        let partial = session.requests.iter().filter(|request| {
            let blocks = crate::audit::wide(request.ids.len());
            request.input.is_some_and(|input| {
                input % session.block_size.max(1) != 0 && input.checked_div(session.block_size) == blocks.checked_sub(1)
            })
        });
        let count = crate::audit::wide(partial.count());
        if count > 0 {
            self.find(report, session.place(), "prompts whose partial last block has an id", Some(count));
        }
    }
}
