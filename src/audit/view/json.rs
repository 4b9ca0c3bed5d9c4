//! JSON and JSONL, read without building documents.
//!
//! Invariant: every byte is part of a value, plain white space, or a fact; nesting is bounded; a syntax error ends the file as
//! undecodable from there on.

use std::borrow::Cow;

use memchr::memchr2;

use super::collect::Collector;
use super::fact::Kind;
use crate::audit::finding::Place;

/// Deepest nesting.
const DEPTH: usize = 64;

/// Reads bytes from the front.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Unusual white space was seen first here.
    odd: Option<usize>,
}

/// Where it stops being JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bad(usize, &'static str);

type Step<T = ()> = Result<T, Bad>;

/// Whether this may be JSON: its first byte that is no white space.
pub(crate) fn looks_like(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| b"{[".contains(byte))
}

/// Names of the members of the first record, for recognising the format.
pub(crate) fn first_keys(bytes: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut reader = Reader { bytes, at: 0, odd: None };
    reader.space();
    if reader.peek() == Some(b'[') {
        reader.at += 1;
        reader.space();
    }
    let mut keys = Vec::new();
    if reader.take(b'{').is_err() {
        return keys;
    }
    while keys.len() < 256 {
        reader.space();
        let Ok(key) = reader.string() else { break };
        keys.push(key);
        reader.space();
        if reader.take(b':').is_err() || reader.skip(0).is_err() {
            break;
        }
        reader.space();
        if reader.take(b',').is_err() {
            break;
        }
    }
    keys
}

/// Reads all records of a file.
pub(crate) fn read(bytes: &[u8], collector: &mut Collector<'_, '_>) {
    let mut reader = Reader { bytes, at: 0, odd: None };
    if let Err(Bad(at, message)) = reader.records(collector) {
        collector.view.facts.add(Kind::Undecodable, Place::at(at).row(collector.row), message, None);
    }
    if let Some(odd) = reader.odd {
        let place = Place::at(odd);
        collector.view.facts.add(Kind::Spelling, place, "white space that no writer of JSON makes", None);
    }
}

impl<'b> Reader<'b> {
    fn records(&mut self, to: &mut Collector<'_, '_>) -> Step {
        self.space();
        let array = self.peek() == Some(b'[') && self.array_of_objects();
        if array {
            self.at += 1;
        }
        loop {
            self.space();
            match self.peek() {
                None => return if array { self.bad("it ends inside a list") } else { Ok(()) },
                Some(b']') if array => {
                    self.at += 1;
                    self.space();
                    if self.at < self.bytes.len() {
                        let left = crate::audit::wide(self.bytes.len() - self.at);
                        to.view.facts.add(
                            Kind::Spelling,
                            Place::at(self.at),
                            "bytes after the end of the document",
                            Some(left),
                        );
                        return self.bad("bytes after the end of the document");
                    }
                    return Ok(());
                }
                Some(b',') if array => self.at += 1,
                Some(0) => {
                    to.view.facts.add(Kind::Spelling, Place::at(self.at), "bytes after the end of the document", None);
                    return self.bad("a zero byte between records");
                }
                Some(_) => {
                    self.value(to, 0, 0)?;
                    to.end_record();
                }
            }
        }
    }

