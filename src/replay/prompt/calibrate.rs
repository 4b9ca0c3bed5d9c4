//! [`Calibration`]: how many tokens words are, from an endpoint's own counts, where its tokenizer is not at hand.
//!
//! Invariant: whole numbers only, so that equal samples give equal prompts on any machine.

use crate::tokenize::Role;

use super::ChatMessage;
use super::vocabulary::{Vocabulary, VocabularyError};
use super::wrapping::Wrapping;

/// A prompt that was counted. Numbers beyond a million are left out of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Answers in it: half of the messages before the last.
    pub answers: u32,
    /// Words in it.
    pub words: u32,
    /// Tokens, as the endpoint counted.
    pub counted: u32,
}

/// `counted ≈ fixed + answers · per_answer + words · rate / 1,000,000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// Tokens that every prompt has.
    pub fixed: u32,
    /// Tokens that each answer in the history costs beside its words.
    pub per_answer: u32,
    /// Tokens in a million words.
    pub rate: u64,
    /// Prompts it was fitted to.
    pub samples: usize,
    /// Median of the error, in tokens.
    pub error_p50: u32,
    /// 95th percentile of the error, in tokens.
    pub error_p95: u32,
    /// Largest error, in tokens.
    pub error_max: u32,
}

impl Calibration {
    /// The best fit by least squares; none where the samples do not tell (too few, too much alike).
    pub fn fit(samples: &[Sample]) -> Option<Self> {
        const LIMIT: u32 = 1 << 20;
        let fair =
            |sample: &&Sample| [sample.answers, sample.words, sample.counted].iter().all(|&number| number < LIMIT);
        let samples: Vec<&Sample> = samples.iter().filter(fair).take(4096).collect();
        let sum = |term: fn(&Sample) -> u64| samples.iter().map(|sample| i128::from(term(sample))).sum::<i128>();
        let wide = u64::from;
        let (n, a, w) = (sum(|_| 1), sum(|it| it.answers.into()), sum(|it| it.words.into()));
        let mut aa = sum(|it| u64::from(it.answers) * u64::from(it.answers));
        let aw = sum(|it| u64::from(it.answers) * u64::from(it.words));
        let ww = sum(|it| u64::from(it.words) * u64::from(it.words));
        let c = sum(|it| it.counted.into());
        let ac = sum(|it| u64::from(it.answers) * u64::from(it.counted));
        let wc = sum(|it| u64::from(it.words) * u64::from(it.counted));
        if a == 0 {
            // Texts have no answers.
            aa = 1;
        }
        let whole = determinant([[n, a, w], [a, aa, aw], [w, aw, ww]]);
        if whole <= 0 {
            return None;
        }
        // Cramer's rule, rounded.
        let rounded = |part: i128, scale: i128| (2 * part * scale + whole).div_euclid(2 * whole).max(0);
        let fixed = u32::try_from(rounded(determinant([[c, a, w], [ac, aa, aw], [wc, aw, ww]]), 1)).ok()?;
        let per_answer = u32::try_from(rounded(determinant([[n, c, w], [a, ac, aw], [w, wc, ww]]), 1)).ok()?;
        let rate = u64::try_from(rounded(determinant([[n, a, c], [a, aa, ac], [w, aw, wc]]), 1_000_000)).ok()?;
        if rate < 1_000_000 / 4 {
            return None;
        }
        let error = |sample: &&Sample| {
            let words = (wide(sample.words) * rate + 500_000) / 1_000_000;
            (wide(fixed) + wide(sample.answers) * wide(per_answer) + words).abs_diff(sample.counted.into())
        };
        let mut errors: Vec<u32> = samples.iter().map(error).filter_map(|error| u32::try_from(error).ok()).collect();
        errors.sort_unstable();
        let at =
            |percent: usize| errors.get((errors.len() * percent / 100).min(errors.len() - 1)).copied().unwrap_or(0);
        let (error_p50, error_p95, error_max) = (at(50), at(95), at(100));
        Some(Self { fixed, per_answer, rate, samples: samples.len(), error_p50, error_p95, error_max })
    }

    /// Where the template's tokens stand is not known, only how many there are.
    pub(super) fn wrapping(&self) -> Wrapping {
        let (head, open) = (self.fixed / 2, self.per_answer / 2);
        Wrapping::counted(head, open, self.per_answer - open, self.fixed - head)
    }
}

fn determinant(rows: [[i128; 3]; 3]) -> i128 {
    let [one, two, three] = rows;
    let ([left, middle, right], [low, lower, lowest]) = (two, three);
    let minors = [middle * lowest - right * lower, right * low - left * lowest, left * lower - middle * low];
    one.iter().zip(minors).map(|(factor, minor)| factor * minor).sum()
}

/// Prompts to have counted, with their [`Sample`]s still without a count. `chat` asks for histories as well.
///
/// # Errors
/// None in practice: the words are those of the builtin tokenizer.
pub fn probes(chat: bool) -> Result<Vec<(Vec<ChatMessage>, Sample)>, VocabularyError> {
    let vocabulary = Vocabulary::builtin(None)?;
    let shapes: &[(usize, usize)] = &[(0, 20), (0, 200), (0, 1000), (0, 3000), (1, 30), (2, 200), (4, 100), (8, 400)];
    let mut next = 0;
    let mut message = |role, words: usize| {
        let text = vocabulary.text((0..words).map(|_| {
            // A prime stride visits every word before it repeats one.
            next = (next + 1597) % vocabulary.size();
            next
        }));
        ChatMessage { role, content: text.into() }
    };
    let probe = |&(answers, words): &(usize, usize)| {
        let roles = (0..=2 * answers).map(|at| if at % 2 == 1 { Role::Assistant } else { Role::User });
        let messages: Vec<_> = roles.map(|role| message(role, words)).collect();
        let count = |number| u32::try_from(number).unwrap_or(0);
        let sample = Sample { answers: count(answers), words: count(messages.len() * words), counted: 0 };
        (messages, sample)
    };
    Ok(shapes.iter().filter(|(answers, _)| chat || *answers == 0).map(probe).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(answers: u32, words: u32, counted: u32) -> Sample {
        Sample { answers, words, counted }
    }

    #[test]
    fn what_was_counted_exactly_is_found_exactly() {
        let samples = [(0, 20), (0, 1000), (1, 90), (3, 500)].map(|(a, w)| sample(a, w, 8 + 10 * a + w + w / 20));
        let found = Calibration::fit(&samples).unwrap();
        assert_eq!((found.fixed, found.per_answer, found.error_max), (8, 10, 1));
        assert!(found.rate.abs_diff(1_050_000) < 1000, "{}", found.rate);
    }

    #[test]
    fn texts_need_no_answers_and_samples_that_tell_nothing_give_nothing() {
        let text = [(10, 11), (1000, 1001)].map(|(words, counted)| sample(0, words, counted));
        let found = Calibration::fit(&text).unwrap();
        assert_eq!((found.fixed, found.per_answer, found.rate), (1, 0, 1_000_000));
        for samples in [&[][..], &[sample(0, 10, 11)], &[sample(1, 10, 11), sample(1, 10, 11)]] {
            assert_eq!(Calibration::fit(samples), None);
        }
    }

    #[test]
    fn the_error_is_told() {
        let mut samples = vec![sample(0, 100, 100); 50];
        samples.extend(vec![sample(0, 200, 200); 49]);
        samples.push(sample(0, 200, 260));
        let found = Calibration::fit(&samples).unwrap();
        assert!(found.error_p50 <= 2 && found.error_p95 <= 2 && found.error_max > 50, "{found:?}");
    }
}
