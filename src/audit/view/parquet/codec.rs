//! Pages unpacked: snappy by hand, the rest by their libraries; all bounded.
//!
//! Invariant: the result has the stated size, or there is none; bytes left over after a stream are facts.

use std::cell::Cell;

use crate::audit::view::compress::{bounded, whole};
use crate::audit::view::fact::Facts;
use crate::audit::view::lz4::{self, copy};

/// Largest page, unpacked.
const PAGE: usize = 512 << 20;

/// Unpacks a page by Parquet's number of the codec.
///
/// What it unpacks to is taken from `left`.
pub(crate) fn unpack(codec: i64, packed: &[u8], size: usize, left: &Cell<usize>, facts: &mut Facts) -> Option<Vec<u8>> {
    let rest = left.get().checked_sub(size).filter(|_| size <= PAGE)?;
    left.set(rest);
    let mut left = size;
    if packed.is_empty() && size == 0 {
        return Some(Vec::new());
    }
    let content = match codec {
        0 => packed.to_vec(),
        1 => snappy(packed, size)?,
        2 | 6 => whole(packed, &mut left, facts)?,
        4 => bounded(brotli_decompressor::Decompressor::new(packed, 4096), &mut left, facts)?,
        5 => lz4_hadoop(packed, size).or_else(|| lz4::block(packed, size))?,
        7 => lz4::block(packed, size)?,
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
        let block = lz4::block(rest.get(8..8usize.checked_add(stored)?)?, unpacked)?;
        if block.len() != unpacked {
            return None;
        }
        out.extend(block);
        rest = rest.get(8 + stored..)?;
    }
    Some(out)
}
