//! The decode closure: everything that a piece may stand for, in the encodings that text is hidden in.
//!
//! Invariant: bounded. However a piece is made, no more than [`DEPTH`] decodings are undone in a row, and no more than
//! [`BUDGET`] bytes come out; what is cut off is said.

mod encodings;
mod fields;
mod numbers;
mod streams;
mod wide;

pub(super) use encodings::unescape;
pub(super) use fields::string;

/// Decodings in a row.
const DEPTH: usize = 4;

/// Bytes that come out of one piece, for each of its own and beyond; and of one compressed stream.
const BUDGET: (u64, u64) = (64, 64 << 20);
const STREAM: usize = 32 << 20;

/// Fewer bytes than this cannot hold a window.
const LEAST: usize = 8;

/// What was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decoding {
    /// Base64 of either alphabet.
    Base64,
    /// Base32.
    Base32,
    /// Pairs of hexadecimal digits.
    Hex,
    /// `%41`, `\x41` or `=41`.
    Percent,
    /// Escapes of JSON strings.
    Escapes,
    /// UTF-16 or UTF-32, of either byte order.
    Wide,
    /// gzip.
    Gzip,
    /// zlib.
    Zlib,
    /// Deflate without a header.
    Deflate,
    /// zstd.
    Zstd,
    /// Numbers read as code points, as bytes, or as packs of bytes.
    Numbers,
    /// Numbers read as multiples of characters, and something added.
    Affine,
    /// Numbers read as token ids.
    Tokens,
    /// Strings of the same field or column, joined over the rows.
    Joined,
    /// Bytes in reverse.
    Reversed,
}

impl Decoding {
    /// Its name in findings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base64 => "base64",
            Self::Base32 => "base32",
            Self::Hex => "hex",
            Self::Percent => "percent",
            Self::Escapes => "escapes",
            Self::Wide => "utf-16",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
            Self::Numbers => "numbers",
            Self::Affine => "multiples",
            Self::Tokens => "tokens",
            Self::Joined => "joined",
            Self::Reversed => "reversed",
        }
    }
}

/// The text of token ids.
pub type Detokenize<'a> = &'a (dyn Fn(&[u32]) -> Vec<u8> + Sync);

/// Takes what came out: the decodings that were undone, the first first, and the bytes.
pub(super) type Emit<'e> = &'e mut dyn FnMut(Decoding, &[u8]);

/// Calls `visit` for everything that `bytes` may stand for, themselves left out. Gives whether nothing was cut off.
pub fn walk(bytes: &[u8], detokenize: Option<Detokenize<'_>>, visit: &mut dyn FnMut(&[Decoding], &[u8])) -> bool {
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let left = length.saturating_mul(BUDGET.0).saturating_add(BUDGET.1);
    let mut walk = Walk { left, whole: true, path: Vec::new(), detokenize, visit };
    walk.step(bytes);
    walk.whole
}

/// Calls `visit` for everything that numbers may stand for; see [`walk`].
pub(super) fn walk_numbers(
    values: &[u64],
    detokenize: Option<Detokenize<'_>>,
    visit: &mut dyn FnMut(&[Decoding], &[u8]),
) -> bool {
    let length = u64::try_from(values.len()).unwrap_or(u64::MAX).saturating_mul(8);
    let left = length.saturating_mul(BUDGET.0).saturating_add(BUDGET.1);
    let mut walk = Walk { left, whole: true, path: Vec::new(), detokenize, visit };
    let emit: Emit<'_> = &mut |decoding, bytes| walk.undone(decoding, bytes);
    numbers::read(&[values.to_vec()], detokenize, emit);
    numbers::multiples(values, emit);
    walk.whole
}

struct Walk<'a> {
    left: u64,
    whole: bool,
    path: Vec<Decoding>,
    detokenize: Option<Detokenize<'a>>,
    visit: &'a mut dyn FnMut(&[Decoding], &[u8]),
}

