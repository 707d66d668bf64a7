//! The losses that a consumer returns beside the records.

use crate::consumer::borrow::Reader;
use crate::counters::Count;
use crate::lost::Lost;
use crate::record::{Corrupt, Next, Place, step};
use crate::told::{CounterWatch, Past, Told};
use crate::view::{Ring, Shared};
use crate::wait::Owed;
use alloc::boxed::Box;
use perfring_abi::{Cause, Policy};

impl Reader {
    /// Makes [`Reader::lost`] return losses. `slots` is the number of slots that count them.
    #[must_use]
    pub fn with_losses(mut self, at: Shared<'_>, slots: usize) -> Self {
        let past = Past::AtLeast(self.release.told.saved);
        self.told = Told::at(at, Policy::Drop, self.cursor(), past);
        if let Some(missed) = &mut self.missed {
            missed.1 = self.told;
        }
        self.watch = CounterWatch::new(slots);
        self
    }

    /// Returns whether a loss is to be reported next.
    pub(super) fn has_missed(&self) -> bool {
        self.missed.is_some()
    }

    /// Returns a loss that the producers have counted and no marker in the stream reports, one cause at a time. `None` if
    /// there is a record to read. The loss has no place in the stream: its position is the end ([`Lost::at_end`]).
    ///
    /// Without `all`, it returns the losses that were counted when the end was reached, and then `None` once. With this, a
    /// reader that reads until nothing is left comes to an end, even if the producers continue to refuse. With `all` it
    /// returns the losses that are counted now.
    ///
    /// The cost is one load for each known producer. With `all`, and whenever as many records were read as there are slots,
    /// it is one load for each slot. [`Reader::is_told_all`] is cheaper.
    #[inline]
    pub fn lost(&mut self, at: Shared<'_>, all: bool) -> Option<Lost> {
        if self.has_lost(at, all) { self.take_missed() } else { None }
    }

    /// Returns true if [`Reader::lost`] certainly has nothing to return now: one load. Always false in a shared ring.
    #[must_use]
    #[inline]
    pub fn is_told_all(&self, ring: Ring<'_>) -> bool {
        self.watch.is_idle(ring) && self.missed.is_none()
    }

    /// Returns whether there is such a loss, without taking it. The next read returns it.
    #[inline]
    pub fn has_lost(&mut self, at: Shared<'_>, all: bool) -> bool {
        let read = self.passed().records;
        if self.known() == 0 && self.missed.is_none() && self.watch.is_due(at, all, read) {
            self.tell_next(at, all);
        }
        self.missed.is_some()
    }

    /// Continues after a marker that reports nothing new.
    #[cold]
    pub(super) fn next_after_marker(
        &mut self,
        ring: Ring<'_>,
        owed: Owed,
    ) -> Result<(Option<Next<Place>>, Owed), Corrupt> {
        while self.known() != 0 {
            let stepped = match step(ring, self.shape(), self.cursor(), self.progress.head) {
                Err(_) if owed.is_due() => return Ok((None, owed)), // as in `next`
                stepped => stepped?,
            };
            let found = self.stepped(stepped);
            if found.is_some() {
                return Ok((found, owed));
            }
        }
        Ok((None, owed))
    }

    pub(super) fn take_missed(&mut self) -> Option<Lost> {
        let (lost, told) = *self.missed.take()?;
        self.release.reported();
        self.set_stop();
        self.told = told;
        if lost.cause == Cause::Lapped {
            let Lost { records, bytes, .. } = lost;
            self.lapped = self.lapped.plus(Count { records, bytes });
        }
        self.news = true;
        Some(lost)
    }

    #[cold]
    fn tell_next(&mut self, at: Shared<'_>, afresh: bool) {
        let mut told = self.told;
        let lost = self.watch.tell(at, self.cursor(), &mut told, afresh);
        let Some(lost) = lost else {
            self.told = told;
            return;
        };
        self.missed = Some(Box::new((lost, told)));
        // The fast path stops here, too.
        self.release.report();
        self.set_stop();
    }

    /// Returns the state of the returned losses, for the losses that [`Reader::peek`] finds.
    #[must_use]
    pub fn told(&self) -> Told {
        self.told
    }

    /// Returns a loss that comes before the record at the cursor, and the state of the returned losses after it: for a reader
    /// that peeks. [`Reader::pass_missed`] passes it.
    #[must_use]
    #[cold]
    pub fn missed(&self) -> Option<(Lost, Told)> {
        self.missed.as_deref().copied()
    }

    /// Passes that loss.
    #[cold]
    pub fn pass_missed(&mut self) {
        let _ = self.take_missed();
    }

    /// Puts back a loss that [`Reader::has_lost`] has found and no call has taken: for a reader that peeks.
    pub fn forget_lost(&mut self) {
        if self.missed.take_if(|missed| missed.0.cause != Cause::Lapped).is_some() {
            self.watch.look_again();
            self.release.reported();
            self.set_stop();
        }
    }

    /// Returns whether [`Reader::lost`] would read the counters.
    #[must_use]
    pub fn may_have_lost(&self, at: Shared<'_>) -> bool {
        self.watch.is_due_in_any(at)
    }

    /// Sets the state of the returned losses after peeked items are passed.
    pub fn set_told(&mut self, told: Told) {
        self.news |= told.refused != self.told.refused;
        self.told = told;
    }
}
