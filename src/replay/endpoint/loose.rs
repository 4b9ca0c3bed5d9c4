//! Members of answers whose type is not what the API says.
//!
//! Invariant: such a member is as if absent, and costs none of the others; a count is read in whatever way it is written.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A count: a number, also with a decimal point, or as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count(pub(super) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let (whole, fraction) =
            raw.trim_matches('"').trim().split_once('.').unwrap_or((raw.trim_matches('"').trim(), ""));
        let zero = fraction.bytes().all(|digit| digit == b'0');
        Ok(Self(whole.parse().ok().filter(|_| zero)))
    }
}

/// A member, or nothing where it is of another type.
pub(super) fn loose<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).ok().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_however_they_are_written() {
        let read = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
        for written in ["12", "12.0", "\"12\"", "\" 12 \"", "\"12.00\""] {
            assert_eq!(read(written), Some(12), "{written}");
        }
        for written in
            ["null", "true", "-1", "12.5", "\"\"", "\"many\"", "[12]", "{\"n\":12}", "1e99", "99999999999999999999"]
        {
            assert_eq!(read(written), None, "{written}");
        }
    }
}