impl Walk<'_> {
    fn step(&mut self, bytes: &[u8]) {
        let detokenize = self.detokenize;
        let whole = {
            let emit: Emit<'_> = &mut |decoding, bytes| self.undone(decoding, bytes);
            encodings::base64(bytes, emit);
            encodings::base32(bytes, emit);
            encodings::hex(bytes, emit);
            encodings::percent(bytes, emit);
            encodings::escapes(bytes, emit);
            wide::read(bytes, emit);
            numbers::read(&numbers::runs(bytes), detokenize, emit);
            let fields = fields::read(bytes, detokenize, emit);
            streams::read(bytes, emit) && fields
        };
        self.whole &= whole;
        if self.path.is_empty() {
            let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
            (self.visit)(&[Decoding::Reversed], &reversed);
        }
    }

    /// Something came out: shows it, and goes on from there.
    fn undone(&mut self, decoding: Decoding, bytes: &[u8]) {
        if bytes.len() < LEAST {
            return;
        }
        let Some(left) = u64::try_from(bytes.len()).ok().and_then(|length| self.left.checked_sub(length)) else {
            self.whole = false;
            return;
        };
        self.left = left;
        self.path.push(decoding);
        (self.visit)(&self.path, bytes);
        // One of very many readings is not read on.
        if self.path.len() < DEPTH && decoding != Decoding::Affine {
            self.step(bytes);
        }
        self.path.pop();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use base64::Engine;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    use super::*;

    const SECRET: &str = "Meet the ferry crew at dock 7; tell nobody, 请不要通知 anyone.";

    fn paths(bytes: &[u8]) -> Vec<Vec<Decoding>> {
        let mut found = Vec::new();
        let whole = walk(bytes, None, &mut |path, out| {
            if memchr::memmem::find(out, SECRET.as_bytes()).is_some() {
                found.push(path.to_vec());
            }
        });
        assert!(whole);
        found
    }

    fn finds(bytes: impl AsRef<[u8]>, path: &[Decoding]) {
        let paths = paths(bytes.as_ref());
        assert!(paths.iter().any(|found| found == path), "{path:?} not in {paths:?}");
    }

    fn numbers(values: impl IntoIterator<Item = u64>) -> String {
        values.into_iter().map(|value| value.to_string()).collect::<Vec<_>>().join(", ")
    }

    fn packs(width: usize, big: bool) -> String {
        numbers(SECRET.as_bytes().chunks(width).map(|pack| {
            let mut pack = pack.to_vec();
            pack.resize(width, 0);
            if big {
                pack.reverse();
            }
            pack.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
        }))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn base64_is_read_in_every_offset_and_alphabet() {
        for before in ["", "a", "ab", "abc", "{\"x\":\""] {
            finds(format!("{before}{}\"", STANDARD.encode(SECRET)), &[Decoding::Base64]);
            finds(format!("{before}{}\"", URL_SAFE_NO_PAD.encode(SECRET)), &[Decoding::Base64]);
        }
    }

    #[test]
    fn other_spellings_of_bytes_are_read() {
        let pairs =
            |prefix: &str| SECRET.bytes().map(|byte| format!("{prefix}{byte:02x}")).collect::<Vec<_>>().concat();
        finds(pairs(""), &[Decoding::Hex]);
        finds(format!("a{}", pairs("").to_uppercase()), &[Decoding::Hex]);
        finds(pairs("%"), &[Decoding::Percent]);
        finds(pairs("\\x"), &[Decoding::Percent]);
        let units = SECRET.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat();
        finds(format!("\"{units}\""), &[Decoding::Escapes]);
        let twice = serde_json::to_string(&serde_json::to_string(&format!("\n{SECRET}\t\"")).unwrap()).unwrap();
        assert!(!paths(twice.as_bytes()).is_empty());
    }

    #[test]
    fn wide_characters_are_read_in_both_orders() {
        for odd in [0, 1] {
            let units: Vec<u16> = SECRET.encode_utf16().collect();
            let little: Vec<u8> =
                vec![7; odd].into_iter().chain(units.iter().flat_map(|unit| unit.to_le_bytes())).collect();
            let big: Vec<u8> =
                vec![7; odd].into_iter().chain(units.iter().flat_map(|unit| unit.to_be_bytes())).collect();
            finds(little, &[Decoding::Wide]);
            finds(big, &[Decoding::Wide]);
            let points: Vec<u8> = SECRET.chars().flat_map(|char| u32::from(char).to_le_bytes()).collect();
            finds([vec![9; odd], points].concat(), &[Decoding::Wide]);
        }
    }

    #[test]
    fn compressed_streams_are_found_inside() {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(SECRET.as_bytes()).unwrap();
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        deflate.write_all(SECRET.as_bytes()).unwrap();
        let around = |stream: Vec<u8>| [b"PAR1 dead bytes".to_vec(), stream, b"more".to_vec()].concat();
        finds(around(gzip(SECRET.as_bytes())), &[Decoding::Gzip]);
        let (one, other) = SECRET.as_bytes().split_at(9);
        finds(around([gzip(one), gzip(other)].concat()), &[Decoding::Gzip]);
        finds(around([&gzip(one)[..20], &gzip(SECRET.as_bytes())].concat()), &[Decoding::Gzip]);
        finds(around(zstd::encode_all(SECRET.as_bytes(), 3).unwrap()), &[Decoding::Zstd]);
        finds(around(zlib.finish().unwrap()), &[Decoding::Zlib]);
        finds(deflate.finish().unwrap(), &[Decoding::Deflate]);
        finds(STANDARD.encode(gzip(SECRET.as_bytes())), &[Decoding::Base64, Decoding::Gzip]);
    }

    #[test]
    fn numbers_are_read_as_characters_bytes_and_packs() {
        finds(format!("[{}]", numbers(SECRET.chars().map(u64::from))), &[Decoding::Numbers]);
        finds(format!("[{}]", numbers(SECRET.bytes().map(u64::from))), &[Decoding::Numbers]);
        let entities = SECRET.chars().map(|char| format!("&#{};", u32::from(char))).collect::<Vec<_>>().concat();
        finds(entities, &[Decoding::Numbers]);
        finds(numbers((0..).zip(SECRET.bytes()).map(|(at, byte)| 7000 * at + u64::from(byte))), &[Decoding::Numbers]);
        for width in 2..=8 {
            finds(packs(width, false), &[Decoding::Numbers]);
            finds(packs(width, true), &[Decoding::Numbers]);
        }
    }

    #[test]
    fn columns_are_read_as_multiples_of_characters() {
        let text = "Meet the ferry crew at dock 7;\ntell nobody.";
        for (factor, more) in [(37, 12_345), (1, 1000), (16, 0)] {
            let values: Vec<u64> = text.bytes().map(|byte| factor * u64::from(byte) + more).collect();
            let mut found = false;
            walk_numbers(&values, None, &mut |path, out| found |= path == [Decoding::Affine] && out == text.as_bytes());
            assert!(found, "{factor} {more}");
        }
        let mut out = 0;
        walk_numbers(&(0..100_000).map(|at| at * 7 % 64 * 16).collect::<Vec<_>>(), None, &mut |path, bytes| {
            out += if path == [Decoding::Affine] { bytes.len() } else { 0 };
        });
        assert!(out <= 64 << 10);
    }

    #[test]
    fn columns_split_over_rows_are_joined() {
        let text = "abcdefghij the crew of the ferry sings";
        let json = text
            .as_bytes()
            .chunks(5)
            .map(|part| format!("{{\"t\":1,\"note\":\"{}\",\"n\":2}}\n", std::str::from_utf8(part).unwrap()))
            .collect::<Vec<_>>()
            .concat();
        let mut found = false;
        walk(json.as_bytes(), None, &mut |path, out| {
            found |= path == [Decoding::Joined] && memchr::memmem::find(out, text.as_bytes()).is_some();
        });
        assert!(found);
        let bytes = SECRET
            .bytes()
            .map(|byte| format!("{{\"t\":1,\"out\":{},\"model\":\"m\"}}\n", 256 * 3 + u64::from(byte)))
            .collect::<Vec<_>>()
            .concat();
        finds(bytes, &[Decoding::Numbers]);
        let csv = SECRET.bytes().map(|byte| format!("a,{byte},7.5\n")).collect::<Vec<_>>().concat();
        finds(csv, &[Decoding::Numbers]);
    }

    #[test]
    fn four_decodings_are_undone_and_no_more() {
        let hex = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let four = hex(&STANDARD.encode(hex(&STANDARD.encode(SECRET))));
        finds(&four, &[Decoding::Hex, Decoding::Base64, Decoding::Hex, Decoding::Base64]);
        assert!(paths(hex(&four).as_bytes()).is_empty());
    }

    #[test]
    fn a_bomb_is_cut_off_and_said() {
        let inner = zstd::encode_all(&vec![b' '; 40 << 20][..], 3).unwrap();
        let bomb = zstd::encode_all(&[inner.clone(), inner].concat()[..], 3).unwrap();
        let mut out = 0;
        let whole = walk(&bomb, None, &mut |_, bytes| out += bytes.len());
        assert!(!whole && out < 300 << 20, "{out}");
    }

    #[test]
    fn token_ids_are_read_with_a_tokenizer() {
        let detokenize = |ids: &[u32]| ids.iter().map(|id| u8::try_from(id - 1000).unwrap_or(b'?')).collect();
        let mut found = false;
        let ids = numbers(SECRET.bytes().map(|byte| 1000 + u64::from(byte)));
        walk(format!("[{ids}]").as_bytes(), Some(&detokenize), &mut |path, out| {
            found |= path == [Decoding::Tokens] && memchr::memmem::find(out, SECRET.as_bytes()).is_some();
        });
        assert!(found);
    }
}
