//! Time since the replay began, and alarms.
//!
//! Invariant: the only place that reads the clock. Alarms come from a thread of their own, since the wheel of the async runtime
//! turns in whole milliseconds and would send every request that much late.

#![expect(clippy::disallowed_methods, reason = "this is where time enters the replay")]

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Resolves when its time has come (or when another alarm took its place).
pub type Alarm = oneshot::Receiver<()>;

/// Tells the time.
pub trait Clock: Clone + Send + Sync + 'static {
    /// Time since the replay began.
    fn now(&self) -> Duration;

    /// An alarm at this time. There is one alarm: setting it again drops the one before.
    fn alarm(&self, at: Duration) -> Alarm;
}

/// The machine's monotonic clock.
#[derive(Clone, Debug)]
pub struct Monotonic {
    origin: Instant,
    alarms: Sender<(Instant, oneshot::Sender<()>)>,
}

impl Monotonic {
    /// Starts at zero, with its timer thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start() -> std::io::Result<Self> {
        let (alarms, requests) = channel();
        std::thread::Builder::new().name("replay-timer".to_owned()).spawn(move || ring(&requests))?;
        Ok(Self { origin: Instant::now(), alarms })
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn alarm(&self, at: Duration) -> Alarm {
        let (sender, alarm) = oneshot::channel();
        if let Some(at) = self.origin.checked_add(at) {
            // The thread lives as long as a sender does.
            self.alarms.send((at, sender)).ok();
        }
        alarm
    }
}

/// The timer thread: keeps the latest alarm and rings it; ends with the last clock.
fn ring(requests: &Receiver<(Instant, oneshot::Sender<()>)>) {
    let mut current: Option<(Instant, oneshot::Sender<()>)> = None;
    loop {
        let next = match &current {
            Some((at, _)) => requests.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(alarm) => current = Some(alarm),
            Err(RecvTimeoutError::Timeout) => {
                if let Some((_, alarm)) = current.take() {
                    alarm.send(()).ok();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The runtime's clock, which tests pause.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paused(pub(crate) tokio::time::Instant);

#[cfg(test)]
impl Clock for Paused {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn alarm(&self, at: Duration) -> Alarm {
        let (sender, alarm) = oneshot::channel();
        let at = self.0 + at;
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            sender.send(()).ok();
        });
        alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_never_rings_early_and_a_new_one_takes_its_place() {
        let clock = Monotonic::start().unwrap();
        let replaced = clock.alarm(Duration::from_hours(1));
        let at = clock.now() + Duration::from_millis(5);
        let alarm = clock.alarm(at);
        assert!(replaced.blocking_recv().is_err());
        alarm.blocking_recv().unwrap();
        assert!(clock.now() >= at);
    }
}
