//! [`SourceCheck`]: a residual against a source.
//!
//! Invariant: the source is streamed: no more of it is kept than a window, and that is erased; a report holds no byte of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zeroize::Zeroizing;

use super::closure::{self, Decoding, Detokenize};
use super::hashes::{HashMatch, Hashes, Tokenize};
use super::index::Index;
use super::residual::{Piece, Residual};
use super::{ProofError, strings};
use crate::capture::Exchange;

/// A tokenizer, to read token ids as text and to hash blocks of tokens.
#[derive(Clone, Copy)]
pub struct Tokens<'t> {
    /// Text to token ids.
    pub encode: Tokenize<'t>,
    /// Token ids to text.
    pub decode: Detokenize<'t>,
}

/// A stretch of the residual that the source holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The file, or the part of it.
    pub place: Arc<str>,
    /// What had to be undone to see it; empty if it stands there as it is.
    pub decoded: Vec<Decoding>,
    /// Where it begins: in the place or, if something was undone, in what came out.
    pub offset: u64,
    /// How many bytes of it are covered by windows of the source.
    pub length: u64,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes of the raw source, decompressed.
    pub bytes: u64,
    /// Requests with their responses.
    pub exchanges: u64,
    /// Texts that the parser assembled.
    pub strings: u64,
    /// Bytes of them.
    pub string_bytes: u64,
    /// Records that no reader could read; they count as raw bytes only.
    pub unread_records: u64,
    /// Inputs that were not looked at, since they can't be read again or at all.
    pub skipped_inputs: u64,
    /// Inputs of no known format; they count as raw bytes only.
    pub unknown_inputs: u64,
    /// Numbers and hexadecimal strings of the residual that may be hashes.
    pub ids: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceReport {
    /// Bytes of a window.
    pub k: usize,
    /// Stretches of the residual that the source holds, in the order of the residual.
    pub windows: Vec<Match>,
    /// Ids of the residual that are unkeyed hashes of the source.
    pub hashes: Vec<HashMatch>,
    /// What was looked at.
    pub coverage: Coverage,
    /// Whether all of the residual and all of the source was looked at. If not, nothing is proved.
    pub complete: bool,
}

/// A residual that a source is compared with, as it streams by.
pub struct SourceCheck<'t> {
    pub(super) scanner: Scanner<'t>,
    stream: Stream,
}

/// The end of what was seen of a raw source, since windows span its pieces.
#[derive(Default)]
pub(super) struct Stream(Zeroizing<Vec<u8>>);

impl Stream {
    /// Looks at the next bytes.
    pub(super) fn feed(&mut self, index: &Index, chunk: &[u8]) {
        let keep = index.k() - 1;
        let head = chunk.get(..keep.min(chunk.len())).unwrap_or_default();
        let mut seam = Zeroizing::new(Vec::with_capacity(2 * keep));
        seam.extend_from_slice(&self.0);
        seam.extend_from_slice(head);
        index.scan(&seam);
        index.scan(chunk);
        let end = if chunk.len() >= keep { chunk } else { &seam };
        let end = end.get(end.len().saturating_sub(keep)..).unwrap_or_default();
        let mut tail = Zeroizing::new(Vec::with_capacity(keep));
        tail.extend_from_slice(end);
        self.0 = tail;
    }
}

/// The part that threads share.
pub(super) struct Scanner<'t> {
    pub(super) index: Arc<Index>,
    hashes: Hashes<'t>,
    pub(super) whole: bool,
    bytes: AtomicU64,
    exchanges: AtomicU64,
    strings: AtomicU64,
    string_bytes: AtomicU64,
}

impl<'t> SourceCheck<'t> {
    /// Makes the index of windows of `k` bytes. With `tokens`, token ids count as text, and token blocks are hashed too.
    ///
    /// # Errors
    /// If a file of the residual cannot be read.
    pub fn new(residual: &Residual, k: usize, tokens: Option<Tokens<'t>>) -> Result<Self, ProofError> {
        let decode = tokens.map(|tokens| tokens.decode);
        let mut index = Index::new(k);
        let mut hashes = Hashes::new(tokens);
        let mut whole = true;
        residual.each(&mut |piece| match piece {
            Piece::Bytes { place, offset, bytes, words, ids } => {
                let mut note = |bytes: &[u8]| {
                    if ids {
                        hashes.ids_of_text(place, bytes);
                    }
                };
                index.add(place, &[], offset, bytes);
                note(bytes);
                whole &= closure::walk(bytes, decode, &mut |decoded, bytes| {
                    if let Some(words) = words {
                        let mut bytes = bytes.to_vec();
                        words.mask(&mut bytes);
                        index.add(place, decoded, 0, &bytes);
                    } else {
                        index.add(place, decoded, 0, bytes);
                    }
                    note(bytes);
                });
            }
            Piece::Numbers { place, values } => {
                hashes.ids_of_numbers(place, values);
                whole &=
                    closure::walk_numbers(values, decode, &mut |decoded, bytes| index.add(place, decoded, 0, bytes));
            }
        })?;
        index.freeze();
        whole &= index.whole && hashes.freeze();
        let zero = || AtomicU64::new(0);
        let index = Arc::new(index);
        let scanner =
            Scanner { index, hashes, whole, bytes: zero(), exchanges: zero(), strings: zero(), string_bytes: zero() };
        Ok(Self { scanner, stream: Stream::default() })
    }

