//! L004: value outside its vocabulary.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::TextView;
use crate::audit::vocab::Shape;

check! {
    /// A field has a closed list of words (models, stop reasons, kinds, built-in tools), and this value is none of them: a private
    /// deployment, a custom agent or an MCP tool has a name that its owner chose.
    L004 Error "value outside its vocabulary"; "map it to a word of the list, or to other";

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        let message = match text.shape {
            Some(Shape::Word(_) | Shape::Listed(_)) => "a word outside the list of its field",
            Some(Shape::Model) => "a model name that is not public",
            Some(Shape::Tool) => "a tool name that is not built in",
            Some(Shape::Numbered(_)) => "not a prefix and a number",
            _ => return,
        };
        self.find(report, text.place(), message, Some(crate::audit::wide(text.bytes.len())));
    }
}
