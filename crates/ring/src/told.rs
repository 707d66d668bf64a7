//! The refused records that a reader has returned as losses: at the markers in the stream, and at the end of the stream.
//!
//! A producer writes the marker of its losses before the next record that fits. The next record may never come: the ring is
//! full and its producer idle, or dead. Therefore a reader at the end compares the producers' counters with the losses that it
//! has returned, and returns the difference. A later marker repeats some of these losses, and the reader subtracts them.
//! Producers do nothing for this. ABI.md has the algorithm, under "Losses at the end of the stream".

use crate::counters::{Count, ProducerTotals, Refused};
use crate::lost::Lost;
use crate::oldest::oldest;
use crate::recount::{producer_totals, reported_at};
use crate::shared::slot;
use crate::view::{Ring, Shared};
use alloc::vec::Vec;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, Policy, SeqLatch, Slot};

/// How often the walk to the place of a new observer is repeated because the producer was faster.
const TRIES: u32 = if cfg!(loom) { 2 } else { 100 };

/// The refused records that a reader has returned as losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Returned since the ring was created. Losses in markers before the reader's first position count as returned.
    pub(crate) refused: Refused,
    /// The losses that the markers before the cursor report. Fewer after a lap, which skips markers: then the next markers add
    /// too little, the end of the stream adds the rest, and corrects this field.
    marked: Refused,
    /// The producers' counts when the reader came to the end, at this position; `None` once all of them are returned.
    /// With this, a reader that reads until nothing is left comes to an end, even if the producers continue to refuse.
    counted: Option<(u64, Refused)>,
}

/// The refused records that a reader has returned before the position where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// These.
    Exactly(Refused),
    /// These, and perhaps more: the losses that markers before the position report.
    AtLeast(Refused),
    /// Everything that is counted: the reader wants no losses from before it.
    Everything,
}

/// Returns the producers' totals, and the refused records that they and the slots count.
fn counted(at: Shared<'_>) -> Option<(ProducerTotals, Refused)> {
    let totals = producer_totals(at.ring)?;
    // A reader without the slots knows at least what the markers report.
    let counted = totals.refused.plus(slot::sum_of_refused(at.slots)).later(totals.reported);
    Some((totals, counted))
}

impl Told {
    /// Returns the state of a reader that begins at `pos`, as far as it is known.
    ///
    /// Damage is left for the reader to find.
    pub(crate) fn at(at: Shared<'_>, policy: Policy, pos: u64, past: Past) -> Self {
        let ring = at.ring;
        let (saved, exact) = match past {
            Past::Exactly(saved) => (saved, true),
            Past::AtLeast(saved) => (saved, false),
            Past::Everything => {
                let told = Told::at(at, policy, pos, Past::AtLeast(Refused::default()));
                let counted = counted(at).map_or(Refused::default(), |(_, counted)| counted);
                return Told { refused: told.refused.later(counted), ..told };
            }
        };
        for _ in 0..TRIES {
            match reported_at(ring, pos) {
                Ok(Some(marked)) if exact => return Told { marked, ..Told::of(saved) },
                Ok(Some(marked)) => return Told { marked, ..Told::of(saved.later(marked)) },
                Ok(None) => {}
                Err(_) => return Told::of(saved),
            }
            // In an overwrite ring the records at `pos` may be gone, and their markers with them.
            if policy == Policy::Overwrite && (pos == 0 || saved != Refused::default()) {
                return Told { marked: Refused::default(), ..Told::of(saved) };
            }
            // The last reader did not save its returned losses: the losses in overwritten markers count as returned.
            match oldest(ring, policy).map(|place| reported_at(ring, place.pos)) {
                Ok(Ok(Some(reported))) => return Told::of(reported),
                Ok(Ok(None)) => {}
                Ok(Err(_)) | Err(_) => break,
            }
        }
        Told::of(saved)
    }

