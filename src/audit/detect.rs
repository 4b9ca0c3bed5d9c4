//! What strings and numbers look like: dates, ids, language, text in disguise.
//!
//! Invariant: a verdict is a class; nothing of what was looked at is kept.

use super::coded::{affine, fractions_hide_words, words};

/// Whether a date like 2026-11-29 or 20261129, or a time like 12:34:56, stands in a text.
pub(crate) fn has_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let number = |at: usize, digits: usize| {
        (at..at + digits).try_fold(0u32, |value, at| {
            bytes.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| value * 10 + u32::from(byte - b'0'))
        })
    };
    (0..bytes.len()).any(|at| {
        if at > 0 && digit(at - 1) {
            return false;
        }
        let date = |month: usize, day: usize, end: usize| {
            number(at, 4).is_some_and(|year| (1990..2100).contains(&year))
                && number(at + month, 2).is_some_and(|month| (1..13).contains(&month))
                && number(at + day, 2).is_some_and(|day| (1..32).contains(&day))
                && !digit(at + end)
        };
        let separator = |at: usize| bytes.get(at).is_some_and(|byte| b"-/._".contains(byte));
        date(4, 6, 8)
            || (separator(at + 4) && separator(at + 7) && date(5, 8, 10))
            || (bytes.get(at + 2) == Some(&b':')
                && bytes.get(at + 5) == Some(&b':')
                && number(at, 2).is_some_and(|hour| hour < 24)
                && number(at + 3, 2).is_some_and(|minute| minute < 60))
    })
}

/// Whether a text is, or holds, a UUID.
pub(crate) fn has_uuid(text: &str) -> bool {
    text.as_bytes().windows(36).any(|window| {
        window
            .iter()
            .enumerate()
            .all(|(at, byte)| if [8, 13, 18, 23].contains(&at) { *byte == b'-' } else { byte.is_ascii_hexdigit() })
    })
}

/// Whether a text is a hash by its form: hexadecimal digits alone, 8 to 128 of them.
pub(crate) fn is_hex_hash(text: &str) -> bool {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    (8..=128).contains(&digits.len())
        && digits.len().is_multiple_of(4)
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && digits.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether hexadecimal digits are the bytes of a text.
pub(crate) fn is_hex_text(digits: &str) -> bool {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    pairs.len() >= 4
        && rest.is_empty()
        && pairs.iter().all(|pair| byte(pair).is_some_and(|byte| (0x20..0x7f).contains(&byte)))
}

/// Whether a text reads like a sentence, or has letters of scripts that need no spaces.
pub(crate) fn is_language(text: &str) -> bool {
    let wide =
        text.chars().filter(|c| ('\u{3040}'..='\u{9fff}').contains(c) || ('\u{ac00}'..='\u{d7af}').contains(c)).count();
    let words = text.split(|c: char| c.is_whitespace() || ",.;:!?".contains(c));
    let words = words.filter(|word| word.chars().count() > 1 && word.chars().all(char::is_alphabetic)).count();
    wide >= 4 || (words >= 4 && words * 9 >= text.chars().count())
}

/// How numbers hide text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disguise {
    /// One character a number.
    CodePoints,
    /// Several bytes a number.
    Packed,
    /// A byte in the low bits of each number.
    LowBytes,
    /// A few low bits of each number, eight of them a character.
    LowBits,
    /// What each number adds to the one before is a character.
    Steps,
    /// Decimal digits of each number are characters.
    Digits,
    /// A multiple of each character, and something added.
    Affine,
}

/// How integers hide text, if they do. `open` says that nothing declares them, so that less proof is asked for.
pub(crate) fn disguise(values: &[i64], open: bool) -> Option<Disguise> {
    if values.chunks(4096).any(packed) {
        return Some(Disguise::Packed);
    }
    let ascii = |value| u8::try_from(value).ok().map(char::from).filter(char::is_ascii);
    if run(values, if open { 6 } else { 24 }, ascii) || chinese(values) {
        return Some(Disguise::CodePoints);
    }
    // The longer a column is, the longer are the runs that chance makes.
    let rows = values.len().checked_div(64).and_then(usize::checked_ilog2).unwrap_or(0).min(6);
    let least = 12 + 2 * usize::try_from(rows).unwrap_or(0);
    if low_bytes(values, if open { least } else { 20 }) {
        return Some(Disguise::LowBytes);
    }
    let step = |pair: &[i64; 2]| i64::wrapping_sub(pair[1], pair[0]);
    let steps: Vec<i64> = values.array_windows().map(step).collect();
    let small = |value| ascii(value).filter(|c| c.is_ascii_lowercase() || *c == ' ');
    if run(&steps, if open { 12 } else { 24 }, small) {
        return Some(Disguise::Steps);
    }
    let last: Vec<i64> = values.iter().map(|value| value.rem_euclid(1000)).collect();
    if last != values && words(&last) {
        return Some(Disguise::Digits);
    }
    if affine(values) {
        return Some(Disguise::Affine);
    }
    let long = values.iter().filter(|value| **value >= 100_000).take(1 << 12);
    if digits(&long.map(ToString::to_string), if open { 8 } else { 16 }) {
        return Some(Disguise::Digits);
    }
    [1, 2, 4]
        .into_iter()
        .any(|width| low_bits(&values.iter().map(|value| *value & 0xff), width))
        .then_some(Disguise::LowBits)
}

