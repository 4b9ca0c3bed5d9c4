//! The words that JSON is made of: white space, strings, numbers; and how a document is spelled.
//!
//! Invariant: a choice between two spellings of the same value is noted, since each can say something.

use std::borrow::Cow;
use std::collections::BTreeMap;

use memchr::memchr2;

use super::DEPTH;
use crate::audit::finding::Place;
use crate::audit::view::collect::Collector;
use crate::audit::view::fact::Kind;

/// Reads bytes from the front.
#[derive(Clone, Debug)]
pub(super) struct Reader<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) at: usize,
    pub(super) seen: Seen,
    /// How deep it is, and the indentation that was skipped last.
    pub(super) depth: usize,
    indent: usize,
}

/// How a document is written, over all its parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Where the part begins.
    pub(crate) base: usize,
    /// What could not be read was reached.
    pub(super) ended: bool,
    /// Something that no writer of JSON makes was seen first here.
    odd: Option<(usize, &'static str)>,
    /// White space met at each [`Gap`]: a bit for none, a space, a line break.
    gaps: [u8; 7],
    /// Indentation by gap and depth.
    indents: BTreeMap<(usize, usize), usize>,
}

/// Places where white space may stand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gap {
    Open,
    Name,
    Value,
    Item,
    Next,
    Close,
    Record,
}

pub(super) const NONE: u8 = 1;
pub(super) const SPACE: u8 = 2;
const BREAK: u8 = 4;
const RETURN: u8 = 8;

/// Where it stops being JSON.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bad(pub(super) usize, pub(super) &'static str);

pub(super) type Step<T = ()> = Result<T, Bad>;

impl Seen {
    /// Facts about the spelling of the whole.
    pub(crate) fn finish(self, to: &mut Collector<'_, '_>) {
        if let Some((at, message)) = self.odd {
            to.view.facts.add(Kind::Spelling, Place::at(at), message, None);
        }
        // Each choice between two ways is a bit that can say something. A list may stand on one line among others that do not.
        let lists = [Gap::Open, Gap::Next, Gap::Close];
        let mixed = |gap: usize, ways: u8| {
            if lists.iter().any(|list| list.index() == gap) {
                ways & NONE != 0 && ways & SPACE != 0
            } else {
                ways.count_ones() > 1
            }
        };
        if self.gaps.iter().enumerate().any(|(gap, ways)| mixed(gap, *ways)) {
            to.view.facts.add(Kind::Spelling, Place::default(), "white space used in two ways", None);
        }
    }
}

