//! The lock of a shared ring, and what is done about owners that died.
//!
//! The lock word names its owner: the slot, and the slot's epoch, which rises at every attach. An
//! owner that lives is never robbed, however long it takes; one that is dead (its
//! open-file-description lock is gone, which the caller's [`Peers`] can tell) is taken over by
//! compare-and-swap from exactly the word that was seen, so one of any number of heirs wins.
//!
//! What the lock guards is written so that a death between any two stores leaves a state from
//! which the heir can go on: see [`Owner::repair`].

use crate::record::{Corrupt, Record, Walk};
use crate::room::book_interval;
use crate::slot::{self, NOWHERE};
use crate::{ProducerBook, Refusal, Ring, latch, sane};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Hole, RecordWord, Slot, ledger};

/// What the algorithm asks of the system that it runs on.
pub trait Peers {
    /// Whether whoever attached to this slot last lives. The slot after the last one stands for
    /// whoever recovers the ring and is no producer.
    fn is_alive(&self, slot: u32) -> bool;
    /// Passes the time between two looks at a lock that is held; `round` counts them.
    fn relax(&self, round: u32);
    /// `CLOCK_REALTIME`, ns: to tell for how long the ring has been held up.
    fn now_ns(&self) -> u64;
}

/// A shared ring as the algorithm sees it: the ring and its producers' slots.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    pub(crate) ring: Ring<'a>,
    pub(crate) slots: &'a [Slot],
}

impl<'a> Shared<'a> {
    /// A view of a shared ring.
    #[must_use]
    #[inline]
    pub fn new(ring: Ring<'a>, slots: &'a [Slot]) -> Self {
        Shared { ring, slots }
    }

    /// The slots.
    #[must_use]
    pub fn slots(&self) -> &'a [Slot] {
        self.slots
    }

    /// The ring alone.
    #[must_use]
    #[inline]
    pub fn ring(&self) -> Ring<'a> {
        self.ring
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> &'a AtomicU64 {
        &self.ring.header.shared.lock
    }

    /// End of the last reservation.
    #[inline(always)]
    pub(crate) fn producer_pos(&self) -> u64 {
        // Acquire: what was written before the position was published stands (O). Under the lock
        // that orders it anyway. By a fence, as the page may be read-only.
        let pos = self.ring.header.shared.producer_pos.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        pos
    }

    /// The slot of whoever holds the lock at this moment.
    #[must_use]
    pub fn locked_by(&self) -> Option<u32> {
        let word = self.lock().load(Ordering::Relaxed); // a hint for people
        (word != 0).then(|| Owner::slot_of(word))
    }

    /// Whether something is reserved or ended and not published. In a ring in use that is so at
    /// many moments; in one at rest it means that a reservation is open, or that a producer died
    /// between the end of a record and the store of `data_head`.
    #[must_use]
    pub fn lags(&self) -> bool {
        self.ring.head() < self.producer_pos()
    }

    /// The slot whose open reservation holds `data_head` back, if there is one.
    #[must_use]
    pub fn held_up(&self) -> Option<u32> {
        let head = self.ring.head();
        if head >= self.producer_pos() {
            return None;
        }
        self.look(head).owner()
    }

    /// The records from `head`, a `data_head`, to `producer_pos`, open ones among them. None where the two
    /// are not of one ring: a walk from one to the other would go round and round.
    pub(crate) fn unpublished(
        self,
        head: u64,
    ) -> impl Iterator<Item = Result<Record, Corrupt>> + use<'a> {
        let end = self.producer_pos();
        let end = if sane(self.ring, end, head) { end } else { head };
        Walk::new(head, end, move |pos| self.look(pos).raw())
    }

    /// The header word at `pos`, beyond `data_head`: of a record that has ended, all stands.
    pub(crate) fn look(&self, pos: u64) -> RecordWord {
        let word = self.ring.word(pos).load(Ordering::Relaxed);
        fence(Ordering::Acquire); // N; a fence, as the page may be read-only
        RecordWord::from_raw(word)
    }
}

