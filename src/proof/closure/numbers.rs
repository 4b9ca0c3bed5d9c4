//! Numbers that spell text: as code points, as bytes, as packs of several bytes, as token ids.
//!
//! Invariant: a run of numbers comes out once a reading, in its order; runs are kept apart by NUL.

use std::ops::Range;

use super::{Decoding, Detokenize, Emit, LEAST};
use crate::proof::index::textual;

/// Fewer numbers than this are no run: one pack of eight bytes is less than a window.
const RUN: usize = 2;

/// What may stand between two numbers of a run.
const GAP: usize = 6;

/// The runs of whole numbers in a text, with no letter between them and no more than a few other characters.
pub(super) fn runs(bytes: &[u8]) -> Vec<Vec<u64>> {
    let mut runs = Vec::new();
    let mut run = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(u8::is_ascii_digit) {
        let gap = rest.get(..at).unwrap_or_default();
        let apart = at > GAP || gap.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80 || *byte == 0);
        if apart {
            end(&mut run, &mut runs);
        }
        let (value, after) = number(rest.get(at..).unwrap_or_default(), gap.last() == Some(&b'-'));
        run.push(value);
        rest = after;
    }
    end(&mut run, &mut runs);
    runs
}

fn end(run: &mut Vec<u64>, runs: &mut Vec<Vec<u64>>) {
    if run.len() >= RUN {
        runs.push(std::mem::take(run));
    }
    run.clear();
}

/// Reads the whole part of the number at the start; gives what follows it and its fraction. Beyond 64 bits it wraps.
pub(super) fn number(bytes: &[u8], negative: bool) -> (u64, &[u8]) {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    let (digits, mut rest) = bytes.split_at(end);
    let value = digits.iter().fold(0_u64, |value, digit| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')));
    if let [b'.', fraction @ ..] = rest {
        let end = fraction.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(fraction.len());
        // A dot that ends a sentence is none of the number.
        rest = if end > 0 { fraction.get(end..).unwrap_or_default() } else { rest };
    }
    (if negative { value.wrapping_neg() } else { value }, rest)
}

/// Over how wide a range the characters of a text spread: words over twenty, printable ones over no more than this.
const SPREAD: Range<u64> = 20..118;

/// Most bytes of all readings of one column as multiples. It has as many as there are characters that its least can be.
const MULTIPLES: usize = 64 << 10;

/// The readings of a column whose numbers are all `a` times a character and `b`, for every `b`.
pub(super) fn multiples(values: &[u64], emit: Emit<'_>) {
    let Some(least) = values.iter().min().filter(|_| values.len() >= LEAST) else { return };
    let mut step = 0;
    for value in values {
        let mut other = value - least;
        while other != 0 {
            (step, other) = (other, step % other);
        }
        // A step of one is found soon, and most columns are too wide for it.
        if step == 1 && value - least >= SPREAD.end {
            return;
        }
    }
    let places: Option<Vec<u8>> = values
        .iter()
        .map(|value| (value - least).checked_div(step).and_then(|place| u8::try_from(place).ok()))
        .collect();
    let Some(places) = places else { return };
    let most = places.iter().copied().max().unwrap_or(0);
    // Those of the numbers as they are are shown already; what counts is no text.
    let jumps = places.array_windows().filter(|[one, other]| one.abs_diff(*other) > 1).count();
    if !SPREAD.contains(&u64::from(most)) || jumps * 3 < places.len() || (step == 1 && *least < 127) {
        return;
    }
    let firsts: Vec<u8> = (9..=126 - most).filter(|first| *first < 11 || *first >= 32).collect();
    let places = places.get(..MULTIPLES / firsts.len().max(1)).unwrap_or(&places);
    for first in firsts {
        let text: Vec<u8> = places.iter().map(|place| place + first).collect();
        emit(Decoding::Affine, &text);
    }
}

/// Every reading of each run.
pub(super) fn read(runs: &[Vec<u64>], detokenize: Option<Detokenize<'_>>, emit: Emit<'_>) {
    if runs.is_empty() {
        return;
    }
    let mut text = Vec::new();
    for run in runs {
        for value in run {
            let char = u32::try_from(*value).ok().and_then(char::from_u32).unwrap_or('\0');
            text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        text.push(0);
    }
    show(&text, emit);
    show(&bytes_of(runs.iter(), 1, false), emit);
    // The last three digits of each; what is no byte ends a text.
    let digits = |run: &Vec<u64>| run.iter().map(|value| value % 1000 % 256 * u64::from(value % 1000 < 256)).collect();
    let last: Vec<Vec<u64>> = runs.iter().filter(|run| run.iter().any(|value| *value >= 1000)).map(digits).collect();
    show(&bytes_of(last.iter(), 1, false), emit);
    for width in 2..=8 {
        // A pack of text fills its highest byte or, where it is short, the one below.
        let fits = |run: &&Vec<u64>| {
            let most = run.iter().copied().max().map_or(0, |most| (64 - most.leading_zeros()).div_ceil(8));
            usize::try_from(most).is_ok_and(|most| most == width || most + 1 == width)
        };
        for big in [false, true] {
            show(&bytes_of(runs.iter().filter(fits), width, big), emit);
        }
    }
    if let Some(detokenize) = detokenize {
        let mut text = Vec::new();
        for run in runs {
            let ids: Option<Vec<u32>> = run.iter().map(|value| u32::try_from(*value).ok()).collect();
            text.extend(ids.iter().flat_map(|ids| detokenize(ids)));
            text.push(0);
        }
        emit(Decoding::Tokens, &text);
    }
}

/// Shows what of a reading can be text: most readings of most numbers are noise, which would be read on and on. A packed stream is
/// shown as a whole.
fn show(bytes: &[u8], emit: Emit<'_>) {
    let magics: [&[u8]; 2] = [&[0x1f, 0x8b, 8], &[0x28, 0xb5, 0x2f, 0xfd]];
    if magics.iter().any(|magic| memchr::memmem::find(bytes, magic).is_some()) {
        emit(Decoding::Numbers, bytes);
        return;
    }
    let mut text = Vec::new();
    for range in textual(bytes).filter(|range| range.len() >= LEAST) {
        text.extend_from_slice(bytes.get(range).unwrap_or_default());
        text.push(0);
    }
    emit(Decoding::Numbers, &text);
}

/// The lowest `width` bytes of each number.
pub(in crate::proof) fn bytes_of<'a>(runs: impl Iterator<Item = &'a Vec<u64>>, width: usize, big: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for run in runs {
        for value in run {
            if big {
                out.extend_from_slice(value.to_be_bytes().get(8 - width..).unwrap_or_default());
            } else {
                out.extend_from_slice(value.to_le_bytes().get(..width).unwrap_or_default());
            }
        }
        out.push(0);
    }
    out
}
