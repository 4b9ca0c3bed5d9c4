//! `tracecloak keygen`: a new key file.
//!
//! Invariant: the file is readable by its owner alone from the moment it exists, and an existing one stays unless `--force`.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::BoolishValueParser;

use super::exit::{Exit, Hint};
use super::key;
use super::output::Stdout;

const EXAMPLES: &str = "\
Examples:
  tracecloak keygen trace.key         a new key in trace.key, mode 0600
  tracecloak keygen - | age -p > key  a new key to another program";

/// Make a key file: 32 random bytes as 64 hexadecimal digits, readable by you alone
///
/// Only needed to get equal results from two runs; without a key file each conversion makes a key and erases it. Keep a key as
/// secret as the logs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct KeygenArgs {
    /// File to make, or - for stdout
    file: PathBuf,
    /// Replace an existing file
    #[arg(long, env = "TRACECLOAK_FORCE", hide_env = true, value_parser = BoolishValueParser::new())]
    force: bool,
}

pub(super) fn run(args: &KeygenArgs) -> anyhow::Result<Exit> {
    let line = key::render(&key::fresh()?);
    if args.file == Path::new("-") {
        let mut stdout = Stdout::new();
        stdout.write_all(&line).and_then(|()| stdout.flush()).context("could not write to stdout")?;
        return Ok(Exit::Fine);
    }
    let shown = args.file.display();
    if args.force {
        remove(&args.file).with_context(|| format!("could not replace {shown}"))?;
    }
    let mut file = create(&args.file)?;
    file.write_all(&line).and_then(|()| file.sync_all()).with_context(|| format!("could not write {shown}"))?;
    Ok(Exit::Fine)
}

fn remove(path: &Path) -> std::io::Result<()> {
    fs::remove_file(path).or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Fails if there is anything at `path`, be it a dangling link.
fn create(path: &Path) -> anyhow::Result<File> {
    let shown = path.display();
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(anyhow::anyhow!("{shown} exists")).hint("--force replaces it; the old key is then gone for good")
        }
        other => other.with_context(|| format!("could not make {shown}")),
    }
}
