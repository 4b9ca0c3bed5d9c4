//! L055: numbers that decode to text.
//!
//! Invariant: it reports places and classes only, and keeps nothing.

use crate::audit::check::check;
use crate::audit::detect::{Disguise, bits_hide_text, disguise, floats_hide_text};
use crate::audit::report::Report;
use crate::audit::view::{ColumnView, FileView, Kind, SessionView};

check! {
    /// Numbers are text in disguise: one character a number, several bytes a number, a byte or a few bits in the low end of each, their
    /// differences, their decimal digits, or the lengths of lists. Or what a writer chose is: where nulls stand, which members are left
    /// out, how many rows a part has.
    ///
    /// Numbers can hide anything from whoever does not know how: what this check does not see, `--source` may, and what a format does
    /// not declare is best left out.
    L055 Error "numbers that decode to text"; "leave the column out";

    fn file(&self, file: &FileView, report: &mut Report) {
        report.facts(self.meta(), self.meta().severity, file, Kind::Disguise);
    }

    fn column(&self, column: &ColumnView<'_>, report: &mut Report) {
        let found = disguise(column.values, column.shape.is_none());
        let message = match found {
            Some(Disguise::CodePoints) => "numbers that are characters of a text",
            Some(Disguise::Packed) => "numbers that are packed bytes of a text",
            Some(Disguise::LowBytes | Disguise::LowBits) => "numbers whose low bits are a text",
            Some(Disguise::Steps) => "numbers whose differences are characters of a text",
            Some(Disguise::Digits) => "numbers whose digits are characters of a text",
            Some(Disguise::Affine) => "numbers that are multiples of the characters of a text",
            None if bits_hide_text(column.bits) => "true and false that are the bits of a text",
            None if lists_hide_text(column) => "lists whose lengths are characters of a text",
            None if floats_hide_text(column.floats) => "numbers that are packed bytes of a text",
            None => return,
        };
        self.find(report, column.place(), message, None);
    }

    fn session(&self, session: &SessionView<'_>, report: &mut Report) {
        let large = session.ids.iter().filter(|id| **id > 1 << 21).map(|id| id.cast_signed());
        let large: Vec<i64> = large.collect();
        if disguise(&large, true) == Some(Disguise::Packed) {
            self.find(report, session.place(), "block ids that are packed bytes of a text", None);
        }
        for request in session.requests {
            let ids = session.ids_of(request);
            // Prefixes rise; text does not.
            let falls = ids.windows(2).filter(|pair| pair.first() >= pair.last()).count();
            if falls * 4 > ids.len() && disguise(&ids.iter().map(|id| id.cast_signed()).collect::<Vec<_>>(), true).is_some() {
                self.find(report, session.place().row(request.row), "block ids that are characters of a text", None);
            }
        }
    }
}

/// Whether the lengths of lists are characters.
fn lists_hide_text(column: &ColumnView<'_>) -> bool {
    let mut from = 0;
    let length = |end: &usize| i64::try_from(end.saturating_sub(std::mem::replace(&mut from, *end))).unwrap_or(0);
    let lengths: Vec<i64> = column.lists.iter().map(length).collect();
    column.shape.is_none() && disguise(&lengths, true).is_some()
}
