//! HTTP bodies: undoing `content-encoding`, and base64.
//!
//! Invariant: a decoded body is no larger than the limit; a body that a recorder has decoded already is taken as it is,
//! whatever its headers say; pieces keep their times.

use std::cell::Cell;
use std::io::{self, BufRead, ErrorKind, Read};

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use zeroize::Zeroizing;

use super::buffer::Buffer;
use super::decompress::{ZSTD_WINDOW_LOG_MAX, is_gzip, is_zstd};
use super::exchange::{Body, Cut, Headers, Piece, ResponseBody, SkipReason};
use super::reader::Limits;
use super::text::Text;

/// Base64 as recorders write it, with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes written as base64.
pub(super) fn base64(text: &Text) -> Option<Text> {
    BASE64.decode(text.as_bytes()).ok().map(Text::from)
}

/// A request body with its `content-encoding` undone. One that is cut counts as lost.
pub(super) fn request_body(bytes: Text, headers: &Headers, limits: Limits) -> Result<Body, SkipReason> {
    let mut decoded = decode(vec![Piece { at_us: None, text: bytes }], headers, limits.body_bytes)?;
    Ok(match decoded.pieces.pop() {
        _ if !decoded.whole => Body::Lost,
        Some(piece) => Body::Bytes(piece.text),
        None => Body::Bytes(Text::default()),
    })
}

/// A response body with its `content-encoding` undone, and whether it is cut. One that is broken counts as lost.
pub(super) fn response_body(
    pieces: Vec<Piece>,
    headers: &Headers,
    limits: Limits,
    cut: Option<Cut>,
) -> (ResponseBody, Option<Cut>) {
    match decode(pieces, headers, limits.body_bytes) {
        Ok(decoded) => (ResponseBody::Pieces(decoded.pieces), cut.or((!decoded.whole).then_some(Cut::Unknown))),
        Err(_) => (ResponseBody::Lost, cut),
    }
}

/// A decoded body.
struct Decoded {
    pieces: Vec<Piece>,
    /// Whether it did not end early.
    whole: bool,
}

/// The content codings that are undone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zlib,
    Deflate,
    Brotli,
    Zstd,
}

/// Undoes the codings that the headers name, the last first.
fn decode(pieces: Vec<Piece>, headers: &Headers, limit: u64) -> Result<Decoded, SkipReason> {
    let mut decoded = Decoded { pieces, whole: true };
    let names: Vec<&str> = headers.all("content-encoding").flat_map(|list| list.split(',')).map(str::trim).collect();
    for name in names.into_iter().rev() {
        if let Some(coding) = coding(name, &decoded.pieces) {
            let whole = decoded.whole;
            decoded = undo(coding, decoded.pieces, limit)?;
            decoded.whole &= whole;
        }
    }
    Ok(decoded)
}

/// The coding that a name means for these bytes; none if it is unknown or they are visibly not coded.
fn coding(name: &str, pieces: &[Piece]) -> Option<Coding> {
    let head: Vec<u8> = pieces.iter().flat_map(|piece| piece.text.as_bytes()).take(4).copied().collect();
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if head.is_empty() {
        None
    } else if is("gzip") || is("x-gzip") {
        is_gzip(&head).then_some(Coding::Gzip)
    } else if is("zstd") {
        is_zstd(&head).then_some(Coding::Zstd)
    } else if is("deflate") {
        // The standard means zlib; some servers send raw deflate.
        let zlib = matches!(*head, [method, check, ..]
            if method & 0x0f == 8 && u16::from_be_bytes([method, check]) % 31 == 0);
        Some(if zlib { Coding::Zlib } else { Coding::Deflate })
    } else {
        is("br").then_some(Coding::Brotli)
    }
}

/// Undoes one coding.
fn undo(coding: Coding, pieces: Vec<Piece>, limit: u64) -> Result<Decoded, SkipReason> {
    let at = Cell::new(0);
    let feed = Feed { pieces: &pieces, taken: 0, at: &at };
    let broken = |_| SkipReason::Decompression;
    let mut reader: Box<dyn Read + '_> = match coding {
        Coding::Gzip => Box::new(MultiGzDecoder::new(feed)),
        Coding::Zlib => Box::new(ZlibDecoder::new(feed)),
        Coding::Deflate => Box::new(DeflateDecoder::new(feed)),
        Coding::Brotli => Box::new(brotli_decompressor::Decompressor::new(feed, 4 << 10)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(feed).map_err(broken)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(broken)?;
            Box::new(decoder)
        }
    };
    // These two have no magic number, so that only failing tells that nothing was coded; and Brotli's end is not told from a fault.
    let magic = !matches!(coding, Coding::Brotli | Coding::Deflate);
    let mut out: Vec<(Option<u64>, usize, Buffer)> = Vec::new();
    let mut chunk = Zeroizing::new(vec![0; 32 << 10]);
    let mut total = 0;
    let failed = loop {
        match reader.read(&mut chunk) {
            Ok(0) => break None,
            Ok(length) => {
                total += length;
                if u64::try_from(total).map_or(true, |total| total > limit) {
                    return Err(SkipReason::Decompression);
                }
                let (index, bytes) = (at.get(), chunk.get(..length).unwrap_or_default());
                if out.last().is_none_or(|(_, last, _)| *last != index) {
                    out.push((pieces.get(index).and_then(|piece| piece.at_us), index, Buffer::default()));
                }
                out.last_mut().into_iter().for_each(|(_, _, buffer)| buffer.push(bytes));
            }
            Err(error) => break Some(error.kind()),
        }
    };
    drop(reader);
    if failed.is_some() && !magic && is_utf8(&pieces) {
        return Ok(Decoded { pieces, whole: true });
    }
    if failed.is_some_and(|kind| kind != ErrorKind::UnexpectedEof && coding != Coding::Brotli) {
        return Err(SkipReason::Decompression);
    }
    let pieces = out.into_iter().map(|(at_us, _, buffer)| Piece { at_us, text: buffer.into_text() }).collect();
    Ok(Decoded { pieces, whole: failed.is_none() })
}

