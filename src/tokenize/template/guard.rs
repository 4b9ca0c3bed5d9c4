//! [`Guard`]: keeps content from passing for what the template wrote.
//!
//! Invariant: a guarded text comes back as it was, and no literal of a special token in it survives rendering as one. A text
//! without such literals passes as it is, so that templates can look at it, cut it and strip it. (A template that writes both
//! ends of a special token around content means it.)

use std::borrow::Cow;

use super::super::special::Specials;

/// Stands inside a literal, or at an end that could become one; vanishes in the end. All four are of the private use planes.
const BREAK: char = '\u{F5A10}';
/// Stands before a `STAND_IN`: the two are one of these four, as the content itself held it.
const ESCAPE: char = '\u{F5A11}';
/// Opens and closes the number of a medium.
const MEDIA: char = '\u{F5A12}';
/// How many code points are ours, and where their stand-ins begin.
const OURS: std::ops::RangeInclusive<char> = BREAK..=MEDIA;
/// The first byte of each of them in UTF-8.
const LEAD: u8 = 0xF3;

/// Guards the content of one prompt.
pub(super) struct Guard<'a> {
    specials: &'a Specials,
    media: Vec<([u8; 16], u32)>,
}

/// A piece of a rendered text.
pub(super) enum Piece<'a> {
    Text(Cow<'a, str>),
    Media { key: [u8; 16], tokens: u32 },
}

impl<'a> Guard<'a> {
    pub(super) fn new(specials: &'a Specials) -> Self {
        Self { specials, media: Vec::new() }
    }

    /// Appends `text` to `out`, guarded.
    pub(super) fn text(&self, text: &str, out: &mut String) {
        if self.specials.completes(text) {
            out.push(BREAK);
        }
        let mut rest = 0;
        while let Some((range, _)) = self.specials.find(text, rest) {
            let cut = range.start + text.get(range).and_then(|found| found.chars().next()).map_or(1, char::len_utf8);
            escape(text.get(rest..cut).unwrap_or_default(), out);
            out.push(BREAK);
            rest = cut;
        }
        escape(text.get(rest..).unwrap_or_default(), out);
        if self.specials.begins(text) {
            out.push(BREAK);
        }
    }

    /// Appends a stand-in for a medium to `out`.
    pub(super) fn media(&mut self, key: [u8; 16], tokens: u32, out: &mut String) {
        out.push(MEDIA);
        out.push_str(&self.media.len().to_string());
        out.push(MEDIA);
        self.media.push((key, tokens));
    }

    /// The pieces of a part of the rendered text, as they were before guarding.
    pub(super) fn pieces<'t>(&self, text: &'t str) -> Vec<Piece<'t>> {
        if memchr::memchr(LEAD, text.as_bytes()).is_none() {
            return vec![Piece::Text(Cow::Borrowed(text))];
        }
        let mut pieces = Vec::new();
        for (n, part) in text.split(MEDIA).enumerate() {
            let medium =
                if n % 2 == 1 { part.parse().ok().and_then(|index: usize| self.media.get(index)) } else { None };
            pieces.push(match medium {
                Some(&(key, tokens)) => Piece::Media { key, tokens },
                None => Piece::Text(Cow::Owned(unescape(part))),
            });
        }
        pieces
    }
}

fn escape(text: &str, out: &mut String) {
    if memchr::memchr(LEAD, text.as_bytes()).is_none() {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        match OURS.clone().zip('0'..).find(|(ours, _)| *ours == c) {
            Some((_, stand_in)) => out.extend([ESCAPE, stand_in]),
            None => out.push(c),
        }
    }
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            BREAK => {}
            ESCAPE => out.extend(
                chars.next().and_then(|digit| OURS.clone().zip('0'..).find(|(_, it)| *it == digit)).map(|(c, _)| c),
            ),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::super::Tokenizer;
    use super::*;
    use proptest::prelude::*;

    fn guarded(guard: &Guard<'_>, text: &str) -> String {
        let mut out = String::new();
        guard.text(text, &mut out);
        out
    }

    fn restored(guard: &Guard<'_>, text: &str) -> String {
        let pieces = guard.pieces(text).into_iter().map(|piece| match piece {
            Piece::Text(text) => text.into_owned(),
            Piece::Media { tokens, .. } => format!("[{tokens}]"),
        });
        pieces.collect()
    }

    proptest! {
        #[test]
        fn guarded_texts_come_back_and_hold_no_special_token(
            parts in prop::collection::vec("(<META_END>|<META_START|>|<|ME|TA|_END>|[\u{F5A0F}-\u{F5A13}]|[0-2 a]){0,8}", 0..5)
        ) {
            let tokenizer = Tokenizer::builtin().unwrap();
            let guard = Guard::new(tokenizer.specials());
            let joined: String = parts.iter().map(|part| guarded(&guard, part)).collect();
            prop_assert!(tokenizer.specials().find(&joined, 0).is_none(), "not even where two contents meet");
            prop_assert_eq!(restored(&guard, &joined), parts.concat());
        }
    }

    #[test]
    fn plain_text_passes_as_it_is() {
        let tokenizer = Tokenizer::builtin().unwrap();
        let guard = Guard::new(tokenizer.specials());
        assert_eq!(guarded(&guard, " </think> a < b <meta> "), " </think> a < b <meta> ");
    }

    #[test]
    fn media_stand_where_they_stood() {
        let tokenizer = Tokenizer::builtin().unwrap();
        let mut guard = Guard::new(tokenizer.specials());
        let mut out = guarded(&guard, "a");
        guard.media([1; 16], 5, &mut out);
        guard.media([2; 16], 6, &mut out);
        assert_eq!(restored(&guard, &(out + "b")), "a[5][6]b");
    }
}
