//! L005: identifier from the source.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::detect::has_uuid;
use crate::audit::finding::Severity;
use crate::audit::report::Report;
use crate::audit::view::TextView;
use crate::audit::vocab::Shape;

check! {
    /// A UUID, a provider's message, call or request id, or another id that the source made. Whoever has server logs or the
    /// contributor's own files can join by it; some hold a time. Ids of an unknown making are warnings.
    L005 Error "identifier from the source"; "number it by first appearance";

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        let shown = text.lossy();
        let length = Some(crate::audit::wide(text.bytes.len()));
        if has_uuid(&shown) || PREFIXES.iter().any(|prefix| has_prefixed(&shown, prefix)) {
            self.find(report, text.place(), "an id that a provider or a client made", length);
        } else if matches!(text.shape, Some(Shape::Opaque)) {
            report.add(self.meta(), Severity::Warning, text.place(), "an id of the source's own making", length);
        }
    }
}

/// What ids of providers and clients begin with.
const PREFIXES: &[&str] = &[
    "msg_",
    "toolu_",
    "srvtoolu_",
    "req_",
    "chatcmpl-",
    "call_",
    "resp_",
    "user_",
    "org-",
    "proj_",
    "run_",
    "thread_",
    "asst_",
    "ses_",
];

/// Whether an id with this prefix, and at least eight characters of its own, stands in a text.
fn has_prefixed(text: &str, prefix: &str) -> bool {
    text.match_indices(prefix).any(|(at, _)| {
        let rest = text.get(at + prefix.len()..).unwrap_or_default();
        rest.chars().take_while(char::is_ascii_alphanumeric).count() >= 8
    })
}