    /// Whether a list at the top holds records.
    fn array_of_objects(&self) -> bool {
        let mut ahead = self.clone();
        ahead.at += 1;
        ahead.space();
        ahead.peek() == Some(b'{')
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn bad<T>(&self, message: &'static str) -> Step<T> {
        Err(Bad(self.at, message))
    }

    fn take(&mut self, byte: u8) -> Step {
        if self.peek() != Some(byte) {
            return self.bad("not JSON here");
        }
        self.at += 1;
        Ok(())
    }

    /// Skips white space; a compact writer puts at most a space or a line break with its indentation.
    fn space(&mut self) {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
        if self.at - start > 1 && self.odd.is_none() {
            let run = self.bytes.get(start..self.at).unwrap_or_default();
            let indent = run.strip_prefix(b"\r").unwrap_or(run).strip_prefix(b"\n").unwrap_or(b"x");
            let same = |byte| indent.iter().all(|space| *space == byte);
            let breaks = run.iter().all(|byte| b"\r\n".contains(byte)) && run.len() <= 4;
            if !((same(b' ') || same(b'\t')) && indent.len() <= 64) && !breaks {
                self.odd = Some(start);
            }
        }
    }

    fn value(&mut self, to: &mut Collector<'_, '_>, node: usize, depth: usize) -> Step {
        if depth > DEPTH {
            return self.bad("nested too deeply");
        }
        let start = Some(self.at);
        match self.peek() {
            Some(b'{') => {
                self.at += 1;
                let object = to.begin_object(node, start);
                self.space();
                if self.peek() == Some(b'}') {
                    self.at += 1;
                } else {
                    loop {
                        self.space();
                        let at = self.at;
                        let key = self.string()?;
                        let child = to.member(object, node, &key, Some(at));
                        self.space();
                        self.take(b':')?;
                        self.space();
                        self.value(to, child, depth + 1)?;
                        self.space();
                        match self.peek() {
                            Some(b',') => self.at += 1,
                            _ => break self.take(b'}')?,
                        }
                    }
                }
                to.end_object(node);
                Ok(())
            }
            Some(b'[') => {
                self.at += 1;
                let element = to.begin_list(node, start);
                self.space();
                if self.peek() == Some(b']') {
                    self.at += 1;
                } else {
                    if to.is_ids(element) {
                        self.ids(to, element);
                    }
                    loop {
                        self.space();
                        if self.peek() == Some(b']') {
                            break self.at += 1;
                        }
                        self.value(to, element, depth + 1)?;
                        self.space();
                        match self.peek() {
                            Some(b',') => self.at += 1,
                            Some(b']') => (),
                            _ => return self.bad("not JSON here"),
                        }
                    }
                }
                to.end_list(element);
                Ok(())
            }
            Some(b'"') => {
                let text = self.string()?;
                if std::str::from_utf8(&text).is_err() {
                    to.fact(Kind::Spelling, node, start, "a string that is not UTF-8");
                }
                to.text(node, &text, start);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(to, node),
            Some(b't') => self.word(b"true").map(|()| to.boolean(node, start)),
            Some(b'f') => self.word(b"false").map(|()| to.boolean(node, start)),
            Some(b'n') => self.word(b"null").map(|()| to.null(node)),
            _ => self.bad("not JSON here"),
        }
    }

    /// Small integers, separated by commas: the bulk of every trace. Stops before anything else.
    fn ids(&mut self, to: &mut Collector<'_, '_>, element: usize) {
        let ids = to.ids_mut();
        let from = ids.len();
        let mut rest = self.bytes.get(self.at..).unwrap_or_default();
        'numbers: loop {
            let trimmed = rest.strip_prefix(b" ").unwrap_or(rest);
            let mut value = 0u64;
            for (digits, byte) in trimmed.iter().enumerate() {
                match byte {
                    b'0'..=b'9' if digits < 18 && (digits != 1 || value > 0) => {
                        value = value * 10 + u64::from(byte - b'0');
                    }
                    b',' if digits > 0 => {
                        ids.push(value);
                        rest = trimmed.get(digits + 1..).unwrap_or_default();
                        continue 'numbers;
                    }
                    b']' if digits > 0 => {
                        ids.push(value);
                        rest = trimmed.get(digits..).unwrap_or_default();
                        break 'numbers;
                    }
                    _ => break 'numbers,
                }
            }
            break;
        }
        self.at = self.bytes.len() - rest.len();
        to.ids_added(element, from);
    }

    fn word(&mut self, word: &[u8]) -> Step {
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(());
        }
        self.bad("not JSON here")
    }

    /// The extent of a number, after checking its grammar.
    fn extent(&mut self) -> Step<&'b str> {
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

    fn number(&mut self, to: &mut Collector<'_, '_>, node: usize) -> Step {
        let start = Some(self.at);
        let text = self.extent()?;
        if let Ok(value) = text.parse::<i64>() {
            to.int(node, value, false, start);
        } else if let Ok(value) = text.parse::<u64>() {
            to.int(node, value.cast_signed(), true, start);
        } else {
            if text.bytes().filter(u8::is_ascii_digit).count() > 20 {
                to.fact(Kind::Domain, node, start, "a number with more digits than a number of 64 bits has");
            }
            to.float(node, text.parse().unwrap_or(f64::INFINITY), start);
        }
        Ok(())
    }

    /// A string with its escapes resolved; lone surrogates come out as bytes that are not UTF-8.
    fn string(&mut self) -> Step<Cow<'b, [u8]>> {
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
                Some(byte @ (b'"' | b'\\' | b'/')) => all.push(byte),
                Some(b'u') => {
                    let mut code = self.hex()?;
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

    fn hex(&mut self) -> Step<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let code =
            digits.filter(|digits| !digits.starts_with('+')).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += 4;
        code.map_or_else(|| self.bad("an escape that is not JSON"), Ok)
    }

    /// Skips a value.
    fn skip(&mut self, depth: usize) -> Step {
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
