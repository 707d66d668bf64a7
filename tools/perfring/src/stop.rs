//! SIGINT and SIGTERM as a flag that loops check, so that every end is an orderly one.

use crate::failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a loop may wait before it checks again.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// Whether this process was asked to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// From now on the first SIGINT or SIGTERM sets the flag, and a second one ends the process at
    /// once: an orderly end may be blocked by a full pipe.
    pub(crate) fn install() -> Result<Self, Failure> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order, so that the first signal finds the flag cleared.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))
                .and_then(|_| flag::register(signal, Arc::clone(&asked)))
                .map_err(|error| Self::failed(&error))?;
        }
        Self::patient()
    }

    /// Every SIGINT and SIGTERM only sets the flag: for a process that has something to clean up
    /// and never waits for long.
    pub(crate) fn patient() -> Result<Self, Failure> {
        let which = Arc::new(AtomicUsize::new(0));
        for signal in [SIGINT, SIGTERM] {
            flag::register_usize(signal, Arc::clone(&which), signal as usize)
                .map_err(|error| Self::failed(&error))?;
        }
        Ok(Stop(which))
    }

    fn failed(error: &std::io::Error) -> Failure {
        Failure::General(format!("cannot handle signals: {error}"))
    }

    /// A process that was asked to stop.
    #[cfg(test)]
    pub(crate) fn asked() -> Self {
        Stop(Arc::new(AtomicUsize::new(SIGINT as usize)))
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        // Relaxed: no other data is passed with it.
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(signal as i32),
        }
    }

    /// Returns an error once a signal arrived.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.signal().map_or(Ok(()), |signal| Err(Failure::Signal(signal)))
    }

    /// Sleeps until it is so long since then, or this process was asked to stop.
    pub(crate) fn pause(&self, since: Instant, interval: Duration) -> Result<(), Failure> {
        while since.elapsed() < interval {
            self.check()?;
            std::thread::sleep(POLL.min(interval.saturating_sub(since.elapsed())));
        }
        Ok(())
    }
}
