//! All totals of a ring at one moment.

use crate::counters::{ConsumerTotals, Count, ProducerTotals, Refused};
use crate::oldest::oldest;
use crate::recount::newest_totals;
use crate::seq_latch;
use crate::shared::slot;
use crate::view::Shared;
use perfring_abi::Policy;
use perfring_abi::atomic::Ordering;

/// All totals of a ring at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingTotals {
    /// `data_head`.
    pub head: u64,
    /// `data_tail`.
    pub tail: u64,
    /// `aux_head`: end of the newest range of the AUX area; 0 in a ring without one. Like
    /// `aux_tail`, it is not checked.
    pub aux_head: u64,
    /// `aux_tail`: the position up to which the consumer has released ranges, or before which no range is
    /// whole.
    pub aux_tail: u64,
    /// The producers' totals, true at `head`.
    pub producer: ProducerTotals,
    /// The consumer's totals.
    pub consumer: ConsumerTotals,
    /// Overwritten before `tail`.
    pub overwritten: Count,
    /// Written, and neither released nor overwritten.
    pub present: Count,
    /// In a shared ring: committed but not counted as written, because an older reservation of a
    /// dead producer is open. Readers see these once the ring is recovered.
    pub stranded: Count,
}

impl RingTotals {
    /// Reads the totals of a ring, dead or alive. On a live ring each figure is true at one moment,
    /// and all of them at nearly the same moment. On an idle one they are exact. `is_dead` returns whether a slot's
    /// producer is dead.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn of(at: Shared<'_>, policy: Policy, is_dead: impl Fn(u32) -> bool) -> Option<Self> {
        let ring = at.ring();
        // In the reverse order of a record's life: every record was written before it was read or evicted.
        let consumer = seq_latch::find(&ring.header.consumer)?;
        let place = oldest(ring, policy).ok()?;
        let mut producer = newest_totals(ring).ok()?;
        producer.refused = producer.refused.plus(slot::sum_of_refused(at.slots));
        let stranded = Stranded::find(at, is_dead).written;
        let (consumer, overwritten) = match policy {
            Policy::Overwrite => (ConsumerTotals::from_words(&consumer.words), place.before),
            // After a death between the totals and the tail, the totals that fit the tail count.
            // After a foreign reader, everything before the tail counts as read.
            Policy::Drop => {
                let read =
                    ConsumerTotals { pos: place.pos, read: place.before, lapped: Count::default() };
                let fits = seq_latch::find_where(&ring.header.consumer, |words| {
                    ConsumerTotals::from_words(words).pos == place.pos
                });
                let totals = fits.map_or(read, |whole| ConsumerTotals::from_words(&whole.words));
                (totals, Count::default())
            }
        };
        Some(RingTotals {
            head: producer.pos,
            tail: place.pos,
            // Relaxed: figures for people.
            aux_head: ring.header.aux.head.load(Ordering::Relaxed),
            aux_tail: ring.header.aux.tail.load(Ordering::Relaxed),
            producer,
            consumer,
            overwritten,
            present: producer.written.since(place.before),
            stranded,
        })
    }

    /// Losses that are counted but not yet reported in the stream.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn unreported(&self) -> Count {
        self.untold(Refused::default())
    }

    /// Returns the losses that no marker in the stream reports and that a reader has not returned either: `told` is
    /// [`Saved::told`](crate::Saved::told) of the reader.
    #[doc(hidden)] // for other crates of perfring
    #[must_use]
    pub fn untold(&self, told: Refused) -> Count {
        self.producer.refused.since(self.producer.reported.later(told)).total()
    }
}

/// The records that are committed behind open reservations of dead producers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stranded {
    /// The `data_head` of the ring after a recovery.
    pub(crate) upto: u64,
    pub(crate) written: Count,
}

impl Stranded {
    pub(crate) fn find(at: Shared<'_>, is_dead: impl Fn(u32) -> bool) -> Self {
        let (ring, head) = (at.ring(), at.ring().head());
        let mut found = Stranded { upto: head, written: Count::default() };
        let mut counted = Count::default();
        for record in at.unpublished(head).map_while(Result::ok) {
            match record.word.owner() {
                Some(owner) if !is_dead(owner) => break,
                None if record.word.is_data() => {
                    counted.add(record.size());
                    // Holes after the last record do not count.
                    found = Stranded { upto: record.end(), written: counted };
                }
                _ => {}
            }
        }
        // Records that were overwritten during the walk were not stranded.
        if ring.tail() > head {
            found = Stranded { upto: ring.head(), written: Count::default() }; // F
        }
        found
    }
}
