//! The one test binary: each module tests one promise from outside.

mod analyze;
mod architecture;
mod capture;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod convert;
mod derive;
mod formats;
mod mock;
mod otherformats;
mod prompts;
mod replay;
#[cfg(test)]
mod privacy;
#[cfg(test)]
mod schemas;
