//! Logs of JSON objects in whatever wrapping: one a line, arrays on lines, or one document that holds them in a list.
//!
//! Invariant: one broken object loses only itself, as long as its brackets and quotes pair; no more than the limit of a record is
//! held of a line, or of a document.

use std::collections::VecDeque;
use std::io::Read;

use super::exchange::{Exchange, LogError, Position, SkipReason};
use super::json::after_string;
use super::lines::Lines;
use super::reader::Limits;
use super::text::Text;

/// Parses one object. A reason of `Truncated` means: not whole JSON.
pub(super) type Parse = Box<dyn FnMut(&str, Position, Limits) -> Result<Vec<Exchange>, SkipReason> + Send>;

/// The objects of a log, each parsed into the exchanges that it completes.
pub(super) struct Objects {
    lines: Lines,
    /// The key of the list that a document may hold its objects in.
    list: &'static str,
    parse: Parse,
    limits: Limits,
    input: u32,
    record: u64,
    /// Objects are on lines of their own; none until the first line is seen.
    by_line: Option<bool>,
    ready: VecDeque<Result<Exchange, LogError>>,
}

impl Objects {
    /// The objects of `source`, which may stand in a list under the key `list`.
    pub(super) fn new(
        source: Box<dyn Read + Send>,
        limits: Limits,
        input: u32,
        list: &'static str,
        parse: Parse,
    ) -> Self {
        let lines = Lines::new(source, limits.record_bytes, input);
        Self { lines, list, parse, limits, input, record: 0, by_line: None, ready: VecDeque::new() }
    }

    /// The next line, or the whole document: its text, where it begins, and whether the input ends in it.
    fn next_text(&mut self) -> Option<Result<(Text, u64, bool), LogError>> {
        let line = match self.lines.next()? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let (mut text, offset, mut unended) = (line.bytes.to_vec(), line.position.offset, line.unended);
        // A document goes on behind a bracket, a comma or a colon; elsewhere it is a line that was cut.
        let goes_on = |text: &[u8]| !is_closed(text) && text.last().is_some_and(|last| b"[{,:".contains(last));
        let by_line = *self.by_line.get_or_insert_with(|| !goes_on(&text));
        if !by_line {
            while let Some(line) = self.lines.next() {
                match line {
                    Ok(line) => {
                        text.push(b'\n');
                        text.extend_from_slice(line.bytes);
                        unended = line.unended;
                        if u64::try_from(text.len()).is_ok_and(|length| length > self.limits.record_bytes) {
                            return Some(Err(LogError { position: line.position, reason: SkipReason::TooLarge }));
                        }
                    }
                    Err(error) => {
                        self.ready.push_back(Err(error));
                        break;
                    }
                }
            }
        }
        Some(Ok((Text::from(text), offset, unended || !by_line)))
    }

    fn take(&mut self, text: &[u8], offset: u64, unended: bool) {
        let mut found = Vec::new();
        match text.trim_ascii_start().first() {
            Some(b'[') => elements(text, after(text, b'['), b']', &mut found),
            _ => match member(text, self.list).filter(|start| text.get(*start) == Some(&b'[')) {
                Some(start) => elements(text, start + 1, b']', &mut found),
                None => found.push((0, text)),
            },
        }
        for (at, object) in found {
            self.record += 1;
            let offset = offset + u64::try_from(at).unwrap_or(0);
            let position = Position { input: self.input, record: self.record, offset };
            let parsed = match std::str::from_utf8(object) {
                Ok(object) => (self.parse)(object, position, self.limits),
                Err(error) if error.error_len().is_none() => Err(SkipReason::Truncated),
                Err(_) => Err(SkipReason::NotUtf8),
            };
            match parsed {
                Ok(exchanges) => self.ready.extend(exchanges.into_iter().map(Ok)),
                Err(reason) => {
                    let cut = unended && at + object.len() == text.len();
                    let reason = if reason == SkipReason::Truncated && !cut { SkipReason::Malformed } else { reason };
                    self.ready.push_back(Err(LogError { position, reason }));
                }
            }
        }
    }
}

