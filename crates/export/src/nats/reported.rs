//! What the thread tells.

use super::flight::Finished;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What both sides have.
#[derive(Debug, Default)]
pub(super) struct Shared {
    reported: Mutex<Reported>,
    /// End now, whatever is left.
    pub(super) stop: Notify,
}

/// What the thread tells.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    /// Finished entries, all before any that is not, and what they are counted as.
    pub(super) finished: Finished,
    pub(super) delivered: u64,
    pub(super) bytes: u64,
    pub(super) retries: u64,
    pub(super) refused: u64,
    /// The last that was refused for good.
    pub(super) last_refused: Option<String>,
    /// What is wrong now.
    pub(super) trouble: Option<String>,
}

impl Shared {
    pub(super) fn reported(&self) -> MutexGuard<'_, Reported> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reported {
    pub(super) fn trouble(&self) -> Option<String> {
        let refused = || {
            let last = self.last_refused.as_ref()?;
            Some(format!("{} refused for good, the last: {last}", self.refused))
        };
        self.trouble.clone().or_else(refused)
    }
}
