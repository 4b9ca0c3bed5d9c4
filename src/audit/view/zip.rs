//! zip archives.
//!
//! Invariant: entries follow one another without a gap, as the central directory says; names, times, comments and extra fields
//! are facts; every entry is taken apart as a file of its own.

use super::FileView;
use super::collect::Feed;
use super::compress::{most_held, pump};
use super::content::Content;
use super::fact::Kind;
use crate::audit::finding::Place;

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
    let mut local: Vec<(usize, &[u8])> = Vec::new();
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
        let named: Vec<&[u8]> = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        if flags & !0x0806 != 0 || entry >= ENTRIES {
            return None;
        }
        let mut left = std::mem::take(&mut feed.left);
        let mut sum = flate2::Crc::new();
        let mut content = Content::new(feed, depth + 1, most_held(packed, feed.limits));
        match method {
            0 if packed == size => {
                sum.update(body);
                content.push(body);
            }
            8 => {
                let mut deflate = flate2::bufread::DeflateDecoder::new(body);
                let read = pump(&mut deflate, &mut left, &mut |piece| {
                    sum.update(piece);
                    content.push(piece);
                });
                if deflate.total_in() != crate::audit::wide(packed) || crate::audit::narrow(sum.amount().into()) != size
                {
                    view.facts.add(Kind::Unowned, place.clone(), "bytes after the end of the stream", None);
                }
                read.ok()?;
            }
            _ => return None,
        }
        content.allow(left);
        let inner = content.finish();
        feed.left = feed.left.min(left);
        named.iter().for_each(|part| view.facts.name(part, place.clone()));
        if u32_at(bytes, at + 14)? != crate::audit::narrow(sum.sum().into()) {
            return None;
        }
        local.push((at, name));
        view.facts.merge(inner.facts);
        view.rows += inner.rows;
        view.open_bytes += inner.open_bytes;
        view.format = view.format.or(inner.format);
        (at, entry) = (start + packed, entry + 1);
    }
    // The central directory: the same entries, with the same names, times and sizes, and nothing of its own.
    let (directory, mut made_by, mut kinds) = (at, None, None);
    for (listed, (entry, name)) in local.iter().enumerate() {
        let place = Place::at(at).page(crate::audit::wide(listed));
        let record = bytes.get(at..).filter(|record| record.starts_with(b"PK\x01\x02"))?;
        let (length, extra, comment) = (u16_at(record, 28)?, u16_at(record, 30)?, u16_at(record, 32)?);
        if extra > 0 || comment > 0 {
            let message = "an archive entry with extra fields or a comment";
            view.facts.add(Kind::Archive, place.clone(), message, None);
        }
        let same = record.get(6..28) == bytes.get(entry + 4..entry + 26) && record.get(46..46 + length) == Some(*name);
        if !same || u32_at(record, 42)? != *entry || u16_at(record, 34)? != 0 {
            view.facts.add(Kind::Archive, place.clone(), "a list of entries that are not those of the archive", None);
        }
        // A version of 1.0 to 6.3, made on DOS, Unix or NTFS, by one program all of them; one that knows deflate and large files; a mode
        // of data; text or not.
        let maker = record.get(4..6)?;
        let made = matches!(maker, [..=63, 0 | 3 | 10]) && *made_by.get_or_insert(maker) == maker;
        let needed = matches!(record.get(6..8)?, [10 | 20 | 45, 0]);
        let (kind, mode) = (u16_at(record, 40)? >> 12, u16_at(record, 40)? & 0o7777);
        // Some archivers write what kind of file it is, and some don't.
        let told = if name.ends_with(b"/") { matches!(kind, 0 | 0o4) } else { *kinds.get_or_insert(kind) == kind };
        if !made
            || !needed
            || !told
            || !matches!(kind, 0 | 0o4 | 0o10)
            || u16_at(record, 36)? > 1
            || u16_at(record, 38)? & !0x30 != 0
            || !super::archive::MODES.contains(&crate::audit::wide(mode))
        {
            view.facts.add(Kind::Archive, place, "an archive entry with attributes that no archiver gives", None);
        }
        at += 46 + length + extra + comment;
    }
    if !bytes.get(at..)?.starts_with(b"PK\x05\x06") {
        view.facts.add(Kind::Unowned, Place::at(at), "bytes that no structure owns", None);
        return None;
    }
    let counted = (u16_at(bytes, at + 4)?, u16_at(bytes, at + 6)?, u16_at(bytes, at + 8)?, u16_at(bytes, at + 10)?);
    if counted != (0, 0, local.len(), local.len())
        || (u32_at(bytes, at + 12)?, u32_at(bytes, at + 16)?) != (at - directory, directory)
    {
        view.facts.add(Kind::Statistics, Place::at(at), "counts that the archive does not have", None);
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
