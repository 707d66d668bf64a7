//! Timestamps for all threads of a process: a [`Line`] for all of them. The first thread that finds that the line
//! has ended draws the next one. That thread may be off its core, so the others do not wait for it: meanwhile
//! they read the clock itself.
//!
//! The line and the clock are apart by what [`crate::timestamp`] says, and so are the lines of two processes. So that
//! this puts no thread's records into another order, whichever rings they are in, each of its timestamps is greater than
//! the one before, and than that to which a ring has raised it. (A signal handler that comes between the two steps of
//! [`ThreadsClock::now`] and publishes is a thread of its own in this.)

use crate::timestamp::{Clock, Line};
use perfring_ring::Reading;
use perfring_shm::Clocks;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A timestamp that is so far ahead of the clock, in ns, is none: one ring's writers could have a thread's records in all
/// others bear it.
const FUTURE: u64 = 1_000_000_000;

thread_local! {
    /// The clock at this thread's last timestamp.
    static CLOCK: Cell<u64> = const { Cell::new(0) };
    /// This thread's last timestamp.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// The clock that the timestamps of all threads come from.
#[derive(Debug)]
pub(crate) struct ThreadsClock<S> {
    source: S,
    /// How many lines there were. The last one is in the copy that the lowest bit names.
    lines: AtomicU64,
    copies: [[AtomicU64; 5]; 2],
    drawer: Mutex<Clock<S>>,
}

impl<S: Clocks + Copy> ThreadsClock<S> {
    pub(crate) fn new(source: S) -> Self {
        ThreadsClock {
            source,
            lines: AtomicU64::new(0),
            copies: [const { [const { AtomicU64::new(0) }; 5] }; 2],
            drawer: Mutex::new(Clock::new(source)),
        }
    }

    /// Returns the timestamp of a record of this thread.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        let now = match self.by_line() {
            Some(now) => now,
            None => self.by_clock(),
        };
        CLOCK.set(now);
        let now = now.max(LAST.get() + 1);
        LAST.set(now);
        now
    }

    #[inline(always)]
    fn by_line(&self) -> Option<u64> {
        let lines = self.lines.load(Ordering::Acquire);
        let copy = self.copies[lines as usize % 2].each_ref();
        // Relaxed: a copy that is overwritten meanwhile is the last one no more.
        let [base, base_ns, mult, shift, span] = copy.map(|word| word.load(Ordering::Relaxed));
        let now = Line { base, base_ns, mult, shift: shift as u32, span }.at(self.source.counter());
        fence(Ordering::Acquire); // with the fence in `publish`
        now.filter(|_| self.lines.load(Ordering::Relaxed) == lines)
    }

    #[cold]
    #[inline(never)]
    fn by_clock(&self) -> u64 {
        if !self.source.counts() {
            return self.source.clock_ns();
        }
        // A signal handler that has interrupted the one who draws does not wait either.
        let Ok(mut drawer) = self.drawer.try_lock() else { return self.source.clock_ns() };
        let now = drawer.by_clock();
        self.share(drawer.line());
        now
    }

    /// Under the mutex.
    fn share(&self, line: Line) {
        let lines = self.lines.load(Ordering::Relaxed) + 1;
        let Line { base, base_ns, mult, shift, span } = line;
        // Whoever sees one of the stores below sees, after its own fence, that the copy is not the last one.
        fence(Ordering::Release);
        let copy = &self.copies[lines as usize % 2];
        for (word, value) in copy.iter().zip([base, base_ns, mult, u64::from(shift), span]) {
            word.store(value, Ordering::Relaxed);
        }
        self.lines.store(lines, Ordering::Release);
    }

    /// Notes the timestamp that a ring has, once this thread has published there: its next one is greater.
    #[inline(always)]
    pub(crate) fn stored(&self, newest: u64) {
        // Compared with the clock: bounded for each record, it could still be raised without end.
        if newest.wrapping_sub(CLOCK.get()) < FUTURE {
            LAST.set(LAST.get().max(newest));
        }
    }

    /// Returns what the clocks say, for a ring; without the rate of the counter if another thread draws a line.
    pub(crate) fn read(&self) -> Reading {
        match self.drawer.try_lock() {
            Ok(mut drawer) => drawer.read(),
            Err(_) => Clock::new(self.source).read(),
        }
    }
}

#[cfg(test)]
#[path = "threads_clock_tests.rs"]
mod tests;
