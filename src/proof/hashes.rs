//! The hash attack: is an id of the output an unkeyed hash of the source?
//!
//! Invariant: only ids that stand in the residual are looked up; with none, nothing is hashed. An id of 32 bits counts only
//! where chance can't explain it.

mod algorithms;
mod ids;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

pub use algorithms::Algorithm;
use ids::Ids;

use super::source::Tokens;

/// Text to token ids.
pub type Tokenize<'a> = &'a (dyn Fn(&str) -> Vec<u32> + Sync);

/// Tokens of a block, as published traces have them.
const BLOCKS: [usize; 3] = [16, 64, 512];

/// Bytes of blocks where there is no tokenizer: about four a token.
const BYTES: [usize; 3] = [64, 256, 2048];

/// Texts that are remembered as hashed already; prompts repeat what was sent before.
const REMEMBERED: usize = 1 << 22;

/// Ids that were recomputed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HashMatch {
    /// Where they stand.
    pub place: Arc<str>,
    /// By which hash.
    pub algorithm: Algorithm,
    /// How many bits of it.
    pub bits: u32,
    /// How many different ids.
    pub ids: u64,
}

/// The ids, and what was found of them.
pub(super) struct Hashes<'t> {
    ids: Ids,
    tokens: Option<Tokens<'t>>,
    seen: Mutex<HashSet<u128>>,
    /// Which ids were met, by algorithm and bits.
    met: Mutex<BTreeMap<(Algorithm, u32), BTreeSet<u64>>>,
    /// Values of 32 bits that were looked up.
    narrow: AtomicU64,
}

impl<'t> Hashes<'t> {
    pub(super) fn new(tokens: Option<Tokens<'t>>) -> Self {
        Self { ids: Ids::default(), tokens, seen: Mutex::default(), met: Mutex::default(), narrow: AtomicU64::new(0) }
    }

    /// Notes numbers that may be hashes.
    pub(super) fn ids_of_numbers(&mut self, place: &Arc<str>, values: &[u64]) {
        self.ids.numbers(place, values);
    }

    /// Notes the numbers and the hexadecimal strings of a text that may be hashes.
    pub(super) fn ids_of_text(&mut self, place: &Arc<str>, text: &[u8]) {
        self.ids.text(place, text);
    }

    /// To be called once, after the last id. Gives whether all fitted.
    pub(super) fn freeze(&mut self) -> bool {
        self.ids.freeze()
    }

    /// Whether there is no id to compare with.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Hashes a text of the source: as a whole, by line, and by blocks.
    pub(super) fn text(&self, text: &[u8]) {
        if self.ids.is_empty() || text.len() < 4 {
            return;
        }
        if let Ok(mut seen) = self.seen.lock() {
            if seen.len() >= REMEMBERED {
                seen.clear();
            }
            if !seen.insert(xxh3_128(text)) {
                return;
            }
        }
        self.hash(text);
        let trimmed = text.trim_ascii();
        if trimmed.len() < text.len() {
            self.hash(trimmed);
        }
        if memchr::memchr(b'\n', text).is_some() {
            for line in text.split(|byte| *byte == b'\n').filter(|line| line.len() >= 4) {
                self.hash(line);
            }
        }
        match (self.tokens, std::str::from_utf8(text)) {
            (Some(tokens), Ok(text)) => self.tokens(tokens, text),
            _ => {
                for block in BYTES.iter().flat_map(|size| text.chunks_exact(*size)) {
                    self.hash(block);
                }
            }
        }
    }

    /// Hashes blocks of tokens: their ids as bytes, their text and, as routers do, chained.
    fn tokens(&self, tokens: Tokens<'_>, text: &str) {
        let ids = (tokens.encode)(text);
        for size in BLOCKS {
            let mut chains = [(0, None), (1337, None)];
            for block in ids.chunks_exact(size) {
                let bytes: Vec<u8> = block.iter().flat_map(|id| id.to_le_bytes()).collect();
                self.hash(&bytes);
                self.hash(&(tokens.decode)(block));
                for (seed, chain) in &mut chains {
                    let own = xxh3_64_with_seed(&bytes, *seed);
                    let next = chain.map_or(own, |before: u64| {
                        xxh3_64_with_seed(&[before.to_le_bytes(), own.to_le_bytes()].concat(), *seed)
                    });
                    *chain = Some(next);
                    self.look_up(Algorithm::Xxh3, &next.to_be_bytes());
                }
            }
        }
    }

    fn hash(&self, bytes: &[u8]) {
        algorithms::each(bytes, &mut |algorithm, digest| self.look_up(algorithm, digest));
    }

    fn look_up(&self, algorithm: Algorithm, digest: &[u8]) {
        ids::forms(digest, &mut |bits, value| {
            if bits == 32 {
                self.narrow.fetch_add(1, Ordering::Relaxed);
            }
            if self.ids.contains(value)
                && let Ok(mut met) = self.met.lock()
            {
                met.entry((algorithm, bits)).or_default().insert(value);
            }
        });
    }

