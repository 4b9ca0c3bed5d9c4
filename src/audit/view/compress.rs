//! gzip and zstd streams: their headers looked at, their content handed on in pieces.
//!
//! Invariant: no stream takes more memory or gives more bytes than the limits say; every byte of the file is a header, content or
//! a fact, and a stream that ends early is undecodable.

use std::collections::BTreeSet;
use std::io::Read;

use super::Limits;
use super::choices;
use super::fact::{Facts, Kind};
use crate::audit::finding::Place;

/// A stream that grows within reason at first needs no ratio.
const FREE: usize = 64 << 20;

/// Bytes of content handed on at a time.
const PIECE: usize = 256 << 10;

const DAMAGED: &str = "a damaged stream";

/// Takes pieces of content.
pub(crate) type Out<'o> = &'o mut dyn FnMut(&[u8]);

/// How much a file of this length may give in all, whatever is packed in it how often.
pub(crate) fn most(from: usize, limits: Limits) -> usize {
    from.saturating_mul(limits.ratio).max(FREE)
}

/// How much of what a container of this length gives may be held at a time.
pub(crate) fn most_held(from: usize, limits: Limits) -> usize {
    limits.bytes.min(from.saturating_mul(limits.ratio / 8).max(FREE))
}

/// Hands on what a reader gives, as long as it is no more than `left`.
pub(crate) fn pump(mut reader: impl Read, left: &mut usize, out: Out<'_>) -> Result<(), &'static str> {
    let mut piece = vec![0; PIECE];
    loop {
        let read = reader.read(&mut piece).map_err(|_| DAMAGED)?;
        if read == 0 {
            return Ok(());
        }
        *left = left.checked_sub(read).ok_or("it decompresses to more than can be looked at")?;
        out(piece.get(..read).unwrap_or_default());
    }
}

/// The content of a reader, or `None` where it is damaged or grows too much.
pub(crate) fn bounded(reader: impl Read, left: &mut usize, facts: &mut Facts) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let read = pump(reader, left, &mut |piece| content.extend_from_slice(piece));
    read.map_err(|message| facts.add(Kind::Undecodable, Place::at(0), message, None)).ok()?;
    Some(content)
}

/// The content of a gzip or zstd file as a whole.
pub(crate) fn whole(bytes: &[u8], left: &mut usize, facts: &mut Facts) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    stream(bytes, left, facts, &mut |piece| content.extend_from_slice(piece))?;
    Some(content)
}

/// Hands on the content of a gzip or zstd file; `None` if something of it could not be decoded, which is then a fact.
pub(crate) fn stream(bytes: &[u8], left: &mut usize, facts: &mut Facts, out: Out<'_>) -> Option<()> {
    let (mut at, mut parts, mut empty) = (0, 0u64, false);
    let (mut sizes, mut ways) = (Vec::new(), BTreeSet::new());
    while let Some(rest @ [_, ..]) = bytes.get(at..) {
        let place = Place::at(at);
        let before = *left;
        let part = match rest {
            [0x1f, 0x8b, 8, header @ ..] => member(header, &place, left, facts, out),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, s0, s1, s2, s3, ..] => {
                let size = crate::audit::narrow(u32::from_le_bytes([*s0, *s1, *s2, *s3]).into());
                let message = "a zstd frame that readers skip";
                facts.add(Kind::Archive, place.clone(), message, Some(crate::audit::wide(size)));
                at = at.saturating_add(size).saturating_add(8);
                continue;
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => frame(rest, &place, left, facts, out),
            _ if parts > 0 => {
                let length = Some(crate::audit::wide(rest.len()));
                facts.add(Kind::Unowned, place, "bytes after the end of the stream", length);
                return Some(());
            }
            _ => Err(DAMAGED),
        };
        match part {
            Ok(length) => at += length,
            Err(message) => {
                facts.add(Kind::Undecodable, place, message, None);
                return None;
            }
        }
        parts += 1;
        empty |= before == *left;
        sizes.push(before - *left);
        // Flags, effort and system of gzip; whether a frame of zstd has a checksum.
        ways.insert(match rest {
            [0x1f, 0x8b, _, flags, _, _, _, _, effort, system, ..] => [1, *flags, *effort, *system],
            [_, _, _, _, descriptor, ..] => [0, 0, 0, descriptor & 4],
            _ => [0; 4],
        });
    }
    choices::sizes(&sizes, facts, "parts of a stream whose sizes are characters of a text");
    if ways.len() > 1 {
        facts.add(Kind::Archive, Place::at(0), "parts of a stream that are made in several ways", None);
    }
    if empty && parts > 1 {
        facts.add(Kind::Archive, Place::at(0), "parts of a stream without content", None);
    }
    Some(())
}

