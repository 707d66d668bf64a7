//! Named consumers: readers of a drop ring for which its producers wait. Each has its own tail.
//!
//! A consumer stores its own tail and nothing else in the page. The producer stores `data_tail`: like the
//! producer of an overwrite ring, it moves `data_tail` when it needs the room, here up to the slowest tail.
//! Therefore no other process sees a half-finished release, and only one process stores `data_tail`.
//!
//! A consumer may join while the tail is being moved. The producer announces the new position
//! (`tail_next`), and loads all tails again before it moves `data_tail` (S). The joining consumer stores its
//! tail, and loads the announcement again before it counts as joined (T). One of the two sees the
//! other: the producer stops at the joining consumer's tail, or the consumer continues at the announced position.

use crate::counters::{ConsumerTotals, Refused};
use crate::holder::{OwnerInfo, sign_off};
use crate::record::Corrupt;
use crate::seq_latch::{self, SeqLatchWriter};
use crate::told_latch::ToldLatch;
use crate::view::{Ring, System};
use alloc::sync::Arc;
use core::fmt;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{CONSUMERS_MAX, ConsumerSeat, Header, NAME_WORDS, TAIL_LINES};

/// The bit of a tail's word that says that producers wait for its consumer. Positions are multiples of 8.
pub(crate) const WAITED_FOR: u64 = 1;

/// How often a joining consumer follows a tail that is being moved. A producer sees the consumer after the
/// first time. Two times are enough with any number of producers that keep to the protocol.
const JOIN_TRIES: u32 = if cfg!(loom) { 3 } else { 100 };

/// The number of refusals at one tail between two searches for dead consumers. A search takes a few system calls.
const SEARCH_EVERY: u32 = 256;

/// Returns the word of a seat's tail; for a seat that does not exist, the word of another seat.
pub(crate) fn tail_word(header: &Header, seat: u32) -> &AtomicU64 {
    let (line, word) = (seat as usize % TAIL_LINES, seat as usize / TAIL_LINES);
    let line = &header.named_tails[line];
    &line[word % line.len()]
}

/// Returns the least tail of the awaited consumers; any value from a damaged page.
pub(crate) fn slowest(ring: Ring<'_>) -> Option<u64> {
    let words = ring.header.named_tails.iter().flatten();
    // Acquire, also for consumers that are not awaited: their reads happen before the stores over what they read.
    let words = words.map(|word| word.load(Ordering::Acquire)); // D, pairs with C
    words.filter(|word| word & WAITED_FOR != 0).map(|word| word - WAITED_FOR).min()
}

/// Returns the position up to which the ring is released, even if no producer has moved `data_tail` there yet.
pub(crate) fn released(ring: Ring<'_>) -> u64 {
    slowest(ring).unwrap_or(0).max(ring.header.data_tail.load(Ordering::Acquire)) // D, pairs with C
}

/// Moves `data_tail` from `last` to the slowest tail. Only the exclusive producer, or the holder of the lock, may call
/// this. Returns the new `data_tail`.
///
/// # Errors
/// A tail that no consumer leaves, such as a tail beyond `head`.
pub(crate) fn raise(ring: Ring<'_>, last: u64, head: u64) -> Result<u64, u64> {
    let check = |tail: u64| match tail.is_multiple_of(8) && (last..=head).contains(&tail) {
        true => Ok(tail),
        false => Err(tail),
    };
    // A joining consumer may have stored a tail before `last`, and not checked again yet (T). It has read nothing so
    // far, and `data_tail` stays.
    let Some(first) = slowest(ring).map(|tail| tail.max(last)) else { return Ok(last) };
    if check(first)? == last {
        return Ok(last);
    }
    let header = ring.header;
    // Release: a process that loads `tail_next` sees a head that is not before it.
    header.tail_next.store(first, Ordering::Release); // S, pairs with T
    fence(Ordering::SeqCst); // S
    // A consumer that has joined meanwhile is at the old tail or after it.
    let tail = check(slowest(ring).unwrap_or(first).min(first).max(last))?;
    if tail != first {
        // A consumer that joins later need not go beyond the tail. Relaxed: either value is correct here.
        header.tail_next.store(tail, Ordering::Relaxed);
    }
    // Release: passes the consumers' finished reads on to other producers, and to a process that recovers
    // the ring. Observers get them by E.
    header.data_tail.store(tail, Ordering::Release); // D, passed on
    Ok(tail)
}

