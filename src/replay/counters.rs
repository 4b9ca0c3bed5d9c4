//! The endpoint's own counters, asked for while a replay runs.
//!
//! Invariant: a page that does not come or cannot be read leaves a gap and disturbs nothing; counters are taken as differences.

use std::time::Duration;

use hyper::HeaderMap;
use tokio::sync::oneshot;

use super::clock::Clock;
use super::transport::{Call, Piece, Transport};
use crate::metrics::Counters;
use crate::metrics::scrape::{Measure, Page, Tally};

/// Between two pages.
const EVERY: Duration = Duration::from_secs(3);

/// Servers count some of a request after its last byte.
const SETTLE: Duration = Duration::from_millis(500);

/// The most time for a page.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of a page.
const PAGE_BYTES: usize = 1 << 24;

/// A worker's page: where it is, and the headers that it wants.
#[derive(Clone, Debug)]
pub struct Place<T> {
    /// The server.
    pub transport: T,
    /// Below its base URL.
    pub path: String,
    /// Names and values.
    pub headers: HeaderMap,
}

/// Pages of an endpoint's workers, added up.
pub struct Watch<T> {
    places: Vec<Place<T>>,
    tally: Tally,
}

impl<T: Transport> Watch<T> {
    /// Reads the first pages, before anything is sent. A place without one is left out.
    pub async fn begin(places: Vec<Place<T>>) -> Self {
        let (mut known, mut pages, mut tally) = (Vec::new(), Vec::new(), Tally::new());
        for place in places {
            if let Some(page) = page(&place).await {
                pages.push(page);
                known.push(place);
            }
        }
        tally.add_all(Duration::ZERO, &pages);
        Self { places: known, tally }
    }

    /// Reads the pages every few seconds, and once more a little after `over` has come.
    pub async fn run(mut self, clock: impl Clock, mut over: oneshot::Receiver<()>) -> Tally {
        while !self.places.is_empty() {
            let last = tokio::time::timeout(EVERY, &mut over).await.is_ok();
            if last {
                tokio::time::sleep(SETTLE).await;
            }
            let mut pages = Vec::new();
            for place in &self.places {
                pages.extend(page(place).await);
            }
            if pages.len() == self.places.len() {
                self.tally.add_all(clock.now(), &pages);
            }
            if last {
                break;
            }
        }
        self.tally
    }
}

/// What a summary says of them; none where the endpoint has none.
pub fn counters(tally: &Tally) -> Option<Counters> {
    let engine = tally.engine()?.word().to_owned();
    let (increase, quantile) = (|measure| tally.increase(measure), |measure, of| tally.quantile(measure, of));
    Some(Counters {
        engine,
        hit_tokens: increase(Measure::Hits),
        asked_tokens: increase(Measure::Asked),
        hit_ratio: tally.hit_ratio(),
        computed_tokens: increase(Measure::Computed),
        evictions: increase(Measure::Evictions),
        queue_seconds_p50: quantile(Measure::QueueTime, 0.5),
        queue_seconds_p95: quantile(Measure::QueueTime, 0.95),
        ttft_seconds_p50: quantile(Measure::Ttft, 0.5),
        ttft_seconds_p95: quantile(Measure::Ttft, 0.95),
        resets: u64::try_from(tally.resets()).unwrap_or(u64::MAX),
    })
}

async fn page<T: Transport>(place: &Place<T>) -> Option<Page> {
    let call = Call { path: place.path.clone(), headers: place.headers.clone(), body: None };
    let (mut status, mut body) = (0, Vec::new());
    let mut each = |piece: Piece<'_>| match piece {
        Piece::Head(code, _) => status = code,
        Piece::Body(bytes) if body.len() < PAGE_BYTES => body.extend_from_slice(bytes),
        Piece::Body(_) | Piece::Again => {}
    };
    tokio::time::timeout(PATIENCE, place.transport.send(call, &mut each)).await.ok()?.ok()?;
    let text = std::str::from_utf8(&body).ok().filter(|_| status == 200)?;
    Some(Page::parse(text))
}
