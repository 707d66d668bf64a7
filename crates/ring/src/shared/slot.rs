//! The counts of the producers of one slot: two sequence latches, each written *before* the store
//! that it counts.
//!
//! A producer killed between the two has counted a record, or an end, that never happened. Therefore each
//! copy names the position of its newest figure, and the word at that position shows whether the store
//! has happened: see [`happened`]. The process that sweeps the slot settles the count for good.

use crate::counters::{Count, Refused};
use crate::holder::{OwnerInfo, Seat, SeatState};
use crate::reserve::Refusal;
use crate::seq_latch::{self, LatchCopy, SeqLatchWriter};
use crate::view::Shared;
use alloc::vec::Vec;
use perfring_abi::atomic::Ordering;
use perfring_abi::{Cause, SLOT_LOSSES, SeqLatch, Slot, slot_losses as l};

/// The position in a copy whose figures are true for any content of the ring.
pub(crate) const NOWHERE: u64 = u64::MAX;

const POS: usize = l::POS;

/// Returns whether the record at `pos` has been published, or ended, by the producer of this slot.
/// Only for the newest copy of its sequence latch, and only as long as no other process reserves at
/// `pos`.
fn happened(at: Shared<'_>, index: u32, pos: u64) -> bool {
    pos == NOWHERE
        || pos < at.ring.head() // B
        || (pos < at.producer_pos() && at.word_at(pos).owner() != Some(index)) // N
}

fn true_copy<const N: usize>(
    at: Shared<'_>,
    index: u32,
    seq_latch: &SeqLatch<N>,
) -> Option<LatchCopy<N>> {
    let newest = seq_latch::find(seq_latch)?;
    if happened(at, index, newest.words[POS]) {
        return Some(newest);
    }
    let number = newest.words[0];
    // The copy before it was true, because otherwise this copy would not have been written.
    seq_latch::find_where(seq_latch, |words| words[0] < number).or(Some(newest))
}

/// Makes the true copy the newest, for good.
pub(crate) fn settle<const N: usize>(at: Shared<'_>, index: u32, seq_latch: &SeqLatch<N>) {
    let Some(kept) = true_copy(at, index, seq_latch) else { return };
    if kept.words[POS] == NOWHERE
        && seq_latch::find(seq_latch).is_some_and(|n| n.words == kept.words)
    {
        return;
    }
    let mut words = kept.words;
    words[POS] = NOWHERE;
    SeqLatchWriter::after(seq_latch, Some(&kept)).write(seq_latch, &words);
}

/// The discarded, reclaimed and refused records of a slot's producers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) discarded: Count,
    pub(crate) reclaimed: Count,
    pub(crate) refused: Refused,
    pub(crate) reported: Refused,
}

impl Losses {
    fn from_words(words: &[u64; SLOT_LOSSES]) -> Self {
        Losses {
            discarded: Count::get(words, l::DISCARDED_RECORDS),
            reclaimed: Count::get(words, l::RECLAIMED_RECORDS),
            refused: Refused::get(words, l::REFUSED),
            reported: Refused::get(words, l::REPORTED),
        }
    }

    fn to_words(self, pos: u64) -> [u64; SLOT_LOSSES] {
        let mut words = [0; SLOT_LOSSES];
        words[l::POS] = pos;
        self.discarded.store_in(&mut words, l::DISCARDED_RECORDS);
        self.reclaimed.store_in(&mut words, l::RECLAIMED_RECORDS);
        self.refused.store_in(&mut words, l::REFUSED);
        self.reported.store_in(&mut words, l::REPORTED);
        words
    }

    /// Loads the losses of a slot, true at this moment.
    pub(crate) fn load(at: Shared<'_>, index: u32) -> Self {
        let slot = &at.slots[index as usize];
        true_copy(at, index, &slot.losses)
            .map_or(Losses::default(), |whole| Losses::from_words(&whole.words))
    }

