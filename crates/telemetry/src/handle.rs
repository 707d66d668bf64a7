//! A producer of a sink, which finds out that its ring's file was removed.

use crate::attached::Attached;
use perfring_producer::{ProcessClock, RecordType, ReserveError};
use std::cell::Cell;
use std::time::Duration;

/// How long a sink with one producer waits for another process that holds the ring's lock: some time
/// slices of the scheduler.
const PATIENCE: Duration = Duration::from_millis(20);
/// Nanoseconds from one look at the ring's file to the next.
const LOOK_EVERY: u64 = 1_000_000_000;

/// A producer, and what the sink has to know of its records.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) producer: Attached,
    /// Bytes that it has published and the sink has not counted.
    bytes: Cell<u64>,
    /// The sink counts its bytes once it has this many: those of a shared ring.
    chunk: u64,
    /// Whether it waits for another producer that was interrupted.
    waits: bool,
    /// Another producer held the ring's lock for too long when this one last published.
    held_up: Cell<bool>,
    file: File,
}

/// What a handle knows of its ring's file.
#[derive(Debug)]
struct File {
    /// The process that attached.
    pid: u32,
    /// When it last looked, on the clock of its records: the first record looks.
    looked: Cell<u64>,
    /// The number of the last alarm that it has followed: see [`Handle::publish`].
    alarm: Cell<u32>,
    /// Records that were published since the file was last found whole.
    unsure: Cell<u64>,
    /// The last look found the file removed or cut off. No record is published.
    is_gone: Cell<bool>,
    /// Attaching again was not tried since the last look.
    may_try: Cell<bool>,
}

impl Handle {
    /// `waits`: see [`Handle::publish`]. `alarm` is the number of the last alarm before the producer attached.
    pub(crate) fn new(producer: Attached, waits: bool, alarm: u32) -> Self {
        // In a drop ring this would wait for the reader.
        let waits = waits && producer.overwrites();
        // Rings per CPU get the resource from their producer.
        let chunk = match &producer {
            Attached::Shared(_) => producer.size() / 1024,
            Attached::Cpu(_) => u64::MAX,
        };
        let file = File {
            pid: std::process::id(),
            looked: Cell::new(0),
            alarm: Cell::new(alarm),
            unsure: Cell::new(0),
            is_gone: Cell::new(false),
            may_try: Cell::new(false),
        };
        let (bytes, held_up) = (Cell::new(0), Cell::new(false));
        Handle { producer, bytes, chunk, waits, held_up, file }
    }

    /// Publishes a record. Returns how many bytes the sink is to count. A handle that waits does so for an interrupted
    /// producer that holds the ring's lock.
    ///
    /// Looks at the ring's file once a second, and if there was an alarm: another handle has found the file removed. `now` is the
    /// record's time on this clock.
    ///
    /// # Errors
    /// [`ReserveError::Detached`] if the file was removed or cut off.
    #[inline]
    pub(crate) fn publish(
        &self,
        kind: RecordType,
        bytes: &[u8],
        (now, clock): (u64, &ProcessClock),
        alarm: u32,
    ) -> Result<u64, ReserveError> {
        self.look_in_time(now, alarm)?;
        let done = if self.waits {
            self.publish_patiently(kind, bytes)
        } else {
            self.producer.publish_at(kind, bytes, now, clock)
        };
        if let Err(error) = done {
            return Err(self.refused(error));
        }
        let Attached::Shared(producer) = &self.producer else { return Ok(0) };
        let sum = self.bytes.get().saturating_add(producer.layout().record_size(bytes.len()));
        let due = sum >= self.chunk;
        self.bytes.set(if due { 0 } else { sum });
        Ok(if due { sum } else { 0 })
    }

