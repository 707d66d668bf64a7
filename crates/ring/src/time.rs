//! Time: timestamps that never decrease, and anchors that convert them to wall-clock times.
//!
//! A timestamp is a number that the caller supplies, of a clock that the caller chooses. This
//! module makes it monotonic: nothing is reserved with a timestamp that is less than one before it.
//!
//! An *anchor* records the wall-clock time at a moment of the timestamps' clock, from a position
//! on. The two clocks run at one rate, so one anchor is enough until somebody sets the wall clock.

use crate::record::RecordAt;
use crate::view::Ring;
use core::cmp::Ordering::Less;
use perfring_abi::atomic::{AtomicU64, Ordering, fence, spin_loop};
use perfring_abi::{
    ANCHOR, ANCHORS, PERF_CAP_TIME_ZERO, PERF_CAPABILITIES, PerfTime, RecordWord, anchor as a,
    aux_record,
};

/// A difference below this, which includes the error of two readings, does not count as the wall
/// clock being set.
const STEP_NS: u64 = 20_000;
/// The distance by which no clock is behind a timestamp. Such a timestamp is of another boot, or damaged.
const FUTURE_NS: u64 = 1_000_000_000;
/// How often a reader retries copying anchors while more are added.
const TRIES: u32 = if cfg!(loom) { 2 } else { 100 };

/// How the processor's counter converts to the timestamps' clock, by the fields of `perf_event_mmap_page`:
/// `zero + (counter * mult >> shift)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `time_shift`.
    pub shift: u16,
    /// `time_mult`.
    pub mult: u32,
    /// `time_zero`.
    pub zero: u64,
}

impl Scale {
    /// Returns `counter * mult >> shift` with 64 bits, computed like perf's readers do.
    #[must_use]
    pub fn scaled(&self, counter: u64) -> u64 {
        let shift = u32::from(self.shift).min(63);
        let (whole, rest) = (counter >> shift, counter & ((1 << shift) - 1));
        let mult = u64::from(self.mult);
        whole.wrapping_mul(mult).wrapping_add(rest.wrapping_mul(mult) >> shift)
    }
}

/// A producer's latest reading of the machine's clocks, for [`Writer::keep_time`].
///
/// [`Writer::keep_time`]: crate::Writer::keep_time
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which boot this is: the first 8 bytes of its id.
    pub boot: u64,
    /// The timestamps' clock, ns.
    pub clock_ns: u64,
    /// The wall clock, ns.
    pub realtime_ns: u64,
    /// The most that the two readings may be apart, ns.
    pub error_ns: u64,
    /// How perf's readers get the timestamps' clock, if they can.
    pub scale: Option<Scale>,
}

impl Reading {
    /// Returns the anchor for records from this position on.
    #[must_use]
    pub fn anchor(&self, pos: u64) -> Anchor {
        Anchor {
            pos,
            clock_ns: self.clock_ns,
            realtime_ns: self.realtime_ns,
            error_ns: self.error_ns,
        }
    }
}

/// The wall-clock time at a moment of the timestamps' clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// The position of the first record that it applies to.
    pub pos: u64,
    /// The timestamps' clock, ns.
    pub clock_ns: u64,
    /// `CLOCK_REALTIME`, ns.
    pub realtime_ns: u64,
    /// The most that the two readings may be apart, ns.
    pub error_ns: u64,
}

impl Anchor {
    /// Returns the wall-clock time of a timestamp, ns since 1970; `None` if it exceeds a `u64`.
    #[must_use]
    #[inline]
    pub fn wall(&self, timestamp: u64) -> Option<u64> {
        let since = i128::from(timestamp) - i128::from(self.clock_ns);
        u64::try_from(i128::from(self.realtime_ns) + since).ok()
    }

    /// Returns the anchor as words of the file.
    #[must_use]
    pub fn to_words(&self) -> [u64; ANCHOR] {
        let mut words = [0; ANCHOR];
        words[a::POS] = self.pos;
        words[a::CLOCK_NS] = self.clock_ns;
        words[a::REALTIME_NS] = self.realtime_ns;
        words[a::ERROR_NS] = self.error_ns;
        words
    }

