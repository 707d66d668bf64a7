//! Fast timestamps: `CLOCK_BOOTTIME` computed from the processor's counter.
//!
//! A line, `ns = base_ns + (counter - base) * mult >> shift`, is drawn again every 8 ms through a
//! fresh reading of both clocks. No error lives longer than that, and the line follows what the
//! kernel does to its clock (NTP). The rate is measured between the last two readings. A reading
//! that took long is rejected, because the process may have been stopped between the counter and
//! the clock. While there is no line, each timestamp is the clock itself, read from the kernel: in
//! the first millisecond, in the first after a pause, and in one after the counter and the clock
//! have parted (a suspend that stopped the counter, a virtual machine that moved).
//!
//! The error of a timestamp is the sum of a reading's, half a microsecond; a rate's, which is the
//! error of two readings, at most doubled over twice the time (the first lines are short); and the
//! line's, by what the kernel changed in its clock's rate meanwhile, over 8 ms. NTP in the kernel
//! goes to 500 ppm either way. In all this is less than [`ERROR_NS`].

use perfring_ring::{Reading, Scale};
use perfring_shm::{Clocks, CounterSample};

/// The first rate is measured over at least this time, and the first line as long.
const FIRST_NS: u64 = 1_000_000;
/// The longest line.
const LONGEST_NS: u64 = 8_000_000;
/// The longest time that a rate is measured over. A producer whose timestamps are further apart
/// starts anew.
const LONG_NS: u64 = 64_000_000;
/// The largest difference between successive rates, in parts of the rate. Beyond it the counter and
/// the clock have parted.
const APART: f64 = 0.002;
/// How often the ring gets a reading of the clocks.
const KEEP_NS: u64 = 100_000_000;
/// The largest error of a timestamp, while the clock's rate changes by no more than 1,000 ppm (from
/// one end of NTP's range to the other) within a line.
#[cfg(test)]
const ERROR_NS: u64 = 12_000;

/// A line through the clock: ns by the processor's counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) base: u64,
    pub(crate) base_ns: u64,
    pub(crate) mult: u64,
    pub(crate) shift: u32,
    /// The counts for which the line is valid. 0: there is none.
    pub(crate) span: u64,
}

impl Line {
    pub(crate) const NONE: Self = Line { base: 0, base_ns: 0, mult: 0, shift: 0, span: 0 };

    /// Returns the time at this count, if the line reaches so far.
    #[inline(always)]
    pub(crate) fn at(&self, counter: u64) -> Option<u64> {
        // A counter that went back is far beyond any line, too.
        let since = counter.wrapping_sub(self.base);
        (since < self.span).then(|| self.base_ns + ((since * self.mult) >> self.shift))
    }
}

/// The clock that a producer's timestamps come from.
#[derive(Debug)]
pub(crate) struct Clock<S> {
    line: Line,
    source: S,
    /// The last reading.
    last: Option<CounterSample>,
    /// ns per count, once it was measured.
    rate: Option<f64>,
    /// The length of the next line.
    line_ns: u64,
    /// The time at which the ring gets the next reading.
    keep_at: u64,
}

impl<S: Clocks> Clock<S> {
    pub(crate) fn new(source: S) -> Self {
        Clock { line: Line::NONE, source, last: None, rate: None, line_ns: FIRST_NS, keep_at: 0 }
    }

    /// Returns the time by the line, if the line reaches so far.
    #[inline(always)]
    pub(crate) fn by_line(&self) -> Option<u64> {
        if self.line.span == 0 {
            return None;
        }
        self.line.at(self.source.counter())
    }

    /// Returns the line, which may have ended.
    pub(crate) fn line(&self) -> Line {
        self.line
    }

    /// Returns the time by the clock, and draws the next line where that is possible.
    #[cold]
    #[inline(never)]
    pub(crate) fn by_clock(&mut self) -> u64 {
        if !self.source.counts() {
            return self.source.clock_ns();
        }
        match self.source.sample() {
            Some(sample) => {
                self.draw(sample);
                sample.ns
            }
            // The reading was disturbed, and the line has ended.
            None => self.source.clock_ns(),
        }
    }

    fn draw(&mut self, sample: CounterSample) {
        self.line.span = 0;
        let Some(last) = self.last else {
            self.last = Some(sample);
            return;
        };
        let ns = sample.ns.saturating_sub(last.ns);
        if self.rate.is_none() && ns < FIRST_NS && sample.counter > last.counter {
            return; // not yet
        }
        self.last = Some(sample);
        let rate = ns as f64 / sample.counter.wrapping_sub(last.counter) as f64;
        let parted = self.rate.is_some_and(|before| (rate - before).abs() > before * APART);
        // Much can have changed in a long time. A rate outside 1 MHz to 100 GHz is no counter's.
        if parted || ns > LONG_NS || !(0.01..=1000.0).contains(&rate) {
            (self.rate, self.line_ns) = (None, FIRST_NS);
            return;
        }
        if self.rate.is_none() {
            self.keep_at = 0; // there is a scale now
        }
        self.rate = Some(rate);
        // As many bits of the rate as fit into perf's 32.
        let mut shift = 32;
        while shift > 0 && rate * (1u64 << shift) as f64 >= f64::from(u32::MAX) {
            shift -= 1;
        }
        self.line.mult = (rate * (1u64 << shift) as f64).round() as u64;
        self.line.shift = shift;
        (self.line.base, self.line.base_ns) = (sample.counter, sample.ns);
        self.line.span = (self.line_ns as f64 / rate) as u64;
        self.line_ns = (2 * self.line_ns).min(LONGEST_NS);
    }

    /// Returns whether the ring is to get a reading at this time of the clock.
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.keep_at
    }

    /// Returns the reading for the ring, and schedules the next one.
    pub(crate) fn read(&mut self) -> Reading {
        let mut reading = self.source.reading();
        self.schedule(&reading);
        reading.scale = (self.line.span != 0).then(|| {
            let mut scale =
                Scale { shift: self.line.shift as u16, mult: self.line.mult as u32, zero: 0 };
            scale.zero = self.line.base_ns.wrapping_sub(scale.scaled(self.line.base));
            scale
        });
        reading
    }

    /// Schedules the reading after this one.
    pub(crate) fn schedule(&mut self, reading: &Reading) {
        self.keep_at = reading.clock_ns.saturating_add(KEEP_NS);
    }

    /// Schedules the reading again soon: it could not be stored.
    pub(crate) fn schedule_soon(&mut self) {
        self.keep_at = 0;
    }
}

#[cfg(test)]
#[path = "timestamp_tests.rs"]
mod tests;