    /// Returns the losses that a marker reports, without the losses that were returned before.
    pub fn pass(&mut self, marker: Lost) -> Option<Lost> {
        // The marker of another writer may report nothing.
        if !Cause::REFUSED.contains(&marker.cause) || marker.records == 0 {
            return Some(marker);
        }
        let (told, marked) = (self.refused.of_mut(marker.cause), self.marked.of_mut(marker.cause));
        *marked = marked.plus(Count { records: marker.records, bytes: marker.bytes });
        let Count { records, bytes } = marked.since(*told);
        if records == 0 {
            return None;
        }
        *told = told.plus(Count { records, bytes });
        Some(Lost { records, bytes, ..marker })
    }

    /// Returns, at the end of the stream, one cause of the losses that the producers have counted and this reader has not
    /// returned. With `afresh` these are the counts of now, and not of the moment when this end was reached.
    pub fn at_end(&mut self, at: Shared<'_>, pos: u64, afresh: bool) -> Option<Lost> {
        let known = self.counted.take().filter(|(end, _)| *end == pos);
        if let Some((_, counted)) = known {
            let lost = self.next_of(counted, pos);
            if lost.is_some() || !afresh {
                self.counted = lost.and(known);
                return lost;
            }
        }
        let counted = self.count(at, pos)?;
        let lost = self.next_of(counted, pos);
        self.counted = lost.map(|_| (pos, counted));
        lost
    }

    fn count(&mut self, at: Shared<'_>, pos: u64) -> Option<Refused> {
        let (totals, counted) = counted(at)?;
        // Everything is returned, including the markers that a lap skipped.
        if self.refused.later(counted) == self.refused && totals.pos <= pos {
            self.marked = self.marked.later(totals.reported);
        }
        Some(counted)
    }

    /// Returns whether [`Told::at_end`] will read the counters.
    fn is_to_count(&self, pos: u64, afresh: bool) -> bool {
        match self.counted {
            Some((end, counted)) if end == pos => {
                afresh && self.refused.later(counted) == self.refused
            }
            _ => true,
        }
    }

    /// Returns whether losses that were found at the end of the stream are left to return.
    pub(crate) fn has_more(&self) -> bool {
        self.counted.is_some()
    }

    /// Returns whether more was returned than the markers before the cursor report.
    pub(crate) fn is_ahead(&self) -> bool {
        self.refused != self.marked
    }

    /// Returns the state of a reader after markers that report these losses.
    pub(crate) fn of(refused: Refused) -> Self {
        Told { refused, marked: refused, counted: None }
    }

    /// Returns one cause of the difference between `refused` and the losses that were returned.
    pub(crate) fn next_of(&mut self, refused: Refused, pos: u64) -> Option<Lost> {
        for cause in Cause::REFUSED {
            let new = refused.of(cause).since(self.refused.of(cause));
            if new.records > 0 {
                let told = self.refused.of_mut(cause);
                *told = told.plus(new);
                let Count { records, bytes } = new;
                return Some(Lost { pos, records, bytes, cause, at_end: true });
            }
        }
        None
    }
}

/// The words by which a reader notices that the producers have counted more losses: the number of the copy of each sequence
/// latch that is written next. A refusal changes it, like every other write of the totals.
#[derive(Debug)]
pub(crate) struct CounterWatch {
    /// The state of the producers' totals.
    totals: LatchState,
    /// The state of each slot's losses, in a shared ring.
    slots: Vec<LatchState>,
    /// The slots that are known to have had a producer.
    used: Vec<usize>,
    /// The next slot to check for a producer.
    turn: usize,
    /// The number of records read at the last check of all slots.
    read: u64,
    /// Whether there are, or may be, losses left to return.
    more: bool,
}

/// The copy that is written next, and the number of the last write to it that has ended.
#[derive(Clone, Copy, Debug)]
struct LatchState {
    copy: usize,
    number: u64,
}

/// Loads the number of the last write to a copy that has ended. Relaxed: a
/// reader that sees a new number finds a copy that is no older, by the latch's own orderings.
fn number<const N: usize>(latch: &SeqLatch<N>, copy: usize) -> u64 {
    latch.copies[copy][N - 1].load(Ordering::Relaxed)
}