    /// Writes the losses of a slot that is being swept.
    pub(crate) fn store(&self, at: Shared<'_>, index: u32, pos: u64) {
        let slot = &at.slots[index as usize];
        let newest = seq_latch::find(&slot.losses);
        SeqLatchWriter::after(&slot.losses, newest.as_ref())
            .write(&slot.losses, &self.to_words(pos));
    }
}

/// The counts of a slot's producers, which its present producer continues.
#[derive(Debug)]
pub(crate) struct Figures {
    index: u32,
    pub(super) written: Count,
    written_seq_latch: SeqLatchWriter,
    pub(super) losses: Losses,
    losses_seq_latch: SeqLatchWriter,
    /// The number of the slot's two copies of the losses that are true for any content of the ring, and new except for the
    /// count of `full`. With two such copies, only this count differs.
    alike: u32,
}

impl Figures {
    /// Takes over the figures of the slot's last holder, and stores them as the base of the next
    /// holder's figures.
    pub(crate) fn take_over(at: Shared<'_>, index: u32) -> Self {
        let slot = &at.slots[index as usize];
        let whole = seq_latch::find(&slot.written);
        let written = whole.as_ref().map_or(Count::default(), |w| Count::get(&w.words, 2));
        let losses = Losses::load(at, index);
        set_base(slot, written, &losses);
        Figures {
            index,
            written,
            written_seq_latch: SeqLatchWriter::after(&slot.written, whole.as_ref()),
            losses,
            losses_seq_latch: SeqLatchWriter::after(
                &slot.losses,
                seq_latch::find(&slot.losses).as_ref(),
            ),
            alike: 0,
        }
    }

    /// Counts records that are committed at `pos`, before the store that commits them.
    #[inline(always)]
    pub(crate) fn add_written(&mut self, slots: &[Slot], pos: u64, records: u64, bytes: u64) {
        self.written.records = self.written.records.wrapping_add(records);
        self.written.bytes = self.written.bytes.wrapping_add(bytes);
        let words = [0, pos, self.written.records, self.written.bytes, 0];
        self.written_seq_latch.write(&slots[self.index as usize].written, &words);
    }

    pub(crate) fn add_discarded(&mut self, at: Shared<'_>, pos: u64, bytes: u64) {
        self.losses.discarded.add(bytes);
        self.write_losses(at, pos);
    }

    pub(crate) fn add_refused(&mut self, at: Shared<'_>, refusal: Refusal, bytes: u64) {
        self.add_all_refused(at, refusal, Count { records: 1, bytes });
    }

    pub(crate) fn add_all_refused(&mut self, at: Shared<'_>, refusal: Refusal, all: Count) {
        let cause = match refusal {
            Refusal::TooLarge { .. } => Cause::TooLarge,
            Refusal::Contended { .. } => Cause::Contended,
            Refusal::Pending { .. } => Cause::Pending,
            Refusal::Full | Refusal::Corrupt { .. } | Refusal::Forked | Refusal::Replaced => {
                Cause::Full
            }
        };
        if cause == Cause::Full && self.alike >= 2 {
            self.add_full(&at.slots[self.index as usize], all);
            return;
        }
        let refused = self.losses.refused.of_mut(cause);
        *refused = refused.plus(all);
        let alike = if cause == Cause::Full { self.alike + 1 } else { 1 };
        self.write_losses(at, NOWHERE);
        self.alike = alike;
    }

    /// Counts refusals for the cause `full`, if the slot's two copies are alike.
    fn add_full(&mut self, slot: &Slot, all: Count) {
        let full = &mut self.losses.refused.full;
        full.records = full.records.wrapping_add(all.records);
        full.bytes = full.bytes.wrapping_add(all.bytes);
        let words = [full.records, full.bytes];
        self.losses_seq_latch.write_some(&slot.losses, l::REFUSED, &words);
    }

    pub(crate) fn unreported(&self) -> Refused {
        self.losses.refused.since(self.losses.reported)
    }

