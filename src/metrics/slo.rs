//! Objectives that a user sets, and prices.
//!
//! Invariant: a missing measurement never meets an objective.

use std::str::FromStr;
use std::time::Duration;

use super::RequestRecord;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Time to the first content.
    Ttft,
    /// Time between tokens.
    Itl,
    /// Time of a request.
    Latency,
    /// Time of a session, from its first request's due time to its last byte.
    Session,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 4] = [Self::Ttft, Self::Itl, Self::Latency, Self::Session];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ttft => "ttft",
            Self::Itl => "itl",
            Self::Latency => "latency",
            Self::Session => "session",
        }
    }
}

/// An objective: `ttft_p95=2s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// Of what.
    pub metric: Metric,
    /// At which percentile.
    pub percentile: u32,
    /// At most this long.
    pub at_most: Duration,
}

/// An objective or a price that is not of the form that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Syntax {
    /// Of an objective.
    #[error("an objective is like ttft_p95=2s; metrics are ttft, itl, latency, session; times end in ms, s or min")]
    Slo,
    /// Of a time.
    #[error("a time is a number and ms, s, min or h")]
    Time,
    /// Of a price.
    #[error("a price is input=X, cached=X, output=X (each for a million tokens) or hour=X (of all instances)")]
    Price,
}

impl FromStr for Slo {
    type Err = Syntax;

    fn from_str(text: &str) -> Result<Self, Syntax> {
        let (name, limit) = text.split_once('=').ok_or(Syntax::Slo)?;
        let (metric, percentile) = name.trim().rsplit_once("_p").ok_or(Syntax::Slo)?;
        let metric = Metric::ALL.into_iter().find(|known| known.word() == metric).ok_or(Syntax::Slo)?;
        let percentile =
            percentile.parse().ok().filter(|percentile| (1..=100).contains(percentile)).ok_or(Syntax::Slo)?;
        Ok(Self { metric, percentile, at_most: time(limit).map_err(|_| Syntax::Slo)? })
    }
}

/// Reads `250ms`, `2s`, `1.5min`, `1h`.
///
/// # Errors
/// If it is of another form.
pub fn time(text: &str) -> Result<Duration, Syntax> {
    let text = text.trim();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text.get(number.len()..).unwrap_or_default() {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(Syntax::Time),
    };
    let number: f64 = number.parse().map_err(|_| Syntax::Time)?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| Syntax::Time)
}

impl Slo {
    /// Whether a request alone meets it; none if it is about sessions.
    pub(super) fn met_by(&self, record: &RequestRecord) -> Option<bool> {
        let value = match self.metric {
            Metric::Ttft => record.ttft_us(),
            // An answer of one token has no time between tokens to miss.
            Metric::Itl if record.answer_tokens.is_some_and(|tokens| tokens < 2) => Some(0),
            Metric::Itl => record.itl_us(),
            Metric::Latency => record.latency_us(),
            Metric::Session => return None,
        };
        Some(value.is_some_and(|value| self.met(value)))
    }

    /// Whether this many microseconds meet it.
    pub(super) fn met(&self, micros: u64) -> bool {
        Duration::from_micros(micros) <= self.at_most
    }
}

/// What tokens or instances cost, in any currency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// A million prompt tokens that were not cached.
    pub input: f64,
    /// A million prompt tokens that were.
    pub cached: f64,
    /// A million tokens of answers.
    pub output: f64,
    /// An hour of all instances.
    pub hour: f64,
}

impl Price {
    /// Reads `input=3`, `cached=0.3`, `output=15` or `hour=2.5`, in any order.
    ///
    /// # Errors
    /// If one is of another form.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, Syntax> {
        let mut price = Self::default();
        for item in items {
            let (name, value) = item.split_once('=').ok_or(Syntax::Price)?;
            let value: f64 = value
                .trim()
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite() && *value >= 0.0)
                .ok_or(Syntax::Price)?;
            match name.trim() {
                "input" => price.input = value,
                "cached" => price.cached = value,
                "output" => price.output = value,
                "hour" => price.hour = value,
                _ => return Err(Syntax::Price),
            }
        }
        Ok(price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_and_prices_are_read() {
        let slo: Slo = "ttft_p95=2s".parse().unwrap();
        assert_eq!(slo, Slo { metric: Metric::Ttft, percentile: 95, at_most: Duration::from_secs(2) });
        assert_eq!("itl_p50=50ms".parse::<Slo>().unwrap().at_most, Duration::from_millis(50));
        assert_eq!("session_p99=1.5min".parse::<Slo>().unwrap().at_most, Duration::from_secs(90));
        for wrong in ["", "ttft=2s", "ttft_p0=2s", "ttft_p101=2s", "x_p95=2s", "ttft_p95=2days", "ttft_p95=-1s"] {
            assert_eq!(wrong.parse::<Slo>(), Err(Syntax::Slo), "{wrong}");
        }
        let price = Price::parse(["input=3", "output=15", "cached=0.3"]).unwrap();
        assert_eq!(price, Price { input: 3.0, cached: 0.3, output: 15.0, hour: 0.0 });
        assert!(
            Price::parse(["input"]).is_err() && Price::parse(["input=-1"]).is_err() && Price::parse(["x=1"]).is_err()
        );
    }
}
