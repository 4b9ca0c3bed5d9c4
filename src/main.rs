//! The `tracecloak` program.

fn main() {}
