//! The pace of a producer.

use crate::failure::Failure;
use crate::stop::Stop;
use signal_hook::consts::SIGTERM;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// When the next sample is due, and whether to go on.
pub(super) struct Pace {
    due: Instant,
    /// How much later than asked for the last sleep ended.
    pub(super) late: Duration,
    stop: Stop,
    end: Arc<AtomicBool>,
    go: Receiver<()>,
}

impl Pace {
    /// Goes on until the parent closes our stdin. A Ctrl-C is the parent's to deal with.
    pub(super) fn new() -> Result<Self, Failure> {
        let end = Arc::new(AtomicBool::new(false));
        let at_end = Arc::clone(&end);
        let (begin, go) = channel();
        std::thread::spawn(move || {
            for _ in io::stdin().lines().map_while(Result::ok) {
                let _ = begin.send(()); // nobody waits for a second one
            }
            at_end.store(true, Ordering::Relaxed); // Relaxed: hands nothing over
        });
        // Sleeps as short as asked for, where the kernel allows it.
        let _ = nix::sys::prctl::set_timerslack(1);
        let (due, late, stop) = (Instant::now(), Duration::ZERO, Stop::patient()?);
        Ok(Pace { due, late, stop, end, go })
    }

    /// Attached: waits until the parent says that there is a reader, or that it is over.
    pub(super) fn ready(&mut self) {
        let _ = self.go.recv();
        self.due = Instant::now();
    }

    /// Sleeps until a period after the last time. `false` when it is over.
    pub(super) fn next(&mut self, period: Duration) -> bool {
        self.due += period;
        let now = Instant::now();
        match self.due.checked_duration_since(now) {
            Some(rest) => std::thread::sleep(rest),
            None => self.due = now, // behind: do not run after it
        }
        self.late = Instant::now().saturating_duration_since(self.due);
        !self.end.load(Ordering::Relaxed) && self.stop.signal() != Some(SIGTERM)
    }
}
