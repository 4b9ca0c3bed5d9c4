//! Compressed inputs: plain, gzip and zstd, told apart by their first bytes and decompressed as a stream.
//!
//! Invariant: a broken compressed stream fails with `InvalidData`, one that ends early with `UnexpectedEof`, both after all that
//! came before; no error carries content. (Of corrupt deflate data, which is rarely seen before its checksum, the last read is
//! lost.)

use std::io::{self, BufReader, Cursor, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use zstd::stream::read::Decoder as ZstdDecoder;

use super::ahead::ReadAhead;

/// Compressed bytes read at a time.
const CHUNK: usize = 128 << 10;
/// The largest window that zstd can ask for (`--long=31`).
pub(super) const ZSTD_WINDOW_LOG_MAX: u32 = 31;

/// Whether bytes begin like gzip.
pub(super) fn is_gzip(head: &[u8]) -> bool {
    head.starts_with(&[0x1f, 0x8b])
}

/// Whether bytes begin like a zstd frame, or like a frame that zstd skips.
pub(super) fn is_zstd(head: &[u8]) -> bool {
    matches!(head, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Reads `raw` decompressed: all members of a gzip file, all frames of a zstd file, anything else as it is; and whether it was plain.
pub(super) fn decompress(mut raw: Box<dyn Read + Send>) -> io::Result<(bool, Box<dyn Read + Send>)> {
    let mut magic = Vec::new();
    raw.by_ref().take(4).read_to_end(&mut magic)?;
    let (gzip, zstd) = (is_gzip(&magic), is_zstd(&magic));
    let whole = Cursor::new(magic).chain(raw);
    if gzip {
        Ok((false, Box::new(ReadAhead::new(Compressed(MultiGzDecoder::new(BufReader::with_capacity(CHUNK, whole)))))))
    } else if zstd {
        let mut decoder = ZstdDecoder::with_buffer(BufReader::with_capacity(CHUNK, whole))?;
        decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
        Ok((false, Box::new(ReadAhead::new(Compressed(decoder)))))
    } else {
        Ok((true, Box::new(whole)))
    }
}

/// A decompressor whose errors are of two kinds only.
struct Compressed<R>(R);

impl<R: Read> Read for Compressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            kind @ (ErrorKind::Interrupted | ErrorKind::UnexpectedEof) => kind.into(),
            _ => ErrorKind::InvalidData.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::testing::{gzip, zstd};

    fn read(compressed: &[u8]) -> (Vec<u8>, Option<ErrorKind>) {
        let mut out = Vec::new();
        let mut reader = decompress(Box::new(Cursor::new(compressed.to_vec()))).unwrap().1;
        let error = reader.read_to_end(&mut out).err();
        (out, error.map(|error| error.kind()))
    }

    #[test]
    fn plain_bytes_pass_through_however_few_they_are() {
        for plain in [&b""[..], b"a", b"abcd", b"abcdefgh"] {
            assert_eq!(read(plain), (plain.to_vec(), None));
        }
    }

    #[test]
    fn members_and_frames_follow_each_other() {
        assert_eq!(read(&[gzip(b"one "), gzip(b"two")].concat()), (b"one two".to_vec(), None));
        assert_eq!(read(&[zstd(b"one "), zstd(b"two")].concat()), (b"one two".to_vec(), None));
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..], &zstd(b"one")].concat();
        assert_eq!(read(&skippable), (b"one".to_vec(), None));
    }

    #[test]
    fn a_long_window_is_accepted() {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(28).unwrap();
        encoder.long_distance_matching(true).unwrap();
        io::copy(&mut io::repeat(7).take(1000), &mut encoder).unwrap();
        assert_eq!(read(&encoder.finish().unwrap()), (vec![7; 1000], None));
    }

    #[test]
    fn a_stream_that_ends_early_gives_what_it_has() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        for compressed in [gzip(&plain), zstd(&plain)] {
            let (out, error) = read(&compressed[..compressed.len() * 3 / 4]);
            assert_eq!(error, Some(ErrorKind::UnexpectedEof));
            assert!(out.len() > plain.len() / 2 && plain.starts_with(&out));
        }
    }

    #[test]
    fn a_broken_stream_is_invalid_data() {
        let plain = vec![b'x'; 1000];
        let mut broken = gzip(&plain);
        let at = broken.len() - 6;
        broken[at] ^= 0xff;
        assert_eq!(read(&broken), (plain, Some(ErrorKind::InvalidData)));
        let broken = [&[0x28, 0xb5, 0x2f, 0xfd][..], &[0xff; 100]].concat();
        assert_eq!(read(&broken), (vec![], Some(ErrorKind::InvalidData)));
    }
}
