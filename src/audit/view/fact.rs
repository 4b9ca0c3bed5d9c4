//! What a reader of a container saw that a clean file does not have.
//!
//! Invariant: a fact names a kind, a place and a sentence of this program; equal facts of a column are counted, not kept, so
//! that no file makes this grow.

use std::collections::BTreeMap;

use crate::audit::detect::has_date;
use crate::audit::finding::Place;
use crate::audit::vocab::words::{Naming, naming};

/// Kinds of facts. Each belongs to one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A field that the format does not declare.
    Undeclared,
    /// A field of a file of no declared format.
    Unknown,
    /// A name that is no generic word.
    Name,
    /// An undeclared object: whatever was in the source may be in it.
    Passthrough,
    /// A value of another type, or outside its domain.
    Domain,
    /// Bytes that no structure owns.
    Unowned,
    /// Key-value metadata.
    KeyValue,
    /// `ARROW:schema`.
    ArrowSchema,
    /// Metadata inside an Arrow schema.
    ArrowMetadata,
    /// The writer names itself.
    CreatedBy,
    /// Statistics that the data do not have.
    Statistics,
    /// A bloom filter.
    Bloom,
    /// A dictionary entry that no row uses.
    UnusedEntry,
    /// Bytes below a null.
    NullSlot,
    /// Padding that is not zero.
    Padding,
    /// Names, times, owners, comments of an archive or a compressed stream.
    Archive,
    /// Something that could not be decoded.
    Undecodable,
    /// The name of a file, folder or entry that says more than one word.
    FileName,
    /// The name of a file, folder or entry with one word of its own.
    FileWord,
    /// A date in a name or in metadata.
    NameDate,
    /// JSON that readers understand differently, or bytes around it.
    Spelling,
    /// Choices of the writer that are a text.
    Disguise,
    /// A file that the trace does not declare.
    UndeclaredFile,
    /// Our own trace, written again, has other bytes.
    Reencoded,
    /// A number that is no multiple of its quantum.
    Quantum,
    /// A value that the profile does not keep.
    Profile,
    /// Ids that are not canonical, in our own trace.
    Canonical,
    /// Row ids that are not dense.
    Dense,
    /// A scope that is broken or not declared.
    Scope,
    /// A log or key beside the trace.
    DebugLog,
    /// A key file that others can read.
    KeyMode,
}

/// Something seen.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Where, the first time.
    pub place: Place,
    /// How long, the first time.
    pub length: Option<u64>,
    /// How often.
    pub count: u64,
}

/// Facts of a file.
#[derive(Clone, Debug, Default)]
pub struct Facts(BTreeMap<(Kind, &'static str, Option<String>), Fact>);

impl Facts {
    /// Adds a fact, or counts it with an equal one.
    pub fn add(&mut self, kind: Kind, place: Place, message: &'static str, length: Option<u64>) {
        let key = (kind, message, place.column.clone());
        self.0.entry(key).or_insert(Fact { place, length, count: 0 }).count += 1;
    }

    /// Adds what the name of a file, a folder or an entry tells.
    pub fn name(&mut self, name: &[u8], place: Place) {
        if has_date(&String::from_utf8_lossy(name)) {
            self.add(Kind::NameDate, place.clone(), "a date in a name", None);
        }
        match std::str::from_utf8(name).map_or(Naming::Text, naming) {
            Naming::Generic => (),
            Naming::Word => self.add(Kind::FileWord, place, "a name with one word that is not generic", None),
            Naming::Text => self.add(Kind::FileName, place, "a name that could be a text or an id", None),
        }
    }

    /// Facts of one kind: message and fact.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = (&'static str, &Fact)> {
        self.0.iter().filter(move |((of, ..), _)| *of == kind).map(|((_, message, _), fact)| (*message, fact))
    }

    /// Whether there is one of this kind.
    pub fn any(&self, kind: Kind) -> bool {
        self.of(kind).next().is_some()
    }
}

impl Facts {
    /// Takes over the facts of a part.
    pub fn merge(&mut self, other: Self) {
        for (key, fact) in other.0 {
            let count = fact.count;
            self.0.entry(key).and_modify(|known| known.count += count).or_insert(fact);
        }
    }
}
