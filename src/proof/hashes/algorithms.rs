//! The hashes that people make ids with, without a key.
//!
//! Invariant: a digest comes out as its bytes stand in its usual hexadecimal form.

use blake2::digest::consts::{U8, U16, U20, U32};
use blake2::{Blake2b, Blake2b512, Blake2s256};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512, Sha512_256};
use siphasher::sip::{SipHasher13, SipHasher24};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};
use xxhash_rust::xxh64::xxh64;

/// Seeds in use: the default, and the one of a well-known router.
const SEEDS: [u64; 2] = [0, 1337];

/// A hash without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHA-512/256.
    Sha512_256,
    /// BLAKE2b of any length.
    Blake2b,
    /// BLAKE2s.
    Blake2s,
    /// BLAKE3.
    Blake3,
    /// XXH3 of 64 or 128 bits, or a chain of it.
    Xxh3,
    /// XXH64.
    Xxh64,
    /// SipHash-2-4 with key 0.
    Siphash24,
    /// SipHash-1-3 with key 0.
    Siphash13,
    /// CRC-32.
    Crc32,
}

impl Algorithm {
    /// Its name in findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Sha512_256 => "sha512/256",
            Self::Blake2b => "blake2b",
            Self::Blake2s => "blake2s",
            Self::Blake3 => "blake3",
            Self::Xxh3 => "xxh3",
            Self::Xxh64 => "xxh64",
            Self::Siphash24 => "siphash-2-4",
            Self::Siphash13 => "siphash-1-3",
            Self::Crc32 => "crc32",
        }
    }
}

/// Hashes `bytes` in every way.
pub(super) fn each(bytes: &[u8], visit: &mut dyn FnMut(Algorithm, &[u8])) {
    visit(Algorithm::Md5, &Md5::digest(bytes));
    visit(Algorithm::Sha1, &Sha1::digest(bytes));
    visit(Algorithm::Sha256, &Sha256::digest(bytes));
    visit(Algorithm::Sha512, &Sha512::digest(bytes));
    visit(Algorithm::Sha512_256, &Sha512_256::digest(bytes));
    visit(Algorithm::Blake2b, &Blake2b512::digest(bytes));
    // The length is part of the hash.
    visit(Algorithm::Blake2b, &Blake2b::<U8>::digest(bytes));
    visit(Algorithm::Blake2b, &Blake2b::<U16>::digest(bytes));
    visit(Algorithm::Blake2b, &Blake2b::<U20>::digest(bytes));
    visit(Algorithm::Blake2b, &Blake2b::<U32>::digest(bytes));
    visit(Algorithm::Blake2s, &Blake2s256::digest(bytes));
    visit(Algorithm::Blake3, blake3::hash(bytes).as_bytes());
    for seed in SEEDS {
        visit(Algorithm::Xxh3, &xxh3_64_with_seed(bytes, seed).to_be_bytes());
        visit(Algorithm::Xxh3, &xxh3_128_with_seed(bytes, seed).to_be_bytes());
        visit(Algorithm::Xxh64, &xxh64(bytes, seed).to_be_bytes());
    }
    visit(Algorithm::Siphash24, &SipHasher24::new().hash(bytes).to_be_bytes());
    visit(Algorithm::Siphash13, &SipHasher13::new().hash(bytes).to_be_bytes());
    visit(Algorithm::Crc32, &crc32fast::hash(bytes).to_be_bytes());
}
