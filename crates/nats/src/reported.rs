//! State that the thread reports to the output.

use super::flight::Finished;
use perfring_events::{delivery::refusals::Refusals, later};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::sleep_until;

/// State that both sides share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    reported: Mutex<Reported>,
    /// Whether to end now, whatever is left.
    pub(super) stop: Notify,
    retry: Notify,
}

/// A pause before the next attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pause {
    until: Instant,
    /// The number of pauses that were ended from outside when it began.
    ended: u64,
}

/// What the thread has reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    /// Finished entries, all before any unfinished one, and the memory charged for them.
    pub(super) finished: Finished,
    pub(super) delivered: u64,
    pub(super) bytes: u64,
    pub(super) retries: u64,
    pub(super) refused: u64,
    pub(super) refusals: Refusals,
    /// Whether it waits before its next attempt, and how often such a pause was ended from outside.
    is_pausing: bool,
    ended_pauses: u64,
    /// The present problem.
    pub(super) trouble: Option<String>,
}

impl Shared {
    pub(super) fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the pause before the next attempt. Returns whether there was one.
    pub(super) fn retry(&self) -> bool {
        let mut reported = self.reported();
        reported.ended_pauses += 1;
        self.retry.notify_waiters();
        reported.is_pausing
    }

    pub(super) fn begin_pause(&self, pause: Duration) -> Pause {
        let mut reported = self.reported();
        reported.is_pausing = true;
        Pause { until: later(Instant::now(), pause), ended: reported.ended_pauses }
    }

    /// Waits for the end of a pause; without one, for ever.
    pub(super) async fn end_of(&self, pause: Option<Pause>) {
        let Some(pause) = pause else { return std::future::pending().await };
        let ended = self.retry.notified();
        if self.reported().ended_pauses == pause.ended {
            tokio::select! {
                () = sleep_until(pause.until.into()) => {}
                () = ended => {}
            }
        }
        self.reported().is_pausing = false;
    }
}

impl Reported {
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.clone().or_else(|| self.refusals.trouble().map(str::to_owned))
    }
}
