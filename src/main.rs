//! The `tracecloak` program: it calls [`tracecloak::cli::main`] and nothing else.

use std::alloc::System;
use std::process::ExitCode;

/// Erases memory when it is freed, so that text in buffers that libraries own does not outlive them.
#[global_allocator]
static ALLOCATOR: zeroizing_alloc::ZeroAlloc<System> = zeroizing_alloc::ZeroAlloc(System);

fn main() -> ExitCode {
    tracecloak::cli::main()
}
