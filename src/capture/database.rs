//! SQLite databases, opened so that nothing is written: not the database, not a journal, not a copy on disk.
//!
//! Invariant: a database without a write-ahead log is opened as immutable; one with a log is read into memory, where the log's
//! committed pages are laid over it. A log that is half written gives what was committed before.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, ToSql};

use super::exchange::SkipReason;

/// What every database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// A database in memory is refused above this size.
const MEMORY: u64 = 8 << 30;

/// An open database.
pub struct Database(Connection);

/// Whether bytes begin like a database.
pub(super) fn is_database(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

impl Database {
    /// Opens the database at `path` whose bytes are also at hand, where it is a plain file; else the bytes alone.
    pub(super) fn open(path: Option<&Path>, mut bytes: impl Read) -> io::Result<Self> {
        let log = path.map(|path| beside(path, "-wal")).and_then(|log| std::fs::read(log).ok()).unwrap_or_default();
        let opened = if let Some(path) = path.filter(|_| log.is_empty()) {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(uri(path), flags)
        } else {
            let mut image = Vec::new();
            bytes.by_ref().take(MEMORY).read_to_end(&mut image)?;
            lay_over(&mut image, &log);
            Connection::open_in_memory().and_then(|mut connection| {
                let size = image.len();
                connection.deserialize_read_exact("main", image.as_slice(), size, true)?;
                Ok(connection)
            })
        };
        // Of SQLite's messages nothing is kept: some quote what they read.
        opened.map(Self).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// Whether it has a table with these columns.
    pub(super) fn has(&self, table: &str, columns: &[&str]) -> bool {
        let query = format!("SELECT {} FROM {table} LIMIT 0", columns.join(","));
        self.0.prepare(&query).is_ok()
    }

    /// The row ids that a query gives.
    pub(super) fn rows(&self, query: &str) -> Result<Vec<i64>, SkipReason> {
        let mut statement = self.0.prepare(query).map_err(|_| SkipReason::Malformed)?;
        let mut rows = statement.query([]).map_err(|_| SkipReason::Malformed)?;
        let mut ids = Vec::new();
        loop {
            match rows.next() {
                Ok(Some(row)) => ids.extend(row.get::<_, i64>(0).ok()),
                Ok(None) => return Ok(ids),
                // A broken page ends the scan; what came before is kept.
                Err(_) if !ids.is_empty() => return Ok(ids),
                Err(_) => return Err(SkipReason::Malformed),
            }
        }
    }

    /// The only row of a query.
    pub(super) fn one<T>(
        &self,
        query: &str,
        parameters: &[&dyn ToSql],
        read: impl FnOnce(&Row) -> rusqlite::Result<T>,
    ) -> Result<T, SkipReason> {
        let mut statement = self.0.prepare(query).map_err(|_| SkipReason::Malformed)?;
        statement.query_row(parameters, read).map_err(|_| SkipReason::Malformed)
    }
}

/// The path with more at its end.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

/// An immutable file: SQLite then takes no lock and makes no file beside it.
fn uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(char::from(*byte)),
            byte => {
                write!(uri, "%{byte:02X}").ok();
            }
        }
    }
    uri + "?mode=ro&immutable=1"
}

/// Lays the committed pages of a write-ahead log over a database, and marks it as one without a log.
fn lay_over(image: &mut Vec<u8>, log: &[u8]) {
    let header = log.get(..32).filter(|header| number(header, 0).is_some_and(|magic| magic & !1 == 0x377f_0682));
    if let Some(header) = header {
        apply(image, header, log);
    }
    // Bytes 18 and 19: the versions of the format that writing and reading need; 2 is a log, 1 is none.
    if let Some(versions) = image.get_mut(18..20) {
        versions.fill(1);
    }
}

