//! `manifest.json`: a [`Manifest`] as JSON and back.
//!
//! Invariant: what is read has passed the rules below; [`to_json`] gives the one spelling of a manifest.

use super::error::{Fault, FormatError};
use crate::trace::manifest::{FORMAT_VERSION, Manifest, TableFile};
use crate::trace::vocab::{Scope, Table, Vocabulary};

/// The narrowest block that may be shared across sessions: shorter ones could be guessed.
pub const SHARED_BLOCK_SIZE: u32 = 64;

/// A manifest as it stands in the file: indented, members in order, a newline at the end.
///
/// # Errors
/// Never for a manifest that passes [`check`].
pub fn to_json(manifest: &Manifest) -> Result<String, FormatError> {
    let json = serde_json::to_string_pretty(manifest).map_err(|error| FormatError::json(&error))?;
    Ok(json + "\n")
}

/// Reads a manifest.
///
/// # Errors
/// Where it is not JSON, has another member, or members that do not agree; by place, never by value.
pub fn from_json(json: &[u8]) -> Result<Manifest, FormatError> {
    let manifest = serde_json::from_slice(json).map_err(|error| FormatError::json(&error))?;
    check(&manifest)?;
    Ok(manifest)
}

/// Checks that the members agree with each other.
///
/// # Errors
/// The first that does not.
pub fn check(manifest: &Manifest) -> Result<(), FormatError> {
    check_head(manifest)?;
    let totals = &manifest.totals;
    let rows = [totals.sessions, totals.agents, totals.requests, totals.edges, totals.tools];
    let mut files = manifest.files.iter().peekable();
    for (&table, rows) in Table::ALL.iter().zip(rows) {
        let parts = files.peek().map_or(0, |file| file.parts);
        let (mut part, mut sum) = (0, 0u64);
        while let Some(file) = files.next_if(|file| file.table == table && (file.part, file.parts) == (part, parts)) {
            part += 1;
            sum = sum.saturating_add(file.rows);
        }
        rule("files", part == parts && part > 0, Fault::Order)?;
        rule("totals", sum == rows, Fault::Disagrees)?;
    }
    rule("files", files.next().is_none(), Fault::Order)
}

/// Checks the members that are known before the tables.
///
/// # Errors
/// The first that does not agree with the others.
pub fn check_head(manifest: &Manifest) -> Result<(), FormatError> {
    rule("format_version", manifest.format_version == FORMAT_VERSION, Fault::Version)?;
    rule("block_size", manifest.block_size > 0, Fault::Domain)?;
    let shared = manifest.scope == Scope::Shared;
    rule("block_size", !shared || manifest.block_size >= SHARED_BLOCK_SIZE, Fault::Domain)?;
    rule("k", manifest.k.is_some() == shared && manifest.k != Some(0), Fault::Disagrees)?;
    rule("k_unit", manifest.k_unit.is_some() == shared, Fault::Disagrees)?;
    rule("kept", ascends(&manifest.kept), Fault::Order)?;
    rule("normalizers", ascends(&manifest.normalizers), Fault::Order)?;
    rule("source_formats", ascends(&manifest.source_formats), Fault::Order)?;
    rule("loss", ascends(&manifest.loss), Fault::Order)?;
    rule("skip_counts", manifest.skip_counts.is_none_or(|counts| counts.skipped <= counts.records), Fault::Disagrees)
}

/// The files of one table.
pub fn files(manifest: &Manifest, table: Table) -> impl Iterator<Item = &TableFile> {
    manifest.files.iter().filter(move |file| file.table == table)
}

fn rule(member: &'static str, holds: bool, fault: Fault) -> Result<(), FormatError> {
    if holds { Ok(()) } else { Err(FormatError::Member { member, fault }) }
}

fn ascends<V: Ord>(words: &[V]) -> bool {
    words.is_sorted_by(|one, next| one < next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sample;
    use crate::trace::manifest::Sha256;
    use crate::trace::vocab::{KUnit, Keep};

    fn whole() -> Manifest {
        let mut manifest = sample::head(Scope::Session);
        let file = |&table| TableFile { table, part: 0, parts: 1, rows: 0, sha256: Sha256([7; 32]) };
        manifest.files = Table::ALL.iter().map(file).collect();
        manifest
    }

    #[test]
    fn a_manifest_reads_back_equal() {
        let json = to_json(&whole()).unwrap();
        assert!(json.ends_with("}\n"));
        assert_eq!(from_json(json.as_bytes()), Ok(whole()));
    }

    type Break = fn(&mut Manifest);

    #[test]
    fn members_that_do_not_agree_are_refused() {
        let cases: [(Break, &str); 9] = [
            (|manifest| manifest.format_version = 2, "format_version"),
            (|manifest| manifest.block_size = 0, "block_size"),
            (|manifest| manifest.k = Some(3), "k"),
            (|manifest| (manifest.scope, manifest.k) = (Scope::Shared, Some(3)), "k_unit"),
            (|manifest| manifest.kept = vec![Keep::Usage, Keep::Usage], "kept"),
            (|manifest| manifest.totals.tools = 1, "totals"),
            (|manifest| manifest.files.swap(0, 1), "files"),
            (|manifest| manifest.files.truncate(4), "files"),
            (|manifest| manifest.files[2].parts = 2, "files"),
        ];
        for (break_it, expected) in cases {
            let mut manifest = whole();
            break_it(&mut manifest);
            let json = to_json(&manifest).unwrap();
            assert!(
                matches!(from_json(json.as_bytes()), Err(FormatError::Member { member, .. }) if member == expected),
                "{expected}"
            );
        }
        let mut shared = whole();
        (shared.scope, shared.k, shared.k_unit, shared.block_size) =
            (Scope::Shared, Some(3), Some(KUnit::Contributor), 16);
        assert_eq!(check(&shared), Err(FormatError::Member { member: "block_size", fault: Fault::Domain }));
    }

    #[test]
    fn a_parse_error_says_where_and_quotes_nothing() {
        for (json, category) in
            [("{", "cut off"), ("{\"x-secret\": 1}", "an undeclared member or value"), ("secret", "not JSON")]
        {
            let error = from_json(json.as_bytes()).unwrap_err();
            assert!(matches!(error, FormatError::Json { category: found, .. } if found == category));
            assert!(!error.to_string().contains("secret"));
        }
    }
}