/// Whether decimal digits, two or three a character, are a text.
fn digits(numbers: &(impl Iterator<Item = String> + Clone), least: usize) -> bool {
    // Of two digits, every second pair is a character; of three, one in sixteen.
    [(2, 24), (3, least)].into_iter().any(|(width, least)| {
        let points = numbers.clone().flat_map(|number| {
            // A leading zero may have gone.
            let padded = format!("{number:0>width$}", width = number.len().next_multiple_of(width));
            let groups = padded
                .as_bytes()
                .chunks(width)
                .map(|group| group.iter().fold(0, |all, digit| all * 10 + i64::from(digit.wrapping_sub(b'0'))));
            groups.collect::<Vec<_>>()
        });
        let points: Vec<i64> = points.collect();
        let ascii = |value| u8::try_from(value).ok().map(char::from).filter(|c| c.is_ascii_alphanumeric() || *c == ' ');
        run(&points, least, ascii)
    })
}

/// Whether the lowest `width` bits of numbers in a row, put together, are a text.
fn low_bits(values: &(impl Iterator<Item = i64> + Clone), width: usize) -> bool {
    let per = 8 / width;
    let mask = (1 << width) - 1;
    (0..per).any(|offset| {
        [false, true].into_iter().any(|big| {
            let mut values = values.clone().skip(offset);
            let mut bytes = std::iter::from_fn(|| {
                let mut byte = 0;
                for at in 0..per {
                    let bits = values.next()? & mask;
                    byte |= bits << (width * if big { per - 1 - at } else { at });
                }
                Some(byte)
            });
            plane(&mut bytes, |byte| (0x20..0x7f).contains(&byte))
        })
    })
}

/// Whether bytes hold a run of characters that is a text.
fn plane(bytes: &mut dyn Iterator<Item = i64>, accept: fn(u8) -> bool) -> bool {
    let mut text = String::new();
    for byte in bytes.chain([0]) {
        match u8::try_from(byte).ok().filter(|byte| accept(*byte)) {
            Some(byte) if text.len() < 1 << 12 => text.push(byte.into()),
            _ => {
                if reads(&text, 24) {
                    return true;
                }
                text.clear();
            }
        }
    }
    false
}

/// Whether true and false, eight or seven of them a character, are a text.
pub(crate) fn bits_hide_text(bits: &[bool]) -> bool {
    let values = || bits.iter().map(|bit| i64::from(*bit));
    let seven = (0..7).any(|offset| {
        let bytes = |big: bool| {
            let mut bits = values().skip(offset);
            move || (0..7).try_fold(0, |byte, at| Some(byte | bits.next()? << if big { 6 - at } else { at }))
        };
        // Three of four bytes of noise are characters, but few are of a kind.
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b' ';
        plane(&mut std::iter::from_fn(bytes(true)), letter) || plane(&mut std::iter::from_fn(bytes(false)), letter)
    });
    seven || low_bits(&values(), 1)
}

/// Characters that stand in every Chinese or Japanese text of some length.
const COMMON: &str = "的一是不了人我在有他这中大来上个国说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好都然没日于起还发成事请用通知のはをにがで";

/// Whether numbers are the characters of a Chinese or Japanese text. Lengths fall into the same range, but seldom on the commonest
/// characters.
fn chinese(values: &[i64]) -> bool {
    values.chunks(24).any(|values| {
        let text: String =
            values.iter().filter_map(|value| u32::try_from(*value).ok().and_then(char::from_u32)).collect();
        let wide = text.chars().filter(|c| ('\u{3000}'..='\u{9fff}').contains(c)).count();
        let common = text.chars().filter(|c| COMMON.contains(*c)).count();
        wide >= 8 && wide * 10 >= values.len() * 9 && common * 8 >= wide
    })
}

