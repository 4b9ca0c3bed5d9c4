//! SQLite databases, opened so that nothing is written: not the database, not a journal, not a copy on disk.
//!
//! Invariant: a database without a write-ahead log is opened as immutable; one with a log is read into memory, where the log's
//! committed pages are laid over it. A log that is half written gives what was committed before.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row, ToSql};

use super::exchange::{Exchange, LogError, Position, SkipReason};
use super::reader::{Limits, Records};

/// What every database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// A database in memory is refused above this size.
const MEMORY: u64 = 8 << 30;

/// An open database.
pub struct Database {
    connection: Connection,
    /// The file is shorter than it says.
    cut: bool,
}

/// Reads a row of a table, by its row id.
pub(super) type ReadRow = fn(&Database, i64, Position, Limits) -> Result<Exchange, SkipReason>;

/// Whether bytes begin like a database.
pub(super) fn is_database(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

impl Database {
    /// Opens the database at `path` whose bytes are also at hand, where it is a plain file; else the bytes alone.
    pub(super) fn open(path: Option<&Path>, mut bytes: impl Read) -> io::Result<Self> {
        let read = |source: &mut dyn Read| {
            let mut all = Vec::new();
            source.take(MEMORY + 1).read_to_end(&mut all)?;
            if u64::try_from(all.len()).is_ok_and(|length| length <= MEMORY) { Ok(all) } else { Err(broken()) }
        };
        let log = path.and_then(|path| File::open(beside(path, "-wal")).ok());
        let log = log.map_or(Ok(Vec::new()), |mut log| read(&mut log))?;
        let in_place = path.filter(|path| log.is_empty() && !is_cut(path));
        let mut cut = false;
        let opened = if let Some(path) = in_place {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            Connection::open_with_flags(uri(path), flags)
        } else {
            let mut image = read(&mut bytes)?;
            lay_over(&mut image, &log);
            cut = shorten(&mut image);
            Connection::open_in_memory().and_then(|mut connection| {
                let size = image.len();
                connection.deserialize_read_exact("main", image.as_slice(), size, true)?;
                Ok(connection)
            })
        };
        // Of SQLite's messages nothing is kept: some quote what they read.
        opened.map(|connection| Self { connection, cut }).map_err(|_| broken())
    }

    /// Whether it has a table with these columns.
    pub(super) fn has(&self, table: &str, columns: &[&str]) -> bool {
        let query = format!("SELECT {} FROM {table} LIMIT 0", columns.join(","));
        self.connection.prepare(&query).is_ok()
    }

    /// The records of a table, each read by its row id. A page that is broken loses its rows, which are counted as one record.
    pub(super) fn records(self, table: &str, input: u32, read: ReadRow, limits: Limits) -> Records {
        let (rows, gaps) = self.rows(table);
        let reason = if self.cut { SkipReason::Truncated } else { SkipReason::Malformed };
        let rows = rows.into_iter().map(Some).chain((0..gaps).map(|_| None));
        Box::new((1..).zip(rows).map(move |(record, row)| {
            let position = Position { input, record, offset: 0 };
            let found = row.map_or(Err(reason), |row| read(&self, row, position, limits));
            found.map_err(|reason| LogError { position, reason })
        }))
    }

    /// The row ids of a table, and how often its pages could not be read.
    fn rows(&self, table: &str) -> (Vec<i64>, u32) {
        let (mut ids, mut gaps, mut after) = (Vec::new(), 0, 0);
        // By the table itself: an index has pages of its own, which may be broken.
        while self.scan(table, after, i64::MAX, &mut ids).is_none() && gaps < 1000 {
            gaps += 1;
            after = ids.last().copied().unwrap_or(0).max(after);
            let mut behind = (0..40_u32).map(|power| after.saturating_add(1 << power));
            match behind.find(|row| self.scan(table, *row, 1, &mut Vec::new()).is_some()) {
                Some(row) => after = row,
                None => break,
            }
        }
        (ids, gaps)
    }

    /// Adds the row ids above one, up to a number of them; none if a page could not be read.
    fn scan(&self, table: &str, after: i64, most: i64, ids: &mut Vec<i64>) -> Option<()> {
        let query = format!("SELECT rowid FROM {table} NOT INDEXED WHERE rowid > ?1 ORDER BY rowid LIMIT ?2");
        let mut statement = self.connection.prepare(&query).ok()?;
        let mut rows = statement.query([after, most]).ok()?;
        while let Some(row) = rows.next().ok()? {
            ids.extend(row.get::<_, i64>(0).ok());
        }
        Some(())
    }

    /// The only row of a query.
    pub(super) fn one<T>(
        &self,
        query: &str,
        parameters: &[&dyn ToSql],
        read: impl FnOnce(&Row) -> rusqlite::Result<T>,
    ) -> Result<T, SkipReason> {
        let mut statement = self.connection.prepare(query).map_err(|_| SkipReason::Malformed)?;
        statement.query_row(parameters, read).map_err(|_| SkipReason::Malformed)
    }
}

fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// The size of a page, by the header of a database.
fn page_size(header: &[u8]) -> Option<u64> {
    let size = header.get(16..18)?.try_into().map(u16::from_be_bytes).ok()?;
    // 65,536 does not fit and is written as 1.
    Some(if size == 1 { 1 << 16 } else { u64::from(size) }).filter(|size| *size >= 512)
}

/// Whether a file is shorter than its header says.
fn is_cut(path: &Path) -> bool {
    let mut header = [0; 100];
    let Ok(mut file) = File::open(path) else { return false };
    let length = file.metadata().map_or(u64::MAX, |metadata| metadata.len());
    let read = file.read_exact(&mut header).is_ok();
    let pages = number(&header, 28).unwrap_or(0);
    read && page_size(&header).is_some_and(|size| size * u64::from(pages) > length)
}

/// Takes away what is not a whole page, and has the header say how many there are; tells whether there should be more.
fn shorten(image: &mut Vec<u8>) -> bool {
    let Some(size) = page_size(image).and_then(|size| usize::try_from(size).ok()) else { return false };
    let whole = image.len() / size;
    let Some(pages) = number(image, 28).filter(|pages| usize::try_from(*pages).is_ok_and(|pages| pages > whole)) else {
        return false;
    };
    image.truncate(whole * size);
    if let (Some(place), Ok(whole)) = (image.get_mut(28..32), u32::try_from(whole)) {
        place.copy_from_slice(&whole.to_be_bytes());
    }
    pages > 0
}

/// The path with more at its end.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

/// An immutable file: SQLite then takes no lock and makes no file beside it.
fn uri(path: &Path) -> String {
    // Behind an empty host, since two slashes would begin one.
    let mut uri = String::from(if path.has_root() { "file://" } else { "file:" });
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
    let most = (image.len() + log.len()) / size + 1;
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
        if pages > most {
            return;
        }
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

    impl Database {
        /// How many rows a table has; none if there is no such table.
        fn rows_of(&self, table: &str) -> Option<usize> {
            self.has(table, &["a"]).then(|| self.rows(table).0.len())
        }
    }

    fn count(path: &Path) -> Option<usize> {
        Database::open(Some(path), File::open(path).unwrap()).ok()?.rows_of("t")
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
        let database = Database::open(None, File::open(&path).unwrap()).ok().unwrap();
        assert!(database.has("t", &["a"]) && !database.has("t", &["b"]) && !database.has("u", &["a"]));
    }

    #[test]
    fn broken_pages_lose_their_rows_alone_and_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (a TEXT UNIQUE)").unwrap();
        for row in 0..2000 {
            connection.execute("INSERT INTO t VALUES (?1)", [format!("{row:0200}")]).unwrap();
        }
        drop(connection);
        let whole = fs::read(&path).unwrap();
        let read = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let database = Database::open(Some(&path), bytes).unwrap();
            let (rows, gaps) = database.rows("t");
            (rows.len(), gaps, database.cut)
        };
        assert_eq!(read(&whole), (2000, 0, false));
        for page in 3..whole.len() / 4096 {
            let mut broken = whole.clone();
            broken[page * 4096..][..16].fill(0xff);
            let (rows, gaps, cut) = read(&broken);
            // Some 18 rows stand on a page; the first page of all lies above them, and pages of the index do not matter.
            assert!(
                (rows == 2000 && gaps == 0 || rows > 1930 && gaps == 1) && !cut,
                "page {page}: {rows} rows, {gaps} gaps"
            );
        }
        let (rows, gaps, cut) = read(&whole[..whole.len() - 4096 * 20]);
        assert!(rows > 1500 && gaps >= 1 && cut, "{rows} rows, {gaps} gaps");
    }

    #[test]
    fn a_log_that_claims_a_huge_database_is_left_alone() {
        let (_folder, path) = left();
        let mut log = fs::read(beside(&path, "-wal")).unwrap();
        // The size after the commit stands in the second word of a frame, which the checksum covers.
        log[36..40].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
        let mut sums = checksum(&log[..24], (0, 0), log[3] == 0x83);
        sums = checksum(&log[32..40], sums, log[3] == 0x83);
        let size = usize::try_from(number(&log, 8).unwrap()).unwrap();
        sums = checksum(&log[56..56 + size], sums, log[3] == 0x83);
        log[48..52].copy_from_slice(&sums.0.to_be_bytes());
        log[52..56].copy_from_slice(&sums.1.to_be_bytes());
        let mut image = fs::read(&path).unwrap();
        let before = image.len();
        lay_over(&mut image, &log);
        assert_eq!(image.len(), before);
    }

    #[test]
    fn a_path_may_begin_with_two_slashes() {
        assert_eq!(uri(Path::new("//a/b c")), "file:////a/b%20c?mode=ro&immutable=1");
        assert_eq!(uri(Path::new("a")), "file:a?mode=ro&immutable=1");
    }
}
