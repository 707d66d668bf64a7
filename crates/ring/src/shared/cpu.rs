//! A ring per CPU: the work of its producers under the shared ring's lock. All other records are
//! published without the lock.
//!
//! While `cpu_state` is 0 the ring is *open*: a thread on its CPU publishes by plain stores in a
//! restartable sequence (rseq, Linux 4.18). The last store is the store of `data_head`. The kernel sends
//! a thread that is preempted, migrated or interrupted by a signal before this store to an abort
//! address. Therefore two threads, of any processes, are never inside a sequence together, and a death inside leaves
//! nothing. [`section`] is the sequence in Rust, for tests; the sequence that programs run is in `perfring-shm`.
//!
//! When a sequence finds the ring closed, or no room before `cpu_limit`, its producer does this:
//!
//! 1. If the ring is open, the producer closes it, also by a sequence. After that, no thread is inside a sequence.
//! 2. It takes the lock. Under the lock a closed ring stays closed until the holder opens it. The ring is now a
//!    shared ring like any other, except that `data_head` is ahead of `producer_pos`.
//! 3. It adds the records that sequences have published since to the running totals, makes room for a block, and opens the
//!    ring ([`SharedWriter::open_for_sequences`]). If something is reserved, it publishes as in a
//!    shared ring instead, and so do all producers until nothing is reserved.
//!
//! The two agree, because an open ring has no open reservation, and its `data_head` is at its end. Therefore no
//! compare-and-swap of [`advance`](crate::shared::sweep::advance) can succeed while sequences store the
//! head: a swap that began before the ring was opened expects an older head.
//!
//! A death at any point leaves the ring open, or closed with a lock that is free or a dead process's.
//! The next producer on that CPU continues from there. No other process needs to: an open ring has nothing
//! that is left to be ended.

use crate::counters::Count;
use crate::reserve::Refusal;
use crate::shared::locked_room::LockedRoom;
use crate::shared::publish::SharedWriter;
use crate::shared::running;
use crate::view::{Ring, Shared, System};
use crate::wait::{Fences, Owed, Wake, claim_wake};
use perfring_abi::atomic::{Ordering, fence};
use perfring_abi::{Header, RecordWord, record_size};

/// The `cpu_state` of a ring that is open to sequences.
pub const OPEN: u64 = 0;

/// Bytes for which room is made at a time: enough to make this rare, and few enough to be quick, because the old
/// records are evicted under the lock.
const BLOCK: u64 = if cfg!(loom) { 32 } else { 32 << 10 };

impl SharedWriter {
    /// Opens a ring per CPU to sequences, with room for a payload of at least `len` bytes, or finds that
    /// another producer has just opened it. Reports this producer's losses first.
    ///
    /// The caller has found the ring closed, or has closed it. The caller then tries again to
    /// publish in a sequence.
    ///
    /// # Errors
    /// See [`Refusal`]; the ring stays closed. [`Refusal::Pending`] if something is reserved, or if the losses do not fit
    /// beside a block: then records can be published as in a shared ring. For any other reason, a shared ring would refuse
    /// them, too.
    pub fn open_for_sequences<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        len: usize,
    ) -> Result<(), Refusal> {
        let size = record_size(len + self.lead.len());
        self.room.owner.lock(at, liveness)?;
        let opened = self.room.open_sequences(at, liveness, size);
        self.room.release(at.ring.header, at.ring.data, at.slots);
        match opened {
            Err(_) if self.room.take_found_open() => Ok(()),
            other => other,
        }
    }

    /// Returns, once, whether the last refusal does not count, because the ring was found open to sequences.
    pub fn found_open(&mut self) -> bool {
        self.room.take_found_open()
    }

    /// Counts refusals of `bytes` in all, for one reason. They are reported like a refusal of
    /// [`SharedWriter::refuse`].
    pub fn refuse_many(&mut self, at: Shared<'_>, refusal: Refusal, records: u64, bytes: u64) {
        self.room.figures.add_all_refused(at, refusal, Count { records, bytes });
    }

    /// Returns whether this producer has losses to report before its next record.
    #[must_use]
    pub fn has_losses_to_report(&self) -> bool {
        self.room.has_losses_to_report()
    }
}

impl LockedRoom {
    fn take_found_open(&mut self) -> bool {
        core::mem::take(&mut self.found_open)
    }

