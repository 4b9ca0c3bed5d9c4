//! What the names of fields tell: those that a format does not declare, and those that are more than generic words.
//!
//! Invariant: a label shows no name that is not made of generic words.

use super::collect::Collector;
use super::fact::Kind;
use crate::audit::detect::disguise;
use crate::audit::finding::Place;
use crate::audit::vocab::closed;

/// Names that writers give to the root and to the inner groups of lists; those of Arrow files too.
pub(crate) const INNER: &[&[u8]] = &[
    b"l",
    b"$data$",
    b"schema",
    b"root",
    b"arrow_schema",
    b"spark_schema",
    b"hive_schema",
    b"duckdb_schema",
    b"m",
    b"list",
    b"bag",
    b"array",
    b"element",
    b"item",
    b"array_element",
    b"key_value",
    b"map",
    b"key",
    b"value",
];

impl Collector<'_, '_> {
    /// Names that are declared or made of generic words may stand in any log.
    pub(crate) fn prove_names(&mut self) {
        if let Some(sink) = self.feed.sink.as_mut() {
            for node in self.nodes.iter().filter(|node| node.plain) {
                let name = node.label.rsplit('.').next().unwrap_or_default();
                sink.proved(name.trim_end_matches("[]").as_bytes());
            }
        }
    }

    /// Facts about undeclared fields.
    pub(super) fn names(&mut self) {
        self.prove_names();
        let declared = self.view.format.is_some();
        // Numbers in many names are a column of their own.
        let own = self.nodes.iter().filter(|node| node.shape.is_none() && node.plain);
        let numbers: Vec<i64> =
            own.filter_map(|node| closed::number(node.label.rsplit('.').next()?.as_bytes())).collect();
        if disguise(&numbers, true).is_some() {
            self.view.facts.add(Kind::Name, Place::default(), "names whose numbers are a text", None);
        }
        for node in 0..self.nodes.len() {
            let Some(at) = self.nodes.get(node) else { continue };
            if at.ragged && at.padded {
                let message = "numbers with zeros at their end, of one length or another";
                self.view.facts.add(Kind::Spelling, Place::column(&at.label), message, None);
            }
            if at.shape.is_some() || (at.label.is_empty() && !at.overflow) {
                continue;
            }
            let leaf = at.count + at.texts + at.others_seen > 0;
            let (plain, objects) = (at.plain, at.objects > 0);
            let place = Place::column(&at.label).row(at.first_row);
            let mut add = |kind, message| self.view.facts.add(kind, place.clone(), message, None);
            if declared {
                add(Kind::Undeclared, "a field that the format does not declare");
            } else if leaf {
                add(Kind::Unknown, "a field of no declared format");
            }
            if !plain {
                add(Kind::Name, "a name that is not made of generic words");
            }
            if objects && declared {
                add(Kind::Passthrough, "an object that the format does not declare");
            }
        }
    }
}
