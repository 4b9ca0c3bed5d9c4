//! Standard output, for results.
//!
//! Invariant: a reader that has gone away (`| head`) is no error; a full disk is.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// Buffered stdout. Call `flush` at the end: a failure while dropping is lost.
#[derive(Debug)]
pub struct Stdout<W: Write = StdoutLock<'static>> {
    /// None once the reader has gone.
    writer: Option<BufWriter<W>>,
}

impl Stdout {
    /// Takes stdout.
    pub fn new() -> Self {
        Self::over(io::stdout().lock())
    }
}

impl Default for Stdout {
    fn default() -> Self {
        Self::new()
    }
}

impl<W: Write> Stdout<W> {
    fn over(writer: W) -> Self {
        Self { writer: Some(BufWriter::new(writer)) }
    }

    /// Whether the reader has gone, so that going on is of no use.
    pub fn is_closed(&self) -> bool {
        self.writer.is_none()
    }

    fn unless_closed<T>(&mut self, gone: T, act: impl FnOnce(&mut BufWriter<W>) -> io::Result<T>) -> io::Result<T> {
        match self.writer.as_mut().map_or(Err(ErrorKind::BrokenPipe.into()), act) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                // Not dropped but taken apart, since dropping it would try to write once more.
                self.writer.take().map(BufWriter::into_parts);
                Ok(gone)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Stdout<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), BufWriter::flush)
    }
}

/// A count with thousands separated.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in percent.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let permille = u128::from(part) * 1000 / u128::from(whole.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}

/// A size in the unit that fits.
pub(super) fn bytes(count: u64) -> String {
    indicatif::HumanBytes(count).to_string()
}

/// Milliseconds as seconds, minutes or hours.
pub(super) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}.{:02} s", milliseconds % 1000 / 10),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02} h", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_easily() {
        assert_eq!([number(0), number(999), number(1000), number(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([percent(1, 3), percent(0, 0), percent(5, 5)], ["33.3 %", "0.0 %", "100.0 %"]);
        assert_eq!([duration(1_230), duration(61_000), duration(3_661_000)], ["1.23 s", "1:01 min", "1:01:01 h"]);
    }

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let mut stdout = Stdout::over(Failing(ErrorKind::BrokenPipe));
        for _ in 0..3 {
            stdout.write_all(&[b'x'; 10_000]).unwrap();
            stdout.flush().unwrap();
        }
        assert!(stdout.is_closed());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut stdout = Stdout::over(Failing(ErrorKind::StorageFull));
        stdout.write_all(b"x").unwrap();
        assert_eq!(stdout.flush().unwrap_err().kind(), ErrorKind::StorageFull);
        assert!(!stdout.is_closed());
    }
}
