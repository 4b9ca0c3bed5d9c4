//! L001: free text.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::detect::has_date;
use crate::audit::report::Report;
use crate::audit::view::TextView;
use crate::audit::vocab::{Shape, closed};

check! {
    /// A string stands where the format declares no string, or in a field that it does not declare.
    ///
    /// A trace needs no text: lengths, times, positions and words of closed lists say what a server has to do. Whatever else a string
    /// holds, encoded or not, this program can't prove harmless, so it is an error whatever it looks like.
    L001 Error "free text"; "leave the field out, or replace it by a count or a word of a closed list";

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        let message = match text.shape {
            None => "text in a field that nothing declares",
            Some(Shape::Word(_) | Shape::Listed(_) | Shape::Model | Shape::Numbered(_) | Shape::Tool) => return,
            Some(Shape::Opaque) if closed::is_id(text.bytes) => return,
            Some(Shape::Opaque) => "text where the format has an id",
            Some(Shape::Instant) if has_date(&text.lossy()) => return,
            Some(_) => "text where the format has another type",
        };
        self.find(report, text.place(), message, Some(crate::audit::wide(text.bytes.len())));
    }
}
