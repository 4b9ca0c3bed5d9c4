//! The dispatcher: hands out what is due, and tells the schedule what ended.
//!
//! Invariant: every request of the schedule gives one event `Ended`, also one that is never sent, panics or is given up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{Id as TaskId, JoinSet};

use super::call::Caller;
use super::clock::Clock;
use super::schedule::{Due, Next, Outcome, Schedule};
use super::transport::Transport;
use crate::metrics::RequestRecord;

/// How long before it is due a prompt is made.
const LEAD: Duration = Duration::from_millis(50);

/// Whether the user wants to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// No.
    #[default]
    No,
    /// Send nothing more; wait for what is in flight.
    Drain,
    /// Give up what is in flight, too.
    Abort,
}

/// What happens.
#[derive(Clone, Debug)]
pub enum Event {
    /// A request is sent.
    Sent(Due),
    /// A request has ended, or will never be sent.
    Ended(Box<RequestRecord>),
}

/// Replays a schedule to its end, or until `stop` or the time `until`.
pub async fn dispatch<T: Transport, C: Clock>(
    schedule: &mut Schedule,
    caller: &Arc<Caller<T, C>>,
    mut until: Option<Duration>,
    mut stop: watch::Receiver<Stop>,
    mut each: impl FnMut(Event),
) {
    let clock = caller.clock().clone();
    let mut tasks: JoinSet<Option<RequestRecord>> = JoinSet::new();
    let mut flying: HashMap<TaskId, Due> = HashMap::new();
    let ended = |each: &mut dyn FnMut(Event), record: Option<RequestRecord>| {
        record.into_iter().for_each(|record| each(Event::Ended(Box::new(record))));
    };
    if *stop.borrow_and_update() >= Stop::Drain {
        schedule.stop();
        caller.halt(Stop::Drain);
    }
    loop {
        let now = clock.now();
        if until.is_some_and(|until| until <= now) {
            schedule.stop();
            caller.halt(Stop::Drain);
            until = None;
        }
        for id in schedule.upcoming(now + LEAD) {
            caller.prepare(id);
        }
        let wake = match schedule.pop(now) {
            Next::Send(due) => {
                flying.insert(tasks.spawn(Arc::clone(caller).call(due)).id(), due);
                each(Event::Sent(due));
                continue;
            }
            Next::Skip(id, why) => {
                caller.forget(id);
                ended(&mut each, caller.never_sent(id, why));
                continue;
            }
            // First in time to make its prompt.
            Next::At(at) => Some(at.checked_sub(LEAD).filter(|early| *early > now).unwrap_or(at)),
            Next::Wait => None,
            Next::Done => return,
        };
        let wake = wake.into_iter().chain(until).min();
        let alarm = wake.map(|at| clock.alarm(at));
        tokio::select! {
            Some(result) = tasks.join_next_with_id() => {
                let (task, record) = match result {
                    Ok((task, record)) => (task, record),
                    Err(lost) => (lost.id(), flying.get(&lost.id()).and_then(|due| caller.lost(due))),
                };
                if let Some(due) = flying.remove(&task) {
                    let fine = record.as_ref().is_some_and(|record| record.ending.is_fine());
                    let at = record.as_ref().and_then(|record| record.last_byte_us);
                    let outcome = if fine { Outcome::Fine } else { Outcome::Failed };
                    schedule.complete(due.id, at.map_or_else(|| clock.now(), Duration::from_micros), outcome);
                }
                ended(&mut each, record);
            }
            () = async { if let Some(alarm) = alarm { alarm.await.ok(); } else { std::future::pending::<()>().await; } } => {}
            Ok(()) = stop.changed() => {
                let wanted = *stop.borrow_and_update();
                if wanted >= Stop::Drain {
                    schedule.stop();
                }
                caller.halt(wanted);
            }
        }
    }
}

#[cfg(test)]
mod tests;
