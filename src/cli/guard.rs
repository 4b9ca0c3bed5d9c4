//! What keeps text out of places that nobody asked for: core dumps and panic messages.
//!
//! Invariant: [`forbid_dumps`] runs before any input is opened; a panic shows its place in the program, never its payload.

use std::panic::{self, Location};

use anyhow::Context;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::exit::print_to_stderr;

/// Switches core dumps off, and on Linux keeps other processes of the same user from reading this one's memory.
pub(super) fn forbid_dumps() -> anyhow::Result<()> {
    let limit = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(target_os = "linux")]
    let limit =
        limit.and_then(|()| rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable));
    limit.context("could not switch off core dumps, which would hold text of the logs")
}

/// Replaces the panic message, which may quote data, by the place where the program panicked.
pub(super) fn silence_panics() {
    panic::set_hook(Box::new(|panic| print_to_stderr(&place(panic.location()))));
}

fn place(location: Option<&Location<'_>>) -> String {
    let place = location.map_or_else(|| "an unknown place".to_owned(), |at| format!("{}:{}", at.file(), at.line()));
    format!("tracecloak: internal error at {place}\n  hint: please report this line; it holds nothing of your data\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_shows_its_place() {
        let line = place(Some(Location::caller()));
        assert!(line.starts_with("tracecloak: internal error at src/cli/guard.rs:"), "{line}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_core_is_dumped_and_no_other_process_may_read_this_one() {
        forbid_dumps().unwrap();
        assert_eq!(rustix::process::getrlimit(Resource::Core), Rlimit { current: Some(0), maximum: Some(0) });
        let behavior = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(behavior, rustix::process::DumpableBehavior::NotDumpable);
    }
}