    fn load(words: &[AtomicU64; ANCHOR]) -> Self {
        // Relaxed: the caller's own, or Q orders it.
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        Anchor {
            pos: word(a::POS),
            clock_ns: word(a::CLOCK_NS),
            realtime_ns: word(a::REALTIME_NS),
            error_ns: word(a::ERROR_NS),
        }
    }
}

/// A copy of a ring's newest anchors, which convert timestamps to wall-clock times.
///
/// ```
/// use perfring_ring::{Anchor, Anchors};
/// // The wall clock was set an hour ahead before the record at 640.
/// let hour = 3600 * 1_000_000_000;
/// let anchors: Anchors = [
///     Anchor { pos: 0, clock_ns: 100, realtime_ns: 1_000_100, error_ns: 0 },
///     Anchor { pos: 640, clock_ns: 900, realtime_ns: 1_000_900 + hour, error_ns: 0 },
/// ]
/// .into_iter()
/// .collect();
/// assert_eq!(anchors.wall(600, 850), Some(1_000_850));
/// assert_eq!(anchors.wall(640, 850), Some(1_000_850 + hour));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchors {
    /// Oldest first.
    all: [Anchor; ANCHORS],
    len: usize,
}

impl Anchors {
    /// Reads the anchors of a ring; empty for a ring without time.
    #[must_use]
    pub fn read(ring: Ring<'_>) -> Self {
        let line = &ring.header.time;
        let mut found = Anchors::default();
        for _ in 0..TRIES {
            let written = line.anchors_written.load(Ordering::Relaxed);
            fence(Ordering::Acquire); // Q, pairs with Q
            let slots = line.anchors.each_ref().map(Anchor::load);
            fence(Ordering::Acquire); // Q, pairs with Q
            let now = line.anchors_written.load(Ordering::Relaxed);
            // The slot of the oldest may be in the process of being overwritten by the next.
            let oldest = now.saturating_sub(ANCHORS as u64 - 1).min(written);
            found = Anchors::default();
            // Never more than the room for them: a count that decreases is invalid, and yields no
            // anchor.
            for n in oldest..written.min(oldest.saturating_add(ANCHORS as u64 - 1)) {
                found.push(slots[(n % ANCHORS as u64) as usize]);
            }
            if written == now {
                break;
            }
            spin_loop();
        }
        found
    }

    fn push(&mut self, anchor: Anchor) {
        if self.len == ANCHORS {
            self.all.rotate_left(1);
            self.len -= 1;
        }
        self.all[self.len] = anchor;
        self.len += 1;
    }

    /// Returns the anchors, oldest first.
    #[must_use]
    pub fn all(&self) -> &[Anchor] {
        &self.all[..self.len]
    }

    /// Returns the anchor for a record at this position: the newest that is not after it. `None` if
    /// it has been overwritten because the wall clock was set too often since.
    #[must_use]
    #[inline]
    pub fn at(&self, pos: u64) -> Option<&Anchor> {
        self.all().iter().rev().find(|anchor| anchor.pos <= pos)
    }

    /// Returns the wall-clock time of a record, ns since 1970: the value of `CLOCK_REALTIME` at its
    /// timestamp. `None` if no anchor is left for it.
    #[must_use]
    #[inline]
    pub fn wall(&self, pos: u64, timestamp: u64) -> Option<u64> {
        self.at(pos)?.wall(timestamp)
    }
}

impl FromIterator<Anchor> for Anchors {
    /// Keeps the last of them, if there are more than a ring has.
    fn from_iter<T: IntoIterator<Item = Anchor>>(anchors: T) -> Self {
        let mut all = Anchors::default();
        anchors.into_iter().for_each(|anchor| all.push(anchor));
        all
    }
}

/// Starts timekeeping for a producer that has just attached, before its first record. Called by the
/// exclusive producer, or under the lock with clocks that were read under it; `pos` is where the
/// next record begins, and `newest` the greatest timestamp so far. Returns whether timestamps
/// restart, because earlier timestamps are in the future: they are of another boot, or invalid.
pub(crate) fn begin(ring: Ring<'_>, reading: &Reading, pos: u64, newest: u64) -> bool {
    let (line, perf) = (&ring.header.time, &ring.header.perf_time);
    let anew = newest > reading.clock_ns.saturating_add(FUTURE_NS);
    if anew {
        ring.header.shared.newest_timestamp.store(0, Ordering::Relaxed);
    }
    // Relaxed, both: written by the producer before, ordered by a lock.
    let rebooted = line.boot.load(Ordering::Relaxed) != reading.boot;
    if rebooted || perf.lock.load(Ordering::Relaxed) & 1 != 0 {
        // Of another boot, or left incomplete by a death. It is written again.
        store_scale(perf, None);
        line.boot.store(reading.boot, Ordering::Release);
    }
    keep(ring, reading, pos);
    anew
}

