//! gzip and zstd streams: their headers looked at, their content bounded.
//!
//! Invariant: no stream takes more memory than the limits say; every byte of the file is a header, content or a fact.

use std::io::Read;

use super::Limits;
use super::fact::{Facts, Kind};
use crate::audit::finding::Place;

/// A stream that grows within reason at first needs no ratio.
const FREE: usize = 64 << 20;

/// The content of a reader, or `None` where it is damaged or grows too much.
pub(crate) fn bounded(reader: impl Read, from: usize, limits: Limits, facts: &mut Facts) -> Option<Vec<u8>> {
    let most = limits.bytes.min(from.saturating_mul(limits.ratio).max(FREE));
    let mut content = Vec::new();
    let read = reader.take(crate::audit::wide(most).saturating_add(1)).read_to_end(&mut content);
    let message = match read {
        Ok(_) if content.len() <= most => return Some(content),
        Ok(_) => "it decompresses to more than can be looked at",
        Err(_) => "a damaged stream",
    };
    facts.add(Kind::Undecodable, Place::at(0), message, None);
    None
}

/// All members of a gzip file, joined.
pub(crate) fn gzip(bytes: &[u8], limits: Limits, facts: &mut Facts) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut at = 0;
    while let Some(rest @ [_, ..]) = bytes.get(at..) {
        let place = Place::at(at);
        let [0x1f, 0x8b, 8, flags, m0, m1, m2, m3, _, _, body @ ..] = rest else {
            facts.add(Kind::Unowned, place, "bytes after the end of the stream", Some(crate::audit::wide(rest.len())));
            return Some(content);
        };
        if [m0, m1, m2, m3].iter().any(|byte| **byte != 0) {
            facts.add(Kind::Archive, place.clone(), "a gzip header with a time", None);
        }
        let mut header = 0;
        if flags & 4 != 0 {
            let size = body.first_chunk::<2>().map_or(0, |size| usize::from(u16::from_le_bytes(*size)));
            header += 2 + size;
            facts.add(Kind::Archive, place.clone(), "a gzip header with extra bytes", Some(crate::audit::wide(size)));
        }
        for (flag, message) in [(8, "a gzip header with a file name"), (16, "a gzip header with a comment")] {
            if flags & flag != 0 {
                let size = body.get(header..)?.iter().position(|byte| *byte == 0).unwrap_or(body.len());
                header += size + 1;
                facts.add(Kind::Archive, place.clone(), message, Some(crate::audit::wide(size)));
            }
        }
        header += if flags & 2 != 0 { 2 } else { 0 };
        let mut deflate = flate2::bufread::DeflateDecoder::new(body.get(header..).unwrap_or_default());
        let part = bounded(&mut deflate, rest.len(), limits, facts)?;
        let trailer = 10 + header + crate::audit::narrow(deflate.total_in());
        let check = rest.get(trailer..trailer + 8)?;
        let mut crc = flate2::Crc::new();
        crc.update(&part);
        if check.get(..4) != Some(crc.sum().to_le_bytes().as_slice()) {
            facts.add(Kind::Undecodable, place, "a damaged stream", None);
            return None;
        }
        content.extend(part);
        if content.len() > limits.bytes {
            facts.add(Kind::Undecodable, Place::at(at), "it decompresses to more than can be looked at", None);
            return None;
        }
        at += trailer + 8;
    }
    Some(content)
}

/// All frames of a zstd file, joined; skippable frames are facts.
pub(crate) fn zstd(bytes: &[u8], limits: Limits, facts: &mut Facts) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut at = 0;
    while let Some(rest @ [_, ..]) = bytes.get(at..) {
        let place = Place::at(at);
        if let [0x50..=0x5f, 0x2a, 0x4d, 0x18, s0, s1, s2, s3, ..] = rest {
            let size = crate::audit::narrow(u32::from_le_bytes([*s0, *s1, *s2, *s3]).into());
            facts.add(Kind::Archive, place, "a zstd frame that readers skip", Some(crate::audit::wide(size)));
            at = at.saturating_add(size).saturating_add(8);
            continue;
        }
        if !rest.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            facts.add(Kind::Unowned, place, "bytes after the end of the stream", Some(crate::audit::wide(rest.len())));
            break;
        }
        if rest.get(4).is_some_and(|descriptor| descriptor & 3 != 0) {
            facts.add(Kind::Archive, place.clone(), "a zstd frame that needs a dictionary", None);
        }
        let size = ::zstd::zstd_safe::find_frame_compressed_size(rest).unwrap_or(0);
        let Some(frame) = rest.get(..size).filter(|frame| !frame.is_empty()) else {
            facts.add(Kind::Undecodable, place, "a damaged stream", None);
            return None;
        };
        let Ok(mut decoder) = ::zstd::stream::read::Decoder::new(frame) else { return None };
        decoder.window_log_max(31).ok()?;
        let left = Limits { bytes: limits.bytes.saturating_sub(content.len()), ..limits };
        content.extend(bounded(decoder, frame.len(), left, facts)?);
        at += size;
    }
    Some(content)
}
