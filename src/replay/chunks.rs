//! [`Chunks`]: a body in pieces, so that what many requests say alike lies in memory once and is never copied.
//!
//! Invariant: the pieces, one behind the other, are the body; its length is known before the first is sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use serde::Serialize;

use super::prompt::Text;

/// Texts below this length are copied: a piece of its own costs more.
const SHARED: usize = 4096;

/// A body.
#[derive(Clone, Debug, Default)]
pub struct Chunks {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl Chunks {
    /// All of it.
    pub fn to_vec(&self) -> Vec<u8> {
        self.pieces.iter().flatten().copied().collect()
    }
}

impl From<String> for Chunks {
    fn from(whole: String) -> Self {
        let left = u64::try_from(whole.len()).unwrap_or(u64::MAX);
        Self { pieces: VecDeque::from([whole.into()]), left }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = this.pieces.pop_front();
        this.left -= piece.as_ref().map_or(0, |piece| u64::try_from(piece.len()).unwrap_or(0).min(this.left));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Writes a body of JSON.
#[derive(Default)]
pub(super) struct Writer {
    chunks: Chunks,
    open: Vec<u8>,
}

impl Writer {
    /// Adds these bytes as they are.
    pub(super) fn raw(&mut self, bytes: &str) {
        self.open.extend_from_slice(bytes.as_bytes());
    }

    /// Adds a value.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Option<()> {
        serde_json::to_writer(&mut self.open, value).ok()
    }

    /// Adds a text, in quotation marks. A long one that needs no escaping is shared, not copied.
    pub(super) fn text(&mut self, text: &Text) -> Option<()> {
        if !text.is_plain() {
            return self.json(&&**text);
        }
        self.open.push(b'"');
        if text.len() < SHARED {
            self.open.extend_from_slice(text.as_bytes());
        } else {
            self.close();
            self.put(text.bytes());
        }
        self.open.push(b'"');
        Some(())
    }

    /// Adds the members of an object behind those that are there, and ends the object.
    pub(super) fn rest(mut self, members: &impl Serialize) -> Option<Chunks> {
        let from = self.open.len();
        self.json(members)?;
        // An object without members would leave a comma.
        *self.open.get_mut(from).filter(|brace| **brace == b'{')? = b',';
        self.close();
        Some(self.chunks)
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            let open = std::mem::take(&mut self.open);
            self.put(open.into());
        }
    }

    fn put(&mut self, piece: Bytes) {
        self.chunks.left += u64::try_from(piece.len()).unwrap_or(0);
        self.chunks.pieces.push_back(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn written(texts: &[&str]) -> Chunks {
        let mut writer = Writer::default();
        writer.raw("{\"texts\":[");
        for (at, text) in texts.iter().enumerate() {
            writer.raw(if at > 0 { "," } else { "" });
            writer.text(&Text::from(*text)).unwrap();
        }
        writer.raw("]");
        writer.rest(&serde_json::json!({"n": 1})).unwrap()
    }

    #[tokio::test]
    async fn pieces_are_the_json_of_the_whole_and_their_length_is_told() {
        let long = "word ".repeat(2000);
        let texts = ["", "a", "a \"b\" \\ \n\u{1}\u{7f}", &long, &long, "é\u{2028}", &format!("{long}\t")];
        let chunks = written(&texts);
        assert!(chunks.pieces.len() > 3, "long ones are pieces of their own");
        let whole = chunks.to_vec();
        let read: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(read, serde_json::json!({"texts": texts, "n": 1}));
        assert_eq!(chunks.size_hint().exact(), Some(whole.len() as u64));
        assert_eq!(chunks.clone().collect().await.unwrap().to_bytes(), whole);
    }
}
