//! The one test binary: each module tests one promise from outside.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod cli;
mod convert;
#[cfg(test)]
mod prompts;
mod schemas;
