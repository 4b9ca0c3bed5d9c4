//! The one test binary: each module tests one promise from outside.

mod analyze;
mod architecture;
mod audit;
mod capture;
mod cli;
mod convert;
mod derive;
mod formats;
mod mock;
mod otherformats;
mod privacy;
mod prompts;
mod replay;
mod schemas;
