//! The sleep and wake handshake. The algorithm is here, the system call in `perfring-shm`.
//!
//! A sleeper announces that it is about to sleep, then checks again. A publisher publishes, then
//! checks for a sleeper. A fence separates the two steps of each side, so at least one of them sees
//! the other: a wake is never missed. The publisher's fence is on the path of every record, so the
//! pair is asymmetric, see [`Fences`].

use crate::named::released;
use crate::record::{Next, RecordShape, step};
use crate::view::Ring;
use core::sync::atomic::AtomicBool;
use perfring_abi::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use perfring_abi::{SpaceLine, WaitLine};

/// The fence between a publisher's store and its check for a sleeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fences {
    /// Only a compiler fence: the process is registered for `MEMBARRIER_CMD_GLOBAL_EXPEDITED`, and
    /// sleepers issue it before they check.
    Asymmetric,
    /// A full fence, until [`Fences::registered`]: the process was not registered when this was
    /// decided, or `membarrier(2)` is unavailable.
    Full,
}

/// Whether the process has been registered since. It belongs to the process and not to a ring, so loom does not
/// model it.
static REGISTERED: AtomicBool = AtomicBool::new(false);

impl Fences {
    /// Issues the publisher's fence (I, K).
    #[inline]
    pub(crate) fn light(self) {
        match self {
            // loom does not model membarrier: there both sides are full fences, which have the effect of the
            // asymmetric pair.
            Fences::Asymmetric if cfg!(not(loom)) => compiler_fence(Ordering::SeqCst),
            // The registration was over before it was stored, so a sleeper's fence comes here.
            Fences::Full if REGISTERED.load(core::sync::atomic::Ordering::Acquire) => {
                compiler_fence(Ordering::SeqCst);
            }
            _ => fence(Ordering::SeqCst),
        }
    }

    /// To be called once the process is registered: from now on all its fences are compiler fences.
    pub fn registered() {
        REGISTERED.store(true, core::sync::atomic::Ordering::Release);
    }

    /// Returns [`Fences::Asymmetric`] after [`Fences::registered`].
    #[must_use]
    pub fn now() -> Self {
        match REGISTERED.load(core::sync::atomic::Ordering::Acquire) {
            true => Fences::Asymmetric,
            false => Fences::Full,
        }
    }
}

/// Issues a full fence: the heavy side if every light side is also [`Fences::Full`].
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Whether a publish wakes a sleeping consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wake {
    /// Wakes a sleeping consumer if its threshold is reached (`BPF_RB` default).
    #[default]
    Auto,
    /// Does not wake the consumer; a later publish will (`BPF_RB_NO_WAKEUP`).
    No,
    /// Wakes a sleeping consumer regardless of its threshold (`BPF_RB_FORCE_WAKEUP`).
    Force,
}

/// The caller's debt to a sleeper: a wake, or nothing. The algorithm has claimed the wake, so no other process gives it.
///
/// A producer owes it to the consumer, on [`Ring::wait_word`]; a consumer owes it to the waiting producers, on
/// [`Ring::space_word`].
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn forget(ring: perfring_ring::Ring<'_>) {
///     ring.force_wake();
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "no other process wakes a sleeper whose wake this caller owes"]
pub struct Owed(bool);

impl Owed {
    /// Nothing: no process sleeps, or another caller gives the wake.
    pub const NOTHING: Self = Owed(false);
    pub(crate) const WAKE: Self = Owed(true);

    /// Returns whether a wake is owed.
    #[must_use]
    #[inline(always)]
    pub fn is_due(self) -> bool {
        self.0
    }

    /// Returns a wake if either owes one.
    #[inline(always)]
    pub(crate) fn or(self, other: Self) -> Self {
        Owed(self.0 | other.0)
    }
}

/// When a sleeping consumer wants to be woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WakeAt {
    /// At every record.
    #[default]
    Record,
    /// After this many records beyond those read so far (perf's `wakeup_events`).
    Records(u64),
    /// After this many bytes beyond the cursor (perf's `wakeup_watermark`).
    Bytes(u64),
}

