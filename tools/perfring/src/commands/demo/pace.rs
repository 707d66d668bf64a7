//! The rate at which a producer publishes.

use crate::failure::Failure;
use crate::stop::Stop;
use perfring_export::later;
use signal_hook::consts::SIGTERM;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The schedule of samples, until the end.
pub(super) struct Pace {
    due: Instant,
    /// How much later than requested the last sleep ended.
    pub(super) late: Duration,
    stop: Stop,
    end: Arc<AtomicBool>,
    go: Receiver<()>,
}

impl Pace {
    /// Runs until the parent closes our stdin. The parent handles Ctrl-C.
    pub(super) fn new() -> Result<Self, Failure> {
        let end = Arc::new(AtomicBool::new(false));
        let at_end = Arc::clone(&end);
        let (begin, go) = channel();
        std::thread::spawn(move || {
            for _ in io::stdin().lines().map_while(Result::ok) {
                let _ = begin.send(()); // only the first one is waited for
            }
            at_end.store(true, Ordering::Relaxed); // Relaxed: hands nothing over
        });
        // Makes sleeps as precise as the kernel allows.
        let _ = nix::sys::prctl::set_timerslack(1);
        let (due, late, stop) = (Instant::now(), Duration::ZERO, Stop::patient()?);
        Ok(Pace { due, late, stop, end, go })
    }

    /// Attached: waits until the parent reports a reader, or the end.
    pub(super) fn ready(&mut self) {
        let _ = self.go.recv();
        self.due = Instant::now();
    }

    /// Sleeps until one period after the last time. Returns `false` at the end.
    pub(super) fn next(&mut self, period: Duration) -> bool {
        self.due = later(self.due, period);
        let now = Instant::now();
        match self.due.checked_duration_since(now) {
            Some(rest) => std::thread::sleep(rest),
            None => self.due = now, // behind schedule: do not catch up
        }
        self.late = Instant::now().saturating_duration_since(self.due);
        !self.end.load(Ordering::Relaxed) && self.stop.signal() != Some(SIGTERM)
    }
}