    /// Looks at the next bytes of a raw source.
    pub fn feed_raw(&mut self, chunk: &[u8]) {
        self.stream.feed(&self.scanner.index, chunk);
        self.scanner.seen(chunk.len());
    }

    /// Another raw source begins.
    pub fn next_source(&mut self) {
        self.stream = Stream::default();
    }

    /// Looks at the strings of an exchange: headers, path, bodies, and what its parser assembles from them.
    pub fn feed_exchange(&self, exchange: &Exchange) {
        self.scanner.exchange(exchange);
    }

    /// Looks at one string that a caller has assembled: it is hashed too, by itself, by line and by block.
    pub fn feed_text(&self, text: &[u8]) {
        self.scanner.text(text);
    }

    /// What came of it.
    pub fn finish(self) -> SourceReport {
        self.scanner.report()
    }
}

impl Scanner<'_> {
    /// So many bytes of a raw source were looked at.
    pub(super) fn seen(&self, bytes: usize) {
        add(&self.bytes, bytes);
    }

    /// Whether strings are hashed; without ids there is nothing to compare with.
    pub(super) fn hashes(&self) -> bool {
        !self.hashes.is_empty()
    }

    pub(super) fn exchange(&self, exchange: &Exchange) {
        add(&self.exchanges, 1);
        let hash = |text: &[u8]| self.hashes.text(text);
        let hash: Option<strings::Visit<'_>> = if self.hashes() { Some(&hash) } else { None };
        strings::each(exchange, self.index.k(), &|text| self.scan(text), hash);
    }

    /// Looks at what was looked at as a raw source once more, without its escapes.
    pub(super) fn unescaped(&self, bytes: &[u8]) {
        strings::unescaped(bytes, strings::LEVELS, self.index.k(), &|text| self.scan(text));
    }

    /// Looks at a text that is hashed too.
    pub(super) fn text(&self, text: &[u8]) {
        self.scan(text);
        self.hashes.text(text);
    }

    fn scan(&self, text: &[u8]) {
        add(&self.strings, 1);
        add(&self.string_bytes, text.len());
        self.index.scan(text);
    }

    pub(super) fn report(&self) -> SourceReport {
        let windows = self.index.found().into_iter().map(|(place, offset, length)| Match {
            place: Arc::clone(&place.name),
            decoded: place.decoded.clone(),
            offset,
            length,
        });
        let (hashes, ids) = self.hashes.found();
        SourceReport {
            k: self.index.k(),
            windows: windows.collect(),
            hashes,
            coverage: Coverage {
                bytes: self.bytes.load(Ordering::Relaxed),
                exchanges: self.exchanges.load(Ordering::Relaxed),
                strings: self.strings.load(Ordering::Relaxed),
                string_bytes: self.string_bytes.load(Ordering::Relaxed),
                ids,
                ..Coverage::default()
            },
            complete: self.whole,
        }
    }
}

fn add(counter: &AtomicU64, length: usize) {
    counter.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn residual(text: &str) -> Residual {
        let mut residual = Residual::new();
        residual.push("note", text.into());
        residual
    }

    #[test]
    fn a_window_is_found_however_the_source_is_cut() {
        let source = b"{\"text\":\"nobody must hear of the ferry\"}";
        for size in 1..source.len() {
            let mut check = SourceCheck::new(&residual("... must hear of the ..."), 12, None).unwrap();
            source.chunks(size).for_each(|chunk| check.feed_raw(chunk));
            let report = check.finish();
            let found: Vec<_> = report.windows.iter().map(|found| (found.offset, found.length)).collect();
            assert_eq!(found, [(3, 18)], "chunks of {size}");
            assert_eq!(report.coverage.bytes, source.len() as u64);
            assert!(report.complete);
        }
    }

    #[test]
    fn what_two_sources_hold_only_together_is_not_found() {
        let mut check = SourceCheck::new(&residual("must hear of the ferry"), 12, None).unwrap();
        check.feed_raw(b"... must hear");
        check.next_source();
        check.feed_raw(b" of the ferry");
        let lengths: Vec<_> = check.finish().windows.iter().map(|found| found.length).collect();
        assert_eq!(lengths, [13]);
    }

    #[test]
    fn a_residual_that_is_cut_off_is_not_complete() {
        let mut bomb = Residual::new();
        bomb.push("bomb", zstd::encode_all(&vec![b' '; 40 << 20][..], 3).unwrap());
        assert!(!SourceCheck::new(&bomb, 12, None).unwrap().finish().complete);
    }

    #[test]
    fn the_report_shows_nothing_of_the_text() {
        let mut check = SourceCheck::new(&residual("must hear of the ferry"), 12, None).unwrap();
        check.feed_raw(b"nobody must hear of the ferry");
        let report = format!("{:?}", check.finish());
        assert!(report.contains("length: 22") && !report.contains("hear") && !report.contains("ferry"));
    }
}
