//! FlatBuffers, as far as Arrow's metadata use them, with every byte accounted for.
//!
//! Invariant: what is read is marked as owned; bytes that nothing reaches and that are not zero are seen.

/// A buffer being read.
#[derive(Debug)]
pub(crate) struct Flat<'b> {
    bytes: &'b [u8],
    owned: Vec<bool>,
    /// Tables that may still be read: one can be reached in many ways.
    left: usize,
}

/// A table: where it lies, and where its members do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    at: usize,
    vtable: usize,
    members: usize,
}

impl<'b> Flat<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, owned: vec![false; bytes.len()], left: bytes.len() / 4 }
    }

    fn own(&mut self, at: usize, size: usize) -> Option<&'b [u8]> {
        let end = at.checked_add(size)?;
        let bytes = self.bytes.get(at..end)?;
        self.owned.get_mut(at..end)?.fill(true);
        Some(bytes)
    }

    fn u16(&mut self, at: usize) -> Option<usize> {
        Some(usize::from(u16::from_le_bytes(*self.own(at, 2)?.first_chunk()?)))
    }

    fn u32(&mut self, at: usize) -> Option<usize> {
        Some(crate::audit::narrow(u32::from_le_bytes(*self.own(at, 4)?.first_chunk()?).into()))
    }

    pub(crate) fn root(&mut self) -> Option<Table> {
        let at = self.u32(0)?;
        self.table(at)
    }

    fn table(&mut self, at: usize) -> Option<Table> {
        self.left = self.left.checked_sub(1)?;
        let back = i32::from_le_bytes(*self.own(at, 4)?.first_chunk()?);
        let vtable = usize::try_from(i64::try_from(at).ok()? - i64::from(back)).ok()?;
        let size = self.u16(vtable)?;
        let inline = self.u16(vtable + 2)?;
        let members = size.checked_sub(4)? / 2;
        // Members own their own bytes, and those of their offsets; what lies between them is alignment.
        let fits = inline <= 12 * members + 16 && at.checked_add(inline)? <= self.bytes.len();
        fits.then_some(Table { at, vtable, members })
    }

    fn member(&mut self, table: Table, id: usize) -> Option<usize> {
        if id >= table.members {
            return None;
        }
        match self.u16(table.vtable + 4 + 2 * id)? {
            0 => None,
            offset => Some(table.at + offset),
        }
    }

    pub(crate) fn has(&mut self, table: Table, id: usize) -> bool {
        self.member(table, id).is_some()
    }

    /// A number of `size` bytes; 0 where it is left out.
    pub(crate) fn number(&mut self, table: Table, id: usize, size: usize) -> Option<i64> {
        let Some(at) = self.member(table, id) else { return Some(0) };
        let mut bytes = [0; 8];
        bytes.get_mut(..size)?.copy_from_slice(self.own(at, size)?);
        Some(i64::from_le_bytes(bytes))
    }

    pub(crate) fn child(&mut self, table: Table, id: usize) -> Option<Table> {
        let at = self.member(table, id)?;
        let to = at + self.u32(at)?;
        self.table(to)
    }

    /// The elements of a vector of `size`-byte things: how many, and where they begin.
    pub(crate) fn vector(&mut self, table: Table, id: usize, size: usize) -> Option<(usize, usize)> {
        let Some(at) = self.member(table, id) else { return Some((0, 0)) };
        let to = at + self.u32(at)?;
        let count = self.u32(to)?;
        self.own(to + 4, count.checked_mul(size)?)?;
        Some((count, to + 4))
    }

    pub(crate) fn tables(&mut self, table: Table, id: usize) -> Option<Vec<Table>> {
        let (count, at) = self.vector(table, id, 4)?;
        (0..count)
            .map(|element| {
                let from = at + 4 * element;
                let to = from + self.u32(from)?;
                self.table(to)
            })
            .collect()
    }

    pub(crate) fn string(&mut self, table: Table, id: usize) -> Option<&'b [u8]> {
        let Some(at) = self.member(table, id) else { return Some(&[]) };
        let to = at + self.u32(at)?;
        let size = self.u32(to)?;
        // The zero at its end stays unowned, as padding does.
        self.own(to + 4, size)
    }

    pub(crate) fn i64(&mut self, at: usize) -> Option<i64> {
        Some(i64::from_le_bytes(*self.own(at, 8)?.first_chunk()?))
    }

    /// Whether every byte that is not zero was reached.
    pub(crate) fn is_accounted(&self) -> bool {
        self.bytes.iter().zip(&self.owned).all(|(byte, owned)| *owned || *byte == 0)
    }
}
