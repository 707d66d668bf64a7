//! One sleep on the rings of all sources.

use crate::source::{Sleep, Source};
use perfring_consumer::advanced::{ANY_MOST, sleep_on_any};
use std::time::Duration;

/// Sleeps until one of these sources has something, or a tick, for at most `limit`. Returns whether they are to be
/// polled now. Otherwise it has not slept, because a source wakes no sleeper, there are too many sources or none, or the
/// system lacks this call.
pub(crate) fn sleep_on_all(mut sources: Vec<&mut Box<dyn Source>>, limit: Duration) -> bool {
    if sources.len() > ANY_MOST {
        return false;
    }
    let mut armed = Vec::with_capacity(sources.len());
    let mut ready = false;
    let all = sources.iter_mut().all(|source| match source.prepare_sleep() {
        Sleep::Armed(it) => {
            armed.push(it);
            true
        }
        Sleep::Ready => {
            ready = true;
            false
        }
        Sleep::Polled => false,
    });
    let poll = ready || (all && sleep_on_any(&armed, limit));
    drop(armed);
    sources.iter_mut().for_each(|source| source.end_sleep());
    poll
}