impl<'a> Ring<'a> {
    /// Prepares a consumer's sleep: announces it, issues the heavy fence, and checks again.
    ///
    /// Returns the value of the futex word to sleep on, or `None` if the threshold is
    /// already reached. `passed` is the number of records before `cursor`.
    pub fn prepare_sleep(
        &self,
        cursor: u64,
        passed: u64,
        at: WakeAt,
        heavy: impl FnOnce(),
    ) -> Option<u32> {
        let line = &self.header.wait;
        // Never waits for more than half a ring: more might not fit.
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

    /// Returns whether there are so many records between the two positions, or an invalid one.
    fn holds(&self, mut cursor: u64, head: u64, records: u64) -> bool {
        // This head is unchecked: a walk to a head out of reach would not end.
        if head.wrapping_sub(cursor) >= self.data_size() {
            return true; // reading reports what is wrong
        }
        let mut found = 0;
        while found < records {
            // With the default shape: the position of the record is needed, its timestamp and
            // payload are not.
            match step(*self, RecordShape::default(), cursor, head) {
                Ok(Some((Next::Record(_), after))) => (found, cursor) = (found + 1, after),
                Ok(Some((Next::Lost(_), after))) => cursor = after,
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
        true
    }

    /// Prepares the sleep of a named consumer as [`Ring::prepare_sleep`] does. Several may sleep on the
    /// one word: any record wakes all of them, and only a waker stores 0, because another consumer may still sleep.
    pub fn prepare_named_sleep(&self, cursor: u64, heavy: impl FnOnce()) -> Option<u32> {
        let line = &self.header.wait;
        let seq = line.seq.load(Ordering::Acquire);
        line.armed.store(1, Ordering::Release); // J, pairs with I
        heavy(); // J
        let head = self.header.data_head.load(Ordering::Acquire); // J, and B
        (head == cursor).then_some(seq)
    }

    /// Ends a consumer's sleep, regardless of the reason for the wake.
    pub fn end_sleep(&self) {
        // Relaxed: a producer that still sees 1 issues one superfluous wake, which is harmless.
        self.header.wait.armed.store(0, Ordering::Relaxed);
    }

    /// Prepares a producer's sleep for space: announces it, issues the heavy fence, and checks
    /// again.
    ///
    /// Returns the value of the futex word to sleep on, or `None` if the tail, or the slowest named
    /// consumer's, has reached `target`.
    pub fn prepare_space_sleep(&self, target: u64, heavy: impl FnOnce()) -> Option<u32> {
        let line = &self.header.space;
        let seq = line.seq.load(Ordering::Acquire);
        // Armed first, and then the lowest of all sleepers' targets. The waking side resets them in
        // the opposite order, so a target that is reset belongs to a sleeper that is woken.
        line.armed.store(1, Ordering::SeqCst); // L, pairs with K
        line.wake_pos.fetch_min(target, Ordering::SeqCst);
        heavy(); // L
        (released(*self) < target).then_some(seq) // L
    }

    /// Wakes a sleeping consumer regardless of its threshold.
    pub fn force_wake(&self) -> Owed {
        fence(Ordering::SeqCst); // I, in full
        // Relaxed: I orders it.
        if self.header.wait.armed.load(Ordering::Relaxed) == 0 {
            return Owed::NOTHING;
        }
        claim_wake(&self.header.wait, Wake::Force, 0, 0)
    }

    /// Returns the word that a consumer sleeps on.
    #[must_use]
    pub fn wait_word(&self) -> &'a AtomicU32 {
        &self.header.wait.seq
    }

    /// Returns the word that a waiting producer sleeps on.
    #[must_use]
    pub fn space_word(&self) -> &AtomicU32 {
        &self.header.space.seq
    }
}

/// Called after a producer saw `wait.armed`: claims the wake, if the threshold is reached.
#[cold]
pub(crate) fn claim_wake(line: &WaitLine, wake: Wake, head: u64, records: u64) -> Owed {
    fence(Ordering::Acquire); // pairs with the release store of `armed`: the targets are visible
    let due = wake == Wake::Force
        || head >= line.wake_pos.load(Ordering::Relaxed)
        || records >= line.wake_records.load(Ordering::Relaxed);
    // The swap issues one wake per sleep, however many records are published meanwhile.
    if !due || line.armed.swap(0, Ordering::AcqRel) == 0 {
        return Owed::NOTHING;
    }
    line.seq.fetch_add(1, Ordering::Release);
    Owed::WAKE
}

/// Called after the consumer saw `space.armed`: claims the wake, if the target is reached.
#[cold]
pub(crate) fn claim_space_wake(line: &SpaceLine, tail: u64) -> Owed {
    // Relaxed: K orders it. A producer that arms later checks the tail again: see `prepare_space_sleep`.
    if tail < line.wake_pos.load(Ordering::Relaxed) {
        return Owed::NOTHING;
    }
    // The targets before the flag, see `prepare_space_sleep`. Producers that still sleep arm again.
    line.wake_pos.swap(u64::MAX, Ordering::SeqCst);
    if line.armed.swap(0, Ordering::SeqCst) == 0 {
        return Owed::NOTHING;
    }
    line.seq.fetch_add(1, Ordering::Release);
    Owed::WAKE
}