/// Whether `least` numbers in a row are the characters of a text.
fn run(values: &[i64], least: usize, character: impl Fn(i64) -> Option<char>) -> bool {
    let mut text = String::new();
    for value in values.iter().copied().chain([-1]) {
        match character(value).filter(|c| is_text(*c)) {
            Some(c) => text.push(c),
            None => {
                if reads(&text, least) {
                    return true;
                }
                text.clear();
            }
        }
        if text.len() > 1 << 12 {
            if reads(&text, least) {
                return true;
            }
            text.clear();
        }
    }
    false
}

fn is_text(c: char) -> bool {
    matches!(c, ' '..='~' | '\n' | '\t' | '\r')
        || (c > '\u{bf}' && c.is_alphanumeric())
        || matches!(c, '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ff65}')
}

/// Whether characters are a text and not numbers that happen to be characters: many, different, mostly letters, few between, and not
/// counting.
pub(super) fn reads(text: &str, least: usize) -> bool {
    let count = text.chars().count();
    if count < least {
        return false;
    }
    let letters = text.chars().filter(|c| c.is_alphanumeric() || *c == ' ').count();
    let next = text.chars().skip(1);
    let jumps = text.chars().zip(next).filter(|(one, next)| u32::from(*one).abs_diff(u32::from(*next)) > 1).count();
    let mut different: Vec<char> = text.chars().collect();
    different.sort_unstable();
    different.dedup();
    letters * 4 >= count * 3 && jumps * 3 >= count && different.len() >= least.min(8).min(count / 3 + 1)
}

/// Whether numbers of several bytes are text, 4, 7 or 8 bytes each, in either order.
fn packed(values: &[i64]) -> bool {
    let large = |floor: i64| values.iter().copied().filter(move |value| *value >= floor || *value < 0);
    let try_with = |floor: i64, least: usize, order: fn(i64) -> Vec<u8>| {
        let mut bytes = Vec::new();
        let mut count = 0usize;
        let mut successive = 0usize;
        let mut last = None;
        for value in large(floor).take(4096) {
            bytes.extend(order(value).into_iter().filter(|byte| *byte != 0));
            successive += usize::from(last.is_some_and(|last: i64| value.wrapping_sub(last).unsigned_abs() <= 256));
            last = Some(value);
            count += 1;
        }
        if count < least || successive * 2 > count {
            return false;
        }
        let text = String::from_utf8_lossy(&bytes);
        let good = text.chars().filter(|c| is_text(*c)).count();
        let all = text.chars().count();
        good * 50 >= all * 47 && reads(&text.chars().filter(|c| is_text(*c)).collect::<String>(), 8)
    };
    let little: fn(i64) -> Vec<u8> = |value| value.to_le_bytes().to_vec();
    let big: fn(i64) -> Vec<u8> = |value| value.to_be_bytes().to_vec();
    [little, big].into_iter().any(|order| try_with(1 << 40, 2, order) || try_with(1 << 21, 6, order))
}

/// Whether the low bytes of numbers in a row are text while the rest of the numbers is not.
fn low_bytes(values: &[i64], least: usize) -> bool {
    let check = |bytes: &[u8], high: usize| {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|error| {
            // A character may be cut off at the end.
            bytes.get(..error.valid_up_to()).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
        });
        bytes.len() >= least
            && high * 3 >= bytes.len()
            && text.len() + 4 > bytes.len()
            && text.chars().all(is_text)
            && reads(text, least / 3)
    };
    let (mut bytes, mut high) = (Vec::new(), 0usize);
    for value in values {
        let [low, ..] = value.to_le_bytes();
        if (0x20..0x7f).contains(&low) || low >= 0x80 || low == b'\n' || low == b'\t' {
            bytes.push(low);
            high += usize::from(*value > 255);
        } else {
            if check(&bytes, high) {
                return true;
            }
            bytes.clear();
            high = 0;
        }
        if bytes.len() > 1 << 12 {
            if check(&bytes, high) {
                return true;
            }
            bytes.clear();
            high = 0;
        }
    }
    check(&bytes, high)
}

/// Whether eight-byte floating-point numbers are text by their bits.
pub(crate) fn floats_hide_text(values: &[f64]) -> bool {
    let bits: Vec<i64> = values.iter().map(|value| value.to_bits().cast_signed()).collect();
    let halves: Vec<i64> = values.iter().map(|value| i64::from(narrow(*value).to_bits())).collect();
    let fractions = values.iter().filter(|value| value.is_finite()).take(1 << 12).filter_map(|value| {
        let text = value.to_string();
        text.split_once('.').map(|(_, fraction)| fraction.to_owned()).filter(|fraction| fraction.len() >= 5)
    });
    let fractions_bits: Vec<i64> = bits.iter().map(|bits| bits & 0xffff_ffff_ffff).collect();
    fractions_hide_words(values)
        || packed(&bits)
        || packed(&halves)
        || packed(&fractions_bits)
        || digits(&fractions, 12)
}

