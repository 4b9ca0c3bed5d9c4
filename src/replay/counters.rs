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

/// The most bytes of a page.
const PAGE_BYTES: usize = 1 << 24;

/// Reads `/metrics` now, every few seconds, and once more when `over` comes.
pub async fn watch<T: Transport>(
    transport: T,
    headers: HeaderMap,
    clock: impl Clock,
    mut over: oneshot::Receiver<()>,
) -> Tally {
    let mut tally = Tally::new();
    loop {
        if let Some(page) = page(&transport, &headers).await {
            tally.add(clock.now(), &page);
        }
        if tokio::time::timeout(EVERY, &mut over).await.is_ok() {
            if let Some(page) = page(&transport, &headers).await {
                tally.add(clock.now(), &page);
            }
            return tally;
        }
    }
}

/// What a summary says of them; none where the endpoint has none.
pub fn counters(tally: &Tally) -> Option<Counters> {
    tally.engine()?;
    Some(Counters {
        hit_tokens: tally.increase(Measure::Hits),
        asked_tokens: tally.increase(Measure::Asked),
        hit_ratio: tally.hit_ratio(),
    })
}

async fn page<T: Transport>(transport: &T, headers: &HeaderMap) -> Option<Page> {
    let call = Call { path: "/metrics".to_owned(), headers: headers.clone(), body: None };
    let (mut status, mut body) = (0, Vec::new());
    let mut each = |piece: Piece<'_>| match piece {
        Piece::Head(code, _) => status = code,
        Piece::Body(bytes) if body.len() < PAGE_BYTES => body.extend_from_slice(bytes),
        Piece::Body(_) => {}
    };
    transport.send(call, &mut each).await.ok()?;
    let text = std::str::from_utf8(&body).ok().filter(|_| status == 200)?;
    Some(Page::parse(text))
}
