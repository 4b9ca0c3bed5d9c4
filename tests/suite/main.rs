//! The one test binary: each module tests one promise from outside.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod convert;
#[cfg(test)]
mod privacy;
#[cfg(test)]
mod schemas;