impl LatchState {
    /// A state that always differs from the latch.
    const NEW: LatchState = LatchState { copy: 0, number: u64::MAX };

    fn of<const N: usize>(latch: &SeqLatch<N>) -> Self {
        let [one, other] = [0, 1].map(|copy| number(latch, copy));
        // A writer begins with the second copy if neither was written.
        LatchState { copy: usize::from(other <= one), number: one.min(other) }
    }

    #[inline]
    fn is_old<const N: usize>(&self, latch: &SeqLatch<N>) -> bool {
        number(latch, self.copy) != self.number
    }
}

impl CounterWatch {
    /// Creates the watch of a ring with so many slots: 0 in a ring with one producer.
    pub(crate) fn new(slots: usize) -> Self {
        CounterWatch {
            totals: LatchState::NEW,
            slots: alloc::vec![LatchState::NEW; slots],
            // A later check allocates nothing.
            used: Vec::with_capacity(slots),
            turn: 0,
            read: 0,
            more: true,
        }
    }

    /// Returns whether a ring with one producer has no more losses; false for any other ring.
    #[inline(always)]
    pub(crate) fn is_idle(&self, ring: Ring<'_>) -> bool {
        self.slots.is_empty() && !self.more && !self.totals.is_old(&ring.header.producer)
    }

    /// Returns whether there may be more losses, for a reader that has read so many records. In a shared ring, `all` checks
    /// every slot. Otherwise only the slots of known producers are checked, and one other slot. All slots are checked each
    /// time that as many records were read as there are slots, so a reader that waits for each record pays little.
    #[inline]
    pub(crate) fn is_due(&mut self, at: Shared<'_>, all: bool, read: u64) -> bool {
        if all || self.slots.is_empty() || read.wrapping_sub(self.read) >= self.slots.len() as u64 {
            self.read = read;
            return self.is_due_in_any(at);
        }
        self.turn = if self.turn + 1 < self.slots.len() { self.turn + 1 } else { 0 };
        self.meet(at, self.turn);
        let is_old = |&nth: &usize| {
            let (next, slot) = (self.slots.get(nth), at.slots.get(nth));
            next.zip(slot).is_some_and(|(next, slot)| next.is_old(&slot.losses))
        };
        self.more || self.used.iter().any(is_old)
    }

    /// Remembers a slot that has had a producer.
    fn meet(&mut self, at: Shared<'_>, nth: usize) {
        // Relaxed: a producer that attaches now is found later.
        let has_had = |slot: &Slot| slot.holder.epoch.load(Ordering::Relaxed) != 0;
        if at.slots.get(nth).is_some_and(has_had) && !self.used.contains(&nth) {
            self.used.push(nth);
        }
    }

    /// Returns whether there may be more losses, in any slot.
    #[inline]
    pub(crate) fn is_due_in_any(&self, at: Shared<'_>) -> bool {
        if self.slots.is_empty() {
            return !self.is_idle(at.ring);
        }
        let mut slots = self.slots.iter().zip(at.slots);
        self.more || slots.any(|(next, slot)| next.is_old(&slot.losses))
    }

    /// Makes every check true until the counters are read again, because their last values were not returned.
    pub(crate) fn look_again(&mut self) {
        self.totals = LatchState::NEW;
        self.slots.fill(LatchState::NEW);
        self.more = true;
    }

    /// Returns one cause of the losses that the producers have counted and this reader has not returned.
    #[cold]
    pub(crate) fn tell(
        &mut self,
        at: Shared<'_>,
        pos: u64,
        told: &mut Told,
        afresh: bool,
    ) -> Option<Lost> {
        // Before the totals are read, so that later counts are noticed.
        if told.is_to_count(pos, afresh) {
            self.totals = LatchState::of(&at.ring.header.producer);
            for (next, slot) in self.slots.iter_mut().zip(at.slots) {
                *next = LatchState::of(&slot.losses);
            }
            for nth in 0..self.slots.len() {
                self.meet(at, nth);
            }
        }
        let lost = told.at_end(at, pos, afresh);
        self.more = told.has_more();
        lost
    }
}
