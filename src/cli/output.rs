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

#[cfg(test)]
mod tests {
    use super::*;

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
