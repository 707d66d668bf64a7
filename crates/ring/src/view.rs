//! The views that the algorithm works on: a ring's live header and its data area, and for a shared
//! ring also its slots.

use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Header, RecordWord, Slot};

/// A ring as the algorithm sees it: the header's live fields and the data area.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    pub(crate) header: &'a Header,
    pub(crate) data: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// Creates a view of a ring. The length of the data area in words must be a power of two, which
    /// the caller has checked: any other length gives wrong positions, though never an access out
    /// of bounds.
    #[must_use]
    #[inline]
    pub fn new(header: &'a Header, data: &'a [AtomicU64]) -> Self {
        debug_assert!(data.len().is_power_of_two());
        Ring { header, data }
    }

    /// Returns the header's live fields.
    #[must_use]
    #[inline]
    pub fn header(&self) -> &'a Header {
        self.header
    }

    /// Returns the size of the data area in bytes.
    #[must_use]
    #[inline]
    pub fn data_size(&self) -> u64 {
        self.data.len() as u64 * 8
    }

    /// Returns the word at a position.
    #[inline]
    pub(crate) fn word(&self, pos: u64) -> &'a AtomicU64 {
        &self.data[(pos >> 3) as usize & (self.data.len() - 1)]
    }

    /// Loads `data_head` as an observer does, on pages that may be mapped read-only.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        let head = self.header.data_head.load(Ordering::Relaxed);
        fence(Ordering::Acquire); // B, pairs with A
        head
    }

    /// Loads `data_tail` after everything that was read before it.
    #[must_use]
    #[inline]
    pub fn tail(&self) -> u64 {
        fence(Ordering::Acquire); // F, pairs with E
        self.header.data_tail.load(Ordering::Relaxed)
    }

    /// Loads the word at a position, relaxed. For a record of a drop ring this is the committed
    /// word, if the head was loaded before (B) and the tail does not move past it. In other
    /// cases the caller checks the tail afterwards (F).
    #[must_use]
    #[inline]
    pub fn load(&self, pos: u64) -> u64 {
        self.word(pos).load(Ordering::Relaxed)
    }

    /// Copies the words from `pos` on, at most a ring of them, by relaxed loads, because a producer
    /// may be overwriting them. The caller checks the tail afterwards (F).
    pub fn copy_out(&self, pos: u64, to: &mut [u64]) {
        copy_words(self.data, pos, to);
    }
}

/// Copies the words of a data area from a position on, as [`Ring::copy_out`] does.
pub(crate) fn copy_words(data: &[AtomicU64], pos: u64, to: &mut [u64]) {
    let start = (pos >> 3) as usize & (data.len() - 1);
    let (first, second) = to.split_at_mut(to.len().min(data.len() - start));
    for (to, from) in first.iter_mut().zip(&data[start..]) {
        *to = from.load(Ordering::Relaxed);
    }
    for (to, from) in second.iter_mut().zip(data) {
        *to = from.load(Ordering::Relaxed);
    }
}

/// Positions beyond this are invalid: a ring written at 100 GB/s reaches it after a year.
pub(crate) const POS_MAX: u64 = 1 << 62;

pub(crate) fn sane(ring: Ring<'_>, head: u64, tail: u64) -> bool {
    head.is_multiple_of(8)
        && tail.is_multiple_of(8)
        && head <= POS_MAX
        && tail <= head
        && head - tail < ring.data_size()
}

/// Stores positions that no producer or consumer leaves, so that all readers and producers
/// find the ring corrupt.
pub fn spoil(header: &Header) {
    // Relaxed, and then a fence: the file is no longer a ring, and changes to its data come after.
    header.data_tail.store(u64::MAX, Ordering::Relaxed);
    header.data_head.store(u64::MAX, Ordering::Relaxed);
    header.aux.tail.store(u64::MAX, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// The functions that the algorithm needs from the system.
pub trait System {
    /// Returns whether the process that attached to this slot last is alive. The slot after the
    /// last one stands for a process that recovers the ring and is no producer.
    fn is_alive(&self, slot: u32) -> bool;
    /// Passes the time between two attempts to take a held lock; `round` counts them.
    fn relax(&self, round: u32);
    /// Drops dead named consumers from the awaited consumers. Returns whether there were any.
    fn drop_dead(&self, _ring: Ring<'_>) -> bool {
        false
    }
    /// Returns `CLOCK_REALTIME` in ns, from which it is computed how long the ring has been held
    /// up.
    fn now_ns(&self) -> u64;
}

/// A shared ring as the algorithm sees it: the ring and its producers' slots.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a> {
    pub(crate) ring: Ring<'a>,
    pub(crate) slots: &'a [Slot],
}

/// A ring without slots.
impl<'a> From<Ring<'a>> for Shared<'a> {
    fn from(ring: Ring<'a>) -> Self {
        Shared { ring, slots: &[] }
    }
}

impl<'a> Shared<'a> {
    /// Creates a view of a shared ring.
    #[must_use]
    #[inline]
    pub fn new(ring: Ring<'a>, slots: &'a [Slot]) -> Self {
        Shared { ring, slots }
    }

    /// Returns the slots.
    #[must_use]
    pub fn slots(&self) -> &'a [Slot] {
        self.slots
    }

    /// Returns the ring without the slots.
    #[must_use]
    #[inline]
    pub fn ring(&self) -> Ring<'a> {
        self.ring
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> &'a AtomicU64 {
        &self.ring.header.shared.lock
    }

    /// Loads the end of the last reservation.
    #[inline(always)]
    pub(crate) fn producer_pos(&self) -> u64 {
        // Acquire: everything that was written before the position was published is visible (O). A held lock
        // orders the load as well. By a fence, because the page may be read-only.
        let pos = self.ring.header.shared.producer_pos.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        pos
    }

    /// Loads the position after everything that is published or reserved: `producer_pos`, or
    /// `data_head` where a ring per CPU is open to sequences.
    pub(crate) fn end(&self) -> u64 {
        self.producer_pos().max(self.ring.head())
    }

    /// Returns the slot of the current holder of the lock.
    #[must_use]
    pub fn locked_by(&self) -> Option<u32> {
        let word = self.lock().load(Ordering::Relaxed); // a hint for people
        (word != 0).then(|| slot_of(word))
    }

    /// Returns whether something is reserved, or ended and not published. In a ring in use this is
    /// often true. In an idle ring it means that a reservation is open, or that a producer died
    /// between the end of a record and the store of `data_head`.
    #[must_use]
    pub fn lags(&self) -> bool {
        self.ring.head() < self.producer_pos()
    }

    /// Returns the slot whose open reservation holds `data_head` back, if any does.
    #[must_use]
    pub fn held_up(&self) -> Option<u32> {
        let head = self.ring.head();
        if head < self.producer_pos() { self.word_at(head).owner() } else { None }
    }

    /// Loads the header word at `pos`, beyond `data_head`. A record that has ended is complete.
    pub(crate) fn word_at(&self, pos: u64) -> RecordWord {
        let word = self.ring.word(pos).load(Ordering::Relaxed);
        fence(Ordering::Acquire); // N; a fence, because the page may be read-only
        RecordWord::from_raw(word)
    }
}

pub(crate) const SLOT_BITS: u32 = 16;

pub(crate) fn slot_of(word: u64) -> u32 {
    (word & ((1 << SLOT_BITS) - 1)).saturating_sub(1) as u32
}
