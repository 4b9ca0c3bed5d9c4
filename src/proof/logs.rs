//! Checking whole logs: every input is read twice, as raw bytes and by its parser, and looked at by several threads.
//!
//! Invariant: memory is bounded: a few chunks and a few exchanges are under way; each is erased once it was looked at.

use std::io::{BufRead, BufReader, Read};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use zeroize::{Zeroize, Zeroizing};

use super::source::{Coverage, Scanner, SourceCheck, SourceReport, Tokens};
use super::{ProofError, Residual, closure};
use crate::capture::{self, Exchange, Input, Inputs, Limits, OpenError};

/// Longest line whose strings are put together.
const LINE: u64 = 64 << 20;

/// Bytes of a chunk.
const CHUNK: usize = 512 << 10;

enum Work {
    /// Raw bytes, of which so many are new.
    Raw(Zeroizing<Vec<u8>>, usize),
    Exchange(Box<Exchange>),
    Text(Zeroizing<Vec<u8>>),
}

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
    let (send, receive) = sync_channel(threads.max(1));
    let receive = &Mutex::new(receive);
    let (raw, parsed) = thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(move || work(scanner, receive));
        }
        let parser = send.clone();
        let parsed = scope.spawn(move || each(inputs, |input, coverage| parse(input, &parser, coverage)));
        let mut seen = 0;
        let raw = each(inputs, |input, coverage| {
            let read = read(input, scanner.overlap(), &send, &mut |bytes| {
                seen += bytes;
                progress(seen);
            });
            coverage.skipped_inputs += u64::from(read.is_none());
        });
        drop(send);
        (raw, parsed.join().unwrap_or_default())
    });
    let mut report = check.finish();
    report.coverage.skipped_inputs = raw.skipped_inputs;
    report.coverage.unread_records = parsed.unread_records;
    report.coverage.unknown_inputs = parsed.unknown_inputs;
    report.complete &= raw.skipped_inputs == 0 && parsed.unknown_inputs == 0;
    Ok(report)
}

fn each(inputs: &Inputs, mut look: impl FnMut(&Input, &mut Coverage)) -> Coverage {
    let mut coverage = Coverage::default();
    inputs.list().iter().for_each(|input| look(input, &mut coverage));
    coverage
}

/// Hands out the raw bytes of an input, in chunks that overlap; none if it cannot be read to its end.
fn read(input: &Input, overlap: usize, send: &SyncSender<Work>, seen: &mut dyn FnMut(u64)) -> Option<()> {
    let mut source = input.can_reopen().then(|| input.decompressed().ok()).flatten()?;
    let mut tail = Zeroizing::new(Vec::new());
    loop {
        let mut chunk = Zeroizing::new(Vec::with_capacity(CHUNK + overlap));
        chunk.extend_from_slice(&tail);
        let read = source.by_ref().take(u64::try_from(CHUNK).ok()?).read_to_end(&mut chunk);
        let new = chunk.len() - tail.len();
        tail.zeroize();
        tail.extend_from_slice(chunk.get(chunk.len().saturating_sub(overlap)..).unwrap_or_default());
        send.send(Work::Raw(chunk, new)).ok()?;
        seen(u64::try_from(new).unwrap_or(0));
        match read {
            Ok(length) if length > 0 => {}
            Ok(_) => return Some(()),
            Err(_) => return None,
        }
    }
}

/// Hands out the exchanges of an input.
fn parse(input: &Input, send: &SyncSender<Work>, coverage: &mut Coverage) {
    if !input.can_reopen() {
        return;
    }
    match capture::open(input, Limits::default()) {
        Ok((_, records)) => {
            for record in records {
                match record {
                    Ok(exchange) => drop(send.send(Work::Exchange(Box::new(exchange)))),
                    Err(_) => coverage.unread_records += 1,
                }
            }
        }
        // There is no string in it.
        Err(OpenError::Empty { .. }) => {}
        Err(_) => {
            coverage.unknown_inputs += 1;
            // Its strings can be hashed all the same, but what it has cut in pieces is not put together.
            if let Ok(source) = input.decompressed() {
                strings(source, send);
            }
        }
    }
}

/// Hands out the strings of JSON, line by line, without knowing what they are.
fn strings(source: impl Read, send: &SyncSender<Work>) {
    let mut source = BufReader::new(source);
    let mut line = Zeroizing::new(Vec::new());
    while source.by_ref().take(LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let mut rest = line.as_slice();
        while let Some(at) = memchr::memchr(b'"', rest) {
            let (string, after) = closure::string(rest.get(at + 1..).unwrap_or_default());
            let mut text = Zeroizing::new(Vec::with_capacity(string.len()));
            closure::unescape(string, &mut text);
            drop(send.send(Work::Text(text)));
            rest = after;
        }
        line.zeroize();
    }
}

fn work(scanner: &Scanner<'_>, receive: &Mutex<Receiver<Work>>) {
    loop {
        let next = receive.lock().ok().and_then(|receive| receive.recv().ok());
        match next {
            Some(Work::Raw(bytes, new)) => scanner.raw(&bytes, new),
            Some(Work::Exchange(exchange)) => scanner.exchange(&exchange),
            Some(Work::Text(text)) => scanner.text(&text, 0),
            None => return,
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
        let seen = std::sync::atomic::AtomicU64::new(0);
        let report = check_logs(&inputs, &residual, 16, None, 2, &|bytes| {
            seen.store(bytes, std::sync::atomic::Ordering::Relaxed);
        })
        .unwrap();
        assert_eq!(report.windows.len(), 1);
        assert_eq!(report.coverage.bytes, log.len() as u64);
        assert_eq!(seen.into_inner(), log.len() as u64);
    }
}
