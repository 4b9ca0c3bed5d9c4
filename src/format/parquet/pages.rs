//! Pages of a Parquet file that may be hostile.
//!
//! Invariant: a page is looked at before it is unpacked, so that no file makes the reader take much more memory than its own
//! pages would; whatever the Parquet library does with damaged bytes, the caller gets an error and no panic.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{ColumnReader, get_column_reader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::columns::ROW_GROUP;
use crate::format::Fault;

/// More than a page of [`ROW_GROUP`] eight-byte values with their levels can take.
const PAGE_BYTES: u64 = 1 << 20;

/// More than the footer of a full file can take.
const FOOTER_BYTES: u32 = 1 << 24;

/// More words than any dictionary has: every model of a row group may be another one.
const DICTIONARY: usize = ROW_GROUP;

/// Runs a step of the Parquet library; a panic in it counts as damage.
pub(crate) fn contained<T>(step: impl FnOnce() -> std::result::Result<T, Fault>) -> std::result::Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or(Err(Fault::NotParquet))
}

/// The footer of a file.
pub(crate) fn footer(file: &File) -> std::result::Result<ParquetMetaData, Fault> {
    let length = Length::len(file);
    let tail = length.checked_sub(8).and_then(|start| file.get_bytes(start, 8).ok()).ok_or(Fault::NotParquet)?;
    let size = tail.first_chunk::<4>().map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes));
    if size > FOOTER_BYTES {
        return Err(Fault::TooLarge);
    }
    contained(|| ParquetMetaDataReader::new().parse_and_finish(file).map_err(|_| Fault::NotParquet))
}

/// Readers of the columns of row group `group`.
pub(crate) fn columns(
    file: &Arc<Pages>,
    metadata: &ParquetMetaData,
    group: usize,
) -> std::result::Result<Vec<ColumnReader>, Fault> {
    let group = metadata.row_groups().get(group).ok_or(Fault::NotParquet)?;
    let rows = usize::try_from(group.num_rows()).map_err(|_| Fault::NotParquet)?;
    if rows > ROW_GROUP {
        return Err(Fault::TooLarge);
    }
    contained(|| {
        let column = |chunk: &parquet::file::metadata::ColumnChunkMetaData| {
            if !matches!(chunk.compression(), Compression::ZSTD(_)) {
                return Err(Fault::Compression);
            }
            let pages = SerializedPageReader::new(Arc::clone(file), chunk, rows, None);
            let pages = Guarded(pages.map_err(|_| Fault::NotParquet)?);
            Ok(get_column_reader(chunk.column_descr_ptr(), Box::new(pages)))
        };
        group.columns().iter().map(column).collect()
    })
}

/// A file whose pages are each one zstd frame of a stated and moderate size.
#[derive(Debug)]
pub(crate) struct Pages(pub(crate) File);

impl Length for Pages {
    fn len(&self) -> u64 {
        Length::len(&self.0)
    }
}

impl ChunkReader for Pages {
    type T = <File as ChunkReader>::T;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        self.0.get_read(start)
    }

    /// The compressed bytes of a page.
    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        if start.saturating_add(u64::try_from(length)?) > Length::len(self) {
            return Err(refused());
        }
        let page = self.0.get_bytes(start, length)?;
        let size = zstd::zstd_safe::get_frame_content_size(&page).ok().flatten();
        let frame = zstd::zstd_safe::find_frame_compressed_size(&page).ok();
        let sound = size.is_some_and(|size| size <= PAGE_BYTES) && frame == Some(length);
        if sound || length == 0 { Ok(page) } else { Err(refused()) }
    }
}

fn refused() -> ParquetError {
    ParquetError::General("a page that no writer of ours makes".to_owned())
}

/// Looks at the counts of a page before values are made of it.
struct Guarded(SerializedPageReader<Pages>);

impl PageReader for Guarded {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        match self.0.get_next_page()? {
            Some(Page::DataPageV2 { .. }) => Err(refused()),
            Some(Page::DictionaryPage { ref buf, num_values, .. })
                // Each word has at least its four bytes of length.
                if usize::try_from(num_values)? > DICTIONARY.min(buf.len() / 4) =>
            {
                Err(refused())
            }
            Some(Page::DataPage { num_values, .. }) if usize::try_from(num_values)? > ROW_GROUP => Err(refused()),
            page => Ok(page),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }
}

impl Iterator for Guarded {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_one_frame_of_moderate_size_is_unpacked() {
        let frame = |size: usize| zstd::bulk::compress(&vec![0; size], 9).unwrap();
        let page = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            Pages(file).get_bytes(0, bytes.len()).is_ok()
        };
        assert!(page(&frame(1 << 20)));
        assert!(!page(&frame((1 << 20) + 1)));
        assert!(!page(&[frame(9), frame(9)].concat()));
        assert!(!page(b"not a frame"));
        assert!(Pages(tempfile::tempfile().unwrap()).get_bytes(0, 1 << 40).is_err());
    }

    #[test]
    fn a_panic_counts_as_damage() {
        assert_eq!(contained::<()>(|| std::panic::resume_unwind(Box::new(()))), Err(Fault::NotParquet));
    }
}