    /// Under the lock.
    fn open_sequences<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        size: u64,
    ) -> Result<(), Refusal> {
        self.count_sequences(at)?;
        let (header, end) = (at.ring.header, at.producer_pos());
        if header.data_head.load(Ordering::Acquire) != end {
            let slot = at.held_up().unwrap_or(self.owner.index);
            return Err(Refusal::Pending { slot });
        }
        let block = BLOCK.min(at.ring.data_size() / 4).max(size);
        let start = match self.make_room(at, liveness, block) {
            Err(Refusal::Full) if size < block => self.make_room(at, liveness, size)?,
            other => other?,
        };
        if self.has_losses_to_report() {
            // The markers did not fit beside the block.
            return Err(Refusal::Pending { slot: self.owner.index });
        }
        // Relaxed: the next store publishes them.
        let limit = self.cpu_limit.min(start + block).max(start + size);
        header.cpu.limit.store(limit, Ordering::Relaxed);
        header.cpu.count.store(u64::from(start as u32), Ordering::Relaxed);
        // M, like the lock's release: the next sequence acquires it, and with it the tail (E).
        header.cpu.state.store(OPEN, Ordering::Release);
        Ok(())
    }

    /// Counts the records that sequences have published since the ring was opened, and moves `producer_pos` after them.
    /// Under the lock.
    ///
    /// # Errors
    /// The ring is open: the lock's holder must not change it.
    pub(super) fn count_sequences(&mut self, at: Shared<'_>) -> Result<(), Refusal> {
        let (header, me) = (at.ring.header, self.owner.index);
        // Acquire: it was closed on its CPU, after the last sequence.
        if header.cpu.state.load(Ordering::Acquire) == OPEN {
            self.found_open = true;
            return Err(Refusal::Contended { slot: me });
        }
        let (head, pos) = (header.data_head.load(Ordering::Acquire), at.producer_pos());
        if pos >= head {
            return Ok(());
        }
        let tail = header.data_tail.load(Ordering::Relaxed);
        if head - pos >= at.ring.data_size() {
            return Err(Refusal::Corrupt { tail });
        }
        // Relaxed: like the head, ordered by the acquire load of the state.
        let count = header.cpu.count.load(Ordering::Relaxed);
        let aborted = u64::from(count as u32 != head as u32);
        let records = (count >> 32).wrapping_sub(aborted);
        // A death between the two stores is a death under the lock: the successor counts the records again.
        running::expect(header, records);
        header.shared.producer_pos.store(head, Ordering::Release); // O
        Ok(())
    }
}

/// Returns, after a sequence has published a record, whether a consumer has asked for a wake. If so, call
/// [`owes_wake`].
#[inline(always)]
#[must_use]
pub fn is_awaited(header: &Header, fences: Fences, wake: Wake) -> bool {
    if wake == Wake::No {
        return false;
    }
    fences.light(); // I, pairs with J
    // Relaxed: I orders it.
    header.wait.armed.load(Ordering::Relaxed) != 0
}

/// Returns, after [`is_awaited`], whether this publish wakes the consumer.
#[cold]
pub fn owes_wake(ring: Ring<'_>, wake: Wake) -> Owed {
    let head = ring.head();
    // The most records that there can be: a consumer that waits for a number of records may be woken early.
    let uncounted =
        head.saturating_sub(ring.header.shared.producer_pos.load(Ordering::Relaxed)) / 8;
    let records = running::records(ring.header).saturating_add(uncounted);
    claim_wake(&ring.header.wait, wake, head, records)
}

/// The result of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// It published the record, or closed the ring.
    Done,
    /// The ring is closed, or there is no room before its limit.
    Slow,
}

/// Publishes a record like the restartable sequence, by the same stores. The stores between the count and `data_head` are in
/// another order, which has no effect. Calls `step` before each store: if it returns false, the thread is preempted there, and
/// nothing after it happens. Two threads must not call this at a time: they would be on one CPU.
///
/// `payload` is whole words, after the writer's word in a ring with [`Lead::SampleId`](perfring_abi::Lead::SampleId). `now` is the
/// timestamp in a ring with timestamps.
pub fn section(
    ring: Ring<'_>,
    word: RecordWord,
    payload: &[u64],
    now: Option<u64>,
    mut step: impl FnMut() -> bool,
) -> Option<Sequence> {
    let (line, newest) = (&ring.header.cpu, &ring.header.shared.newest_timestamp);
    if !step() {
        return None;
    }
    if line.state.load(Ordering::Acquire) != OPEN {
        return Some(Sequence::Slow);
    }
    let head = ring.header.data_head.load(Ordering::Relaxed);
    let end = head + word.size();
    if end > line.limit.load(Ordering::Relaxed) {
        return Some(Sequence::Slow);
    }
    // E, pairs with F: passes on the tail that was moved over the records that are overwritten now.
    fence(Ordering::Release);
    let counted = line.count.load(Ordering::Relaxed);
    let more = u64::from(counted as u32 == head as u32); // else it counts an aborted record
    if !step() {
        return None;
    }
    line.count
        .store((counted >> 32).wrapping_add(more) << 32 | u64::from(end as u32), Ordering::Relaxed);
    let mut pos = head + 8;
    let mut store = |pos, value| {
        let go_on = step();
        if go_on {
            ring.word(pos).store(value, Ordering::Relaxed);
        }
        go_on
    };
    if let Some(now) = now {
        let time = newest.load(Ordering::Relaxed).max(now);
        if !store(pos, time) {
            return None;
        }
        newest.store(time, Ordering::Relaxed);
        pos += 8;
    }
    for value in payload {
        if !store(pos, *value) {
            return None;
        }
        pos += 8;
    }
    if !store(head, word.raw()) || !step() {
        return None;
    }
    ring.header.data_head.store(end, Ordering::Release); // A, pairs with B
    Some(Sequence::Done)
}

/// Closes a ring for the producer in a slot, like the restartable sequence. Like [`section`], not for
/// two threads at a time.
pub fn close(ring: Ring<'_>, slot: u32) -> Sequence {
    let state = &ring.header.cpu.state;
    if state.load(Ordering::Acquire) != OPEN {
        return Sequence::Slow;
    }
    state.store(u64::from(slot) + 1, Ordering::Release);
    Sequence::Done
}