/// Looks at a held lock before a producer gives up. What passes between them is [`Peers::relax`]'s
/// to say.
pub const LOCK_ROUNDS: u32 = if cfg!(loom) { 3 } else { 96 };
/// Every so many of them, it is asked whether the holder lives.
const ASK_EVERY: u32 = if cfg!(loom) { 1 } else { 24 };

/// Bits of the lock word that hold slot + 1.
const SLOT_BITS: u32 = 16;

/// Who takes the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    index: u32,
    id: u64,
}

impl Owner {
    pub(crate) fn new(index: u32, epoch: u64) -> Self {
        Owner { index, id: u64::from(index + 1) | epoch << SLOT_BITS }
    }

    #[inline(always)]
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// The slot in a lock word that is not 0.
    fn slot_of(word: u64) -> u32 {
        (word & ((1 << SLOT_BITS) - 1)).saturating_sub(1) as u32
    }

    /// Takes the lock, and says which dead owner it was taken from, if it was.
    ///
    /// # Errors
    /// [`Refusal::Contended`] if its owner lives and keeps it.
    #[inline(always)]
    pub(crate) fn lock<P: Peers>(self, at: Shared<'_>, peers: &P) -> Result<Option<u32>, Refusal> {
        // M, pairs with the release of whoever had it.
        match at.lock().compare_exchange(0, self.id, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(None),
            Err(_) => self.lock_slowly(at, peers),
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_slowly<P: Peers>(self, at: Shared<'_>, peers: &P) -> Result<Option<u32>, Refusal> {
        let lock = at.lock();
        let mut seen = lock.load(Ordering::Relaxed);
        for round in 0..LOCK_ROUNDS {
            if seen == 0 {
                match lock.compare_exchange(0, self.id, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Ok(None), // M
                    Err(now) => seen = now,
                }
            }
            let owner = Self::slot_of(seen);
            // A word of one's own slot is a predecessor's: the slot's lock is held by none but
            // this producer now.
            if seen != 0
                && (owner == self.index
                    || (round % ASK_EVERY == ASK_EVERY - 1 && !peers.is_alive(owner)))
                && lock
                    .compare_exchange(seen, self.id, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            // M, as the owner's last release, and everything it did before it died: a dead
            // process's stores are all out.
            {
                self.repair(at, owner);
                return Ok(Some(owner));
            }
            peers.relax(round);
            seen = lock.load(Ordering::Relaxed);
        }
        Err(Refusal::Contended { slot: Self::slot_of(seen) })
    }

    #[inline(always)]
    pub(crate) fn unlock(self, at: Shared<'_>) {
        at.lock().store(0, Ordering::Release); // M
    }

    /// Puts in order what an owner that died under the lock left half done. May itself be cut
    /// short anywhere: its heir does it again.
    ///
    /// What needs no repair: bytes and headers beyond `producer_pos` are nobody's; a latch has one
    /// whole copy; a tail mark without its tail does not fit `data_tail`.
    fn repair(self, at: Shared<'_>, dead: u32) {
        let line = &at.ring.header.shared;
        // Its counts may be half changed.
        line.ledger_stale.store(1, Ordering::Relaxed);
        // It published a record by `data_head` and had not moved `producer_pos` after it.
        let head = at.ring.header.data_head.load(Ordering::Acquire); // B
        if at.producer_pos() < head {
            line.producer_pos.store(head, Ordering::Release); // O
        }
        if (dead as usize) < at.slots.len() {
            self.sweep(at, dead);
        }
    }

    /// Ends what a dead producer left open, under the lock: each of its reservations becomes a
    /// hole, counted as reclaimed. Returns how many.
    pub(crate) fn sweep(self, at: Shared<'_>, dead: u32) -> u64 {
        let slot = &at.slots[dead as usize];
        // First its counts: whether the newest of them are true is told by the words of records
        // that are changed below.
        slot::settle(at, dead, &slot.written);
        slot::settle(at, dead, &slot.losses);
        let mut figures = slot::Losses::load(at, dead);
        let mut swept = 0;
        // What is damaged ends it: whoever makes room says so.
        for Record { pos, word, .. } in at.unpublished(at.ring.head()).map_while(Result::ok) {
            if word.owner() == Some(dead) {
                // No batch or shorter record that it may have begun counts.
                at.ring.header.shared.ledger_stale.store(1, Ordering::Relaxed);
                figures.reclaimed.add(word.size());
                figures.store(at, dead, pos);
                let hole = RecordWord::nop(word.size(), Hole::Reclaimed);
                at.ring.word(pos).store(hole.raw(), Ordering::Release); // N
                swept += 1;
            }
        }
        if swept > 0 {
            figures.store(at, dead, NOWHERE);
        }
        fence(Ordering::SeqCst); // O, as at every end
        advance(at);
        swept
    }
}

/// Moves `data_head` over every record that has ended, and returns where it is then.
///
/// Whoever ends a reservation calls this after a full fence (O), and so does whoever publishes
/// behind an open one. Of an older record that ends and a younger one that has ended, one side
/// sees the other: so `data_head` stands before an open reservation or at the end, always.
///
/// There is no ABA: a position never comes again, and the words that led from `head` on stand until
/// `head` has passed them, so a swap that succeeds was right.
pub(crate) fn advance(at: Shared<'_>) -> u64 {
    let header = at.ring.header;
    loop {
        let head = header.data_head.load(Ordering::SeqCst); // O, and B
        let end = header.shared.producer_pos.load(Ordering::SeqCst); // O
        if head >= end || end - head >= at.ring.data_size() {
            return head; // nothing to do, or a lie
        }
        let upto = end.min(head.saturating_add(book_interval(at.ring)));
        let mut to = head;
        let load = |pos| at.ring.word(pos).load(Ordering::SeqCst); // N, O
        let mut records = Walk::new(head, end, load);
        while to < upto
            && let Some(Ok(record)) = records.next()
            && record.word.owner().is_none()
        {
            to = record.end();
        }
        if to == head {
            return head;
        }
        // A, pairs with B: and passes on what N acquired of the records' own producers.
        let _ = header.data_head.compare_exchange(head, to, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// For each slot whose owner is dead and had left reservations open: the slot, and how many.
    pub swept: alloc::vec::Vec<(u32, u64)>,
    /// The slot whose dead owner had left the lock taken.
    pub lock: Option<u32>,
}

/// Recovers a ring for somebody who is no producer of it, and who holds the lock of the place after
/// the last slot. `epoch` is a number that no other such call has had.
///
/// # Errors
/// [`Refusal::Contended`] if the ring's lock is held by somebody who lives.
pub fn recover<P: Peers>(at: Shared<'_>, epoch: u64, peers: &P) -> Result<Recovered, Refusal> {
    let owner = Owner::new(at.slots.len() as u32, epoch);
    // Of a dead heir the newest figure may be of a hole that it did not come to make.
    let counts = |index| slot::Losses::load(at, index).reclaimed.records;
    let slots = 0..at.slots.len() as u32;
    let old: alloc::vec::Vec<u64> = slots.clone().map(counts).collect();
    let lock = owner.lock(at, peers)?;
    // Only slots with something open: asking the system for each of hundreds is slow.
    // Each turn ends all that one of them left open.
    for _ in 0..at.slots.len() {
        let Some(slot) = next_dead(at, peers) else { break };
        owner.sweep(at, slot);
    }
    // One that died between the end of a record and this: nothing is open, and nothing published.
    fence(Ordering::SeqCst); // O
    advance(at);
    owner.unlock(at);
    let swept = slots.zip(old).filter_map(|(index, old)| {
        let more = counts(index).saturating_sub(old);
        (more > 0).then_some((index, more))
    });
    Ok(Recovered { swept: swept.collect(), lock })
}

/// The slot of the first open reservation whose owner is dead.
fn next_dead<P: Peers>(at: Shared<'_>, peers: &P) -> Option<u32> {
    let mut alive = None;
    // What is damaged nobody can end.
    for record in at.unpublished(at.ring.head()).map_while(Result::ok) {
        if let Some(owner) = record.word.owner()
            && alive != Some(owner)
            && (owner as usize) < at.slots.len()
        {
            if !peers.is_alive(owner) {
                return Some(owner);
            }
            alive = Some(owner);
        }
    }
    None
}

/// The ledger as a book that is true at `producer_pos`, if nothing is open: then nobody adds to it
/// without the lock either.
pub(crate) fn ledger_book(at: Shared<'_>, pos: u64) -> ProducerBook {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let word = |index: usize| line.ledger[index].load(Ordering::Relaxed);
    let mut told = [0; crate::book::REFUSED];
    for (to, from) in told.iter_mut().zip(&line.ledger[ledger::TOLD..]) {
        *to = from.load(Ordering::Relaxed);
    }
    let count = |at| crate::Count { records: word(at), bytes: word(at + 1) };
    let discarded = count(ledger::DISCARDED_RECORDS);
    let reclaimed = count(ledger::RECLAIMED_RECORDS);
    let lost_markers = word(ledger::LOST_MARKERS);
    let markers = lost_markers.wrapping_mul(perfring_abi::LOST_SIZE.into());
    let other = discarded.bytes.wrapping_add(reclaimed.bytes).wrapping_add(markers);
    ProducerBook {
        pos,
        written: crate::Count {
            records: line
                .ledger_written
                .load(Ordering::Relaxed)
                .wrapping_add(line.ledger_more.load(Ordering::Relaxed)),
            bytes: pos.wrapping_sub(other),
        },
        discarded,
        reclaimed,
        told: crate::Refused::from_words(&told),
        lost_markers,
        ..ProducerBook::default()
    }
}

/// Makes the ledger say what a counted book says.
fn set_ledger(at: Shared<'_>, book: &ProducerBook) {
    // Relaxed throughout: the lock orders it.
    let line = &at.ring.header.shared;
    let mut words = [0; perfring_abi::LEDGER];
    for (at, count) in
        [(ledger::DISCARDED_RECORDS, book.discarded), (ledger::RECLAIMED_RECORDS, book.reclaimed)]
    {
        words[at..at + 2].copy_from_slice(&[count.records, count.bytes]);
    }
    book.told.to_words(&mut words[ledger::TOLD..][..crate::book::REFUSED]);
    words[ledger::LOST_MARKERS] = book.lost_markers;
    for (to, word) in line.ledger.iter().zip(words) {
        to.store(word, Ordering::Relaxed);
    }
    line.ledger_written.store(book.written.records, Ordering::Relaxed);
    line.ledger_more.store(0, Ordering::Relaxed);
    line.ledger_stale.store(0, Ordering::Relaxed);
}

/// Writes the producers' book, true at `head`, under the lock.
///
/// With nothing open the ledger is the book. Else, or after an end that the ledger does not know
/// of, the records since the last book are counted.
pub(crate) fn write_book(at: Shared<'_>, head: u64, end: u64) -> Result<(), Corrupt> {
    let header = at.ring.header;
    let whole = latch::find(&header.producer).ok_or(Corrupt { pos: head })?;
    let settled = head == end;
    let book = if settled && header.shared.ledger_stale.load(Ordering::Relaxed) == 0 {
        ledger_book(at, head)
    } else {
        let old = ProducerBook::from_words(&whole.words);
        let book = crate::totals::bring_up(at.ring, old, head)?;
        if settled {
            set_ledger(at, &book);
        }
        book
    };
    latch::LatchWriter::after(&header.producer, Some(&whole))
        .write(&header.producer, &book.to_words());
    Ok(())
}