impl Iterator for Objects {
    type Item = Result<Exchange, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            match self.next_text()? {
                Ok((text, offset, unended)) => self.take(text.as_bytes(), offset, unended),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Whether brackets that open in `text` close in it.
pub(super) fn is_closed(text: &[u8]) -> bool {
    let (mut depth, mut rest) = (0_i64, text);
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'"' => rest = after_string(tail),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    depth <= 0
}

/// The place behind the first `byte`.
fn after(text: &[u8], byte: u8) -> usize {
    memchr::memchr(byte, text).map_or(text.len(), |at| at + 1)
}

/// The place of the value of `key`, a key of the outermost object.
pub(super) fn member(text: &[u8], key: &str) -> Option<usize> {
    let (mut depth, mut rest) = (0_i64, text);
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'"' => {
                let end = after_string(tail);
                let string = tail.get(..(tail.len() - end.len()).saturating_sub(1)).unwrap_or_default();
                rest = end;
                if let Some(value) =
                    end.trim_ascii_start().strip_prefix(b":").filter(|_| depth == 1 && string == key.as_bytes())
                {
                    return Some(text.len() - value.trim_ascii_start().len());
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The elements of a list, or the members of an object, whose inside begins at `start` and ends at `close`, with their places. The
/// last one may be cut.
pub(super) fn elements<'a>(text: &'a [u8], start: usize, close: u8, found: &mut Vec<(usize, &'a [u8])>) {
    let (mut depth, mut begin) = (0_i64, start);
    let mut push = |from: usize, to: usize| {
        let element = text.get(from..to).unwrap_or_default();
        let inside = element.trim_ascii();
        if !inside.is_empty() {
            found.push((from + element.len() - element.trim_ascii_start().len(), inside));
        }
    };
    let mut rest = text.get(start..).unwrap_or_default();
    while let [byte, tail @ ..] = rest {
        let at = text.len() - rest.len();
        rest = tail;
        match byte {
            b'"' => rest = after_string(tail),
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => depth -= 1,
            _ if *byte == close => {
                push(begin, at);
                return;
            }
            b',' if depth == 0 => {
                push(begin, at);
                begin = at + 1;
            }
            _ => {}
        }
    }
    push(begin, text.len());
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Of each object: its offset and length, or why it was lost.
    fn objects(log: &str) -> Vec<Result<(u64, usize), SkipReason>> {
        let parse: Parse = Box::new(|object, position, limits| {
            let _: serde_json::Map<String, serde_json::Value> = super::super::json::parse(object, limits)?;
            let path = Text::from(object);
            Ok(vec![Exchange { position, path, ..Exchange::default() }])
        });
        Objects::new(Box::new(Cursor::new(log.to_owned())), Limits::default(), 0, "list", parse)
            .map(|item| {
                item.map(|exchange| (exchange.position.offset, exchange.path.as_bytes().len())).map_err(|e| e.reason)
            })
            .collect()
    }

    #[test]
    fn objects_are_found_in_every_wrapping() {
        for log in [
            "{\"a\":1}\n{\"b\":\"]},\"}",
            "[{\"a\":1},{\"b\":\"]},\"}]",
            "[{\"a\":1}]\n[{\"b\":\"]},\"}]\n",
            "{\"list\":[{\"a\":1},{\"b\":\"]},\"}],\"total\":2}",
            "{\n \"total\": 2,\n \"list\": [\n {\"a\":1},\n {\"b\":\"]},\"}\n ]\n}\n",
        ] {
            let lengths: Vec<_> = objects(log).into_iter().map(|object| object.map(|(_, length)| length)).collect();
            assert_eq!(lengths, [Ok(7), Ok(11)], "{log}");
        }
    }

    #[test]
    fn a_first_line_that_is_cut_loses_only_itself() {
        assert_eq!(
            objects("{\"a\":\"x\n{\"a\":1}\n{\"b\":2}\n"),
            [Err(SkipReason::Malformed), Ok((8, 7)), Ok((16, 7))]
        );
        assert_eq!(objects("\"a\":1}\n{\"b\":2}\n"), [Err(SkipReason::Malformed), Ok((7, 7))]);
    }

    #[test]
    fn a_broken_object_loses_only_itself() {
        let (malformed, truncated) = (Err(SkipReason::Malformed), Err(SkipReason::Truncated));
        assert_eq!(objects("{\"a\":1}\n{\"a\":\n{\"b\":2}"), [Ok((0, 7)), malformed, Ok((14, 7))]);
        assert_eq!(objects("[{\"a\":1},nul,{\"b\":2}]"), [Ok((1, 7)), malformed, Ok((13, 7))]);
        assert_eq!(objects("{\"a\":1}\n{\"b\":"), [Ok((0, 7)), truncated]);
        assert_eq!(objects("{\n\"list\":[{\"a\":1},\n{\"b\":"), [Ok((10, 7)), truncated]);
        assert_eq!(objects("[]"), []);
    }
}
