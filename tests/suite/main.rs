//! The one test binary: each module tests one promise from outside.
#![cfg_attr(
    test,
    expect(clippy::as_conversions, clippy::format_push_string, reason = "tests may convert and build text freely")
)]

#[cfg(test)]
mod analyze;
#[cfg(test)]
mod architecture;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod brokenlogs;
#[cfg(test)]
mod capture;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod convert;
#[cfg(test)]
mod derive;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod imported;
#[cfg(test)]
mod lineage;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod otherformats;
#[cfg(test)]
mod planned;
#[cfg(test)]
mod privacy;
#[cfg(test)]
mod prompts;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod replayed;
#[cfg(test)]
mod schemas;
