//! Times as recorders write them.
//!
//! Invariant: a time says how finely it was written; one that cannot be read is none, never a guess.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};

use super::exchange::{Moment, Precision};

/// An RFC 3339 time; one without an offset is taken as UTC.
pub(super) fn rfc3339(text: &str) -> Option<Moment> {
    let time = text
        .parse::<Timestamp>()
        .or_else(|_| text.parse::<DateTime>().and_then(|civil| TimeZone::UTC.to_timestamp(civil)))
        .ok()?;
    let digits = text.split_once(['.', ',']).map_or("", |(_, fraction)| fraction);
    let precision = match digits.bytes().take_while(u8::is_ascii_digit).count() {
        0 => Precision::Second,
        1..=3 => Precision::Milli,
        _ => Precision::Micro,
    };
    Some(Moment { unix_us: time.as_microsecond(), precision })
}

/// A decimal number of a unit in microseconds, rounded; none if it is no number or too large.
pub(super) fn micros(number: &str, unit_us: f64) -> Option<i64> {
    // Written out and read back: a conversion that cannot wrap or saturate.
    format!("{:.0}", number.parse::<f64>().ok()? * unit_us).parse().ok()
}

impl Moment {
    /// A later (or earlier) time, known no better than this one.
    pub(super) fn plus(self, us: i64) -> Option<Self> {
        Some(Self { unix_us: self.unix_us.checked_add(us)?, precision: self.precision })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_is_read_with_any_offset_and_precision() {
        let at = |text| rfc3339(text).map(|moment| (moment.unix_us, moment.precision));
        assert_eq!(at("1970-01-01T00:00:01Z"), Some((1_000_000, Precision::Second)));
        assert_eq!(at("1970-01-01T01:00:01.5+01:00"), Some((1_500_000, Precision::Milli)));
        assert_eq!(at("1970-01-01T00:00:01.500Z"), Some((1_500_000, Precision::Milli)));
        assert_eq!(at("1970-01-01T00:00:01.500001+00:00"), Some((1_500_001, Precision::Micro)));
        assert_eq!(at("1970-01-01T00:00:01.5000019Z"), Some((1_500_001, Precision::Micro)));
        assert_eq!(at("1970-01-01T00:00:01.25"), Some((1_250_000, Precision::Milli)));
        assert_eq!(at("yesterday"), None);
        assert_eq!(at(""), None);
    }

    #[test]
    fn decimals_are_rounded_to_microseconds() {
        assert_eq!(micros("1795967463.409", 1e6), Some(1_795_967_463_409_000));
        assert_eq!(micros("72.59273529052734", 1e3), Some(72_593));
        assert_eq!(micros("-1", 1e3), Some(-1000));
        assert_eq!(micros("1e400", 1e6), None);
        assert_eq!(micros("1e30", 1e6), None);
        assert_eq!(micros("\"1\"", 1e6), None);
    }
}
