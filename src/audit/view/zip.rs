//! zip archives.
//!
//! Invariant: entries follow one another without a gap, as the central directory says; names, times, comments and extra fields
//! are facts; every entry is taken apart as a file of its own.

use super::collect::Feed;
use super::compress::bounded;
use super::fact::Kind;
use super::{FileView, open};
use crate::audit::finding::Place;
use crate::audit::vocab::words::is_plain_file;

/// Most entries.
const ENTRIES: u64 = 1 << 16;

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|bytes| usize::from(u16::from_le_bytes(*bytes)))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|bytes| crate::audit::narrow(u32::from_le_bytes(*bytes).into()))
}

/// Takes an archive apart.
pub(crate) fn read(bytes: &[u8], depth: usize, feed: &mut Feed<'_>) -> FileView {
    let mut view = FileView::default();
    if walk(bytes, depth, feed, &mut view).is_none() {
        view.facts.add(Kind::Undecodable, Place::default(), "a damaged or unusual zip archive", None);
    }
    view
}

fn walk(bytes: &[u8], depth: usize, feed: &mut Feed<'_>, view: &mut FileView) -> Option<()> {
    let (mut at, mut entry) = (0, 0u64);
    // Local entries, one after another.
    while bytes.get(at..)?.starts_with(b"PK\x03\x04") {
        let place = Place::at(at).page(entry);
        let (flags, method) = (u16_at(bytes, at + 6)?, u16_at(bytes, at + 8)?);
        let (packed, size) = (u32_at(bytes, at + 18)?, u32_at(bytes, at + 22)?);
        let (name_length, extra) = (u16_at(bytes, at + 26)?, u16_at(bytes, at + 28)?);
        let name = bytes.get(at + 30..at + 30 + name_length)?;
        let start = at + 30 + name_length + extra;
        let body = bytes.get(start..start.checked_add(packed)?)?;
        let mut add = |kind, message| view.facts.add(kind, place.clone(), message, None);
        // 1980-01-01 is how writers say "no time".
        if u16_at(bytes, at + 10)? != 0 || !matches!(u16_at(bytes, at + 12)?, 0 | 0x21) {
            add(Kind::Archive, "an archive entry with a time");
        }
        if extra > 0 {
            add(Kind::Archive, "an archive entry with extra fields");
        }
        if !name
            .split(|byte| *byte == b'/')
            .next_back()
            .and_then(|name| std::str::from_utf8(name).ok())
            .is_some_and(is_plain_file)
        {
            add(Kind::FileName, "an archive entry whose name is not made of generic words");
        }
        if flags & !0x0806 != 0 || entry >= ENTRIES {
            return None;
        }
        let content = match method {
            0 if packed == size => body.to_vec(),
            8 => {
                let mut deflate = flate2::bufread::DeflateDecoder::new(body);
                let content = bounded(&mut deflate, packed, feed.limits, &mut view.facts)?;
                if deflate.total_in() != crate::audit::wide(packed) || content.len() != size {
                    view.facts.add(Kind::Unowned, place, "bytes after the end of the stream", None);
                }
                content
            }
            _ => return None,
        };
        let inner = open(&content, depth + 1, feed);
        view.facts.merge(inner.facts);
        view.rows += inner.rows;
        view.open_bytes += inner.open_bytes;
        view.format = view.format.or(inner.format);
        (at, entry) = (start + packed, entry + 1);
    }
    // The central directory: as many entries, without extras and comments.
    for listed in 0..entry {
        if !bytes.get(at..)?.starts_with(b"PK\x01\x02") {
            return None;
        }
        let (name, extra, comment) = (u16_at(bytes, at + 28)?, u16_at(bytes, at + 30)?, u16_at(bytes, at + 32)?);
        if extra > 0 || comment > 0 {
            let place = Place::at(at).page(listed);
            view.facts.add(Kind::Archive, place, "an archive entry with extra fields or a comment", None);
        }
        at += 46 + name + extra + comment;
    }
    if !bytes.get(at..)?.starts_with(b"PK\x05\x06") {
        view.facts.add(Kind::Unowned, Place::at(at), "bytes that no structure owns", None);
        return None;
    }
    let comment = u16_at(bytes, at + 20)?;
    if comment > 0 {
        view.facts.add(Kind::Archive, Place::at(at), "an archive with a comment", None);
    }
    let end = at + 22 + comment;
    if end != bytes.len() {
        let left = Some(crate::audit::wide(bytes.len().saturating_sub(end)));
        view.facts.add(Kind::Unowned, Place::at(end), "bytes after the end of the archive", left);
    }
    Some(())
}
