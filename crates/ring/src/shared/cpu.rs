//! A ring per CPU: what its producers do under the shared ring's lock, so that all the other records can
//! be published without it.
//!
//! While `cpu_state` is 0 the ring is *open*: whoever runs on its CPU publishes by plain stores in a
//! restartable sequence (rseq, Linux 4.18), of which the last is that of `data_head`. The kernel sends
//! a thread that is preempted, migrated or interrupted by a signal before that store to an abort
//! address, so no two threads of any processes are ever inside one, and a death inside leaves nothing.
//! [`section`] is that sequence in Rust, for tests; the one that runs is in `perfring-shm`.
//!
//! When a sequence finds the ring closed, or no room before `cpu_limit`, its producer takes this way:
//!
//! 1. If the ring is open it closes it, by a sequence too: so nobody is inside one then.
//! 2. It takes the lock. Under the lock a closed ring stays closed until its holder opens it: now it is a
//!    shared ring like any other, but that `data_head` is ahead of `producer_pos`.
//! 3. It adds what sequences have published since to the running totals, makes room for a block, and opens the ring
//!    ([`SharedWriter::open_for_sequences`]), unless something is reserved: then it publishes as in a
//!    shared ring, and so does everybody until nothing is.
//!
//! What makes the two agree: an open ring has no open reservation and `data_head` at its end, so no
//! compare-and-swap of [`advance`](crate::shared::sweep::advance) can succeed while sequences store the
//! head. One that was begun before it was opened expects an older head.
//!
//! A death at any point leaves the ring open, or closed with a lock that is free or a dead process's.
//! The next producer on that CPU goes on from there. Nobody else needs to: in an open ring nothing is
//! left to be ended.

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

/// Bytes for which room is made at a time: as many as make it rare, and few enough to be quick, as what
/// was there is evicted under the lock.
const BLOCK: u64 = if cfg!(loom) { 32 } else { 32 << 10 };

impl SharedWriter {
    /// Opens a ring per CPU to sequences, with room for a payload of `len` bytes at least; or finds that
    /// another producer has just done so. Reports this producer's losses first.
    ///
    /// The caller has found the ring closed, or has closed it. To be followed by another attempt to
    /// publish in a sequence.
    ///
    /// # Errors
    /// See [`Refusal`]; the ring stays closed. [`Refusal::Pending`] if something is reserved, or if the losses do not fit
    /// beside a block: then records can be published as in a shared ring. That would refuse them for any other reason, too.
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

    /// Returns whether the last refusal was none, as the ring was found open to sequences; once.
    pub fn found_open(&mut self) -> bool {
        self.room.take_found_open()
    }

    /// Counts refusals of `bytes` in all, for the same reason, to be reported as one by
    /// [`SharedWriter::refuse`] is.
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
        // M, as the lock's release: the next sequence acquires it, and with it the tail (E).
        header.cpu.state.store(OPEN, Ordering::Release);
        Ok(())
    }

    /// Counts what sequences have published since the ring was opened, and has `producer_pos` follow.
    /// Under the lock.
    ///
    /// # Errors
    /// The ring is open: nothing may be done in it under the lock.
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
        // Relaxed: as the head.
        let count = header.cpu.count.load(Ordering::Relaxed);
        let aborted = u64::from(count as u32 != head as u32);
        let records = (count >> 32).wrapping_sub(aborted);
        // A death between the two is one under the lock: its successor counts anew.
        running::expect(header, records);
        header.shared.producer_pos.store(head, Ordering::Release); // O
        Ok(())
    }
}

/// To be called after a sequence has published a record: returns whether a consumer has asked for a wake, so that
/// [`owes_wake`] is to be called.
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

/// After [`is_awaited`]: returns whether this publish wakes the consumer.
#[cold]
pub fn owes_wake(ring: Ring<'_>, wake: Wake) -> Owed {
    let head = ring.head();
    // As many records as there can be: a consumer that waits for a number of them may be woken early.
    let uncounted =
        head.saturating_sub(ring.header.shared.producer_pos.load(Ordering::Relaxed)) / 8;
    let records = running::records(ring.header).saturating_add(uncounted);
    claim_wake(&ring.header.wait, wake, head, records)
}

/// What a sequence did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// It published the record, or closed the ring.
    Done,
    /// The ring is closed, or there is no room before its limit.
    Slow,
}

/// Publishes a record as the restartable sequence does, by the same stores (those between the count and `data_head` in
/// another order, which means nothing), and calls `step` before them: one that returns false is where the thread is
/// preempted, so that nothing after it happens. Not to be
/// called by two threads at a time: they would be on one CPU.
///
/// `payload` are whole words, after the writer's in a ring whose records say who that is; `now` the timestamp, in a
/// ring that has them.
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
    // E, pairs with F: passes on the tail that was moved over what is overwritten now.
    fence(Ordering::Release);
    let counted = line.count.load(Ordering::Relaxed);
    let more = u64::from(counted as u32 == head as u32); // else it counts one that was aborted
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

/// Closes a ring for the producer in a slot, as the restartable sequence does. As [`section`], not by
/// two threads at a time.
pub fn close(ring: Ring<'_>, slot: u32) -> Sequence {
    let state = &ring.header.cpu.state;
    if state.load(Ordering::Acquire) != OPEN {
        return Sequence::Slow;
    }
    state.store(u64::from(slot) + 1, Ordering::Release);
    Sequence::Done
}
