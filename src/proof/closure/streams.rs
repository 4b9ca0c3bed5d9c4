//! Compressed streams, wherever they begin.
//!
//! Invariant: what a stream unpacks to is capped; a stream that is broken gives what came before.

use std::io::Read;

use memchr::{memchr_iter, memmem};

use super::{Decoding, Emit, LEAST, STREAM};

/// Attempts for one piece: noise has many bytes that look like the start of zlib.
const ATTEMPTS: usize = 1 << 16;

/// How a member of gzip begins.
const GZIP: &[u8] = &[0x1f, 0x8b, 8];

/// Unpacks every stream inside `bytes`. Gives whether none was cut off.
pub(super) fn read(bytes: &[u8], emit: Emit<'_>) -> bool {
    let mut whole = true;
    let from = |at: usize| bytes.get(at..).unwrap_or_default();
    let mut bare = Vec::new();
    deflate(bytes, &mut bare);
    emit(Decoding::Deflate, &bare);
    let mut past = 0;
    for at in memmem::find_iter(bytes, GZIP) {
        // Members that were unpacked with the one before them are not unpacked once more.
        if at >= past {
            let (one, rest) = members(from(at), emit);
            whole &= one;
            past = bytes.len() - rest.len();
        }
    }
    for at in memmem::find_iter(bytes, &[0x28, 0xb5, 0x2f, 0xfd]) {
        if let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(from(at)) {
            whole &= unpack(decoder.single_frame(), Decoding::Zstd, emit);
        }
    }
    let zlib = |at: &usize| matches!(from(*at), [method, check, ..] if u16::from_be_bytes([*method, *check]).is_multiple_of(31));
    let mut starts = memchr_iter(0x78, bytes).filter(zlib);
    for at in starts.by_ref().take(ATTEMPTS) {
        whole &= unpack(flate2::bufread::ZlibDecoder::new(from(at)), Decoding::Zlib, emit);
    }
    whole && starts.next().is_none()
}

/// Appends what `bytes` unpack to as a deflate stream, if they are one as a whole.
pub(super) fn deflate(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let limit = u64::try_from(STREAM / 8).unwrap_or(0);
    let mut decoder = flate2::bufread::DeflateDecoder::new(bytes).take(limit);
    // Noise fails within a few bytes, or unpacks to as little.
    if decoder.read_to_end(out).is_err() || out.len() - start < LEAST {
        out.truncate(start);
    } else {
        out.push(0);
    }
}

/// Unpacks members of gzip that follow one another. Gives whether nothing was cut off, and what follows the last that is whole.
fn members<'b>(bytes: &'b [u8], emit: Emit<'_>) -> (bool, &'b [u8]) {
    let (mut out, mut rest, mut failed) = (Vec::new(), bytes, false);
    while rest.starts_with(GZIP) && !failed && out.len() <= STREAM {
        let mut decoder = flate2::bufread::GzDecoder::new(rest);
        let limit = u64::try_from(STREAM + 1 - out.len()).unwrap_or(0);
        failed = decoder.by_ref().take(limit).read_to_end(&mut out).is_err();
        if !failed && out.len() <= STREAM {
            rest = decoder.into_inner();
        }
    }
    let whole = out.len() <= STREAM;
    out.truncate(STREAM);
    if !failed || out.len() >= LEAST {
        emit(Decoding::Gzip, &out);
    }
    (whole, rest)
}

/// Gives whether the stream was not cut off.
fn unpack(reader: impl Read, decoding: Decoding, emit: Emit<'_>) -> bool {
    let mut out = Vec::new();
    let limit = u64::try_from(STREAM).unwrap_or(0) + 1;
    let failed = reader.take(limit).read_to_end(&mut out).is_err();
    let whole = out.len() <= STREAM;
    out.truncate(STREAM);
    if !failed || out.len() >= LEAST {
        emit(decoding, &out);
    }
    whole
}
