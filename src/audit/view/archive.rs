//! tar archives.
//!
//! Invariant: names, times, owners and extended headers are facts; every entry is taken apart as a file of its own; padding is
//! looked at.

use super::collect::Feed;
use super::fact::{Facts, Kind};
use super::{FileView, open};
use crate::audit::finding::Place;

/// Modes that archivers give to data.
pub(super) const MODES: &[u64] =
    &[0, 0o400, 0o444, 0o600, 0o640, 0o644, 0o660, 0o664, 0o666, 0o700, 0o750, 0o755, 0o775, 0o777];

/// Most entries.
const ENTRIES: u64 = 1 << 16;

/// Whether the first header's checksum is right.
pub(crate) fn looks_like(bytes: &[u8]) -> bool {
    bytes.first_chunk::<512>().is_some_and(|header| header.iter().any(|byte| *byte != 0) && checksum_is_right(header))
}

fn checksum_is_right(header: &[u8; 512]) -> bool {
    let sum: u64 =
        header.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
    octal(header.get(148..156).unwrap_or_default()) == Some(sum)
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches(|c| c == ' ' || c == '\0');
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, 8).ok() }
}

/// Takes an archive apart.
pub(crate) fn read(bytes: &[u8], depth: usize, feed: &mut Feed<'_>) -> FileView {
    let mut view = FileView::default();
    let (mut at, mut entry) = (0usize, 0u64);
    while let Some(header) = bytes.get(at..).and_then(|rest| rest.first_chunk::<512>()) {
        if header.iter().all(|byte| *byte == 0) {
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.iter().any(|byte| *byte != 0) {
                view.facts.add(
                    Kind::Unowned,
                    Place::at(at),
                    "bytes after the end of the archive",
                    Some(crate::audit::wide(rest.len())),
                );
            }
            return view;
        }
        let place = Place::at(at).page(entry);
        let size = octal(header.get(124..136).unwrap_or_default());
        let body = size.and_then(|size| bytes.get(at + 512..(at + 512).checked_add(crate::audit::narrow(size))?));
        let (Some(body), true, true) = (body, checksum_is_right(header), entry < ENTRIES) else {
            view.facts.add(Kind::Undecodable, place, "a damaged archive", None);
            return view;
        };
        let field = |range: std::ops::Range<usize>| header.get(range).unwrap_or_default();
        let text = |range| field(range).split(|byte| *byte == 0).next().unwrap_or_default();
        let mut names = Facts::default();
        let mut add = |kind, message| view.facts.add(kind, place.clone(), message, None);
        if octal(field(136..148)) != Some(0) {
            add(Kind::Archive, "an archive entry with a time");
        }
        if octal(field(108..116)) != Some(0) || octal(field(116..124)) != Some(0) {
            add(Kind::Archive, "an archive entry with an owner's number");
        }
        if !matches!(text(265..297), b"" | b"root") || !matches!(text(297..329), b"" | b"root") {
            add(Kind::Archive, "an archive entry with an owner's name");
        }
        let parts = [text(345..500), text(0..100)];
        let name =
            parts.iter().flat_map(|part| part.split(|byte| *byte == b'/')).filter(|part| !matches!(*part, [] | [b'.']));
        name.for_each(|part| names.name(part, place.clone()));
        if [100..108, 157..257, 257..265, 329..345, 500..512].iter().enumerate().any(|(which, range)| {
            let bytes = field(range.clone());
            match which {
                0 => octal(bytes).is_none_or(|mode| !MODES.contains(&(mode & 0o7777))),
                2 => !matches!(bytes, b"ustar\x0000" | b"ustar  \0" | b"\0\0\0\0\0\0\0\0"),
                _ => bytes.iter().any(|byte| !matches!(byte, 0 | b'0')),
            }
        }) || [(0..100), (265..297), (297..329), (345..500)].iter().any(|range| {
            let bytes = field(range.clone());
            bytes.iter().skip_while(|byte| **byte != 0).any(|byte| *byte != 0)
        }) {
            add(Kind::Archive, "an archive entry with bytes in unused parts of its header");
        }
        match header.get(156) {
            Some(b'0' | 0) => {
                let inner = open(body, depth + 1, feed);
                view.facts.merge(inner.facts);
                view.rows += inner.rows;
                view.open_bytes += inner.open_bytes;
                view.format = view.format.or(inner.format);
            }
            Some(b'5') if body.is_empty() => (),
            _ => add(Kind::Archive, "an archive entry that is no file: a link or an extended header"),
        }
        view.facts.merge(names);
        let end = at + 512 + body.len();
        let next = end.next_multiple_of(512);
        if bytes.get(end..next.min(bytes.len())).unwrap_or_default().iter().any(|byte| *byte != 0) {
            view.facts.add(Kind::Unowned, place, "padding of an archive that is not zero", None);
        }
        (at, entry) = (next, entry + 1);
    }
    let rest = bytes.get(at..).unwrap_or_default();
    if rest.iter().any(|byte| *byte != 0) {
        let message = "bytes after the end of the archive";
        view.facts.add(Kind::Unowned, Place::at(at), message, Some(crate::audit::wide(rest.len())));
    }
    view
}