/// Whether the pieces together are UTF-8.
fn is_utf8(pieces: &[Piece]) -> bool {
    let mut whole = Buffer::default();
    for piece in pieces {
        whole.push(piece.text.as_bytes());
    }
    std::str::from_utf8(whole.as_slice()).is_ok()
}

/// Pieces as one stream that tells which piece was read last.
struct Feed<'a> {
    pieces: &'a [Piece],
    /// Bytes taken of the piece at `at`.
    taken: usize,
    at: &'a Cell<usize>,
}

impl BufRead for Feed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        loop {
            let rest = self.pieces.get(self.at.get()).and_then(|piece| piece.text.as_bytes().get(self.taken..));
            match rest {
                Some([]) if self.at.get() + 1 < self.pieces.len() => {
                    self.at.set(self.at.get() + 1);
                    self.taken = 0;
                }
                rest => return Ok(rest.unwrap_or_default()),
            }
        }
    }

    fn consume(&mut self, length: usize) {
        self.taken += length;
    }
}

impl Read for Feed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::capture::testing::{gzip, zstd};

    const PLAIN: &[u8] = br#"{"model":"m","messages":[]}"#;

    /// `PLAIN` in Brotli: one uncompressed meta-block, as made by hand from RFC 7932.
    fn brotli(plain: &[u8]) -> Vec<u8> {
        // WBITS 16 (0), not last (0), four nibbles (00), length - 1, uncompressed (1), padding; then last and empty (11).
        let length = u32::try_from(plain.len() - 1).unwrap();
        let header = length << 4 | 1 << 20;
        [&header.to_le_bytes()[..3], plain, &[0b11]].concat()
    }

    fn deflate(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(plain: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn headers(value: &str) -> Headers {
        Headers(vec![("Content-Encoding".into(), value.into())])
    }

    /// The decoded bytes, and whether they are whole.
    fn decoded(bytes: &[u8], encoding: &str, limit: u64) -> Result<(Vec<u8>, bool), SkipReason> {
        let piece = Piece { at_us: None, text: bytes.to_vec().into() };
        decode(vec![piece], &headers(encoding), limit)
            .map(|body| (body.pieces.iter().flat_map(|p| p.text.as_bytes()).copied().collect(), body.whole))
    }

    #[test]
    fn every_coding_is_undone() {
        for (coded, name) in [
            (gzip(PLAIN), "gzip"),
            (gzip(PLAIN), "X-GZIP"),
            (zlib(PLAIN), "deflate"),
            (deflate(PLAIN), "deflate"),
            (brotli(PLAIN), "br"),
            (zstd(PLAIN), "zstd"),
            (PLAIN.to_vec(), "identity"),
            (PLAIN.to_vec(), "something-new"),
            (zstd(&gzip(PLAIN)), "gzip, zstd"),
            (gzip(&brotli(PLAIN)), "br,identity , gzip"),
        ] {
            assert_eq!(decoded(&coded, name, 1000), Ok((PLAIN.to_vec(), true)), "{name}");
        }
    }

    #[test]
    fn a_body_that_is_decoded_already_is_taken_as_it_is() {
        for name in ["gzip", "deflate", "br", "zstd", "br, gzip"] {
            for plain in [PLAIN, b"event: message_start\ndata: {}\n\n", b"[1,2]", b"", b"x"] {
                assert_eq!(decoded(plain, name, 1000), Ok((plain.to_vec(), true)), "{name}");
            }
        }
    }

    #[test]
    fn a_body_that_ends_early_gives_what_it_has() {
        let plain: Vec<u8> = (0..20_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        for (coded, name) in [
            (gzip(&plain), "gzip"),
            (zlib(&plain), "deflate"),
            (deflate(&plain), "deflate"),
            (zstd(&[&plain[..], &plain].concat()), "zstd"),
        ] {
            let (out, whole) = decoded(&coded[..coded.len() - 9], name, 1 << 20).unwrap();
            assert!(!whole && out.len() > 1000, "{name}");
        }
        let binary = vec![0xfe; 100];
        let (out, whole) = decoded(&brotli(&binary)[..50], "br", 1000).unwrap();
        assert!(!whole && binary.starts_with(&out));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = vec![b' '; 1 << 20];
        for (coded, name) in [(gzip(&bomb), "gzip"), (zlib(&bomb), "deflate"), (zstd(&bomb), "zstd")] {
            assert_eq!(decoded(&coded, name, 1 << 16), Err(SkipReason::Decompression));
        }
    }

    #[test]
    fn pieces_keep_the_times_at_which_their_bytes_came() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut pieces = Vec::new();
        for (at, text) in [(5, "data: a\n\n"), (9, "data: b\n\n")] {
            encoder.write_all(text.as_bytes()).unwrap();
            encoder.flush().unwrap();
            pieces.push(Piece { at_us: Some(at), text: std::mem::take(encoder.get_mut()).into() });
            pieces.push(Piece { at_us: Some(at), text: Text::default() });
        }
        pieces.push(Piece { at_us: Some(12), text: encoder.finish().unwrap().into() });
        let body = decode(pieces, &headers("gzip"), 1000).unwrap();
        let out: Vec<_> = body.pieces.iter().map(|p| (p.at_us.unwrap(), p.text.as_str().unwrap())).collect();
        assert_eq!(out, [(5, "data: a\n\n"), (9, "data: b\n\n")]);
        assert!(body.whole);
    }
}
