//! State that the thread reports to the output.

use super::flight::Finished;
use crate::delivery::refusals::Refusals;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// State that both sides share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    reported: Mutex<Reported>,
    /// Whether to end now, whatever is left.
    pub(super) stop: Notify,
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
    /// The present problem.
    pub(super) trouble: Option<String>,
}

impl Shared {
    pub(super) fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reported {
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.clone().or_else(|| self.refusals.trouble().map(str::to_owned))
    }
}
