//! tracecloak: share what coding agents do to an inference server, without a word of what was said.
#![cfg_attr(
    test,
    expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "tests may convert freely")
)]

pub mod capture;
pub mod format;
pub mod tokenize;
pub mod trace;
