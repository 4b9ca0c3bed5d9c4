//! The `tracecloak` program: it calls [`tracecloak::cli::main`] and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    tracecloak::cli::main()
}
