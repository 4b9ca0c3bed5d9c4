//! LZ4: blocks, and frames as Arrow packs buffers.
//!
//! Invariant: no more comes out than was stated; of a frame every bit is a size, content, or a checksum that is right.

/// Repeats what was written `offset` bytes ago.
pub(crate) fn copy(out: &mut Vec<u8>, offset: usize, length: usize, most: usize) -> Option<()> {
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

/// One block.
pub(crate) fn block(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    linked(packed, size, &mut out)?;
    Some(out)
}

/// A block that may repeat what came before it.
fn linked(packed: &[u8], size: usize, out: &mut Vec<u8>) -> Option<()> {
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
            return Some(());
        }
        let offset = usize::from(u16::from_le_bytes(*packed.get(at..)?.first_chunk()?));
        at += 2;
        let matched = length(token & 15, &mut at)?.checked_add(4)?;
        copy(out, offset, matched, size)?;
    }
    Some(())
}

/// One frame, and nothing after it.
pub(crate) fn frame(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let rest = packed.strip_prefix(&[0x04, 0x22, 0x4d, 0x18])?;
    let [flags, sizes, ..] = *rest else { return None };
    // Version 1, blocks alone or in a row, perhaps a size and a checksum of the content; no other checksum and no dictionary.
    if flags & 0xd3 != 0x40 || !matches!(sizes, 0x40 | 0x50 | 0x60 | 0x70) {
        return None;
    }
    let stated = if flags & 8 != 0 { 8 } else { 0 };
    if stated > 0 && rest.get(2..10)? != u64::try_from(size).ok()?.to_le_bytes() {
        return None;
    }
    let [_, check, _, _] = xxhash_rust::xxh32::xxh32(rest.get(..2 + stated)?, 0).to_le_bytes();
    if *rest.get(2 + stated)? != check {
        return None;
    }
    let mut rest = rest.get(3 + stated..)?;
    let mut out: Vec<u8> = Vec::new();
    loop {
        let (head, after) = rest.split_first_chunk::<4>()?;
        let head = u32::from_le_bytes(*head);
        let length = crate::audit::narrow((head & 0x7fff_ffff).into());
        if head == 0 {
            rest = after;
            break;
        }
        let (stored, after) = after.split_at_checked(length)?;
        if head >> 31 == 1 {
            out.extend_from_slice(stored);
        } else {
            linked(stored, size, &mut out)?;
        }
        if out.len() > size {
            return None;
        }
        rest = after;
    }
    let sum = xxhash_rust::xxh32::xxh32(&out, 0).to_le_bytes();
    let whole = if flags & 4 != 0 { rest == sum } else { rest.is_empty() };
    (whole && out.len() == size).then_some(out)
}