/// Returns the least position at which a joining consumer begins: the announced tail. A value that is no position up to the
/// head is damage. The next move of the tail replaces it; before that, the tail counts.
fn announced(ring: Ring<'_>) -> u64 {
    let next = ring.header.tail_next.load(Ordering::Acquire); // T, pairs with S
    match next.is_multiple_of(8) && next <= ring.header.data_head.load(Ordering::Acquire) {
        // B, pairs with A
        true => next,
        false => ring.header.data_tail.load(Ordering::Acquire), // D, pairs with C
    }
}

/// Drops the dead consumers from the awaited consumers. Returns whether there were any. The caller holds the lock for
/// joining, so that no process takes over a dead consumer's seat meanwhile.
pub fn drop_dead(ring: Ring<'_>, is_dead: impl Fn(u32) -> bool) -> bool {
    let mut found = false;
    for seat in 0..CONSUMERS_MAX {
        let word = tail_word(ring.header, seat);
        // Relaxed: the kernel's lock decides, and a dead consumer stores nothing.
        let tail = word.load(Ordering::Relaxed);
        if tail & WAITED_FOR != 0 && is_dead(seat) {
            // Release: a producer that sees the cleared bit may overwrite the records that the dead consumer read.
            word.store(tail & !WAITED_FOR, Ordering::Release); // C, for the dead one
            found = true;
        }
    }
    found
}

/// Returns the seats at the slowest tail: a producer without room waits for these.
pub fn slowest_seats(ring: Ring<'_>) -> impl Iterator<Item = u32> {
    let tail = slowest(ring).map(|tail| tail | WAITED_FOR);
    // Relaxed: a hint.
    let word = move |seat| tail_word(ring.header, seat).load(Ordering::Relaxed);
    (0..CONSUMERS_MAX).filter(move |seat| Some(word(*seat)) == tail)
}

/// Finds dead consumers for a producer without room, but not at every refusal, because each search makes system
/// calls.
#[derive(Debug)]
pub(crate) struct Search {
    tail: u64,
    left: u32,
}

impl Search {
    pub(crate) const fn new() -> Self {
        Search { tail: u64::MAX, left: 0 }
    }

    /// Returns whether to search at this refusal, at this tail.
    pub(crate) fn is_due(&mut self, tail: u64) -> bool {
        if self.tail != tail || self.left == 0 {
            *self = Search { tail, left: SEARCH_EVERY };
            return true;
        }
        self.left -= 1;
        false
    }
}

/// The state that only the exclusive producer of a ring with named consumers has.
pub(crate) struct Waits {
    system: Arc<dyn System + Send + Sync>,
    search: Search,
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.search.fmt(f)
    }
}

impl Waits {
    pub(crate) fn new(system: Arc<dyn System + Send + Sync>) -> Self {
        Waits { system, search: Search::new() }
    }

    /// Moves the tail as [`raise`] does. If the result is less than `needed`, drops dead consumers and tries again.
    pub(crate) fn raise(
        &mut self,
        ring: Ring<'_>,
        last: u64,
        head: u64,
        needed: u64,
    ) -> Result<u64, u64> {
        let tail = raise(ring, last, head)?;
        if tail < needed && self.search.is_due(tail) && self.system.drop_dead(ring) {
            return raise(ring, tail, head);
        }
        Ok(tail)
    }
}

/// A mapping of the seats of named consumers.
pub trait Seats: fmt::Debug + Send + Sync {
    /// Returns the seat with this number, if it exists.
    fn seat(&self, number: u32) -> Option<&ConsumerSeat>;
}

/// The seat of a named consumer, whose lock the caller holds.
#[derive(Clone, Debug)]
pub struct NamedSeat {
    seats: Arc<dyn Seats>,
    number: u32,
    /// The epoch in the owner info.
    epoch: u64,
}

impl NamedSeat {
    /// Returns the seat with this number, if it exists.
    #[must_use]
    pub fn new(seats: Arc<dyn Seats>, number: u32) -> Option<Self> {
        seats.seat(number)?;
        Some(NamedSeat { seats, number, epoch: 0 })
    }

    /// Takes the seat from its last name for another name, whose consumer begins at the tail. `told` stays: it has the last
    /// name, and does not count for another name.
    pub fn clear(&self, ring: Ring<'_>) {
        tail_word(ring.header, self.number).store(0, Ordering::Release); // C, as in `drop_dead`
        self.with(|seat| {
            let kept = seq_latch::find(&seat.totals);
            let mut seq_latch = SeqLatchWriter::after(&seat.totals, kept.as_ref());
            // Both copies: neither may fit the position at which the new consumer begins.
            for _ in 0..2 {
                seq_latch.write(&seat.totals, &ConsumerTotals::default().to_words());
            }
        });
    }

