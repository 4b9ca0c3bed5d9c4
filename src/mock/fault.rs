//! Faults on purpose: which requests go wrong, and how.
//!
//! Invariant: whether a request fails depends on the seed and on how many requests came before it, on nothing else.

use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A way to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An error status instead of an answer (400 to 599).
    Status(u16),
    /// The connection is reset before an answer.
    Reset,
    /// The answer stops half-way, and the connection stays open.
    Stall,
    /// The first token comes late.
    SlowStart,
    /// The connection ends half-way through the answer.
    Cut,
    /// Half-way comes something that is no JSON and no UTF-8.
    Garbage,
}

impl Fault {
    /// Its word on the command line.
    pub fn word(self) -> String {
        match self {
            Self::Status(status) => status.to_string(),
            Self::Reset => "reset".to_owned(),
            Self::Stall => "stall".to_owned(),
            Self::SlowStart => "slow-start".to_owned(),
            Self::Cut => "cut".to_owned(),
            Self::Garbage => "garbage".to_owned(),
        }
    }
}

impl FromStr for Fault {
    type Err = FaultSyntax;

    fn from_str(word: &str) -> Result<Self, FaultSyntax> {
        Ok(match word {
            "reset" => Self::Reset,
            "stall" => Self::Stall,
            "slow-start" => Self::SlowStart,
            "cut" => Self::Cut,
            "garbage" => Self::Garbage,
            _ => Self::Status(word.parse().ok().filter(|status| (400..600).contains(status)).ok_or(FaultSyntax)?),
        })
    }
}

/// Faults with the share of requests that each befalls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults(Vec<(Fault, f64)>);

/// The list of faults is not of the form that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "faults are FAULT:SHARE, separated by commas, with shares that add up to 1 at most; \
     FAULT is 400 to 599, reset, stall, slow-start, cut or garbage"
)]
pub struct FaultSyntax;

impl FromStr for Faults {
    type Err = FaultSyntax;

    fn from_str(list: &str) -> Result<Self, FaultSyntax> {
        let faults = list
            .split(',')
            .map(|item| {
                let (word, share) = item.trim().split_once(':').ok_or(FaultSyntax)?;
                let share: f64 = share.parse().map_err(|_| FaultSyntax)?;
                Ok((word.parse()?, share))
            })
            .collect::<Result<Vec<(Fault, f64)>, FaultSyntax>>()?;
        let possible = faults.iter().all(|(_, share)| (0.0..=1.0).contains(share));
        // A little more than 1 is how ten tenths add up.
        if possible && faults.iter().map(|(_, share)| share).sum::<f64>() < 1.000_001 {
            Ok(Self(faults))
        } else {
            Err(FaultSyntax)
        }
    }
}

impl Faults {
    /// What befalls the request of this number.
    pub(super) fn draw(&self, seed: u64, number: u64) -> Option<Fault> {
        let mut left = share_of(xxh3_64_with_seed(&number.to_le_bytes(), seed));
        self.0.iter().find_map(|(fault, share)| {
            left -= share;
            (left < 0.0).then_some(*fault)
        })
    }
}

/// A hash as a number from 0 up to 1.
fn share_of(hash: u64) -> f64 {
    f64::from(u32::try_from(hash >> 32).unwrap_or(u32::MAX)) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_befall_their_share_of_the_requests_and_the_same_ones_for_a_seed() {
        let faults: Faults = "429:0.1,cut:0.05, slow-start:0.01".parse().unwrap();
        let draw = |seed| (0..10_000).map(|number| faults.draw(seed, number)).collect::<Vec<_>>();
        let drawn = draw(1);
        let count = |fault| drawn.iter().filter(|drawn| **drawn == fault).count();
        assert!((900..1100).contains(&count(Some(Fault::Status(429)))));
        assert!((400..600).contains(&count(Some(Fault::Cut))));
        assert!((50..150).contains(&count(Some(Fault::SlowStart))));
        assert_eq!(draw(1), drawn);
        assert_ne!(draw(2), drawn);
        assert_eq!(Faults::default().draw(1, 1), None);
        assert_eq!("reset:1".parse::<Faults>().unwrap().draw(7, 7), Some(Fault::Reset));
    }

    #[test]
    fn a_list_of_another_form_is_refused() {
        for list in ["", "429", "429:2", "429:-1", "200:0.1", "crash:0.1", "429:0.6,500:0.6", "429:NaN"] {
            assert_eq!(list.parse::<Faults>(), Err(FaultSyntax), "{list}");
        }
    }

    #[test]
    fn every_fault_has_a_word_that_reads_back() {
        for fault in [Fault::Status(529), Fault::Reset, Fault::Stall, Fault::SlowStart, Fault::Cut, Fault::Garbage] {
            assert_eq!(fault.word().parse(), Ok(fault));
        }
    }
}