/// One member of a gzip file, after its first three bytes: its length.
fn member(
    header: &[u8],
    place: &Place,
    left: &mut usize,
    facts: &mut Facts,
    out: Out<'_>,
) -> Result<usize, &'static str> {
    let mut add = |message, length: Option<usize>| {
        facts.add(Kind::Archive, place.clone(), message, length.map(crate::audit::wide));
    };
    let [flags, m0, m1, m2, m3, effort, system, body @ ..] = header else { return Err(DAMAGED) };
    if [m0, m1, m2, m3].iter().any(|byte| **byte != 0) {
        add("a gzip header with a time", None);
    }
    if !matches!(effort, 0 | 2 | 4) || !matches!(system, 0 | 3 | 7 | 10 | 11 | 255) || flags & !0x1e != 0 {
        add("a gzip header with bytes that no writer gives", None);
    }
    let mut at = 0;
    if flags & 4 != 0 {
        let size = body.first_chunk::<2>().map_or(0, |size| usize::from(u16::from_le_bytes(*size)));
        at += 2 + size;
        add("a gzip header with extra bytes", Some(size));
    }
    for (flag, message) in [(8, "a gzip header with a file name"), (16, "a gzip header with a comment")] {
        if flags & flag != 0 {
            let size = memchr::memchr(0, body.get(at..).ok_or(DAMAGED)?).ok_or(DAMAGED)?;
            at += size + 1;
            add(message, Some(size));
        }
    }
    if flags & 2 != 0 {
        at += 2;
        add("a gzip header with a checksum of its own", None);
    }
    let packed = body.get(at..).ok_or(DAMAGED)?;
    let mut deflate = flate2::bufread::DeflateDecoder::new(packed);
    let mut sum = flate2::Crc::new();
    pump(&mut deflate, left, &mut |piece| {
        sum.update(piece);
        out(piece);
    })?;
    let end = crate::audit::narrow(deflate.total_in());
    let trailer = [sum.sum().to_le_bytes(), sum.amount().to_le_bytes()].concat();
    if packed.get(end..end + 8) != Some(&trailer) {
        return Err(DAMAGED);
    }
    Ok(10 + at + end + 8)
}

/// One frame of a zstd file: its length.
fn frame(rest: &[u8], place: &Place, left: &mut usize, facts: &mut Facts, out: Out<'_>) -> Result<usize, &'static str> {
    if rest.get(4).is_some_and(|descriptor| descriptor & 3 != 0) {
        facts.add(Kind::Archive, place.clone(), "a zstd frame that needs a dictionary", None);
    }
    let size = ::zstd::zstd_safe::find_frame_compressed_size(rest).unwrap_or(0);
    let frame = rest.get(..size).filter(|frame| !frame.is_empty()).ok_or(DAMAGED)?;
    let mut decoder = ::zstd::stream::read::Decoder::with_buffer(frame).map_err(|_| DAMAGED)?;
    if has_empty_blocks(frame) {
        facts.add(Kind::Archive, place.clone(), "a zstd frame with blocks that hold nothing", None);
    }
    // A frame may claim a window of any size; nobody writes one beyond 128 MiB.
    decoder.window_log_max(27).map_err(|_| DAMAGED)?;
    pump(decoder, left, out)?;
    Ok(size)
}

/// Whether a frame has a block without content that is not its last: of such a block's bytes no reader shows anything.
fn has_empty_blocks(frame: &[u8]) -> bool {
    let Some(descriptor) = frame.get(4) else { return false };
    let single = descriptor & 0x20 != 0;
    let size = [usize::from(single), 2, 4, 8];
    let dictionary = [0, 1, 2, 4];
    let field = |sizes: [usize; 4], which: u8| sizes.get(usize::from(which)).copied().unwrap_or(0);
    let mut at = 5 + usize::from(!single) + field(dictionary, descriptor & 3) + field(size, descriptor >> 6);
    while let Some([a, b, c]) = frame.get(at..).and_then(|rest| rest.first_chunk::<3>()) {
        let head = u32::from_le_bytes([*a, *b, *c, 0]);
        let (last, kind, size) = (head & 1 == 1, head >> 1 & 3, crate::audit::narrow((head >> 3).into()));
        if size == 0 && (!last || kind == 1) {
            return true;
        }
        if last {
            return false;
        }
        at += 3 + if kind == 1 { 1 } else { size };
    }
    false
}
