//! Requests to a running sidecar.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Requests since the last poll, by signals or by the caller itself.
///
/// ```
/// use perfring_sidecar::Signals;
/// let signals = Signals::default(); // `Signals::install` receives the process's
/// signals.stop(15);
/// assert_eq!(signals.stopped(), Some(15));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Signals {
    stop: Arc<AtomicUsize>,
    /// Whether the next signal ends the process at once.
    stopping: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    status: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
}

impl Signals {
    /// From now on SIGINT and SIGTERM request an end, and a second one ends the process at once;
    /// SIGHUP requests a reload of the configuration, SIGUSR1 the status, SIGUSR2 a snapshot.
    ///
    /// # Errors
    /// The system's error.
    pub fn install() -> io::Result<Self> {
        let signals = Signals::default();
        let stopping = &signals.stopping;
        for signal in [SIGINT, SIGTERM] {
            // In this order, so that the first signal finds the flag cleared.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(stopping))?;
            flag::register(signal, Arc::clone(stopping))?;
            flag::register_usize(signal, Arc::clone(&signals.stop), signal as usize)?;
        }
        flag::register(SIGHUP, Arc::clone(&signals.reload))?;
        flag::register(SIGUSR1, Arc::clone(&signals.status))?;
        flag::register(SIGUSR2, Arc::clone(&signals.snapshot))?;
        Ok(signals)
    }

    /// Requests an end, as this signal does.
    pub fn stop(&self, signal: i32) {
        self.stop.store(signal.unsigned_abs() as usize, Ordering::Relaxed);
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Requests a reload of the configuration.
    pub fn reload(&self) {
        self.reload.store(true, Ordering::Relaxed);
    }

    /// Requests a snapshot.
    pub fn snapshot(&self) {
        self.snapshot.store(true, Ordering::Relaxed);
    }

    /// Returns the signal that requested an end.
    #[must_use]
    pub fn stopped(&self) -> Option<i32> {
        // Relaxed, as all here: no other data is passed with it.
        match self.stop.load(Ordering::Relaxed) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    pub(crate) fn take_reload(&self) -> bool {
        self.reload.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn take_status(&self) -> bool {
        self.status.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn take_snapshot(&self) -> bool {
        self.snapshot.swap(false, Ordering::Relaxed)
    }
}
