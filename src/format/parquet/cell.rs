//! How one value of a row becomes a number and back.
//!
//! Invariant: every cell is a code (a number within the bounds of its kind) or null. A word is its place in a closed vocabulary,
//! so no cell can hold text.

use std::borrow::Cow;

use crate::trace::vocab::Vocabulary;
use crate::trace::{Model, Parts};

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// An unsigned integer of this many bits: 8, 16, 32 or 64.
    Unsigned(u8),
    /// True or false.
    Bool,
    /// A word of a closed vocabulary.
    Word(Words),
}

/// A closed vocabulary, without its Rust type.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// Its name in the schema.
    pub name: &'static str,
    /// The word with this code.
    pub word: fn(u64) -> Option<Cow<'static, str>>,
    /// The code of this word.
    pub code: fn(&str) -> Option<u64>,
    /// A pattern of words beyond the listed ones, numbered within a session.
    pub numbered: Option<&'static str>,
}

impl Words {
    /// Every listed word, in code order; words that are numbered within a session are not among them.
    pub fn listed(&self) -> impl Iterator<Item = Cow<'static, str>> {
        let word = self.word;
        (0..).map_while(word)
    }
}

impl Kind {
    /// Its name in the schema.
    pub fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Unsigned(bits) => format!("u{bits}").into(),
            Self::Bool => "bool".into(),
            Self::Word(_) => "enum".into(),
        }
    }

    /// Whether this number is in its domain.
    pub fn holds(&self, code: u64) -> bool {
        match self {
            Self::Unsigned(bits) => code.checked_shr(u32::from(*bits)).unwrap_or(0) == 0,
            Self::Bool => code <= 1,
            Self::Word(words) => (words.word)(code).is_some(),
        }
    }
}

/// A value that fits in a cell.
pub(crate) trait Cell: Sized {
    /// What a column of it holds.
    const KIND: Kind;
    /// Whether it can be null.
    const NULLABLE: bool = false;
    /// Its code; `None` is null.
    fn code(self) -> Option<u64>;
    /// The value with this code; `None` if there is none.
    fn from_code(code: Option<u64>) -> Option<Self>;
}

macro_rules! unsigned {
    ($($type:ty),+) => {$(
        impl Cell for $type {
            #[expect(clippy::as_conversions, clippy::cast_possible_truncation, reason = "at most 64")]
            const KIND: Kind = Kind::Unsigned(<$type>::BITS as u8);
            fn code(self) -> Option<u64> {
                Some(self.into())
            }
            fn from_code(code: Option<u64>) -> Option<Self> {
                code?.try_into().ok()
            }
        }
    )+};
}

unsigned!(u8, u16, u32, u64);

impl Cell for bool {
    const KIND: Kind = Kind::Bool;
    fn code(self) -> Option<u64> {
        Some(self.into())
    }
    fn from_code(code: Option<u64>) -> Option<Self> {
        match code? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Cell for Parts {
    const KIND: Kind = u16::KIND;
    fn code(self) -> Option<u64> {
        self.0.code()
    }
    fn from_code(code: Option<u64>) -> Option<Self> {
        u16::from_code(code).map(Self)
    }
}

impl Cell for Model {
    const KIND: Kind = Kind::Word(Words {
        name: "Model",
        word: |code| {
            let model = Self::from_code(u16::try_from(code).ok()?)?;
            Some(model.name().map_or_else(|| model.to_string().into(), Into::into))
        },
        code: |word| Self::parse(word).map(|model| Self::code(model).into()),
        numbered: Some("other-[1-9][0-9]*"),
    });
    fn code(self) -> Option<u64> {
        Some(Self::code(self).into())
    }
    fn from_code(code: Option<u64>) -> Option<Self> {
        Self::from_code(code?.try_into().ok()?)
    }
}

impl<V: Vocabulary> Cell for V {
    const KIND: Kind = Kind::Word(Words {
        name: V::NAME,
        word: |code| V::ALL.get(usize::try_from(code).ok()?).map(|member| member.word().into()),
        code: |word| V::parse(word)?.code(),
        numbered: None,
    });
    fn code(self) -> Option<u64> {
        V::ALL.iter().position(|member| *member == self).and_then(|place| place.try_into().ok())
    }
    fn from_code(code: Option<u64>) -> Option<Self> {
        V::ALL.get(usize::try_from(code?).ok()?).copied()
    }
}

impl<C: Cell> Cell for Option<C> {
    const KIND: Kind = C::KIND;
    const NULLABLE: bool = true;
    fn code(self) -> Option<u64> {
        self.and_then(C::code)
    }
    fn from_code(code: Option<u64>) -> Option<Self> {
        match code {
            None => Some(None),
            code => C::from_code(code).map(Some),
        }
    }
}