    /// Writes the owner info.
    pub fn sign(&mut self, owner: &OwnerInfo) {
        let epoch = self.seats.seat(self.number).map(|seat| owner.sign(&seat.holder));
        self.epoch = epoch.unwrap_or_default();
    }

    /// Joins the awaited consumers, at the position that the seat's last holder released, or at the present tail if that
    /// is greater. Returns the position, and the totals of the last holder. The caller holds the lock for
    /// joining.
    pub(crate) fn join(&self, ring: Ring<'_>) -> Result<(u64, ConsumerTotals), Corrupt> {
        let word = tail_word(ring.header, self.number);
        // Relaxed: the seat is this process's.
        let from = word.load(Ordering::Relaxed) & !WAITED_FOR;
        // A tail beyond the head is damage. Marking it as awaited would stop producers, even for a moment.
        if from > ring.header.data_head.load(Ordering::Acquire) {
            // B, pairs with A
            return Err(Corrupt { pos: from });
        }
        let mut pos = from.max(announced(ring));
        for _ in 0..JOIN_TRIES {
            word.store(pos | WAITED_FOR, Ordering::Relaxed); // T, pairs with S
            fence(Ordering::SeqCst); // T
            let next = announced(ring); // T
            if next <= pos {
                return Ok((pos, self.totals_at(pos)));
            }
            pos = next;
        }
        self.leave(ring, pos);
        Err(Corrupt { pos })
    }

    /// Returns the totals that are true at `pos`, or else the newest totals before it.
    fn totals_at(&self, pos: u64) -> ConsumerTotals {
        // After a death between the totals and the tail, the totals that fit the tail count. A consumer that died
        // while it joined has only totals before its tail.
        let before = |words: &_| ConsumerTotals::from_words(words).pos <= pos;
        let found = self.seats.seat(self.number).and_then(|seat| {
            seq_latch::find_where(&seat.totals, |words| {
                ConsumerTotals::from_words(words).pos == pos
            })
            .or_else(|| seq_latch::find_where(&seat.totals, before))
        });
        found.map_or(ConsumerTotals::default(), |whole| ConsumerTotals::from_words(&whole.words))
    }

    /// Leaves the awaited consumers at `pos`, and signs off.
    pub(crate) fn leave(&self, ring: Ring<'_>, pos: u64) {
        tail_word(ring.header, self.number).store(pos & !WAITED_FOR, Ordering::Release); // C, pairs with D
        self.with(|seat| sign_off(&seat.holder, self.epoch));
    }

    /// Stores the tail.
    pub(crate) fn store_tail(&self, ring: Ring<'_>, pos: u64) {
        tail_word(ring.header, self.number).store(pos | WAITED_FOR, Ordering::Release); // C, pairs with D
    }

    /// Returns the writer of the totals. It keeps the totals that are true at `pos` until the tail has left
    /// `pos`: after two deaths between the totals and the tail, the first has left newer totals behind.
    pub(crate) fn totals_writer(&self, pos: u64) -> SeqLatchWriter {
        self.seats.seat(self.number).map_or_else(SeqLatchWriter::default, |seat| {
            let fits = |words: &_| ConsumerTotals::from_words(words).pos == pos;
            let kept =
                seq_latch::find_where(&seat.totals, fits).or_else(|| seq_latch::find(&seat.totals));
            SeqLatchWriter::after(&seat.totals, kept.as_ref())
        })
    }

    /// Writes the totals.
    pub(crate) fn write_totals(&self, seq_latch: &mut SeqLatchWriter, totals: &ConsumerTotals) {
        self.with(|seat| seq_latch.write(&seat.totals, &totals.to_words()));
    }

    /// Returns the refused records that its consumer has returned.
    pub(crate) fn told(&self) -> ToldLatch {
        self.seats.seat(self.number).map_or_else(ToldLatch::default, |seat| {
            ToldLatch::of(&seat.told, hash(&seat.holder.name))
        })
    }

    /// Saves the refused records that its consumer has returned.
    pub(crate) fn save_told(&self, latch: &mut ToldLatch, told: Refused) {
        self.with(|seat| latch.save(&seat.told, told));
    }

    fn with(&self, then: impl FnOnce(&ConsumerSeat)) {
        // The seat exists: see `new`.
        if let Some(seat) = self.seats.seat(self.number) {
            then(seat);
        }
    }
}

/// Returns the FNV-1a hash of a name's bytes.
fn hash(name: &[AtomicU64; NAME_WORDS]) -> u64 {
    // Relaxed: the seat is this process's.
    let bytes = name.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
