//! L007: secret.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::TextView;

check! {
    /// A string has the shape of a well-known kind of secret: an access token, a key, a password in an address. Rules are data in
    /// gitleaks' form; `--rules FILE` takes a file of that form instead. They run only on strings that nothing proved, so a clean file is
    /// clean without them.
    L007 Error "secret"; "remove it, and revoke the secret";

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        if text.rules.any_match(text.bytes) {
            self.find(report, text.place(), "the shape of a secret", Some(crate::audit::wide(text.bytes.len())));
        }
    }
}