/// The nearest number of four bytes.
#[expect(
    clippy::as_conversions,
    clippy::cast_possible_truncation,
    reason = "what was made of four bytes is four bytes again"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// A count as a float; exact up to 2^53, which is more than is ever counted.
#[expect(
    clippy::as_conversions,
    clippy::cast_precision_loss,
    reason = "rounding far above what is counted changes no verdict"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Bits of information in a value drawn from these counts.
pub(crate) fn entropy(counts: impl Iterator<Item = u64> + Clone) -> f64 {
    let total = float(counts.clone().sum::<u64>()).max(1.0);
    counts.filter(|count| *count > 0).map(|count| float(count) / total).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seen_and_numbers_are_not_dates() {
        for text in ["2026-11-29T10:00:00Z", "run_20261129.csv", "at 2026/01/02", "10:20:30"] {
            assert!(has_date(text), "{text}");
        }
        for text in ["20269999", "trace_0001", "120261129", "4000", "1:2:3"] {
            assert!(!has_date(text), "{text}");
        }
    }

    #[test]
    fn text_in_numbers_is_seen() {
        let text = "Please quarantine the ledger before the merger";
        let points: Vec<i64> = text.bytes().map(i64::from).collect();
        assert_eq!(disguise(&points, false), Some(Disguise::CodePoints));
        let packed: Vec<i64> = text
            .as_bytes()
            .chunks(7)
            .map(|chunk| chunk.iter().fold(0, |all, byte| all << 8 | i64::from(*byte)))
            .collect();
        assert_eq!(disguise(&packed, false), Some(Disguise::Packed));
        let low: Vec<i64> = text
            .bytes()
            .enumerate()
            .map(|(at, byte)| (i64::try_from(at).unwrap() * 37 % 5 + 1) * 256 + i64::from(byte))
            .collect();
        assert_eq!(disguise(&low, false), Some(Disguise::LowBytes));
        let steps: Vec<i64> = text
            .to_lowercase()
            .bytes()
            .scan(1000, |sum, byte| {
                *sum += i64::from(byte);
                Some(*sum)
            })
            .collect();
        assert_eq!(disguise(&steps, false), Some(Disguise::Steps));
        let digits: Vec<i64> = text
            .as_bytes()
            .chunks(4)
            .map(|part| part.iter().fold(0, |all, byte| all * 1000 + i64::from(*byte)))
            .collect();
        assert_eq!(disguise(&digits, true), Some(Disguise::Digits));
        let bits: Vec<bool> = text.bytes().flat_map(|byte| (0..8).map(move |bit| byte >> (7 - bit) & 1 == 1)).collect();
        assert!(bits_hide_text(&bits) && bits_hide_text(&[&[true, false, true][..], &bits].concat()));
        let low: Vec<i64> = bits
            .iter()
            .enumerate()
            .map(|(at, bit)| i64::try_from(at).unwrap() % 17 * 64 + 300 + i64::from(*bit))
            .collect();
        assert_eq!(disguise(&low, false), Some(Disguise::LowBits));
        let floats: Vec<f64> =
            text.as_bytes().chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()).into()).collect();
        assert!(floats_hide_text(&floats));
        let floats: Vec<f64> =
            text.as_bytes().chunks_exact(8).map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap())).collect();
        assert!(floats_hide_text(&floats));
    }

    #[test]
    fn ordinary_numbers_hide_nothing() {
        let mut state = 7u64;
        let mut next = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        for _ in 0..200 {
            let lengths: Vec<i64> = (0..200).map(|_| next(2000).cast_signed()).collect();
            assert_eq!(disguise(&lengths, false), None);
        }
        for _ in 0..50 {
            let bits: Vec<bool> = (0..20_000).map(|_| next(2) == 1).collect();
            assert!(!bits_hide_text(&bits));
            let times: Vec<f64> = (0..200).map(|_| f64::from(u32::try_from(next(1 << 30)).unwrap()) / 1e6).collect();
            assert!(!floats_hide_text(&times));
            let mut sum = 0;
            let steps: Vec<i64> = (0..500)
                .map(|_| {
                    sum += 32 + next(95).cast_signed();
                    sum
                })
                .collect();
            assert_eq!(disguise(&steps, false), None);
        }
        let dense: Vec<i64> = (0..5000).collect();
        assert_eq!(disguise(&dense, false), None);
        let wide: Vec<i64> = (0..5000).map(|at| 1_764_420_000_000 + at * 997).collect();
        assert_eq!(disguise(&wide, false), None);
    }
}
