//! L008: e-mail, home path, host or IP address.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::audit::check::check;
use crate::audit::report::Report;
use crate::audit::view::TextView;

check! {
    /// A string holds an e-mail address, a path below somebody's home, the name of a host, or an IP address.
    L008 Error "e-mail, home path, host or IP address"; "remove it";

    fn text(&self, text: &TextView<'_>, report: &mut Report) {
        let length = Some(crate::audit::wide(text.bytes.len()));
        for (regex, message) in PATTERNS.iter() {
            if regex.is_match(text.bytes) {
                self.find(report, text.place(), message, length);
            }
        }
    }
}

/// Patterns and what they are.
static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let patterns = [
        (r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]*[A-Za-z]{2}", "an e-mail address"),
        (r"(?:/Users/|/home/|/[r]oot/|[A-Za-z]:\\Users\\|~/)[^/\s]", "a path below a home"),
        (
            r"\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:internal|local|corp|lan|intra|home\.arpa)\b",
            "the name of a private host",
        ),
        (r"\bhttps?://[A-Za-z0-9.-]+", "an address of a host"),
        (r"\b(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\b", "an IP address"),
        (r"\b(?:[0-9a-f]{1,4}:){5,7}[0-9a-f]{1,4}\b", "an IP address"),
    ];
    patterns.iter().filter_map(|(pattern, message)| Some((Regex::new(pattern).ok()?, *message))).collect()
});
