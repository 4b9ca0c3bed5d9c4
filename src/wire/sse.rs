//! Server-sent events, read piece by piece.
//!
//! Invariant: the same bytes give the same events, however they are cut into pieces.

/// One event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event:` field; empty where the stream has none.
    pub name: &'a [u8],
    /// The `data:` lines, joined by newlines.
    pub data: &'a [u8],
}

/// Reads a stream of events.
#[derive(Default)]
pub struct Sse {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    begun: bool,
}

impl Sse {
    /// A reader at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes, and calls `each` for every event that is whole.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Event<'_>)) {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.line.extend_from_slice(line);
            self.end_line(&mut each);
            bytes = match rest {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.line.extend_from_slice(bytes);
    }

    /// Reads an event that the stream did not close with an empty line, as recorders that trim leave it.
    pub fn finish(&mut self, mut each: impl FnMut(Event<'_>)) {
        if !self.line.is_empty() {
            self.end_line(&mut each);
        }
        self.dispatch(&mut each);
    }

    fn end_line(&mut self, each: &mut impl FnMut(Event<'_>)) {
        let line = std::mem::take(&mut self.line);
        let text = if self.begun { &line[..] } else { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line) };
        self.begun = true;
        if text.is_empty() {
            self.dispatch(each);
        } else {
            let colon = memchr::memchr(b':', text).unwrap_or(text.len());
            let (field, value) = text.split_at(colon);
            let value = value.strip_prefix(b":").unwrap_or(value);
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"event" => self.name = value.to_vec(),
                b"data" => {
                    if self.has_data {
                        self.data.push(b'\n');
                    }
                    self.has_data = true;
                    self.data.extend_from_slice(value);
                }
                _ => {}
            }
        }
        self.line = line;
        self.line.clear();
    }

    fn dispatch(&mut self, each: &mut impl FnMut(Event<'_>)) {
        if self.has_data {
            each(Event { name: &self.name, data: &self.data });
        }
        self.name.clear();
        self.data.clear();
        self.has_data = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let (mut sse, mut events) = (Sse::new(), Vec::new());
        let mut keep = |event: Event<'_>| events.push((event.name.to_vec(), event.data.to_vec()));
        pieces.into_iter().for_each(|piece| sse.push(piece, &mut keep));
        sse.finish(&mut keep);
        events
    }

    #[test]
    fn names_data_comments_and_line_ends_are_told_apart() {
        let events = read([
            &b"\xEF\xBB\xBFevent: a\r\ndata: 1\r\ndata:2\r\n\r\n: comment\ndata\n\nevent: lost\n\ndata: open"[..],
        ]);
        let expect = [(&b"a"[..], &b"1\n2"[..]), (b"", b""), (b"", b"open")];
        assert_eq!(events, expect.map(|(name, data)| (name.to_vec(), data.to_vec())));
    }

    proptest! {
        #[test]
        fn any_chunking_gives_the_same_events(text in "(event: ?[ab]|data: ?[xy:]{0,3}|:c|\n|\r\n|\r|\u{FEFF}| |z){0,40}", cuts in prop::collection::vec(0usize..200, 0..12)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(read(pieces), read([bytes]));
        }
    }
}
