//! Pages unpacked: snappy and LZ4 by hand, the rest by their libraries; all bounded.
//!
//! Invariant: the result has the stated size, or there is none; bytes left over after a stream are facts.

use std::io::Read;

use crate::audit::view::Limits;
use crate::audit::view::compress::{bounded, gzip, zstd};
use crate::audit::view::fact::Facts;

/// Unpacks a page by Parquet's number of the codec.
pub(crate) fn unpack(codec: i64, packed: &[u8], size: usize, limits: Limits, facts: &mut Facts) -> Option<Vec<u8>> {
    if packed.is_empty() && size == 0 {
        return Some(Vec::new());
    }
    let content = match codec {
        0 => packed.to_vec(),
        1 => snappy(packed, size)?,
        2 => gzip(packed, limits, facts)?,
        4 => bounded(
            brotli_decompressor::Decompressor::new(packed, 4096).take(crate::audit::wide(size) + 1),
            packed.len(),
            limits,
            facts,
        )?,
        5 => lz4_hadoop(packed, size).or_else(|| lz4(packed, size))?,
        6 => zstd(packed, limits, facts)?,
        7 => lz4(packed, size)?,
        _ => return None,
    };
    (content.len() == size).then_some(content)
}

/// Snappy's raw format: literals and copies, all within `size`.
fn snappy(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let (stated, mut at) = super::thrift::varint(packed, 0)?;
    if crate::audit::narrow(stated) != size {
        return None;
    }
    let mut out: Vec<u8> = Vec::new();
    while let Some(tag) = packed.get(at) {
        at += 1;
        let little = |at: usize, bytes: usize| -> Option<usize> {
            packed
                .get(at..at + bytes)?
                .iter()
                .rev()
                .try_fold(0usize, |value, byte| Some(value << 8 | usize::from(*byte)))
        };
        let high = usize::from(tag >> 2);
        let (length, offset) = match tag & 3 {
            0 => {
                let extra = high.saturating_sub(59);
                let length = if extra == 0 { high } else { little(at, extra)? } + 1;
                at += extra;
                let end = at.checked_add(length)?;
                out.extend(packed.get(at..end)?);
                at = end;
                if out.len() > size {
                    return None;
                }
                continue;
            }
            1 => {
                let low = little(at, 1)?;
                at += 1;
                ((high & 7) + 4, (high >> 3) << 8 | low)
            }
            2 => {
                let offset = little(at, 2)?;
                at += 2;
                (high + 1, offset)
            }
            _ => {
                let offset = little(at, 4)?;
                at += 4;
                (high + 1, offset)
            }
        };
        copy(&mut out, offset, length, size)?;
    }
    Some(out)
}

/// Repeats what was written `offset` bytes ago.
fn copy(out: &mut Vec<u8>, offset: usize, length: usize, most: usize) -> Option<()> {
    let from = out.len().checked_sub(offset).filter(|_| offset > 0)?;
    if out.len() + length > most {
        return None;
    }
    for at in from..from + length {
        let byte = *out.get(at)?;
        out.push(byte);
    }
    Some(())
}

/// One LZ4 block.
fn lz4(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    let length = |nibble: u8, at: &mut usize| -> Option<usize> {
        let mut length = usize::from(nibble);
        if nibble == 15 {
            loop {
                let byte = *packed.get(*at)?;
                *at += 1;
                length = length.checked_add(usize::from(byte))?;
                if byte != 255 {
                    break;
                }
            }
        }
        Some(length)
    };
    while let Some(token) = packed.get(at) {
        at += 1;
        let literals = length(token >> 4, &mut at)?;
        let end = at.checked_add(literals)?;
        out.extend(packed.get(at..end)?);
        at = end;
        if out.len() > size {
            return None;
        }
        if at == packed.len() {
            return Some(out);
        }
        let offset = usize::from(u16::from_le_bytes(*packed.get(at..)?.first_chunk()?));
        at += 2;
        let matched = length(token & 15, &mut at)?.checked_add(4)?;
        copy(&mut out, offset, matched, size)?;
    }
    Some(out)
}

/// Hadoop's framing: sizes before each block, big-endian.
fn lz4_hadoop(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = packed;
    while !rest.is_empty() {
        let big = |at: usize| {
            rest.get(at..)?.first_chunk().map(|bytes| crate::audit::narrow(u32::from_be_bytes(*bytes).into()))
        };
        let (unpacked, stored) = (big(0)?, big(4)?);
        if out.len() + unpacked > size {
            return None;
        }
        let block = lz4(rest.get(8..8usize.checked_add(stored)?)?, unpacked)?;
        if block.len() != unpacked {
            return None;
        }
        out.extend(block);
        rest = rest.get(8 + stored..)?;
    }
    Some(out)
}
