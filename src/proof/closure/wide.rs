//! UTF-16 and UTF-32 of either byte order, from any offset.
//!
//! Invariant: only runs that look like one script come out; noise read as UTF-16 would be mostly Chinese.

use super::{Decoding, Emit, LEAST};

/// Reads `bytes` as characters of two and of four bytes.
pub(super) fn read(bytes: &[u8], emit: Emit<'_>) {
    for width in [2, 4] {
        for offset in 0..width {
            let units = || bytes.get(offset..).unwrap_or_default().chunks_exact(width);
            let big = units().map(|unit| unit.iter().fold(0_u32, |code, byte| code << 8 | u32::from(*byte)));
            emit(Decoding::Wide, &characters(big));
            let little = units().map(|unit| unit.iter().rev().fold(0_u32, |code, byte| code << 8 | u32::from(*byte)));
            emit(Decoding::Wide, &characters(little));
        }
    }
}

/// The runs of likely characters as UTF-8, kept apart by NUL.
fn characters(units: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut high = None;
    for unit in units.chain([0]) {
        let surrogate = high.take();
        let char = match (surrogate, unit) {
            (_, 0xD800..0xDC00) => {
                high = Some(unit);
                continue;
            }
            (Some(high), 0xDC00..0xE000) => char::from_u32(0x1_0000 + ((high & 0x3FF) << 10 | unit & 0x3FF)),
            _ if likely(unit) => char::from_u32(unit),
            _ => None,
        };
        match char {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None if out.len() - start < LEAST => out.truncate(start),
            None => {
                out.push(0);
                start = out.len();
            }
        }
    }
    out
}

/// Whether a character belongs to a script in wide use.
fn likely(code: u32) -> bool {
    matches!(code, 9 | 10 | 13 | 0x20..0x7F | 0xA0..0x0700 | 0x0900..0x0F00 | 0x2010..0x2040 | 0x3000..0x3100
        | 0x4E00..0xA000 | 0xAC00..0xD7B0 | 0xFF00..0xFFF0 | 0x1_F000..0x2_0000)
}
