//! Distributions as bins, for plots.
//!
//! Invariant: bin 0 holds the zeros, bin n the values of n binary digits; nothing is left out.

use crate::trace::Session;
use crate::trace::vocab::DelayKind;

/// Counts of values by their number of binary digits: 0, 1, 2–3, 4–7 …
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bins {
    /// How many values each bin holds.
    pub counts: Vec<u64>,
}

impl Bins {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        let bin = usize::try_from(u64::BITS - value.leading_zeros()).unwrap_or(0);
        if self.counts.len() <= bin {
            self.counts.resize(bin + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bin) {
            *count += 1;
        }
    }

    /// The smallest value that falls in a bin.
    pub fn from(bin: usize) -> u64 {
        bin.checked_sub(1)
            .map_or(0, |digits| 1_u64.checked_shl(u32::try_from(digits).unwrap_or(64)).unwrap_or(u64::MAX))
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The distributions of a trace, grown session by session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distributions {
    /// Lengths of prompts, in tokens.
    pub input_tokens: Bins,
    /// Tokens of prompts that no earlier prompt had, in whole blocks and the rest.
    pub new_tokens: Bins,
    /// Lengths of answers, in tokens.
    pub output_tokens: Bins,
    /// Durations of requests, in milliseconds.
    pub durations: Bins,
    /// Delays that a person caused, in milliseconds.
    pub user_delays: Bins,
    /// Delays that tools caused, in milliseconds.
    pub tool_delays: Bins,
}

impl Distributions {
    /// Adds a session of a trace with blocks of `block_size` tokens.
    pub fn add(&mut self, session: &Session, block_size: u32) {
        for request in &session.requests {
            let input = u64::from(request.input_tokens);
            self.input_tokens.add(input);
            let known = u64::from(request.prefix.shared_blocks) * u64::from(block_size);
            self.new_tokens.add(input.saturating_sub(known));
            request.output_tokens.into_iter().for_each(|tokens| self.output_tokens.add(tokens.into()));
            request.duration_ms.into_iter().for_each(|duration| self.durations.add(duration.into()));
        }
        for edge in &session.edges {
            match edge.delay_kind {
                DelayKind::User => self.user_delays.add(edge.delay_ms),
                DelayKind::Tool => self.tool_delays.add(edge.delay_ms),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_in_the_bin_of_its_number_of_digits() {
        let mut bins = Bins::default();
        for value in [0, 1, 2, 3, 4, 1023, 1024, u64::MAX] {
            bins.add(value);
        }
        assert_eq!(
            (&bins.counts[..5], bins.counts[10], bins.counts[11], bins.counts[64]),
            (&[1, 1, 2, 1, 0][..], 1, 1, 1)
        );
        assert_eq!([0, 1, 2, 3, 11].map(Bins::from), [0, 1, 2, 4, 1024]);
        assert_eq!(bins.count(), 8);
    }
}
