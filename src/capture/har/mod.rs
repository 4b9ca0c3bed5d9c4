//! HAR (HTTP Archive 1.2) of mitmproxy, Charles, Proxyman, browsers and others.
//!
//! Invariant: the file is never held as a whole: entries are cut from the stream one by one, so that memory is bounded by the
//! largest, a broken one loses only itself, and a file that ends early gives all entries before its end.

mod entries;
mod entry;

use std::io::Read;

use self::entries::Entries;
pub(super) use self::entry::path_and_query;
use super::outline::outline;
use super::reader::{Limits, LogReader, Records, Sniff};

/// The reader of HAR files.
pub(super) struct Har;

impl LogReader for Har {
    fn name(&self) -> &'static str {
        "har"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        let keys = outline(head);
        let has = |parent: &str, key: &str| keys.contains(&(parent.as_bytes(), key.as_bytes()));
        let (log, entries) = (has("", "log"), has("", "entries"));
        if log && ["version", "creator", "browser", "pages", "entries"].iter().any(|key| has("log", key))
            || entries && (has("entries", "startedDateTime") || has("entries", "request"))
        {
            Sniff::Match
        } else if log || entries && !keys.iter().any(|(parent, _)| *parent == b"entries") {
            Sniff::Unsure
        } else {
            Sniff::Mismatch
        }
    }

    fn read(&self, source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
        Box::new(Entries::new(source, limits, input))
    }
}
