//! What a user gives as logs: files, folders, globs and stdin, as an ordered list of inputs.
//!
//! Invariant: an error names a path only as the user gave it; files found in folders are known by their number.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use walkdir::WalkDir;

use super::decompress::decompress;

/// Why what a user gave is no list of inputs.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// No file, no folder, and no pattern that matches.
    #[error("{} matches nothing", .0.display())]
    Nothing(PathBuf),
    /// A folder without files.
    #[error("{} holds no files", .0.display())]
    EmptyFolder(PathBuf),
    /// A folder that cannot be listed.
    #[error("{} cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, io::ErrorKind),
    /// More inputs than can be numbered.
    #[error("too many inputs")]
    TooMany,
}

/// One input, not yet opened.
#[derive(Clone)]
pub struct Input {
    number: u32,
    /// None is stdin.
    path: Option<PathBuf>,
    named: bool,
    bytes: Option<u64>,
    consumed: Arc<AtomicU64>,
}

impl Input {
    /// Its number, from 0.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Its path, if the user named it rather than a folder or pattern around it.
    pub fn named(&self) -> Option<&Path> {
        self.path.as_deref().filter(|_| self.named)
    }

    /// Its path, for those who read it: errors and messages may only show [`Self::named`].
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Its size on disk; none for stdin and pipes.
    pub fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Opens it, still compressed. What is read counts for [`Inputs::consumed`].
    pub fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        let inner: Box<dyn Read + Send> = match &self.path {
            Some(path) => Box::new(File::open(path)?),
            None => Box::new(io::stdin()),
        };
        Ok(Box::new(Counted { inner, consumed: Arc::clone(&self.consumed) }))
    }

    /// Opens it, decompressed.
    pub fn decompressed(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(decompress(self.open()?)?.1)
    }

    /// Whether it can be read again: stdin and pipes can't.
    pub fn can_reopen(&self) -> bool {
        self.bytes.is_some()
    }
}

/// The inputs of a run, in the order in which they were given, those of a folder or pattern by name.
#[derive(Clone, Default)]
pub struct Inputs {
    list: Vec<Input>,
    consumed: Arc<AtomicU64>,
}

impl Inputs {
    /// Expands arguments: `-` is stdin, a folder stands for all files in it at any depth, and what does not exist is a pattern.
    pub fn expand<P: AsRef<Path>>(arguments: &[P]) -> Result<Self, InputError> {
        let mut inputs = Self::default();
        arguments.iter().try_for_each(|argument| inputs.argument(argument.as_ref()))?;
        Ok(inputs)
    }

    /// The inputs.
    pub fn list(&self) -> &[Input] {
        &self.list
    }

    /// Bytes on disk of all inputs whose size is known.
    pub fn bytes(&self) -> u64 {
        self.list.iter().filter_map(Input::bytes).sum()
    }

    /// Bytes read so far of all inputs, before decompression: where a progress bar stands.
    pub fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    fn argument(&mut self, argument: &Path) -> Result<(), InputError> {
        let nothing = || InputError::Nothing(argument.to_path_buf());
        if argument.as_os_str() == "-" {
            return self.push(None, true);
        }
        if argument.exists() {
            return self.path(argument, argument, true);
        }
        let matches = argument.to_str().and_then(|pattern| glob::glob(pattern).ok()).ok_or_else(nothing)?;
        let mut paths = matches
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| InputError::Unreadable(argument.to_path_buf(), error.error().kind()))?;
        paths.sort();
        if paths.is_empty() {
            return Err(nothing());
        }
        paths.iter().try_for_each(|path| self.path(path, argument, false))
    }

    fn path(&mut self, path: &Path, argument: &Path, named: bool) -> Result<(), InputError> {
        if !path.is_dir() {
            return self.push(Some(path.to_path_buf()), named);
        }
        let before = self.list.len();
        for entry in WalkDir::new(path).follow_links(true).sort_by_file_name() {
            // A link that leads nowhere or in a circle is no log; a folder that cannot be listed may hold some.
            let is_link = |error: &walkdir::Error| {
                error.loop_ancestor().is_some()
                    || error.path().is_some_and(|path| path.is_symlink() && error.depth() > 0)
            };
            let entry = match entry {
                Err(error) if is_link(&error) => continue,
                entry => entry.map_err(|error| {
                    let kind = error.io_error().map_or(io::ErrorKind::Other, io::Error::kind);
                    InputError::Unreadable(argument.to_path_buf(), kind)
                })?,
            };
            // A pipe or socket in a folder would block; one that is named is read.
            if entry.file_type().is_file() && !belongs_to_another(entry.path()) {
                self.push(Some(entry.into_path()), false)?;
            }
        }
        if self.list.len() == before { Err(InputError::EmptyFolder(argument.to_path_buf())) } else { Ok(()) }
    }

    fn push(&mut self, path: Option<PathBuf>, named: bool) -> Result<(), InputError> {
        let number = u32::try_from(self.list.len()).map_err(|_| InputError::TooMany)?;
        let metadata = path.as_ref().and_then(|path| path.metadata().ok());
        let bytes = metadata.filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
        self.list.push(Input { number, path, named, bytes, consumed: Arc::clone(&self.consumed) });
        Ok(())
    }
}

