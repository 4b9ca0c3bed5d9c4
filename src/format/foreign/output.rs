//! Files that an export writes.
//!
//! Invariant: they appear whole or not at all, and replace only what the same format could have written, and only when told.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::error::ForeignError;

/// A file or a folder of files being written beside its target.
#[derive(Debug)]
pub struct Output {
    target: PathBuf,
    staged: PathBuf,
    folder: bool,
}

impl Output {
    /// Begins a file.
    ///
    /// # Errors
    /// If something is at the target that may not be replaced.
    pub fn file(target: &Path, replace: bool) -> Result<Self, ForeignError> {
        let there = fs::symlink_metadata(target).ok();
        match there {
            Some(_) if !replace => Err(ForeignError::Exists),
            Some(there) if there.is_dir() => Err(ForeignError::NotReplaceable),
            _ => Self::beside(target, false),
        }
    }

    /// Begins a folder. One that exists is replaced only if `ours` knows every name in it.
    ///
    /// # Errors
    /// If something is at the target that may not be replaced, or the folder can't be made.
    pub fn folder(target: &Path, replace: bool, ours: impl Fn(&str) -> bool) -> Result<Self, ForeignError> {
        if let Ok(there) = fs::symlink_metadata(target) {
            if !replace {
                return Err(ForeignError::Exists);
            }
            if !there.is_dir() {
                return Err(ForeignError::NotReplaceable);
            }
            for entry in fs::read_dir(target).map_err(|error| refused(&error))? {
                let name = entry.map_err(|error| refused(&error))?.file_name();
                if !name.to_str().is_some_and(&ours) {
                    return Err(ForeignError::NotReplaceable);
                }
            }
        }
        let output = Self::beside(target, true)?;
        fs::create_dir(&output.staged).map_err(|error| refused(&error))?;
        Ok(output)
    }

    fn beside(target: &Path, folder: bool) -> Result<Self, ForeignError> {
        let mut name = OsString::from(".");
        name.push(target.file_name().ok_or(ForeignError::NotReplaceable)?);
        name.push(format!(".partial-{}", std::process::id()));
        Ok(Self { target: target.to_owned(), staged: target.with_file_name(name), folder })
    }

    /// Where the file, or the file of this name in the folder, is written meanwhile.
    pub fn path(&self, name: &str) -> PathBuf {
        if self.folder { self.staged.join(name) } else { self.staged.clone() }
    }

    /// Creates the file, or the file of this name in the folder.
    ///
    /// # Errors
    /// If it can't be made.
    pub fn create(&self, name: &str) -> Result<BufWriter<File>, ForeignError> {
        let file = File::create_new(self.path(name)).map_err(|error| refused(&error))?;
        Ok(BufWriter::with_capacity(256 << 10, file))
    }

    /// Puts what was written in place.
    ///
    /// # Errors
    /// If it can't be moved.
    pub fn publish(self) -> Result<(), ForeignError> {
        if self.folder && self.target.exists() {
            fs::remove_dir_all(&self.target).map_err(|error| refused(&error))?;
        }
        fs::rename(&self.staged, &self.target).map_err(|error| refused(&error))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // After publishing there is nothing to remove; nothing can be done about a failure.
        drop(if self.folder { fs::remove_dir_all(&self.staged) } else { fs::remove_file(&self.staged) });
    }
}

/// Ends a file, so that a full disk is noticed.
///
/// # Errors
/// If the rest can't be written.
pub fn finish(mut file: BufWriter<File>) -> Result<(), ForeignError> {
    file.flush().map_err(|error| refused(&error))
}

/// The error for what the operating system said about the target.
pub fn refused(error: &io::Error) -> ForeignError {
    ForeignError::Write(error.kind())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_replaced_unless_told_and_nothing_else_than_an_export_ever() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("out.jsonl");
        let write = |replace| {
            let output = Output::file(&target, replace)?;
            finish(output.create("")?)?;
            output.publish()
        };
        write(false).unwrap();
        assert_eq!(write(false).unwrap_err(), ForeignError::Exists);
        write(true).unwrap();
        let folder = parent.path().join("out");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("thesis.tex"), "").unwrap();
        assert_eq!(Output::file(&folder, true).unwrap_err(), ForeignError::NotReplaceable);
        let json = |name: &str| name.starts_with("a.");
        assert_eq!(Output::folder(&folder, true, json).unwrap_err(), ForeignError::NotReplaceable);
        fs::rename(folder.join("thesis.tex"), folder.join("a.json")).unwrap();
        drop(Output::folder(&folder, true, json).unwrap());
        assert!(folder.join("a.json").exists());
        Output::folder(&folder, true, json).unwrap().publish().unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }
}
