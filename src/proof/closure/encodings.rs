//! Text spelled in other characters: base64, base32, hex, percent, JSON escapes.
//!
//! Invariant: what comes out of separate runs is kept apart by NUL, which no text holds.

use super::{Decoding, Emit, LEAST, streams};

/// Base64 of either alphabet, in each of the four offsets. Line breaks inside are skipped.
pub(super) fn base64(bytes: &[u8], emit: Emit<'_>) {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Digit::Is(byte - b'A'),
        b'a'..=b'z' => Digit::Is(byte - b'a' + 26),
        b'0'..=b'9' => Digit::Is(byte - b'0' + 52),
        b'+' | b'-' => Digit::Is(62),
        b'/' | b'_' => Digit::Is(63),
        b'\n' | b'\r' => Digit::Skip,
        _ => Digit::No,
    };
    digits(bytes, digit, 6, 4, Decoding::Base64, emit);
}

/// Base32, in each of the eight offsets.
pub(super) fn base32(bytes: &[u8], emit: Emit<'_>) {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Digit::Is(byte - b'A'),
        b'2'..=b'7' => Digit::Is(byte - b'2' + 26),
        b'\n' | b'\r' => Digit::Skip,
        _ => Digit::No,
    };
    digits(bytes, digit, 5, 8, Decoding::Base32, emit);
}

/// Pairs of hexadecimal digits, in both offsets; what stands between pairs in dumps is skipped.
pub(super) fn hex(bytes: &[u8], emit: Emit<'_>) {
    let digit = |byte: u8| match (char::from(byte).to_digit(16), byte) {
        (Some(value), _) => Digit::Is(u8::try_from(value).unwrap_or(0)),
        (None, b' ' | b':' | b'-' | b'\n' | b'\r') => Digit::Skip,
        _ => Digit::No,
    };
    digits(bytes, digit, 4, 2, Decoding::Hex, emit);
}

enum Digit {
    Is(u8),
    Skip,
    No,
}

/// Runs of digits of `bits` bits each, from each of the first `offsets` of a run.
fn digits(bytes: &[u8], digit: impl Fn(u8) -> Digit, bits: u32, offsets: usize, decoding: Decoding, emit: Emit<'_>) {
    let mut out = vec![Vec::new(); offsets];
    let mut run: Vec<u8> = Vec::new();
    let mut bare = Vec::new();
    // The last byte ends the last run.
    for byte in bytes.iter().chain(&[0]) {
        match digit(*byte) {
            Digit::Is(value) => run.push(value),
            Digit::Skip => {}
            Digit::No => {
                if run.len() * usize::try_from(bits).unwrap_or(8) >= LEAST * 8 {
                    for (offset, out) in out.iter_mut().enumerate() {
                        let start = out.len();
                        pack(run.get(offset..).unwrap_or_default(), bits, out);
                        if offset == 0 {
                            streams::deflate(out.get(start..).unwrap_or_default(), &mut bare);
                        }
                        out.push(0);
                    }
                }
                run.clear();
            }
        }
    }
    for out in out {
        emit(decoding, &out);
    }
    emit(Decoding::Deflate, &bare);
}

fn pack(digits: &[u8], bits: u32, out: &mut Vec<u8>) {
    let (mut held, mut buffer) = (0, 0_u32);
    for digit in digits {
        buffer = buffer << bits | u32::from(*digit);
        held += bits;
        if held >= 8 {
            held -= 8;
            let [.., byte] = (buffer >> held).to_be_bytes();
            out.push(byte);
        }
    }
}

/// `%41`, `\x41` and `=41` among other characters, and `+` as a space too.
pub(super) fn percent(bytes: &[u8], emit: Emit<'_>) {
    let mut out = Vec::new();
    let (mut rest, mut pairs) = (bytes, 0);
    while let [byte, tail @ ..] = rest {
        let digits = match rest {
            [b'%' | b'=', digits @ ..] | [b'\\', b'x' | b'X', digits @ ..] => digits,
            _ => &[],
        };
        let value = |digit: &u8| char::from(*digit).to_digit(16);
        match digits {
            [high, low, tail @ ..] if let (Some(high), Some(low)) = (value(high), value(low)) => {
                out.push(u8::try_from(high << 4 | low).unwrap_or(0));
                pairs += 1;
                rest = tail;
            }
            _ => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    if pairs == 0 {
        return;
    }
    emit(Decoding::Percent, &out);
    if out.contains(&b'+') {
        out.iter_mut().filter(|byte| **byte == b'+').for_each(|byte| *byte = b' ');
        emit(Decoding::Percent, &out);
    }
}

/// The escapes of JSON strings, wherever they stand.
pub(super) fn escapes(bytes: &[u8], emit: Emit<'_>) {
    if memchr::memchr(b'\\', bytes).is_some() {
        let mut out = Vec::with_capacity(bytes.len());
        unescape(bytes, &mut out);
        emit(Decoding::Escapes, &out);
    }
}

/// Appends `bytes` with the escapes of JSON strings undone; what is no escape stays.
pub(in crate::proof) fn unescape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    let mut units: Vec<u16> = Vec::new();
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        rest = match escape {
            [_, b'u', ..] => {
                let mut after = escape;
                units.clear();
                while let [b'\\', b'u', digits @ ..] = after
                    && let Some((four, tail)) = digits.split_at_checked(4)
                    && let Some(unit) =
                        std::str::from_utf8(four).ok().and_then(|four| u16::from_str_radix(four, 16).ok())
                {
                    units.push(unit);
                    after = tail;
                }
                let chars = char::decode_utf16(units.iter().copied());
                for char in chars.map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)) {
                    out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                if units.is_empty() {
                    out.extend_from_slice(b"\\u");
                    escape.get(2..).unwrap_or_default()
                } else {
                    after
                }
            }
            [_, byte, tail @ ..] => {
                out.push(match byte {
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    itself => *itself,
                });
                tail
            }
            _ => &[],
        };
    }
    out.extend_from_slice(rest);
}
