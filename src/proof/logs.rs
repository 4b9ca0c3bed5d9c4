//! Checking whole logs: each is looked at as raw bytes while its parser reads it, and what the parser makes of it by other threads.
//!
//! Invariant: memory is bounded: a few exchanges are under way; each is erased once it was looked at.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use zeroize::{Zeroize, Zeroizing};

use super::index::Index;
use super::source::{Coverage, Scanner, SourceCheck, SourceReport, Stream, Tokens};
use super::{ProofError, Residual, closure, strings};
use crate::capture::{self, Body, Exchange, Input, Inputs, Limits, OpenError};

/// Longest line whose strings are put together.
const LINE: u64 = 64 << 20;

/// Bytes of a chunk.
const CHUNK: usize = 512 << 10;

/// Bytes of bodies that are kept to skip what is known, over all inputs that are read at once.
const KEPT: usize = 128 << 20;

enum Work {
    Exchanges(Vec<Exchange>),
    /// Bytes that were seen as they are.
    Escaped(Zeroizing<Vec<u8>>),
    Text(Zeroizing<Vec<u8>>),
}

/// Takes what is to be looked at, here or on another thread.
type Hand<'h> = &'h dyn Fn(Work);

/// Compares a residual with logs, over `threads` threads. `progress` is told how many raw bytes were looked at so far.
/// Inputs that can't be read again (stdin, pipes) are skipped: the source check was then not run on them, and the report is
/// not complete.
///
/// # Errors
/// If the residual cannot be read. An input that cannot be read is skipped.
pub fn check_logs(
    inputs: &Inputs,
    residual: &Residual,
    k: usize,
    tokens: Option<Tokens<'_>>,
    threads: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<SourceReport, ProofError> {
    let check = SourceCheck::new(residual, k, tokens)?;
    let scanner = &check.scanner;
    let readers = threads.min(inputs.list().len());
    let reading = &Reading { inputs, next: AtomicUsize::new(0), seen: AtomicU64::new(0), kept: KEPT / readers.max(1) };
    let read = if threads < 2 {
        // Nothing is gained by handing anything over.
        vec![Some(reading.run(scanner, &|work| look(scanner, &work), progress))]
    } else {
        let (send, receive) = sync_channel(threads);
        let receive = &Mutex::new(receive);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(move || work(scanner, receive));
            }
            let read = |send: SyncSender<Work>| {
                scope.spawn(move || reading.run(scanner, &|work| drop(send.send(work)), progress))
            };
            let readers: Vec<_> = (0..readers).map(|_| read(send.clone())).collect();
            drop(send);
            readers.into_iter().map(|reader| reader.join().ok()).collect()
        })
    };
    let mut report = check.finish();
    for read in read {
        // A reader that fell over may have left anything out.
        report.complete &= read.is_some();
        let read = read.unwrap_or_default();
        report.coverage.skipped_inputs += read.skipped_inputs;
        report.coverage.unread_records += read.unread_records;
        report.coverage.unknown_inputs += read.unknown_inputs;
    }
    report.complete &= report.coverage.skipped_inputs == 0 && report.coverage.unknown_inputs == 0;
    Ok(report)
}

/// The inputs, which several threads take one after another.
struct Reading<'a> {
    inputs: &'a Inputs,
    next: AtomicUsize,
    /// Raw bytes.
    seen: AtomicU64,
    /// Bytes of bodies that each keeps.
    kept: usize,
}

