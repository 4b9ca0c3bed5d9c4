//! A directory that appears at its target whole or not at all.
//!
//! Invariant: until it is published, everything lies in one hidden directory beside the target, which goes when this is dropped;
//! nothing but a trace or an empty directory is ever replaced.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{FileName, FormatError};

/// A directory being filled.
#[derive(Debug)]
pub(crate) struct Staged {
    target: PathBuf,
    path: PathBuf,
    replace: bool,
}

impl Staged {
    pub(crate) fn create(target: &Path, replace: bool) -> Result<Self, FormatError> {
        may_be_written(target, replace)?;
        let path = beside(target, "partial").ok_or(FormatError::NotATrace)?;
        fs::create_dir(&path).map_err(FormatError::io(FileName::Directory))?;
        Ok(Self { target: target.to_owned(), path, replace })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the directory to its target.
    pub(crate) fn publish(self) -> Result<(), FormatError> {
        let io = FormatError::io(FileName::Directory);
        may_be_written(&self.target, self.replace)?;
        if !self.target.exists() {
            return fs::rename(&self.path, &self.target).map_err(io);
        }
        if exchange(&self.path, &self.target) {
            // What was replaced now lies where the new trace was staged, and goes with this value.
            return Ok(());
        }
        let old = beside(&self.target, "replaced").ok_or(FormatError::NotATrace)?;
        fs::rename(&self.target, &old).map_err(&io)?;
        if let Err(error) = fs::rename(&self.path, &self.target) {
            // Put it back; if even that fails, it still lies beside the target.
            drop(fs::rename(&old, &self.target));
            return Err(io(error));
        }
        fs::remove_dir_all(&old).map_err(io)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Nothing can be done about a failure, and after publishing there is nothing to remove.
        drop(fs::remove_dir_all(&self.path));
    }
}

/// Moves a finished trace to its target.
///
/// # Errors
/// If there is something at the target that may not be replaced, or the move fails; the trace is then removed.
pub fn publish(from: &Path, target: &Path, replace: bool) -> Result<(), FormatError> {
    Staged { target: target.to_owned(), path: from.to_owned(), replace }.publish()
}

/// Removes what this process has staged for `target`, if anything: for a handler of Ctrl-C.
pub fn remove_staged(target: &Path) {
    if let Some(staged) = beside(target, "partial") {
        // A trace is a folder; an export may be a file.
        drop(fs::remove_dir_all(&staged).or_else(|_| fs::remove_file(&staged)));
    }
}

/// The hidden directory beside `target` for this purpose.
fn beside(target: &Path, purpose: &str) -> Option<PathBuf> {
    let mut name = OsString::from(".");
    name.push(target.file_name()?);
    name.push(format!(".{purpose}-{}", std::process::id()));
    Some(target.with_file_name(name))
}

/// Swaps two directories in one step, where the system can.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> bool {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}

fn may_be_written(target: &Path, replace: bool) -> Result<(), FormatError> {
    let Ok(kind) = fs::symlink_metadata(target) else { return Ok(()) };
    if !replace {
        return Err(FormatError::Exists);
    }
    if !kind.is_dir() {
        return Err(FormatError::NotATrace);
    }
    for entry in fs::read_dir(target).map_err(FormatError::io(FileName::Directory))? {
        let name = entry.map_err(FormatError::io(FileName::Directory))?.file_name();
        if name.to_str().and_then(FileName::parse).is_none() {
            return Err(FormatError::NotATrace);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_seen_before_publishing_and_nothing_stays_after_dropping() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("trace");
        let staged = Staged::create(&target, false).unwrap();
        fs::write(staged.path().join("README.md"), "new").unwrap();
        assert!(!target.exists());
        drop(staged);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
        Staged::create(&target, false).unwrap().publish().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        let _staged = Staged::create(&target, true).unwrap();
        remove_staged(&target);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_a_trace_is_replaced_and_only_when_told() {
        let parent = tempfile::tempdir().unwrap();
        let target = parent.path().join("trace");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("README.md"), "old").unwrap();
        assert_eq!(Staged::create(&target, false).unwrap_err(), FormatError::Exists);
        let staged = Staged::create(&target, true).unwrap();
        fs::write(staged.path().join("README.md"), "new").unwrap();
        staged.publish().unwrap();
        assert_eq!(fs::read_to_string(target.join("README.md")).unwrap(), "new");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
        fs::write(target.join("thesis.tex"), "").unwrap();
        assert_eq!(Staged::create(&target, true).unwrap_err(), FormatError::NotATrace);
        assert_eq!(Staged::create(Path::new("/"), true).unwrap_err(), FormatError::NotATrace);
    }
}
