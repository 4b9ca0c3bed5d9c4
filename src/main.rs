//! The `tracecloak` program: its allocator, and [`tracecloak::cli::main`].

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Erases memory when it is freed, so that text in buffers that libraries own does not outlive them. Below it stands an allocator
/// that keeps freed memory at hand: bodies of megabytes come and go by the thousand.
#[global_allocator]
static ALLOCATOR: zeroizing_alloc::ZeroAlloc<MiMalloc> = zeroizing_alloc::ZeroAlloc(MiMalloc);

fn main() -> ExitCode {
    tracecloak::capture::leave_erasing_to_allocator();
    tracecloak::cli::main()
}