impl Reading<'_> {
    fn run(&self, scanner: &Scanner<'_>, hand: Hand<'_>, progress: &dyn Fn(u64)) -> Coverage {
        let mut coverage = Coverage::default();
        while let Some(input) = self.inputs.list().get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if !input.can_reopen() {
                coverage.skipped_inputs += 1;
                continue;
            }
            let mut known = 0;
            let mut tell = |seen: u64| {
                let new = seen.saturating_sub(known);
                known = known.max(seen);
                scanner.seen(usize::try_from(new).unwrap_or(0));
                progress(self.seen.fetch_add(new, Ordering::Relaxed) + new);
            };
            let whole = self.input(input, scanner, hand, &mut coverage, &mut tell);
            coverage.skipped_inputs += u64::from(whole.is_none());
        }
        coverage
    }

    /// Reads an input, with its parser if it has one; none if it cannot be read to its end.
    fn input(
        &self,
        input: &Input,
        scanner: &Scanner<'_>,
        hand: Hand<'_>,
        coverage: &mut Coverage,
        tell: &mut dyn FnMut(u64),
    ) -> Option<()> {
        let seen = Arc::new(Seen::default());
        let watched = |inner| -> Box<dyn Read + Send> { Box::new(Watched::new(inner, scanner, &seen)) };
        let limits = Limits { kept_bytes: self.kept, ..Limits::default() };
        match capture::open_through(input, limits, watched) {
            Ok((_, records)) => {
                let mut batch = Batch::default();
                for record in records {
                    match record {
                        Ok(exchange) => batch.push(exchange, hand),
                        Err(_) => coverage.unread_records += 1,
                    }
                    tell(seen.bytes());
                }
                batch.send(hand);
                // Some readers end before their input does; a database is read as pages.
                if !seen.ended() {
                    let from = seen.bytes();
                    rest(input, from, scanner, tell)?;
                }
                Some(())
            }
            // There is no string at its start.
            Err(OpenError::Empty { .. }) => {
                tell(seen.bytes());
                if seen.ended() { Some(()) } else { rest(input, seen.bytes(), scanner, tell) }
            }
            Err(_) => {
                // Its strings are looked at all the same, but what it has cut in pieces is not put together.
                let seen = Arc::new(Seen::default());
                let source = Watched::new(input.decompressed().ok()?, scanner, &seen);
                coverage.unknown_inputs += 1;
                escaped(source, strings::overlap(scanner.index.k()), hand, &mut || tell(seen.bytes()));
                if scanner.hashes() {
                    strings(input.decompressed().ok()?, hand);
                }
                tell(seen.bytes());
                seen.ended().then_some(())
            }
        }
    }
}

/// Looks at the raw bytes of an input from an offset on.
fn rest(input: &Input, from: u64, scanner: &Scanner<'_>, tell: &mut dyn FnMut(u64)) -> Option<()> {
    let mut source = input.decompressed().ok()?;
    let from = from.saturating_sub(u64::try_from(scanner.index.k()).unwrap_or(0));
    io::copy(&mut source.by_ref().take(from), &mut io::sink()).ok()?;
    let seen = Arc::new(Seen::default());
    let mut source = Watched::new(source, scanner, &seen);
    let mut chunk = Zeroizing::new(vec![0; CHUNK]);
    while source.read(&mut chunk).is_ok_and(|read| read > 0) {
        tell(from + seen.bytes());
    }
    seen.ended().then_some(())
}

/// What was seen of an input.
#[derive(Default)]
struct Seen {
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl Seen {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether that was all.
    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Looks at what is read through it.
struct Watched {
    inner: Box<dyn Read + Send>,
    index: Arc<Index>,
    stream: Stream,
    seen: Arc<Seen>,
}

impl Watched {
    fn new(inner: Box<dyn Read + Send>, scanner: &Scanner<'_>, seen: &Arc<Seen>) -> Self {
        Self { inner, index: Arc::clone(&scanner.index), stream: Stream::default(), seen: Arc::clone(seen) }
    }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let new = buffer.get(..length).unwrap_or_default();
        if new.is_empty() {
            self.seen.ended.fetch_or(!buffer.is_empty(), Ordering::Relaxed);
        } else {
            self.stream.feed(&self.index, new);
            self.seen.bytes.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
        }
        Ok(length)
    }
}

/// Exchanges that are handed out together.
#[derive(Default)]
struct Batch {
    exchanges: Vec<Exchange>,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, exchange: Exchange, hand: Hand<'_>) {
        if let Body::Bytes(body) = &exchange.body {
            self.bytes += body.len();
        }
        self.exchanges.push(exchange);
        if self.bytes >= CHUNK || self.exchanges.len() >= 256 {
            self.send(hand);
        }
    }

    fn send(&mut self, hand: Hand<'_>) {
        self.bytes = 0;
        hand(Work::Exchanges(std::mem::take(&mut self.exchanges)));
    }
}

