//! Large values that claude-tap keeps once and refers to by hash.
//!
//! Invariant: a reference is replaced by the bytes of its blob, and nothing else of the record changes; blobs may refer to blobs,
//! but what comes out is no larger than the limit of a record.

use std::collections::HashMap;
use std::io::Read;

use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RECORD, exchange};
use crate::capture::exchange::{LogError, Position, SkipReason};
use crate::capture::json;
use crate::capture::objects;
use crate::capture::reader::{Limits, Records};
use crate::capture::text::Text;

/// What marks a reference.
const REFERENCE: &[u8] = b"\"__claude_tap_blob_ref__\"";
/// References within references are followed so far.
const DEPTH: u32 = 8;

/// Blobs by their hash.
#[derive(Default)]
pub(super) struct Blobs(pub(super) HashMap<String, Text>);

#[derive(Deserialize)]
struct Compact<'a> {
    #[serde(borrow)]
    record: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "__claude_tap_blob_ref__")]
    blob: Blob,
}

#[derive(Deserialize)]
struct Blob {
    hash: String,
}

impl Blobs {
    /// The hashes that a text refers to.
    pub(super) fn wanted(text: &str) -> Vec<String> {
        let found = memmem::find_iter(text.as_bytes(), REFERENCE).filter_map(|at| reference(text, at));
        found.map(|(_, _, hash)| hash).collect()
    }

    /// The record inside a text, with its blobs.
    pub(super) fn put_back(&self, text: &str, limits: Limits) -> Result<Text, SkipReason> {
        let is_compact = memmem::find(text.as_bytes(), RECORD).is_some();
        let inner = is_compact.then(|| serde_json::from_str::<Compact>(text).ok()?.record).flatten();
        self.expand(inner.map_or(text, RawValue::get), limits, DEPTH)
    }

    fn expand(&self, text: &str, limits: Limits, depth: u32) -> Result<Text, SkipReason> {
        let mut out = Vec::with_capacity(text.len());
        let mut copied = 0;
        for at in memmem::find_iter(text.as_bytes(), REFERENCE) {
            let Some((start, end, hash)) = reference(text, at).filter(|(start, ..)| *start >= copied) else { continue };
            let blob = self.0.get(&hash).and_then(Text::as_str).filter(|_| depth > 0).ok_or(SkipReason::BodyLost)?;
            out.extend_from_slice(text.as_bytes().get(copied..start).unwrap_or_default());
            out.extend_from_slice(self.expand(blob, limits, depth - 1)?.as_bytes());
            copied = end;
            if u64::try_from(out.len()).map_or(true, |length| length > limits.record_bytes) {
                return Err(SkipReason::TooLarge);
            }
        }
        out.extend_from_slice(text.as_bytes().get(copied..).unwrap_or_default());
        Ok(Text::from(out))
    }
}

/// Where the object of the reference at `at` begins and ends, and the hash that it names. Inside a string its quote is escaped.
fn reference(text: &str, at: usize) -> Option<(usize, usize, String)> {
    let start = text.get(..at)?.trim_ascii_end().strip_suffix('{')?.len();
    let mut objects = serde_json::Deserializer::from_str(text.get(start..)?).into_iter::<Reference>();
    let hash = objects.next()?.ok()?.blob.hash;
    Some((start, start + objects.byte_offset(), hash))
}

/// The records of a compact trace.
pub(super) fn read(mut source: Box<dyn Read + Send>, limits: Limits, input: u32) -> Records {
    #[derive(Deserialize)]
    struct Kept<'a> {
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let mut bytes = Vec::new();
    let at = move |record, offset| Position { input, record, offset };
    let fail = |reason| Box::new(std::iter::once(Err(LogError { position: at(1, 0), reason })));
    if source.by_ref().take(limits.record_bytes.saturating_add(1)).read_to_end(&mut bytes).is_err() {
        return fail(SkipReason::Truncated);
    }
    if u64::try_from(bytes.len()).map_or(true, |length| length > limits.record_bytes) {
        return fail(SkipReason::TooLarge);
    }
    let text = Text::from(bytes);
    let inside = |key, close| {
        let mut found = Vec::new();
        if let Some(start) = objects::member(text.as_bytes(), key) {
            objects::elements(text.as_bytes(), start + 1, close, &mut found);
        }
        found
    };
    let mut blobs = Blobs::default();
    for (_, member) in inside("blobs", b'}') {
        let whole = Text::from([&b"{"[..], member, b"}"].concat());
        let fields = whole.as_str().and_then(|whole| serde_json::from_str::<json::Fields>(whole).ok());
        for (hash, blob) in fields.map(|fields| fields.0).unwrap_or_default() {
            if let (Some(hash), Ok(kept)) = (hash.as_str(), serde_json::from_str::<Kept>(blob.get())) {
                blobs.0.insert(hash.to_owned(), Text::from(kept.payload.get()));
            }
        }
    }
    let found = inside("records", b']');
    let ranges: Vec<_> = found.into_iter().map(|(at, object)| (at, object.len())).collect();
    Box::new((1..).zip(ranges).map(move |(record, (start, length))| {
        let position = at(record, u64::try_from(start).unwrap_or(u64::MAX));
        let object = text.as_bytes().get(start..start + length).unwrap_or_default();
        let object = std::str::from_utf8(object).map_err(|_| SkipReason::NotUtf8);
        let exchange = object.and_then(|object| exchange(object, &blobs, position, limits));
        exchange.map_err(|reason| LogError { position, reason })
    }))
}
