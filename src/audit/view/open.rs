//! What a file is, by its content, and which reader takes it apart; containers are opened one inside another.
//!
//! Invariant: bytes that no reader knows are undecodable; text that is neither JSON nor CSV is text, which no trace holds.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::collect::{Collector, Feed};
use super::content::{self, Content};
use super::fact::{Facts, Kind};
use super::sink::is_loose;
use super::{Dataset, FileView, Limits, Sink, archive, arrow, compress, csv, json, parquet, sqlite, zip};
use crate::audit::finding::Place;
use crate::audit::report::Report;
use crate::audit::rules::Rules;
use crate::audit::vocab::Format;

/// Shows a sink what a file holds; gives whether it was small enough, or of a kind that is read in pieces.
///
/// # Errors
/// If it can't be read.
pub fn decode(path: &Path, sink: &mut dyn Sink) -> io::Result<bool> {
    let (mut report, mut dataset, rules) = (Report::default(), Dataset::default(), Rules::default());
    let mut feed = Feed {
        report: &mut report,
        dataset: &mut dataset,
        rules: &rules,
        limits: Limits::default(),
        checks: &[],
        left: 0,
        sink: Some(sink),
    };
    let view = open_file(File::open(path)?, &mut |_| (), &mut feed)?;
    Ok(!view.facts.of(Kind::Undecodable).any(|(message, _)| message == content::TOO_MUCH))
}

/// Takes a file apart that is read from its start; `seen` is shown every byte of it.
pub(crate) fn open_file(mut file: impl Read, seen: &mut dyn FnMut(&[u8]), feed: &mut Feed<'_>) -> io::Result<FileView> {
    let held = feed.limits.bytes;
    let mut content = Content::new(feed, 0, held);
    let mut piece = vec![0; 256 << 10];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(content.finish());
        }
        let piece = piece.get(..read).unwrap_or_default();
        seen(piece);
        content.push(piece);
    }
}

/// Takes a file apart. `depth` counts the containers around it.
pub(crate) fn open(bytes: &[u8], depth: usize, feed: &mut Feed<'_>) -> FileView {
    let view = read(bytes, depth, feed);
    if let Some(sink) = feed.sink.as_mut().filter(|_| is_loose(&view.facts)) {
        sink.raw(bytes);
    }
    view
}

fn read(bytes: &[u8], depth: usize, feed: &mut Feed<'_>) -> FileView {
    let mut view = FileView::default();
    let undecodable = |mut view: FileView, message| {
        view.facts.add(Kind::Undecodable, Place::default(), message, Some(crate::audit::wide(bytes.len())));
        view
    };
    if depth > feed.limits.depth {
        return undecodable(view, "containers are nested too deeply");
    }
    if depth == 0 {
        feed.left = compress::most(bytes.len(), feed.limits);
    }
    match bytes {
        [] => view,
        [b'P', b'A', b'R', b'1', ..] => parquet::read(bytes, feed),
        [b'P', b'A', b'R', b'E', ..] => undecodable(view, "an encrypted Parquet file"),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => arrow::read_file(bytes, feed),
        [0xff, 0xff, 0xff, 0xff, _, _, 0, 0, ..] => arrow::read_stream(bytes, feed),
        [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            let (mut facts, mut left) = (Facts::default(), std::mem::take(&mut feed.left));
            let held = compress::most_held(bytes.len(), feed.limits);
            let mut content = Content::new(feed, depth + 1, held);
            // What could not be decoded is a fact by then.
            let _whole = compress::stream(bytes, &mut left, &mut facts, &mut |piece| content.push(piece));
            content.allow(left);
            view = content.finish();
            view.facts.merge(facts);
            view
        }
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => zip::read(bytes, depth, feed),
        [b'S', b'Q', b'L', b'i', b't', b'e', b' ', b'f', ..] => sqlite::read(bytes, feed),
        _ if archive::looks_like(bytes) => archive::read(bytes, depth, feed),
        [0xef, 0xbb, 0xbf, rest @ ..] => {
            view.facts.add(Kind::Spelling, Place::at(0), "a byte order mark", Some(3));
            document(rest, view.facts, feed)
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            view.facts.add(Kind::Spelling, Place::at(0), "text in UTF-16", None);
            let little = bytes.first() == Some(&0xff);
            let unit = |pair: &[u8]| match pair {
                [one, two] if little => u16::from_le_bytes([*one, *two]),
                [one, two] => u16::from_be_bytes([*one, *two]),
                _ => 0xfffd,
            };
            let text =
                String::from_utf16_lossy(&bytes.get(2..).unwrap_or_default().chunks(2).map(unit).collect::<Vec<_>>());
            document(text.as_bytes(), view.facts, feed)
        }
        _ => document(bytes, view.facts, feed),
    }
}

/// Text: JSON, CSV, or text.
fn document(bytes: &[u8], mut facts: Facts, feed: &mut Feed<'_>) -> FileView {
    if let Err(error) = std::str::from_utf8(bytes) {
        facts.add(Kind::Spelling, Place::at(error.valid_up_to()), "not UTF-8", None);
    }
    if json::looks_like(bytes) {
        let format = recognise(&json::first_keys(bytes));
        let mut collector = Collector::new(feed, facts, format, true);
        let mut seen = json::Seen::default();
        json::read(bytes, &mut collector, &mut seen);
        seen.finish(&mut collector);
        return collector.finish();
    }
    if csv::looks_like(bytes) {
        let format = recognise(&csv::header(bytes));
        let mut collector = Collector::new(feed, facts, format, false);
        csv::read(bytes, &mut collector);
        return collector.finish();
    }
    let text = std::str::from_utf8(bytes).is_ok();
    let mut collector = Collector::new(feed, facts, None, false);
    collector.text(0, bytes, Some(0));
    let mut view = collector.finish();
    if !text {
        let message = "no reader knows this kind of file";
        view.facts.add(Kind::Undecodable, Place::at(0), message, Some(crate::audit::wide(bytes.len())));
    }
    view
}

pub(super) fn recognise(keys: &[std::borrow::Cow<'_, [u8]>]) -> Option<&'static Format> {
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    Format::recognise(&keys)
}
