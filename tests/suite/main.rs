//! The one test binary: each module tests one promise from outside.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod cli;
mod convert;
mod schemas;
