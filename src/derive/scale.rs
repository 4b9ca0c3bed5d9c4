//! Scaling of lengths.
//!
//! Invariant: it is monotone, so that what was a prefix stays one; scaled numbers are multiples of the quanta that the manifest
//! states; a length that was not 0 does not become 0 where lengths are exact.

use std::str::FromStr;

use crate::trace::manifest::Quanta;
use crate::trace::{Session, Usage};

/// A factor for lengths, in thousandths, and what scaled lengths are multiples of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    thousandths: u32,
    input_step: u32,
    output_step: u32,
}

impl Scale {
    /// Leaves every length as it is.
    pub const ONE: Self = Self { thousandths: 1000, input_step: 1, output_step: 1 };

    /// With the steps of a trace.
    #[must_use]
    pub fn in_steps_of(self, quanta: &Quanta) -> Self {
        Self { input_step: quanta.input_tokens.max(1), output_step: quanta.output_tokens.max(1), ..self }
    }

    /// A length inside a prompt.
    pub(super) fn tokens(self, tokens: u32) -> u32 {
        let scaled = u64::from(tokens) * u64::from(self.thousandths) / 1000;
        u32::try_from(scaled).unwrap_or(u32::MAX)
    }

    /// The length of a prompt: down to the step.
    pub(super) fn input(self, tokens: u32) -> u32 {
        let scaled = if self.input_step == 1 { self.tokens(tokens).max(tokens.min(1)) } else { self.tokens(tokens) };
        scaled - scaled % self.input_step
    }

    /// The length of an answer: up to the step.
    fn output(self, tokens: u32) -> u32 {
        let steps = self.tokens(tokens).max(tokens.min(1)).div_ceil(self.output_step);
        steps.checked_mul(self.output_step).unwrap_or(u32::MAX - u32::MAX % self.output_step)
    }

    /// Scales what a session holds beside its prompts. What a provider counted or was asked for is not true of scaled requests
    /// and is left out; times stay.
    pub(super) fn apply(self, session: &mut Session) {
        if self.thousandths == 1000 {
            return;
        }
        for request in &mut session.requests {
            request.output_tokens = request.output_tokens.map(|tokens| self.output(tokens));
            request.tools_tokens = request.tools_tokens.map(|tokens| self.tokens(tokens));
            request.system_tokens = request.system_tokens.map(|tokens| self.tokens(tokens));
            request.usage = Usage::default();
            request.max_tokens = None;
        }
        for tool in &mut session.tools {
            tool.input_tokens = tool.input_tokens.map(|tokens| self.tokens(tokens));
            tool.output_tokens = tool.output_tokens.map(|tokens| self.tokens(tokens));
        }
        for agent in &mut session.agents {
            agent.total_tokens = None;
        }
    }
}

impl FromStr for Scale {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RULE: &str = "a factor above 0 and up to 1000, with at most three decimals";
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if decimals.len() > 3
            || whole.len() > 4
            || whole.len() + decimals.len() == 0
            || !digits(whole)
            || !digits(decimals)
        {
            return Err(RULE);
        }
        let thousandths = format!("{whole}{decimals:0<3}").parse().map_err(|_| RULE)?;
        (1..=1_000_000).contains(&thousandths).then_some(Self { thousandths, ..Self::ONE }).ok_or(RULE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_read_to_three_decimals() {
        for (text, thousandths) in
            [("1", 1000), ("0.5", 500), (".25", 250), ("2.", 2000), ("1.125", 1125), ("1000", 1_000_000)]
        {
            assert_eq!(text.parse::<Scale>().unwrap().thousandths, thousandths, "{text}");
        }
        for text in ["", ".", "0", "0.0001", "-1", "1e3", "1001", "nan", "+1", "99999"] {
            assert!(text.parse::<Scale>().is_err(), "{text}");
        }
    }

    #[test]
    fn scaled_lengths_keep_the_steps_of_the_trace() {
        let quanta = Quanta { input_tokens: 64, output_tokens: 16, machine_ms: 10, user_ms: 1000 };
        let scale = "0.5".parse::<Scale>().unwrap().in_steps_of(&quanta);
        assert_eq!((scale.input(64), scale.input(192), scale.output(32), scale.output(48)), (0, 64, 16, 32));
        let exact = "0.001".parse::<Scale>().unwrap();
        assert_eq!((exact.input(0), exact.input(10), exact.input(5000), exact.output(3)), (0, 1, 5, 1));
        assert_eq!("1000".parse::<Scale>().unwrap().input(u32::MAX), u32::MAX);
    }
}
