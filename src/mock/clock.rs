//! [`Clock`]: the time since the server began.
//!
//! Invariant: the only place of the mock that asks what time it is; everything else is given durations.

use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Counts from when it was made. Obeys tokio's paused time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(self) -> Duration {
        self.0.elapsed()
    }

    /// Sleeps until a time since the start.
    pub(super) fn sleep_until(self, due: Duration) -> Sleep {
        tokio::time::sleep_until(self.0 + due)
    }
}
