//! What of a trace, or of any file, is not proved textless: the bytes that a source is compared with.
//!
//! Invariant: what is exempt is exempt as a whole value that was proved (a schema name, a vocabulary word, a page that packs its
//! proved content, a manifest and a card that render again byte for byte), never as a stretch of bytes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walkdir::WalkDir;

use super::words::{self, Words};
use super::{ProofError, columns, foreign};
use crate::audit::vocab::words::{Naming, naming};
use crate::format::{self, FileName, card, manifest};
use crate::trace::Manifest;

/// How much of a file is looked at in one piece, and by how much pieces overlap.
pub(super) const PIECE: usize = 64 << 20;
pub(super) const OVERLAP: usize = 64 << 10;

/// What is not proved textless. Files are read when an index is made of it, piece by piece.
#[derive(Clone, Default)]
pub struct Residual {
    items: Vec<Item>,
}

#[derive(Clone)]
enum Item {
    /// Bytes that a caller has.
    Bytes(Arc<str>, Vec<u8>),
    /// Numbers that a caller has decoded.
    Numbers(Arc<str>, Vec<u64>),
    /// A file, as its bytes.
    File(Arc<str>, PathBuf),
    /// A file of another tool, to be decoded.
    Foreign(Arc<str>, PathBuf),
    /// A table of a trace directory that was read as a whole without a fault.
    Table(Arc<str>, PathBuf),
}

/// A part of the residual.
pub(super) enum Piece<'a> {
    /// Bytes that begin at an offset of their place. `words` may stand in what they decode to; `ids`: numbers in it may be
    /// hashes.
    Bytes { place: &'a Arc<str>, offset: u64, bytes: &'a [u8], words: Option<&'a Words>, ids: bool },
    /// Numbers in their order.
    Numbers { place: &'a Arc<str>, values: &'a [u64] },
}

impl Residual {
    /// An empty one, to be added to.
    pub fn new() -> Self {
        Self::default()
    }

    /// Of a trace directory, of another folder, or of a file. Places are file names relative to it.
    ///
    /// # Errors
    /// If it cannot be listed.
    pub fn of(path: &Path) -> Result<Self, ProofError> {
        let mut residual = Self::default();
        let proved = read_whole(path);
        let mut files = 0;
        for entry in WalkDir::new(path).sort_by_file_name() {
            let entry = entry.map_err(|error| ProofError::io(&error.into()))?;
            let below = entry.path().strip_prefix(path).unwrap_or(entry.path());
            let known = FileName::parse(&below.to_string_lossy()).filter(|_| proved.is_some());
            // Names can hold text as well; that of a folder asked for is not published with it.
            let name = if below.as_os_str().is_empty() { path.file_name() } else { Some(below.as_os_str()) };
            if let Some(name) = name.filter(|_| known.is_none() && (entry.file_type().is_file() || entry.depth() > 0)) {
                residual.push("file names", name.as_encoded_bytes().to_vec());
            }
            if !entry.file_type().is_file() {
                continue;
            }
            // A name that is not generic may be what leaks: such a file is shown by its number.
            files += 1;
            let generic = name
                .and_then(|name| Path::new(name).to_str())
                .filter(|name| name.split('/').all(|part| naming(part) == Naming::Generic) && !name.contains(": "));
            let place: Arc<str> = match (known, generic) {
                (Some(known), _) => known.to_string().into(),
                (None, Some(name)) => name.into(),
                (None, None) => format!("file {files}").into(),
            };
            let file = entry.into_path();
            match (known, &proved) {
                (Some(FileName::Table { .. }), Some(_)) => residual.items.push(Item::Table(place, file)),
                (Some(known), Some(manifest)) if renders_again(known, manifest, &file) => {
                    // What is written again is not proved: digests are whatever the manifest says.
                    let digests = [&manifest.tokenizer.sha256, &manifest.chat_template.sha256];
                    for digest in digests.into_iter().flatten() {
                        residual.push(&place, digest.to_string().into_bytes());
                    }
                }
                _ => residual.items.push(Item::Foreign(place, file)),
            }
        }
        Ok(residual)
    }