    /// Publishes a record in a ring per CPU, if that is all there is to do: no look is due, and the ring takes it at once. Returns
    /// whether it did; if not, nothing was done.
    #[inline(always)]
    pub(crate) fn publish_at_once(
        &self,
        kind: RecordType,
        bytes: &[u8],
        now: u64,
        alarm: u32,
    ) -> bool {
        let Attached::Cpu(producer) = &self.producer else { return false };
        let is_done = now.wrapping_sub(self.file.looked.get()) < LOOK_EVERY
            && self.file.alarm.get() == alarm
            && producer.publish_here::<true>(kind, bytes, || now);
        if is_done {
            self.note_published();
        }
        is_done
    }

    /// Counts a record that was published, until the next look.
    #[inline]
    pub(crate) fn note_published(&self) {
        self.file.unsure.set(self.file.unsure.get().wrapping_add(1));
    }

    /// A ring that is cut off may be refused as corrupt before a look is due.
    #[cold]
    fn refused(&self, error: ReserveError) -> ReserveError {
        match error {
            ReserveError::Corrupt { .. } | ReserveError::Truncated | ReserveError::NoSpace => {
                self.look().err().unwrap_or(error)
            }
            error => error,
        }
    }

    #[inline]
    fn look_in_time(&self, now: u64, alarm: u32) -> Result<(), ReserveError> {
        let file = &self.file;
        // A clock that went back is far ahead, too.
        let is_due = now.wrapping_sub(file.looked.get()) >= LOOK_EVERY;
        if !is_due && file.alarm.get() == alarm {
            return Ok(());
        }
        self.look_again(is_due.then_some(now), alarm)
    }

    #[cold]
    #[inline(never)]
    fn look_again(&self, now: Option<u64>, alarm: u32) -> Result<(), ReserveError> {
        let file = &self.file;
        match now {
            Some(now) => file.looked.set(now),
            None if file.is_gone.get() => return Err(ReserveError::Detached),
            None => {}
        }
        self.look()?;
        file.alarm.set(alarm);
        Ok(())
    }

    /// Follows an alarm, before something else than a record is put into the ring.
    pub(crate) fn follow(&self, alarm: u32) -> Result<(), ReserveError> {
        if self.file.alarm.get() == alarm { Ok(()) } else { self.look_again(None, alarm) }
    }

    /// Looks at the ring's file.
    ///
    /// # Errors
    /// [`ReserveError::Detached`] if it was removed, replaced or cut off; [`ReserveError::Forked`].
    pub(crate) fn look(&self) -> Result<(), ReserveError> {
        let file = &self.file;
        if std::process::id() != file.pid {
            return Err(ReserveError::Forked); // the descriptor is of another file
        }
        let is_gone = self.producer.is_gone();
        file.is_gone.set(is_gone);
        file.may_try.set(is_gone);
        if is_gone {
            // The next record comes to `look_again`, too, and is refused there until a look is due.
            file.alarm.set(file.alarm.get().wrapping_sub(1));
            return Err(ReserveError::Detached);
        }
        file.unsure.set(0);
        Ok(())
    }

    /// Returns whether to try to attach again: once after each look that found the file removed.
    pub(crate) fn may_try(&self) -> bool {
        self.file.may_try.take()
    }

    /// Returns how many records were published since the file was last found whole, for the sink to count as lost: once.
    pub(crate) fn take_unsure(&self) -> u64 {
        self.file.unsure.take()
    }

    /// Returns how many records were lost with the file, if it is gone by now. To be asked once, at the handle's end.
    pub(crate) fn last_look(&self) -> u64 {
        let unsure = self.file.unsure.get();
        if unsure != 0 && self.look() == Err(ReserveError::Detached) { unsure } else { 0 }
    }

    /// Publishes a record, and waits for another producer that was interrupted while it held the lock. For
    /// a stopped one it waits once, and not again until that one continues.
    fn publish_patiently(&self, kind: RecordType, bytes: &[u8]) -> Result<(), ReserveError> {
        let limit = if self.held_up.get() { Duration::ZERO } else { PATIENCE };
        let done = self.producer.publish_timeout(kind, bytes, limit);
        let held_up =
            matches!(done, Err(ReserveError::Contended { .. } | ReserveError::Pending { .. }));
        self.held_up.set(held_up);
        done
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
