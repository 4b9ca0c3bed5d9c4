//! What remains, in numbers: how unique stretches of requests are, and how many bits columns carry.
//!
//! Invariant: aggregates only; single sessions are named only where they are asked for, by row.

use std::collections::BTreeMap;

use serde::Serialize;

use super::detect::float;
use super::view::{Dataset, SessionDigest};

/// The risk table of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Risk {
    /// Sessions.
    pub sessions: u64,
    /// Requests.
    pub requests: u64,
    /// Share of windows of so many requests, with lengths rounded up to so many tokens, that occur once.
    pub uniqueness: Vec<Uniqueness>,
    /// Share of sessions whose lengths of tools and system parts no other session has; none where they are not stated.
    pub configuration: Option<f64>,
    /// Sessions with the lengths of another one throughout.
    pub duplicates: u64,
    /// Windows of five requests that stand in more than one session, in percent of all.
    pub overlapping: Option<f64>,
    /// Bits a value, per column.
    pub columns: Vec<ColumnBits>,
    /// Rows of sessions of which every window of three requests is unique; only on request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exposed: Vec<(String, u64)>,
}

/// One cell of the uniqueness table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Uniqueness {
    /// Requests in a row.
    pub requests: usize,
    /// Tokens that lengths are rounded up to; 1 is exact.
    pub rounded_to: u64,
    /// Share of windows that occur once, 0 to 1.
    pub share: f64,
}

/// Bits of a column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColumnBits {
    /// Its path.
    pub column: String,
    /// How many values.
    pub values: u64,
    /// Bits a value on average; none where there are too many different ones to count.
    pub bits: Option<f64>,
}

/// Windows of `requests` requests, lengths rounded up to `step`, and how often each occurs.
fn windows(sessions: &[SessionDigest], requests: usize, step: u64) -> BTreeMap<Vec<u64>, u64> {
    let mut counts = BTreeMap::new();
    for session in sessions {
        for window in session.lengths.windows(requests) {
            let key = window.iter().flat_map(|(input, output)| [input.div_ceil(step), output.div_ceil(step)]).collect();
            *counts.entry(key).or_default() += 1;
        }
    }
    counts
}

/// Share of windows that occur once; none if there is no window.
pub fn unique(sessions: &[SessionDigest], requests: usize, step: u64) -> Option<f64> {
    let counts = windows(sessions, requests, step);
    let all: u64 = counts.values().sum();
    let once = crate::audit::wide(counts.values().filter(|count| **count == 1).count());
    (all > 0).then(|| float(once) / float(all))
}

/// A share in whole percent.
pub fn percent(share: f64) -> u64 {
    whole(share * 100.0)
}

/// A small number without its fraction.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what fits"
)]
pub fn whole(value: f64) -> u64 {
    value.clamp(0.0, 1e9) as u64
}

/// The table of all files together. `local` names single sessions.
pub(crate) fn assess(dataset: &Dataset, columns: Vec<ColumnBits>, local: bool) -> Risk {
    let sessions = &dataset.sessions;
    let mut uniqueness = Vec::new();
    for requests in [1, 3, 10] {
        for rounded_to in [1, 16, 64, 1024] {
            let share = unique(sessions, requests, rounded_to);
            uniqueness.extend(share.map(|share| Uniqueness { requests, rounded_to, share }));
        }
    }
    let mut configurations: BTreeMap<&[u64], u64> = BTreeMap::new();
    let stated = sessions.iter().filter(|session| !session.configuration.is_empty());
    stated.for_each(|session| *configurations.entry(&session.configuration).or_default() += 1);
    let alone = crate::audit::wide(configurations.values().filter(|count| **count == 1).count());
    let configured: u64 = configurations.values().sum();
    let mut whole: BTreeMap<&[(u64, u64)], u64> = BTreeMap::new();
    sessions
        .iter()
        .filter(|session| session.lengths.len() >= 3)
        .for_each(|session| *whole.entry(&session.lengths).or_default() += 1);
    let mut owners: BTreeMap<&[(u64, u64)], (usize, bool)> = BTreeMap::new();
    for (at, session) in sessions.iter().enumerate() {
        for window in session.lengths.windows(5) {
            owners.entry(window).and_modify(|(first, twice)| *twice |= *first != at).or_insert((at, false));
        }
    }
    let shared = crate::audit::wide(owners.values().filter(|(_, twice)| *twice).count());
    let exposed = if local { exposed(sessions) } else { Vec::new() };
    Risk {
        sessions: crate::audit::wide(sessions.len()),
        requests: sessions.iter().map(|session| crate::audit::wide(session.lengths.len())).sum(),
        uniqueness,
        configuration: (configured > 0).then(|| float(alone) / float(configured)),
        duplicates: whole.values().map(|count| count - 1).sum(),
        overlapping: (!owners.is_empty()).then(|| 100.0 * float(shared) / float(crate::audit::wide(owners.len()))),
        columns,
        exposed,
    }
}

