//! The one test binary: each module tests one promise from outside.

mod schemas;