/// Whether a file in a folder is a part of another one, which is read with it: the log of a database, the facts of an agent.
fn belongs_to_another(path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    let of =
        ["-wal", "-shm", "-journal", ".write.lock"].iter().find_map(|end| name.strip_suffix(end).map(str::to_owned));
    let of = of.or_else(|| name.strip_suffix(".meta.json").map(|agent| format!("{agent}.jsonl")));
    of.is_some_and(|of| path.with_file_name(of).is_file())
}

/// Counts what is read.
struct Counted {
    inner: Box<dyn Read + Send>,
    consumed: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.consumed.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [("b.jsonl", "bb"), ("a.jsonl", "a"), ("deep/er/c.har", "ccc"), ("z[1].jsonl", "zzzz")] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn sizes(arguments: &[PathBuf]) -> Vec<u64> {
        Inputs::expand(arguments).ok().unwrap().list.iter().filter_map(Input::bytes).collect()
    }

    #[test]
    fn folders_are_walked_in_order_and_patterns_expanded() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(sizes(&[folder.path().to_path_buf()]), [1, 2, 3, 4]);
        assert_eq!(sizes(&[at("b.jsonl"), at("[ab].jsonl"), at("d*")]), [2, 1, 2, 3]);
        assert_eq!(sizes(&[at("**/*.har")]), [3]);
        assert_eq!(sizes(&[at("z[1].jsonl")]), [4], "a file is a file even if its name looks like a pattern");
    }

    #[test]
    fn only_what_the_user_named_has_a_name() {
        let folder = folder();
        let inputs =
            Inputs::expand(&[folder.path().join("a.jsonl"), folder.path().to_path_buf(), "-".into()]).ok().unwrap();
        let named: Vec<bool> = inputs.list().iter().map(|input| input.named().is_some()).collect();
        assert_eq!(named, [true, false, false, false, false, false]);
        assert_eq!(inputs.list().last().unwrap().bytes(), None);
        assert_eq!(inputs.list().iter().map(Input::number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_matches_nothing_is_an_error() {
        let folder = folder();
        fs::create_dir(folder.path().join("empty")).unwrap();
        let fails = |name: &str| Inputs::expand(&[folder.path().join(name)]).err().unwrap();
        assert!(matches!(fails("none.jsonl"), InputError::Nothing(_)));
        assert!(matches!(fails("*.none"), InputError::Nothing(_)));
        assert!(matches!(fails("[broken"), InputError::Nothing(_)));
        assert!(matches!(fails("empty"), InputError::EmptyFolder(_)));
        assert!(fails("*.none").to_string().ends_with("*.none matches nothing"));
    }

    #[test]
    fn reading_is_counted() {
        let folder = folder();
        let inputs = Inputs::expand(&[folder.path()]).ok().unwrap();
        assert_eq!((inputs.bytes(), inputs.consumed()), (10, 0));
        for input in inputs.list() {
            io::copy(&mut input.open().unwrap(), &mut io::sink()).unwrap();
        }
        assert_eq!(inputs.consumed(), 10);
    }
}