/// Updates the anchors, from time to time. [`begin`] describes callers and arguments.
pub(crate) fn keep(ring: Ring<'_>, reading: &Reading, pos: u64) {
    let (line, anchor) = (&ring.header.time, reading.anchor(pos));
    let slot = |n: u64| &line.anchors[(n % ANCHORS as u64) as usize];
    // Relaxed, like everything here: one writer at a time, ordered by a lock.
    let written = line.anchors_written.load(Ordering::Relaxed);
    let newest = written.checked_sub(1).map(|newest| Anchor::load(slot(newest)));
    if newest.is_none_or(|last| was_set(&last, &anchor)) {
        fence(Ordering::Release); // Q, pairs with Q: a reader that sees a new word sees the count before it
        for (to, word) in slot(written).iter().zip(anchor.to_words()) {
            to.store(word, Ordering::Relaxed);
        }
        line.anchors_written.store(written.wrapping_add(1), Ordering::Release); // Q, pairs with Q
    }
    if let Some(scale) = reading.scale {
        store_scale(&ring.header.perf_time, Some(scale));
    }
}

/// Returns whether the wall clock was set between the two.
fn was_set(last: &Anchor, now: &Anchor) -> bool {
    // A page may hold any values.
    let ahead = |at: &Anchor| at.realtime_ns.wrapping_sub(at.clock_ns);
    let apart = ahead(last).abs_diff(ahead(now));
    let apart = apart.min(apart.wrapping_neg()); // modulo 2^64
    let noise = last.error_ns.saturating_add(now.error_ns);
    STEP_NS.saturating_add(noise.min(FUTURE_NS)).cmp(&apart) == Less
}

/// Writes perf's time fields as the kernel does, or clears them.
fn store_scale(perf: &PerfTime, scale: Option<Scale>) {
    let seq = perf.lock.load(Ordering::Relaxed) | 1; // a producer may have died in this function
    perf.lock.store(seq, Ordering::Relaxed);
    fence(Ordering::Release); // R, pairs with R
    let (word, zero, cap) = match scale {
        Some(scale) => (PerfTime::pack(scale.shift, scale.mult), scale.zero, PERF_CAP_TIME_ZERO),
        None => (0, 0, 0),
    };
    perf.scale.store(word, Ordering::Relaxed);
    perf.zero.store(zero, Ordering::Relaxed);
    perf.capabilities.store(PERF_CAPABILITIES | cap, Ordering::Relaxed);
    perf.lock.store(seq.wrapping_add(1), Ordering::Release); // R, pairs with R
}

/// Returns the greatest timestamp before `to`: the noted timestamp, or the timestamp of a record since `from`. The
/// caller has checked that there are records from `from` on.
pub(crate) fn newest_timestamp(ring: Ring<'_>, from: u64, to: u64) -> u64 {
    // Relaxed throughout: written by the last producer, whose head B acquired.
    let mut newest = ring.header.shared.newest_timestamp.load(Ordering::Relaxed);
    for RecordAt { pos, word, .. } in ring.records(from, to).map_while(Result::ok) {
        if word.is_data() && word.size() > 8 {
            // A record with its payload in the AUX area has it elsewhere.
            let aux = word.raw() == RecordWord::aux().raw();
            let nth = if aux { aux_record::TIME as u64 } else { 0 };
            newest = newest.max(ring.word(pos + 8 + 8 * nth).load(Ordering::Relaxed));
        }
    }
    newest
}

/// Returns the timestamp of a reservation in a shared ring, under the lock: no less than any
/// timestamp before it.
#[inline(always)]
pub(crate) fn rise(ring: Ring<'_>, now: u64) -> u64 {
    // Relaxed: M orders it. Stored before the reservation: a timestamp that no record has is
    // harmless.
    let newest = &ring.header.shared.newest_timestamp;
    let timestamp = newest.load(Ordering::Relaxed).max(now);
    newest.store(timestamp, Ordering::Relaxed);
    timestamp
}