impl Gap {
    fn index(self) -> usize {
        match self {
            Self::Open => 0,
            Self::Name => 1,
            Self::Value => 2,
            Self::Item => 3,
            Self::Next => 4,
            Self::Close => 5,
            Self::Record => 6,
        }
    }
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8], seen: Seen) -> Self {
        Self { bytes, at: 0, seen, depth: 0, indent: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn bad<T>(&self, message: &'static str) -> Step<T> {
        Err(Bad(self.at, message))
    }

    pub(super) fn take(&mut self, byte: u8) -> Step {
        if self.peek() != Some(byte) {
            return self.bad("not JSON here");
        }
        self.at += 1;
        Ok(())
    }

    /// Skips white space and says of which kind it was; a writer puts at most a space or a line break with its indentation.
    pub(super) fn space(&mut self) -> u8 {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        match self.bytes.get(start..self.at).unwrap_or_default() {
            [] => NONE,
            b" " => SPACE,
            b"\n" => BREAK,
            run => {
                let (line, way) = run.strip_prefix(b"\r").map_or((run, BREAK), |line| (line, RETURN));
                let indent = line.strip_prefix(b"\n").unwrap_or(b"x");
                self.indent = indent.len();
                let same = |byte| indent.iter().all(|space| *space == byte);
                let end =
                    run.iter().all(|byte| b"\r\n".contains(byte)) && run.len() <= 4 && self.at == self.bytes.len();
                if !((same(b' ') || same(b'\t')) && indent.len() <= 64) && !end {
                    self.odd(start, "white space that no writer of JSON makes");
                }
                way
            }
        }
    }

    pub(super) fn odd(&mut self, at: usize, message: &'static str) {
        self.seen.odd = self.seen.odd.or(Some((self.seen.base + at, message)));
    }

    pub(super) fn note(&mut self, gap: Gap, ways: u8) {
        let indent = std::mem::take(&mut self.indent);
        if ways & (BREAK | RETURN) != 0
            && *self.seen.indents.entry((gap.index(), self.depth)).or_insert(indent) != indent
        {
            self.odd(self.at, "indentation that does not go with the depth");
        }
        if let Some(known) = self.seen.gaps.get_mut(gap.index()) {
            *known |= ways;
        }
    }

    pub(super) fn gap(&mut self, gap: Gap) {
        let ways = self.space();
        self.note(gap, ways);
    }

    pub(super) fn word(&mut self, word: &[u8]) -> Step {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(());
        }
        self.bad("not JSON here")
    }

    /// The extent of a number, after checking its grammar.
    pub(super) fn extent(&mut self) -> Step<&'b str> {
        let start = self.at;
        let digits = |reader: &mut Self| {
            let from = reader.at;
            while reader.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                reader.at += 1;
            }
            reader.at - from
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 || (zero && whole > 1) {
            return self.bad("a number that is not JSON");
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if digits(self) == 0 {
                return self.bad("a number that is not JSON");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if digits(self) == 0 {
                return self.bad("a number that is not JSON");
            }
        }
        let text = self.bytes.get(start..self.at).and_then(|text| std::str::from_utf8(text).ok());
        text.map_or_else(|| self.bad("a number that is not JSON"), Ok)
    }

    /// A string with its escapes resolved; lone surrogates come out as bytes that are not UTF-8.
    pub(super) fn string(&mut self) -> Step<Cow<'b, [u8]>> {
        self.take(b'"')?;
        let mut owned: Option<Vec<u8>> = None;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let Some(found) = memchr2(b'"', b'\\', rest) else { return self.bad("it ends inside a string") };
            let piece = rest.get(..found).unwrap_or_default();
            if piece.iter().any(|byte| *byte < 0x20) {
                return self.bad("a control character in a string");
            }
            self.at += found + 1;
            if rest.get(found) == Some(&b'"') {
                return Ok(match owned {
                    None => Cow::Borrowed(piece),
                    Some(mut all) => {
                        all.extend(piece);
                        Cow::Owned(all)
                    }
                });
            }
            let all = owned.get_or_insert_default();
            all.extend(piece);
            let escape = self.peek();
            self.at += 1;
            match escape {
                Some(b'n') => all.push(b'\n'),
                Some(b't') => all.push(b'\t'),
                Some(b'r') => all.push(b'\r'),
                Some(b'b') => all.push(8),
                Some(b'f') => all.push(12),
                Some(byte @ (b'"' | b'\\')) => all.push(byte),
                Some(b'/') => {
                    all.push(b'/');
                    self.odd(self.at - 1, "an escape of a character that needs none");
                }
                Some(b'u') => {
                    let mut code = self.hex()?;
                    if (0x20..0x7f).contains(&code) {
                        self.odd(self.at - 6, "an escape of a character that needs none");
                    }
                    if (0xd800..0xdc00).contains(&code) && self.word(b"\\u").is_ok() {
                        let low = self.hex()?;
                        if (0xdc00..0xe000).contains(&low) {
                            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                        }
                    }
                    match char::from_u32(code) {
                        Some(c) => all.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
                        None => all.push(0xff),
                    }
                }
                _ => return self.bad("an escape that is not JSON"),
            }
        }
    }

    pub(super) fn hex(&mut self) -> Step<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let code =
            digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.map_or_else(|| self.bad("an escape that is not JSON"), Ok)
    }

    /// Skips a value.
    pub(super) fn skip(&mut self, depth: usize) -> Step {
        self.space();
        match self.peek() {
            Some(open @ (b'{' | b'[')) if depth < DEPTH => {
                self.at += 1;
                let close = if open == b'{' { b'}' } else { b']' };
                loop {
                    self.space();
                    match self.peek() {
                        Some(byte) if byte == close => break self.at += 1,
                        Some(b',' | b':') => self.at += 1,
                        _ => self.skip(depth + 1)?,
                    }
                }
                Ok(())
            }
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.extent().map(drop),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            Some(b'n') => self.word(b"null"),
            _ => self.bad("not JSON here"),
        }
    }
}
