//! Numbers that are characters once something is taken off: a factor, what was added, the digits before the last three.
//!
//! Invariant: what only looks like characters is everywhere among numbers, so here it has to be words.

use super::detect::{is_language, reads};

/// Whether all numbers are `a` times a character and `b`, for some `a` and `b`. Characters that only look like some are everywhere,
/// so they have to be words, with the vowels that words have.
pub(super) fn affine(values: &[i64]) -> bool {
    let Some(least) = values.iter().min().filter(|_| values.len() >= 32) else { return false };
    let mut step = 0u64;
    for value in values {
        let mut other = value.abs_diff(*least);
        while other != 0 {
            (step, other) = (other, step % other);
        }
    }
    let most = values.iter().filter_map(|value| value.abs_diff(*least).checked_div(step)).max().unwrap_or(u64::MAX);
    (32..127_u64).take_while(|first| first.saturating_add(most) < 127).any(|first| {
        let code = |value: &i64| u32::try_from(first + value.abs_diff(*least) / step).ok().and_then(char::from_u32);
        let text: String = values.iter().take(1 << 12).filter_map(code).collect();
        let count = |accept: fn(char) -> bool| text.chars().filter(|c| accept(*c)).count();
        let (letters, spaces) = (count(|c| c.is_ascii_lowercase()), count(|c| c == ' '));
        let vowels = count(|c| "aeiou".contains(c));
        let is_text = (letters + spaces) * 4 >= text.len() * 3 && spaces * 20 >= text.len() && spaces * 3 <= text.len();
        is_text && vowels * 4 >= letters && vowels * 2 <= letters && reads(&text, 32) && is_language(&text)
    })
}

/// Whether 24 numbers in a row are small letters and spaces. What counts meets all letters, but no space among them.
pub(super) fn words(values: &[i64]) -> bool {
    let letter = |value: &i64| u8::try_from(*value).is_ok_and(|byte| byte.is_ascii_lowercase() || byte == b' ');
    values.split(|value| !letter(value)).any(|run| {
        let spaces = run.iter().filter(|value| **value == 32).count();
        run.len() >= 24 && spaces * 24 >= run.len() && spaces * 2 <= run.len()
    })
}

/// Whether the thousandths of numbers are words.
pub(super) fn fractions_hide_words(values: &[f64]) -> bool {
    words(&values.iter().map(|value| thousandths(value.rem_euclid(1.0))).collect::<Vec<_>>())
}

/// Thousandths of a number from 0 to 1.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "at most a thousand; anything else is no character"
)]
fn thousandths(value: f64) -> i64 {
    (value * 1000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use crate::audit::detect::{Disguise, disguise, floats_hide_text};

    const TEXT: &str = "please quarantine the ledger before the merger";

    fn codes() -> impl Iterator<Item = i64> {
        TEXT.bytes().map(i64::from)
    }

    #[test]
    fn words_are_seen_under_factors_and_digits() {
        let affine: Vec<i64> = codes().map(|code| code * 37 + 12_345).collect();
        assert_eq!(disguise(&affine, false), Some(Disguise::Affine));
        let last: Vec<i64> = (0..).zip(codes()).map(|(at, code)| at * 7000 + code).collect();
        assert_eq!(disguise(&last, false), Some(Disguise::Digits));
        let last: Vec<f64> = TEXT
            .bytes()
            .enumerate()
            .map(|(at, byte)| f64::from(u32::try_from(at).unwrap()) + f64::from(byte) / 1000.0)
            .collect();
        assert!(floats_hide_text(&last));
    }

    #[test]
    fn what_counts_and_what_has_few_values_hides_nothing() {
        for step in [1, 2, 3, 5, 7, 997, 999, 1001, 1003] {
            let counting: Vec<i64> = (0..5000).map(|at| at * step).collect();
            assert_eq!(disguise(&counting, true), None, "{step}");
        }
        let mut state = 7_u64;
        for most in [27, 64, 95] {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                100 * ((state >> 33) % most).cast_signed()
            };
            for _ in 0..100 {
                let few: Vec<i64> = (0..500).map(|_| next()).collect();
                assert_eq!(disguise(&few, false), None, "{most}");
            }
        }
    }
}
