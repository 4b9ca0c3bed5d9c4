//! Ctrl-C while something is being written.
//!
//! Invariant: what is staged is removed before the program ends; what was there before stays.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::Context;

/// The targets for which something may be staged.
static STAGED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static HANDLER: OnceLock<bool> = OnceLock::new();

/// While it lives, an interrupt removes what is staged for a target.
pub(super) struct Removing;

/// Removes what is staged for `targets` if the user interrupts.
pub(super) fn removing(targets: &[&Path]) -> anyhow::Result<Removing> {
    *STAGED.lock().unwrap_or_else(PoisonError::into_inner) =
        targets.iter().map(|target| target.to_path_buf()).collect();
    if !HANDLER.get_or_init(|| ctrlc::set_handler(interrupted).is_ok()) {
        return Err(anyhow::anyhow!("the handler is taken")).context("cannot watch for interrupts");
    }
    Ok(Removing)
}

#[expect(clippy::exit, reason = "an interrupt ends the program, once nothing half is left behind")]
fn interrupted() {
    for target in STAGED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        crate::format::remove_staged(target);
    }
    // As a shell reports a program that SIGINT ended.
    std::process::exit(130);
}

impl Drop for Removing {
    fn drop(&mut self) {
        STAGED.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
