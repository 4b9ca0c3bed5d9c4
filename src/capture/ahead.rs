//! Working ahead: what comes next is read on a thread of its own, while what came before is worked on.
//!
//! Invariant: the order stays; no more than a few pieces are under way; if the other thread panics, this one does.

use std::io::{self, ErrorKind, Read};
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{JoinHandle, spawn};

use super::exchange::{Body, Exchange, LogError, ResponseBody};
use super::reader::Records;
use super::text::{Erased, Text};

/// Pieces under way at most, beside the one being made and the one being used.
const DEPTH: usize = 2;

/// Bytes of a piece, about; a record that is larger is a piece of its own.
const PIECE: usize = 512 << 10;

/// Pieces that another thread makes, once one was full: a short input is not worth a thread.
struct Ahead<T, I> {
    pieces: Option<I>,
    is_full: fn(&T) -> bool,
    receive: Option<Receiver<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T, I: Iterator<Item = T>> Ahead<T, I> {
    fn new(pieces: I, is_full: fn(&T) -> bool) -> Self {
        Self { pieces: Some(pieces), is_full, receive: None, thread: None }
    }
}

impl<T: Send + 'static, I: Iterator<Item = T> + Send + 'static> Iterator for Ahead<T, I> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some(pieces) = &mut self.pieces {
            let piece = pieces.next()?;
            if (self.is_full)(&piece)
                && let Some(mut pieces) = self.pieces.take()
            {
                let (send, receive) = sync_channel(DEPTH);
                self.receive = Some(receive);
                self.thread = Some(spawn(move || while pieces.next().is_some_and(|piece| send.send(piece).is_ok()) {}));
            }
            return Some(piece);
        }
        let piece = self.receive.as_ref()?.recv().ok();
        if piece.is_none() {
            self.receive = None;
            if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
                resume_unwind(panic);
            }
        }
        piece
    }
}

impl<T, I> Drop for Ahead<T, I> {
    fn drop(&mut self) {
        // The other thread ends once nobody takes what it makes; its text is erased before this one goes on.
        self.receive = None;
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// The records of an input, read and parsed ahead.
pub fn ahead(records: Records) -> Records {
    Box::new(Ahead::new(Batches(records), |(_, full)| *full).flat_map(|(batch, _)| batch))
}

/// Records, and whether they are a full piece.
struct Batches(Records);

impl Iterator for Batches {
    type Item = (Vec<Result<Exchange, LogError>>, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < PIECE {
            let Some(record) = self.0.next() else { break };
            // Headers and the like are small, but not nothing.
            bytes += 4 << 10;
            bytes += record.as_ref().map_or(0, size);
            batch.push(record);
        }
        (!batch.is_empty()).then_some((batch, bytes >= PIECE))
    }
}

fn size(exchange: &Exchange) -> usize {
    let body = if let Body::Bytes(body) = &exchange.body { body.len() } else { 0 };
    let response = if let ResponseBody::Pieces(pieces) = &exchange.response { &pieces[..] } else { &[] };
    response.iter().map(|piece| piece.text.len()).fold(body, usize::saturating_add)
}

/// A reader whose bytes are read (and decompressed) ahead.
pub(super) struct ReadAhead<R> {
    chunks: Ahead<io::Result<Text>, Chunks<R>>,
    chunk: Text,
    at: usize,
}

impl<R: Read + Send + 'static> ReadAhead<R> {
    pub(super) fn new(inner: R) -> Self {
        let is_full = |chunk: &io::Result<Text>| chunk.as_ref().is_ok_and(|chunk| chunk.len() == PIECE);
        let chunks = Ahead::new(Chunks { reader: Some(inner), failed: None }, is_full);
        Self { chunks, chunk: Text::default(), at: 0 }
    }
}

impl<R: Read + Send + 'static> Read for ReadAhead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.chunk.len() {
            match self.chunks.next() {
                Some(chunk) => (self.chunk, self.at) = (chunk?, 0),
                None => return Ok(0),
            }
        }
        let length = self.chunk.as_bytes().get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += length;
        Ok(length)
    }
}

/// Full chunks of a reader, until it ends or fails.
struct Chunks<R> {
    reader: Option<R>,
    failed: Option<io::Error>,
}

impl<R: Read> Iterator for Chunks<R> {
    type Item = io::Result<Text>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(reader) = &mut self.reader else { return self.failed.take().map(Err) };
        let mut chunk = Erased::from(vec![0; PIECE]);
        let mut length = 0;
        while length < PIECE {
            match reader.read(chunk.as_mut().get_mut(length..).unwrap_or_default()) {
                Ok(0) => {
                    self.reader = None;
                    break;
                }
                Ok(read) => length += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    (self.reader, self.failed) = (None, Some(error));
                    break;
                }
            }
        }
        if length == 0 {
            return self.failed.take().map(Err);
        }
        chunk.as_mut().truncate(length);
        Some(Ok(Text::from(chunk)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fails;

    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::InvalidData.into())
        }
    }

    #[test]
    fn bytes_come_in_order_and_an_error_behind_them() {
        let long: Vec<u8> = (0..3 * PIECE + 17).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let mut out = Vec::new();
        ReadAhead::new(io::Cursor::new(long.clone())).read_to_end(&mut out).unwrap();
        assert!(out == long);
        let mut out = Vec::new();
        let error = ReadAhead::new(io::Cursor::new(long.clone()).chain(Fails)).read_to_end(&mut out).unwrap_err();
        assert!(out == long && error.kind() == ErrorKind::InvalidData);
    }

    #[test]
    fn who_stops_early_waits_for_nothing() {
        let mut endless = ReadAhead::new(io::repeat(b'a'));
        let mut first = [0; 3];
        endless.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"aaa");
        let record = || {
            Err(LogError {
                position: crate::capture::Position::default(),
                reason: crate::capture::SkipReason::Malformed,
            })
        };
        assert_eq!(ahead(Box::new(std::iter::repeat_with(record))).take(1000).count(), 1000);
    }

    #[test]
    fn a_panic_of_the_other_thread_is_not_the_end_of_the_input() {
        let panics = Ahead::new((0..3).map(|at| if at == 2 { std::panic::panic_any(7_u8) } else { at }), |_| true);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics.count()));
        assert_eq!(caught.unwrap_err().downcast_ref::<u8>(), Some(&7));
    }
}
