//! The sleep and wake handshake. The algorithm is here, the system call in `perfring-shm`.
//!
//! A sleeper says that it is about to sleep, then looks again; whoever publishes, publishes, then
//! looks for a sleeper. Between the two steps of each side stands a fence, so one of them must see
//! the other: a wake is never missed. The publisher's fence is on the path of every record, so the
//! pair is asymmetric, see [`Fences`].

use crate::record::{Found, Shape, step};
use crate::view::Ring;
use perfring_abi::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use perfring_abi::{SpaceLine, WaitLine};

/// What stands between a publisher's store and its look for a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fences {
    /// Nothing but a compiler fence: the process is registered for
    /// `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, and sleepers issue it before they look.
    Asymmetric,
    /// A full fence: `membarrier(2)` is not to be had.
    Full,
}

impl Fences {
    /// The publisher's fence (I, K).
    #[inline]
    pub(crate) fn light(self) {
        match self {
            // loom knows no membarrier: there both sides are full fences, which is what the
            // asymmetric pair amounts to.
            Fences::Asymmetric if cfg!(not(loom)) => compiler_fence(Ordering::SeqCst),
            _ => fence(Ordering::SeqCst),
        }
    }
}

/// A full fence: the heavy side where every light side is [`Fences::Full`] too.
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Whether a publish wakes a sleeping consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// If it sleeps, and the threshold that it set is reached (`BPF_RB` default).
    #[default]
    Auto,
    /// Not even then: a later publish will (`BPF_RB_NO_WAKEUP`).
    No,
    /// If it sleeps, whatever its threshold (`BPF_RB_FORCE_WAKEUP`).
    Force,
}

/// What a sleeping consumer wants to be woken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeAt {
    /// Every record.
    #[default]
    Record,
    /// This many records after those read so far (perf's `wakeup_events`).
    Records(u64),
    /// This many bytes of ring after the cursor (perf's `wakeup_watermark`).
    Bytes(u64),
}

impl Ring<'_> {
    /// Before a consumer sleeps: announces it, issues the heavy fence, and looks again.
    ///
    /// Returns the futex word's value to sleep on, or `None` if the sleep is off because what it
    /// would wait for is there. `passed` is how many records lie before `cursor`.
    pub fn prepare_sleep(
        &self,
        cursor: u64,
        passed: u64,
        at: WakeAt,
        heavy: impl FnOnce(),
    ) -> Option<u32> {
        let line = &self.header.wait;
        // Never wait for more than half a ring: it might not fit.
        let half = (self.data_size() / 2).max(8);
        let (ahead, records) = match at {
            WakeAt::Record => (8, u64::MAX),
            WakeAt::Records(n) => (half, passed.saturating_add(n.max(1))),
            WakeAt::Bytes(n) => (n.clamp(8, half), u64::MAX),
        };
        let target = cursor.saturating_add(ahead);
        let seq = line.seq.load(Ordering::Acquire);
        line.wake_pos.store(target, Ordering::Relaxed);
        line.wake_records.store(records, Ordering::Relaxed);
        line.armed.store(1, Ordering::Release); // J, pairs with I; the two targets before it
        heavy(); // J
        let head = self.header.data_head.load(Ordering::Acquire); // J, and B
        let enough = matches!(at, WakeAt::Records(_))
            && self.holds(cursor, head, records.saturating_sub(passed));
        if head >= target || enough {
            line.armed.store(0, Ordering::Relaxed);
            return None;
        }
        Some(seq)
    }

    /// Whether so many records stand between the two positions, or what is none.
    fn holds(&self, mut cursor: u64, head: u64, records: u64) -> bool {
        // Nobody has checked this head: a walk to one that is out of reach would go round and round.
        if head.wrapping_sub(cursor) >= self.data_size() {
            return true; // whoever reads says what is wrong
        }
        let mut found = 0;
        while found < records {
            // Without time: where a record is, and not what it holds.
            match step(*self, Shape::default(), cursor, head) {
                Ok(Some((Found::Record(_) | Found::Large(..), after))) => {
                    (found, cursor) = (found + 1, after);
                }
                Ok(Some((Found::Lost(_), after))) => cursor = after,
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
        true
    }

    /// After a consumer's sleep, for whatever reason it ended.
    pub fn end_sleep(&self) {
        // Relaxed: a producer that still sees 1 makes one wake too many, which harms nobody.
        self.header.wait.armed.store(0, Ordering::Relaxed);
    }

    /// Before a producer sleeps for space: announces it, issues the heavy fence, and looks again.
    ///
    /// Returns the futex word's value to sleep on, or `None` if `data_tail` is at `target` already.
    pub fn prepare_space_sleep(&self, target: u64, heavy: impl FnOnce()) -> Option<u32> {
        let line = &self.header.space;
        let seq = line.seq.load(Ordering::Acquire);
        // Armed first, and then the lowest of all sleepers' targets: whoever wakes resets them in
        // the opposite order, so a target that is wiped out belongs to a sleeper who is woken.
        line.armed.store(1, Ordering::SeqCst); // L, pairs with K
        line.wake_pos.fetch_min(target, Ordering::SeqCst);
        heavy(); // L
        (self.header.data_tail.load(Ordering::Acquire) < target).then_some(seq)
    }

    /// Wakes a consumer that sleeps, whatever for. Returns whether there is one, to be woken on
    /// [`Ring::wait_word`].
    pub fn force_wake(&self) -> bool {
        fence(Ordering::SeqCst); // I, in full
        // Relaxed: I orders it.
        self.header.wait.armed.load(Ordering::Relaxed) != 0
            && claim_wake(&self.header.wait, Wake::Force, 0, 0)
    }

    /// The word that a consumer sleeps on.
    #[must_use]
    pub fn wait_word(&self) -> &AtomicU32 {
        &self.header.wait.seq
    }

    /// The word that a waiting producer sleeps on.
    #[must_use]
    pub fn space_word(&self) -> &AtomicU32 {
        &self.header.space.seq
    }
}

/// A producer saw `wait.armed`: is the threshold reached, and does it fall to this one to wake?
#[cold]
pub(crate) fn claim_wake(line: &WaitLine, wake: Wake, head: u64, records: u64) -> bool {
    fence(Ordering::Acquire); // pairs with the release store of `armed`: the targets are visible
    let due = wake == Wake::Force
        || head >= line.wake_pos.load(Ordering::Relaxed)
        || records >= line.wake_records.load(Ordering::Relaxed);
    // The swap makes one wake of one sleep, however many records are published meanwhile.
    if !due || line.armed.swap(0, Ordering::AcqRel) == 0 {
        return false;
    }
    line.seq.fetch_add(1, Ordering::Release);
    true
}

/// The consumer saw `space.armed`: as [`claim_wake`].
#[cold]
pub(crate) fn claim_space_wake(line: &SpaceLine, tail: u64) -> bool {
    // Relaxed: K orders it. Who arms after that looks at the tail again, see there.
    if tail < line.wake_pos.load(Ordering::Relaxed) {
        return false;
    }
    // The targets before the flag, see `prepare_space_sleep`. Whoever still sleeps arms anew.
    line.wake_pos.swap(u64::MAX, Ordering::SeqCst);
    if line.armed.swap(0, Ordering::SeqCst) == 0 {
        return false;
    }
    line.seq.fetch_add(1, Ordering::Release);
    true
}