    /// What was found, and how many ids there are.
    pub(super) fn found(&self) -> (Vec<HashMatch>, u64) {
        let ids = self.ids.len();
        // How many ids of 32 bits are met by chance, in thousandths.
        let chance = self.narrow.load(Ordering::Relaxed).saturating_mul(self.ids.narrow()).saturating_mul(1000) >> 32;
        let mut found = BTreeMap::new();
        for ((algorithm, bits), values) in self.met.lock().iter().flat_map(|met| met.iter()) {
            let met = u64::try_from(values.len()).unwrap_or(u64::MAX);
            if *bits == 32 && chance > 10 && met.saturating_mul(1000) < 3000 + chance * 4 {
                continue;
            }
            for value in values {
                for place in self.ids.places(*value) {
                    *found.entry((Arc::clone(place), *algorithm, *bits)).or_default() += 1;
                }
            }
        }
        let found = found.into_iter().map(|((place, algorithm, bits), ids)| HashMatch { place, algorithm, bits, ids });
        (found.collect(), ids)
    }
}

/// A well-mixed hash of a value, for filters.
fn mixed(value: u64) -> usize {
    usize::try_from(xxh3_64(&value.to_le_bytes()) >> 8).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::{Residual, SourceCheck};
    use sha2::Digest;

    const TEXT: &str = "Count the harbour ledger.\nThen migrate it.";

    fn found(json: &str) -> Vec<(Algorithm, u32)> {
        let mut hashes = Hashes::new(None);
        hashes.ids_of_text(&"ids".into(), json.as_bytes());
        hashes.freeze();
        hashes.text(b"another text that means nothing");
        hashes.text(TEXT.as_bytes());
        hashes.found().0.into_iter().map(|found| (found.algorithm, found.bits)).collect()
    }

    #[test]
    fn truncations_of_both_ends_and_orders_are_found() {
        let digest = sha2::Sha256::digest(TEXT);
        let big = u64::from_be_bytes(*digest.first_chunk().unwrap());
        let little = u64::from_le_bytes(*digest.last_chunk().unwrap());
        for (id, bits) in [
            (big.to_string(), 64),
            (little.to_string(), 64),
            ((big >> 1).to_string(), 63),
            ((big & ((1 << 53) - 1)).to_string(), 53),
            // Smaller numbers of 32 bits are not taken for hashes.
            ((big >> 32).to_string(), 32),
            (format!("\"{big:016x}\""), 64),
            (format!("\"{digest:x}\""), 64),
            (format!("\"{}\"", &format!("{digest:x}")[..12]), 48),
            (format!("\"{}\"", &format!("{digest:x}")[..8]), 32),
        ] {
            assert!(found(&format!("[{id}, 7]")).contains(&(Algorithm::Sha256, bits)), "{bits} bits of {id}");
        }
        assert!(found("[1, 2, 3, 18446744073709551615]").is_empty());
    }

    #[test]
    fn lines_and_every_algorithm_are_found() {
        let mut names = Vec::new();
        let line = b"Then migrate it.";
        algorithms::each(line, &mut |algorithm, digest| {
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(found(&format!("\"{hex}\"")).iter().any(|(found, _)| *found == algorithm), "{algorithm:?}");
            names.push(algorithm);
        });
        assert!(names.len() >= 16);
    }

    #[test]
    fn chained_blocks_of_tokens_are_found() {
        let encode = |text: &str| text.bytes().map(u32::from).collect::<Vec<u32>>();
        let decode = |ids: &[u32]| ids.iter().filter_map(|id| u8::try_from(*id).ok()).collect::<Vec<u8>>();
        let bytes = |block: &[u32]| block.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
        let ids = encode(TEXT);
        let first = xxh3_64_with_seed(&bytes(&ids[..16]), 1337);
        let second = xxh3_64_with_seed(&bytes(&ids[16..32]), 1337);
        let chained = xxh3_64_with_seed(&[first.to_le_bytes(), second.to_le_bytes()].concat(), 1337);
        let mut hashes = Hashes::new(Some(Tokens { encode: &encode, decode: &decode }));
        hashes.ids_of_numbers(&"ids".into(), &[first, chained]);
        hashes.freeze();
        hashes.text(TEXT.as_bytes());
        let found = hashes.found().0;
        assert_eq!(
            found.iter().filter(|found| found.algorithm == Algorithm::Xxh3).map(|found| found.ids).max(),
            Some(2)
        );
    }

    #[test]
    fn small_and_dense_numbers_are_no_ids() {
        let mut residual = Residual::new();
        residual.push_numbers("dense", (0..1000).collect());
        residual.push_numbers("dense and high", (1 << 40..(1 << 40) + 1000).collect());
        let check = SourceCheck::new(&residual, 12, None).unwrap();
        assert_eq!(check.finish().coverage.ids, 0);
    }
}