/// Hands out what is read, in chunks that overlap, to be looked at without its escapes.
fn escaped(mut source: impl Read, overlap: usize, hand: Hand<'_>, tell: &mut dyn FnMut()) {
    let mut tail = Zeroizing::new(Vec::new());
    loop {
        let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK + overlap));
        chunk.extend_from_slice(&tail);
        let read = source.by_ref().take(u64::try_from(CHUNK).unwrap_or(0)).read_to_end(&mut chunk);
        tail.zeroize();
        tail.extend_from_slice(chunk.get(chunk.len().saturating_sub(overlap)..).unwrap_or_default());
        tell();
        if memchr::memchr(b'\\', &chunk).is_some() {
            hand(Work::Escaped(chunk));
        }
        if !read.is_ok_and(|read| read > 0) {
            return;
        }
    }
}

/// Hands out the strings of JSON, line by line, without knowing what they are.
fn strings(source: impl Read, hand: Hand<'_>) {
    let mut source = BufReader::new(source);
    let mut line = Zeroizing::new(Vec::new());
    while source.by_ref().take(LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let mut rest = line.as_slice();
        while let Some(at) = memchr::memchr(b'"', rest) {
            let (string, after) = closure::string(rest.get(at + 1..).unwrap_or_default());
            let mut text = Zeroizing::new(Vec::with_capacity(string.len()));
            closure::unescape(string, &mut text);
            hand(Work::Text(text));
            rest = after;
        }
        line.zeroize();
    }
}

fn work(scanner: &Scanner<'_>, receive: &Mutex<Receiver<Work>>) {
    loop {
        let next = receive.lock().ok().and_then(|receive| receive.recv().ok());
        let Some(work) = next else { return };
        look(scanner, &work);
    }
}

fn look(scanner: &Scanner<'_>, work: &Work) {
    match work {
        Work::Exchanges(exchanges) => exchanges.iter().for_each(|exchange| scanner.exchange(exchange)),
        Work::Escaped(bytes) => scanner.unescaped(bytes),
        Work::Text(text) => {
            scanner.text(text);
            scanner.unescaped(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_logs_is_read_as_bytes_and_as_strings() {
        let folder = tempfile::tempdir().unwrap();
        let record = r#"{"tracecloak_capture":1,"method":"POST","path":"/v1/messages","start_us":1,"body":"{\"a\":\"the tides of\\nMarch\"}"}"#;
        std::fs::write(folder.path().join("a.jsonl"), format!("{record}\nnot json, but text of the log\n")).unwrap();
        std::fs::write(folder.path().join("b.jsonl.zst"), zstd::encode_all(record.as_bytes(), 3).unwrap()).unwrap();
        std::fs::write(folder.path().join("c.txt"), "of no known format").unwrap();
        let mut residual = Residual::new();
        residual.push("one", b"> the tides of\nMarch".to_vec());
        residual.push("two", b"> but text of the log".to_vec());
        residual.push("three", b"of no known format".to_vec());
        let inputs = Inputs::expand(&[folder.path().to_path_buf(), "-".into()]).unwrap();
        let report = check_logs(&inputs, &residual, 12, None, 2, &|_| {}).unwrap();
        let found: Vec<_> = report.windows.iter().map(|found| (&*found.place, found.offset, found.length)).collect();
        assert_eq!(found, [("one", 2, 18), ("two", 1, 20), ("three", 0, 18)]);
        assert_eq!(
            (report.coverage.exchanges, report.coverage.unread_records, report.coverage.unknown_inputs),
            (2, 1, 1)
        );
        assert_eq!((report.coverage.skipped_inputs, report.complete), (1, false));
    }

    #[test]
    fn a_long_source_is_read_over_the_seams_of_its_chunks() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = vec![b'\n'; CHUNK * 2 + 100];
        log[CHUNK - 9..CHUNK + 9].copy_from_slice(b"across a long seam");
        std::fs::write(folder.path().join("a.jsonl"), &log).unwrap();
        let mut residual = Residual::new();
        residual.push("one", b"across a long seam".to_vec());
        let inputs = Inputs::expand(&[folder.path()]).unwrap();
        let seen = AtomicU64::new(0);
        let report = check_logs(&inputs, &residual, 16, None, 2, &|bytes| {
            seen.store(bytes, Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(report.windows.len(), 1);
        assert_eq!(report.coverage.bytes, log.len() as u64);
        assert_eq!(seen.into_inner(), log.len() as u64);
    }
}