fn exposed(sessions: &[SessionDigest]) -> Vec<(String, u64)> {
    let counts = windows(sessions, 3, 1);
    let alone = |session: &&SessionDigest| {
        let mut windows = session.lengths.windows(3).peekable();
        windows.peek().is_some()
            && windows.all(|window| {
                let key: Vec<u64> = window.iter().flat_map(|(input, output)| [*input, *output]).collect();
                counts.get(&key) == Some(&1)
            })
    };
    sessions.iter().filter(alone).map(|session| (session.file.clone(), session.row)).collect()
}

impl Risk {
    /// The highest share of windows of three exact requests, for `--max-unique`.
    pub fn gate(&self) -> f64 {
        let cell = self.uniqueness.iter().find(|cell| cell.requests == 3 && cell.rounded_to == 1);
        cell.map_or(0.0, |cell| cell.share)
    }

    /// What an observer could do with it, in words.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let share = |requests, rounded_to| {
            self.uniqueness
                .iter()
                .find(|cell| cell.requests == requests && cell.rounded_to == rounded_to)
                .map(|cell| percent(cell.share))
        };
        if let Some(percent) = share(1, 1) {
            words.push(format!("Who knows the exact lengths of one request finds its place in {percent} % of cases."));
        }
        if let (Some(exact), Some(rounded)) = (share(3, 1), share(3, 64)) {
            words.push(format!(
                "Three requests in a row are enough in {exact} % of cases; rounded to 64 tokens, in {rounded} %."
            ));
        }
        if let Some(percent) = share(10, 1024) {
            words.push(format!("Ten requests in a row single out {percent} % even when rounded to 1,024 tokens: rounding does not hide a long session."));
        }
        if let Some(share) = self.configuration {
            words.push(format!("Lengths of tools and system prompt single out {} % of the sessions.", percent(share)));
        }
        if self.duplicates > 0 {
            words.push(format!("{} sessions repeat another one.", self.duplicates));
        }
        words.push("A provider, a proxy or the contributor has such numbers; none of this is called safe.".to_owned());
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(lengths: &[(u64, u64)]) -> SessionDigest {
        SessionDigest { lengths: lengths.to_vec(), ..SessionDigest::default() }
    }

    #[test]
    fn uniqueness_falls_with_rounding_and_rises_with_length() {
        let sessions = [session(&[(100, 1), (200, 2), (300, 3)]), session(&[(101, 1), (200, 2), (300, 3)])];
        assert_eq!(unique(&sessions, 1, 1).map(percent), Some(33));
        assert_eq!(unique(&sessions, 3, 1).map(percent), Some(100));
        assert_eq!(unique(&sessions, 3, 64).map(percent), Some(0));
        assert_eq!(unique(&sessions, 10, 1), None);
        let dataset = Dataset { sessions: vec![sessions[0].clone(), sessions[0].clone()], ..Dataset::default() };
        let risk = assess(&dataset, Vec::new(), false);
        assert_eq!((risk.duplicates, percent(risk.gate())), (1, 0));
    }
}