    /// Adds bytes that a caller has decoded.
    pub fn push(&mut self, place: &str, bytes: Vec<u8>) {
        self.items.push(Item::Bytes(place.into(), bytes));
    }

    /// Adds the numbers of a column that a caller has decoded, in row order.
    pub fn push_numbers(&mut self, place: &str, values: Vec<u64>) {
        self.items.push(Item::Numbers(place.into(), values));
    }

    /// Adds a file as its raw bytes.
    pub fn push_file(&mut self, place: &str, path: &Path) {
        self.items.push(Item::File(place.into(), path.to_owned()));
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Calls `visit` for each piece.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn each(&self, visit: &mut dyn FnMut(Piece<'_>)) -> Result<(), ProofError> {
        for item in &self.items {
            match item {
                Item::Bytes(place, bytes) => visit(Piece::Bytes { place, offset: 0, bytes, words: None, ids: true }),
                Item::Numbers(place, values) => visit(Piece::Numbers { place, values }),
                Item::File(place, path) => {
                    chunks(path, |offset, bytes| visit(Piece::Bytes { place, offset, bytes, words: None, ids: true }))?;
                }
                Item::Foreign(place, path) => {
                    if !foreign::each(place, path, visit)? {
                        chunks(path, |offset, bytes| {
                            visit(Piece::Bytes { place, offset, bytes, words: None, ids: true });
                        })?;
                    }
                }
                Item::Table(place, path) => {
                    let known = Words::known();
                    chunks(path, |offset, bytes| {
                        let mut bytes = bytes.to_vec();
                        let pages = words::unpack(&mut bytes);
                        known.mask_counted(&mut bytes);
                        visit(Piece::Bytes { place, offset, bytes: &bytes, words: Some(known), ids: false });
                        for (page, mut bytes) in pages {
                            known.mask_counted(&mut bytes);
                            let place: Arc<str> = format!("{place}: page at {}", offset + page).into();
                            visit(Piece::Bytes {
                                place: &place,
                                offset: 0,
                                bytes: &bytes,
                                words: Some(known),
                                ids: false,
                            });
                        }
                    })?;
                    columns::each(place, path, visit)?;
                }
            }
        }
        Ok(())
    }
}

/// The manifest of a trace directory of ours, if all of it is read without a fault: then its tables hold numbers and words only.
fn read_whole(path: &Path) -> Option<Manifest> {
    let mut source = format::open(path).ok()?;
    source.by_ref().all(|session| session.is_ok()).then(|| source.manifest().clone())
}

/// Whether a manifest or a card is what the program writes for this manifest, byte for byte.
fn renders_again(name: FileName, manifest: &Manifest, file: &Path) -> bool {
    let text = match name {
        FileName::Manifest => manifest::to_json(manifest).ok(),
        FileName::Card => Some(card::render(manifest)),
        FileName::Table { .. } | FileName::Directory => None,
    };
    text.zip(fs::read(file).ok()).is_some_and(|(text, bytes)| text.as_bytes() == bytes)
}

/// Reads a file in chunks that overlap.
fn chunks(path: &Path, mut visit: impl FnMut(u64, &[u8])) -> Result<(), ProofError> {
    let mut file = File::open(path).map_err(|error| ProofError::io(&error))?;
    let mut offset = 0_u64;
    loop {
        let mut bytes = Vec::new();
        let limit = u64::try_from(PIECE).unwrap_or(0);
        let read = file.by_ref().take(limit).read_to_end(&mut bytes).map_err(|error| ProofError::io(&error))?;
        visit(offset, &bytes);
        if read < PIECE {
            return Ok(());
        }
        let step = PIECE - OVERLAP;
        offset += u64::try_from(step).unwrap_or(0);
        file.seek(SeekFrom::Start(offset)).map_err(|error: io::Error| ProofError::io(&error))?;
    }
}
