//! The one test binary: each module tests one promise from outside.

#[cfg(test)]
mod analyze;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod convert;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod prompts;
mod replay;
mod schemas;
