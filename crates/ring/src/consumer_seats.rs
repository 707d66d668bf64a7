//! The named consumers of a ring as seen from outside.

use crate::counters::{ConsumerTotals, Count};
use crate::holder::{OwnerInfo, Seat, SeatState};
use crate::named::{WAITED_FOR, tail_word};
use crate::seq_latch;
use crate::totals::RingTotals;
use crate::view::Ring;
use alloc::vec::Vec;
use perfring_abi::ConsumerSeat;
use perfring_abi::atomic::Ordering;

/// The figures of a named consumer, which the producers wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerFigures {
    /// Whether the producers wait for it: from its attach until it detaches or is found dead.
    pub waited_for: bool,
    /// Whether a full ring waits for this consumer, because no awaited consumer is further behind. Level consumers are all
    /// slowest. Producers wait for a dead consumer until one of them finds the ring full.
    pub slowest: bool,
    /// The records that consumers of this name have released and missed since the ring was made. Records that were gone at
    /// the name's first attach count as missed after the loss was read.
    pub totals: ConsumerTotals,
    /// Everything after the last released position, including records that were read and not released. Zero if the ring's
    /// totals are unknown.
    pub unread: Count,
}

/// Returns all seats that ever had an owner, of a ring with these totals.
#[must_use]
pub fn consumer_seats(
    ring: Ring<'_>,
    seats: &[ConsumerSeat],
    totals: Option<&RingTotals>,
) -> Vec<Seat<ConsumerFigures>> {
    let seat = |(number, place): (u32, &ConsumerSeat)| {
        let owner = OwnerInfo::read(&place.holder);
        let word = tail_word(ring.header, number).load(Ordering::Acquire); // D, pairs with C
        let pos = word & !WAITED_FOR;
        let fits = |words: &_| ConsumerTotals::from_words(words).pos == pos;
        let found = seq_latch::find_where(&place.totals, fits)
            .or_else(|| seq_latch::find(&place.totals))
            .map(|whole| ConsumerTotals::from_words(&whole.words));
        let own = found.unwrap_or_default();
        let unread = totals.map_or(Count::default(), |totals| Count {
            records: totals.producer.written.since(own.passed()).records,
            bytes: totals.head.saturating_sub(own.pos),
        });
        let waited_for = word & WAITED_FOR != 0;
        let figures = ConsumerFigures { waited_for, slowest: false, totals: own, unread };
        let state = SeatState::default();
        (owner.epoch != 0).then_some(Seat { number, state, owner, figures })
    };
    let mut all: Vec<_> = (0..).zip(seats).filter_map(seat).collect();
    let waited_for = all.iter().map(|seat| &seat.figures).filter(|of| of.waited_for);
    let least = waited_for.map(|of| of.totals.pos).min();
    for of in all.iter_mut().map(|seat| &mut seat.figures) {
        of.slowest = of.waited_for && Some(of.totals.pos) == least;
    }
    all
}
