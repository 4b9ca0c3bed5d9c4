//! The numbers from 0 on as text, once: lists of ids count up for long, so they are read by comparing with it and written by copying.
//!
//! Invariant: number `n` and its comma stand at `offset(n)`; what is not in the text is left to be done digit by digit.

use std::fmt::Write as _;
use std::sync::OnceLock;

/// Numbers below this are in the text, 700 kB of it.
const END: u64 = 1 << 17;
/// Bytes that are compared at a time.
const STEP: usize = 64;

/// `0,1,2,…`
fn text() -> &'static [u8] {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        (0..END).fold(String::new(), |mut text, number| {
            // Writing to a string can't fail.
            write!(text, "{number},").ok();
            text
        })
    });
    text.as_bytes()
}

/// Where a number begins: each is as long as its digits and a comma, and each power of ten below had a digit less so many times.
fn offset(number: u64) -> usize {
    let (mut offset, mut power) = (number * 2, 10);
    while power <= number {
        offset += number - power;
        power *= 10;
    }
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// The numbers `first..first + count` as text, a comma after each; none if they are too large.
pub(super) fn written(first: u64, count: u32) -> Option<&'static [u8]> {
    let end = first.checked_add(count.into()).filter(|end| *end <= END)?;
    text().get(offset(first)..offset(end))
}

/// How many numbers at the front of `bytes` count up from `first`, each with its comma, and how many bytes they take.
pub(super) fn read(bytes: &[u8], first: u64) -> (u32, usize) {
    let Some(expected) = text().get(offset(first.min(END))..) else { return (0, 0) };
    let equal = |(one, other): &(&[u8], &[u8])| one == other;
    let steps = bytes.chunks_exact(STEP).zip(expected.chunks_exact(STEP)).take_while(equal).count() * STEP;
    let rest = bytes.iter().zip(expected).skip(steps).take_while(|(one, other)| one == other);
    let common = expected.get(..steps + rest.count()).unwrap_or_default();
    let length = memchr::memrchr(b',', common).map_or(0, |comma| comma + 1);
    // The last of them tells how many.
    let before = common.get(..length.saturating_sub(1)).unwrap_or_default();
    let last = before.get(memchr::memrchr(b',', before).map_or(0, |comma| comma + 1)..).unwrap_or_default();
    let last = last.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    let count = if length == 0 { 0 } else { u32::try_from(last + 1 - first).unwrap_or(0) };
    (count, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_where_they_are_looked_for() {
        for first in [0, 5, 9, 10, 99, 100, 101, 12_345, END - 3] {
            let expected: String = (first..first + 3).map(|number| format!("{number},")).collect();
            assert_eq!(written(first, 3).unwrap(), expected.as_bytes());
        }
        assert_eq!(written(END - 3, 4), None);
        assert_eq!(written(u64::MAX, 1), None);
        assert_eq!(written(7, 0).unwrap(), b"");
    }

    #[test]
    fn only_whole_numbers_that_count_up_are_read() {
        for (text, first, count) in [
            ("8,9,10,11]", 8, 3),
            ("8,9,10,12,13,", 8, 3),
            ("8,9,1", 8, 2),
            ("7,8,", 8, 0),
            ("08,", 8, 0),
            ("8]", 8, 0),
            ("", 0, 0),
            ("0,1,2", 0, 2),
            ("18446744073709551615,", u64::MAX, 0),
        ] {
            let expected: usize = (first..first + u64::from(count)).map(|number| number.to_string().len() + 1).sum();
            assert_eq!(read(text.as_bytes(), first), (count, expected), "{text}");
        }
        let long: String = (50..5000).map(|number| format!("{number},")).collect();
        assert_eq!(read(long.as_bytes(), 50), (4950, long.len()));
        let past: String = (END - 20..END + 20).map(|number| format!("{number},")).collect();
        assert_eq!(read(past.as_bytes(), END - 20).0, 20);
    }
}