    /// Counts all refusals as reported by markers at `pos`.
    pub(crate) fn report(&mut self, at: Shared<'_>, pos: u64) {
        self.losses.reported = self.losses.refused;
        self.write_losses(at, pos);
    }

    /// Writes the losses; the newest of them becomes true at `pos`.
    fn write_losses(&mut self, at: Shared<'_>, pos: u64) {
        self.alike = 0;
        let seq_latch = &at.slots[self.index as usize].losses;
        self.losses_seq_latch.write(seq_latch, &self.losses.to_words(pos));
    }
}

/// The figures of one producer of a shared ring, since it attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerFigures {
    /// Committed; in a ring per CPU only under its lock, because records of sequences are not counted by producer.
    pub written: Count,
    /// Discarded.
    pub discarded: Count,
    /// Left open when it died.
    pub reclaimed: Count,
    /// Refused.
    pub refused: Refused,
    /// The part of `refused` that is reported in the stream.
    pub reported: Refused,
    /// Reserved and not ended.
    pub open: Count,
}

/// Returns all slots that were ever used, with their last producers.
#[must_use]
pub fn producer_seats(at: Shared<'_>) -> Vec<Seat<ProducerFigures>> {
    let mut seats: Vec<_> = (0..at.slots.len() as u32)
        .map(|index| producer_seat(at, index))
        .filter(|seat| seat.owner.epoch != 0)
        .collect();
    // Approximate for a ring in use.
    for record in at.unpublished(at.ring.head()).map_while(Result::ok) {
        let owner = record.word.owner();
        if let Some(found) = seats.iter_mut().find(|seat| owner == Some(seat.number)) {
            found.figures.open.add(record.size());
        }
    }
    seats
}

fn producer_seat(at: Shared<'_>, index: u32) -> Seat<ProducerFigures> {
    let slot = &at.slots[index as usize];
    let base = slot.base.each_ref().map(|word| word.load(Ordering::Relaxed));
    let written = true_copy(at, index, &slot.written)
        .map_or(Count::default(), |whole| Count::get(&whole.words, 2));
    let now = Losses::load(at, index);
    let then = Losses::from_words(&base_losses(&base));
    let figures = ProducerFigures {
        written: written.since(Count::get(&base, 0)),
        discarded: now.discarded.since(then.discarded),
        reclaimed: now.reclaimed.since(then.reclaimed),
        refused: now.refused.since(then.refused),
        // The successor reports losses that the slot's last holder left unreported:
        // they do not count as the successor's.
        reported: now.reported.since(then.refused),
        open: Count::default(),
    };
    let (state, owner) = (SeatState::default(), OwnerInfo::read(&slot.holder));
    Seat { number: index, state, owner, figures }
}

/// Returns a slot's base as words of its losses: the words after the two words of the written count.
/// Reported refusals are not among them: a producer's reported refusals begin at the refused count.
fn base_losses(base: &[u64]) -> [u64; SLOT_LOSSES] {
    let mut words = [0; SLOT_LOSSES];
    words[l::DISCARDED_RECORDS..l::REPORTED]
        .copy_from_slice(&base[2..2 + l::REPORTED - l::DISCARDED_RECORDS]);
    words
}

/// Stores the slot's figures at the time a producer attaches.
fn set_base(slot: &Slot, written: Count, losses: &Losses) {
    let words = losses.to_words(NOWHERE);
    let figures = [written.records, written.bytes];
    let all = figures.iter().chain(&words[l::DISCARDED_RECORDS..l::REPORTED]);
    for (to, word) in slot.base.iter().zip(all) {
        // Relaxed: figures for people.
        to.store(*word, Ordering::Relaxed);
    }
}

/// Returns the refusals of all slots since the ring was created.
pub(crate) fn sum_of_refused(slots: &[Slot]) -> Refused {
    // The newest figures: one of them may not be true yet.
    let newest = slots.iter().filter_map(|slot| seq_latch::find(&slot.losses));
    newest.fold(Refused::default(), |sum, whole| sum.plus(Losses::from_words(&whole.words).refused))
}
