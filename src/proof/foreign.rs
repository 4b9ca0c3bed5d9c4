//! Files of other tools, decoded by the auditor's readers: their values column by column, and their bytes where those are more
//! than a function of the values.
//!
//! Invariant: memory is bounded, however large the file; only strings that a declaration proved are exempt, and only as a whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::ProofError;
use super::residual::{OVERLAP, PIECE, Piece};
use super::words::Words;
use crate::audit::view::{Sink, decode};

/// Bytes of open strings held before they are looked at.
const HELD: usize = 16 << 20;

/// Numbers, and bytes of text, that are carried over so that what spans two pieces is seen.
const CARRY: usize = 64;
const TAIL: usize = 4 << 10;

/// Most different strings that are exempt.
const PROVED: usize = 1 << 16;

/// Calls `visit` with the pieces of a file; gives whether it could be looked at as a file of some kind.
pub(super) fn each(place: &Arc<str>, path: &Path, visit: &mut dyn FnMut(Piece<'_>)) -> Result<bool, ProofError> {
    let (texts, numbers) = (BTreeMap::new(), BTreeMap::new());
    let mut pieces = Pieces { place, visit, words: Words::known().clone(), texts, held: 0, numbers };
    let read = decode(path, &mut pieces).map_err(|error| ProofError::io(&error))?;
    pieces.flush();
    Ok(read)
}

struct Pieces<'v> {
    place: &'v Arc<str>,
    visit: &'v mut dyn FnMut(Piece<'_>),
    words: Words,
    /// Open strings of each column: one after another, and apart.
    texts: BTreeMap<String, [Vec<u8>; 2]>,
    held: usize,
    numbers: BTreeMap<String, Vec<u64>>,
}

impl std::fmt::Debug for Pieces<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Pieces").finish_non_exhaustive()
    }
}

impl Pieces<'_> {
    fn column(&self, label: &str) -> Arc<str> {
        if label.is_empty() { Arc::clone(self.place) } else { format!("{}: {label}", self.place).into() }
    }

    /// Looks at the strings held, and forgets them but for their ends.
    fn flush(&mut self) {
        for (label, texts) in std::mem::take(&mut self.texts) {
            let place = self.column(&label);
            for bytes in &texts {
                (self.visit)(Piece::Bytes { place: &place, offset: 0, bytes, words: None, ids: true });
            }
            let end = |text: Vec<u8>| text.get(text.len().saturating_sub(TAIL)..).unwrap_or_default().to_vec();
            self.texts.insert(label, texts.map(end));
        }
        self.held = 0;
    }
}

impl Sink for Pieces<'_> {
    fn proved(&mut self, word: &[u8]) {
        if self.words.len() < PROVED {
            self.words.insert(word);
        }
    }

    fn text(&mut self, column: &str, text: &[u8]) {
        if !self.texts.contains_key(column) {
            self.texts.insert(column.to_owned(), <[Vec<u8>; 2]>::default());
        }
        if let Some([joined, apart]) = self.texts.get_mut(column) {
            joined.extend_from_slice(text);
            apart.extend_from_slice(text);
            apart.push(0);
        }
        self.held += 2 * text.len();
        if self.held > HELD {
            self.flush();
        }
    }

    fn numbers(&mut self, column: &str, values: &mut dyn Iterator<Item = u64>) {
        let mut all = self.numbers.remove(column).unwrap_or_default();
        let carried = all.len();
        all.extend(values);
        if all.len() > carried {
            let place = self.column(column);
            (self.visit)(Piece::Numbers { place: &place, values: &all });
            all.drain(..all.len().saturating_sub(CARRY));
        }
        self.numbers.insert(column.to_owned(), all);
    }

    fn raw(&mut self, bytes: &[u8]) {
        let mut offset = 0;
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            let mut piece = rest.get(..PIECE).unwrap_or(rest).to_vec();
            self.words.mask(&mut piece);
            let from = u64::try_from(offset).unwrap_or(u64::MAX);
            let words = Some(&self.words);
            (self.visit)(Piece::Bytes { place: self.place, offset: from, bytes: &piece, words, ids: true });
            offset += if rest.len() > PIECE { PIECE - OVERLAP } else { rest.len() };
        }
    }
}