fn apply(image: &mut Vec<u8>, header: &[u8], log: &[u8]) {
    let big_endian = number(header, 0).is_some_and(|magic| magic & 1 == 1);
    let size =
        number(header, 8).and_then(|size| usize::try_from(size).ok()).filter(|size| (512..=65_536).contains(size));
    let (Some(size), Some(sum)) = (size, header.get(..24)) else { return };
    let mut sums = checksum(sum, (0, 0), big_endian);
    if number(header, 24) != Some(sums.0) || number(header, 28) != Some(sums.1) {
        return;
    }
    let mut pending: Vec<(usize, &[u8])> = Vec::new();
    for frame in log.get(32..).unwrap_or_default().chunks_exact(24 + size) {
        let (head, page) = frame.split_at_checked(24).unwrap_or_default();
        let salted = head.get(8..16) == header.get(16..24);
        sums = checksum(page, checksum(head.get(..8).unwrap_or_default(), sums, big_endian), big_endian);
        if !salted || number(head, 16) != Some(sums.0) || number(head, 20) != Some(sums.1) {
            return;
        }
        let place = number(head, 0).and_then(|page| usize::try_from(page).ok()).unwrap_or(0);
        pending.push((place.saturating_sub(1).saturating_mul(size), page));
        let pages = number(head, 4).and_then(|pages| usize::try_from(pages).ok()).unwrap_or(0);
        if pages > 0 {
            image.resize(pages.saturating_mul(size), 0);
            for (place, page) in pending.drain(..) {
                if let Some(old) = image.get_mut(place..place.saturating_add(size)) {
                    old.copy_from_slice(page);
                }
            }
        }
    }
}

/// The checksum of a log, over words in pairs.
fn checksum(bytes: &[u8], before: (u32, u32), big_endian: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| {
        let bytes = bytes.try_into().unwrap_or_default();
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    bytes.chunks_exact(8).fold(before, |(one, two), pair| {
        let (first, second) = pair.split_at_checked(4).unwrap_or_default();
        let one = one.wrapping_add(word(first)).wrapping_add(two);
        (one, two.wrapping_add(word(second)).wrapping_add(one))
    })
}

/// A big-endian word.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A database with a log that was not written back, as a killed process leaves it: rows 1 to 3, each committed by itself.
    fn left() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let live = folder.path().join("live");
        let connection = Connection::open(&live).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.execute_batch("CREATE TABLE t (a TEXT)").unwrap();
        for text in ["one", "two", "three"] {
            connection.execute("INSERT INTO t VALUES (?1)", [text]).unwrap();
        }
        let copy = folder.path().join("a b%.db");
        fs::copy(&live, &copy).unwrap();
        fs::copy(beside(&live, "-wal"), beside(&copy, "-wal")).unwrap();
        (folder, copy)
    }

    fn count(path: &Path) -> Option<usize> {
        Database::open(Some(path), fs::File::open(path).unwrap())
            .ok()?
            .rows("SELECT rowid FROM t")
            .ok()
            .map(|rows| rows.len())
    }

    #[test]
    fn the_log_counts_and_nothing_is_touched() {
        let (folder, path) = left();
        let files = || {
            let mut files: Vec<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            files.sort();
            files
        };
        let (before, bytes) = (files(), (fs::read(&path).unwrap(), fs::read(beside(&path, "-wal")).unwrap()));
        assert_eq!(count(&path), Some(3));
        fs::remove_file(beside(&path, "-wal")).unwrap();
        assert_eq!(count(&path), None, "everything was in the log");
        fs::write(beside(&path, "-wal"), &bytes.1).unwrap();
        assert_eq!((files(), fs::read(&path).unwrap()), (before, bytes.0));
    }

    #[test]
    fn a_half_written_log_gives_what_was_committed_before() {
        let (_folder, path) = left();
        let log = fs::read(beside(&path, "-wal")).unwrap();
        let mut seen = Vec::new();
        for end in (0..=log.len()).step_by(997).chain([log.len()]) {
            fs::write(beside(&path, "-wal"), &log[..end]).unwrap();
            seen.push(count(&path).unwrap_or(0));
        }
        assert!(seen.is_sorted() && seen.last() == Some(&3) && seen.contains(&2));
        let mut broken = log;
        let at = broken.len() - 9;
        broken[at] ^= 1;
        fs::write(beside(&path, "-wal"), broken).unwrap();
        assert_eq!(count(&path), Some(2), "the last frame fails its checksum");
    }

    #[test]
    fn a_database_is_opened_in_place_or_from_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plain?#.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
        assert_eq!(count(&path), Some(1));
        let database = Database::open(None, fs::File::open(&path).unwrap()).ok().unwrap();
        assert!(database.has("t", &["a"]) && !database.has("t", &["b"]) && !database.has("u", &["a"]));
    }
}
