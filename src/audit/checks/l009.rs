//! L009: natural language.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::detect::is_language;
use crate::audit::report::Report;
use crate::audit::view::TextView;

check! {
    /// A string reads like a sentence, or has letters of Chinese, Japanese or Korean. It is an error as free text (L001) too; this
    /// says that it is worth a look.
    L009 Warning "natural language"; "remove it";

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        if is_language(&text.lossy()) {
            self.find(report, text.place(), "a string that reads like language", Some(crate::audit::wide(text.bytes.len())));
        }
    }
}
