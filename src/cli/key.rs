//! Key files: 64 hexadecimal digits that say which ids equal blocks get inside the converter.
//!
//! Invariant: a key lives only in memory that is erased, and in a file that nobody but its owner can read.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use zeroize::Zeroizing;

use super::exit::Hint;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// A key, erased when dropped.
pub type KeyBytes = Zeroizing<[u8; KEY_BYTES]>;

/// A new key from the operating system's random source.
pub fn fresh() -> anyhow::Result<KeyBytes> {
    let mut key = KeyBytes::default();
    getrandom::fill(key.as_mut()).context("the operating system gave no random bytes")?;
    Ok(key)
}

/// Reads a key file: 64 hexadecimal digits and at most one line end. Refused if anyone but its owner may read or write it.
pub fn read(path: &Path) -> anyhow::Result<KeyBytes> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("could not open the key file {shown}"))?;
    // Asked of the open file: the path may lead elsewhere a moment later.
    let mode = file.metadata().with_context(|| format!("could not look at the key file {shown}"))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(anyhow!("other users may read or write the key file {shown} (mode {mode:04o})"))
            .hint(format!("if nobody has read it: chmod 600 {shown}; else make a new one: tracecloak keygen"));
    }
    // As large as what is read, since a buffer that grows leaves copies behind.
    let mut digits = Zeroizing::new(Vec::with_capacity(4 * KEY_BYTES));
    file.take(3 * 32).read_to_end(&mut digits).with_context(|| format!("could not read the key file {shown}"))?;
    parse(&digits)
        .ok_or_else(|| anyhow!("the key file {shown} does not hold 64 hexadecimal digits"))
        .hint("make one with: tracecloak keygen")
}

/// The key as a key file holds it.
pub(super) fn render(key: &KeyBytes) -> Zeroizing<Vec<u8>> {
    let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
    let mut line = Zeroizing::new(Vec::with_capacity(2 * KEY_BYTES + 1));
    line.extend(key.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
    line.push(b'\n');
    line
}

fn parse(line: &[u8]) -> Option<KeyBytes> {
    let digits = line.strip_suffix(b"\n").unwrap_or(line);
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    let value = |digit: u8| u8::try_from(char::from(digit).to_digit(16)?).ok();
    let mut key = KeyBytes::default();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().try_fold(0, |byte, &digit| Some(byte << 4 | value(digit)?))?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read_back(content: &[u8], mode: u32) -> anyhow::Result<KeyBytes> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        read(&path)
    }

    #[test]
    fn a_key_reads_back_as_it_was_written() {
        let key = fresh().unwrap();
        assert_eq!(read_back(&render(&key), 0o600).unwrap(), key);
        assert_ne!(fresh().unwrap(), key);
    }

    #[test]
    fn digits_may_be_upper_case_and_end_in_any_line_end() {
        let key = [0xAB; KEY_BYTES];
        for end in ["", "\n", "\r\n"] {
            assert_eq!(*read_back(("aB".repeat(KEY_BYTES) + end).as_bytes(), 0o400).unwrap(), key);
        }
    }

    #[test]
    fn a_key_that_others_can_read_or_write_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o644] {
            let error = read_back(&render(&fresh().unwrap()), mode).unwrap_err().to_string();
            assert!(error.contains(&format!("mode 0{mode:o}")), "{error}");
        }
    }

    #[test]
    fn anything_else_is_refused_without_being_quoted() {
        for content in
            ["", "secret", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"a\n".repeat(32), &"a".repeat(9999)]
        {
            let error = read_back(content.as_bytes(), 0o600).unwrap_err().to_string();
            assert!(error.ends_with("does not hold 64 hexadecimal digits"), "{error}");
        }
    }
}
