//! What changes with every record, out of the producer's memory and in a loop's registers.
//!
//! A producer that is called record by record keeps its position in memory, and each record waits
//! until the store of the one before it can be loaded again: half of what a small record costs.
//! [`Hot`] is lent to a loop by value and comes back by value, wherever the loop needs anything else
//! of the producer, so that a compiler can see that nobody else looks at it.

use crate::book::ProducerBook;
use crate::totals::bring_up;
use crate::writer::ONE_RECORD;
use crate::{Reserved, Ring, Writer};
use perfring_abi::RecordType;
use perfring_abi::atomic::Ordering;

/// An exclusive producer's position and limits, lent to a loop.
#[derive(Clone, Copy, Debug)]
pub struct Hot {
    changed: Changed,
    limit: u64,
    plain_end: usize,
}

/// What of it changes: so few words that they can be passed in registers, one by one.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// End of the last committed record.
    pub pos: u64,
    /// Records committed since it was lent.
    pub records: u64,
    /// What `data_head` holds.
    pub head: u64,
}

impl Writer {
    /// Lends what changes with every record. Nothing else of the writer may be used before
    /// [`Writer::take_back`] or [`Writer::find_again`], but for [`Writer::evict_for`] and
    /// [`Hot::publish`].
    #[must_use]
    #[inline(always)]
    pub fn lend(&self) -> Hot {
        let changed = Changed { pos: self.pos(), records: 0, head: self.head() };
        Hot { changed, limit: self.limit, plain_end: self.plain_end() }
    }

    /// Takes back what was lent.
    #[inline(always)]
    pub fn take_back(&mut self, Changed { pos, records, head }: Changed) {
        // Since it was lent the writer's own position has not changed.
        self.add_since((pos - self.pos()) + records * ONE_RECORD);
        self.set_head(head);
    }

    /// What was lent is lost: goes on at `data_head`. What was held back since then is gone without a
    /// trace, as nobody could see it.
    #[cold]
    pub fn find_again(&mut self, ring: Ring<'_>) {
        // Relaxed: this thread stored it. Others can have, too: it is believed as far as a loop can
        // have come that looked at nothing else.
        let head = ring.header.data_head.load(Ordering::Relaxed);
        let most = self.limit.max(self.evict_limit);
        let here = ProducerBook { pos: self.pos(), ..ProducerBook::default() };
        if head.is_multiple_of(8)
            && (self.pos()..=most).contains(&head)
            && let Ok(book) = bring_up(ring, here, head)
        {
            let records = book.written.records;
            self.add_since((head - self.pos()) + records * ONE_RECORD);
            self.set_head(head);
        }
        self.look_again();
    }

    /// Makes room for a record of `len` bytes in the way that most records of a full overwrite ring
    /// need, while its position is lent. Returns whether it could.
    #[inline(always)]
    pub fn evict_for(&mut self, ring: Ring<'_>, hot: &Hot, len: usize) -> bool {
        if len >= hot.plain_end {
            return false;
        }
        let end = hot.changed.pos + perfring_abi::record_size(len);
        end <= self.evict_limit && self.evict_known(ring, end)
    }
}

impl Hot {
    /// What has changed since it was lent.
    #[must_use]
    #[inline(always)]
    pub fn changed(&self) -> Changed {
        self.changed
    }

    /// Whether a record of `len` bytes fits without a look at anything else.
    #[must_use]
    #[inline(always)]
    pub fn fits(&self, len: usize) -> bool {
        len < self.plain_end && self.changed.pos + perfring_abi::record_size(len) <= self.limit
    }

    /// Begins a record where [`Hot::fits`] or [`Writer::evict_for`] says that there is room for it.
    #[inline(always)]
    pub fn reserve(&self, ring: Ring<'_>, kind: RecordType, len: usize) -> Reserved {
        let reserved = Reserved { start: self.changed.pos, kind, len, lead: 0 };
        // Relaxed, as in `Writer::reserve`.
        ring.word(self.changed.pos).store(reserved.word(len).raw(), Ordering::Relaxed);
        reserved
    }

    /// Ends a record and holds it back.
    #[inline(always)]
    pub fn commit(&mut self, reserved: Reserved) {
        self.changed.pos = reserved.start + reserved.size();
        self.changed.records += 1;
    }

    /// Publishes what is held back. Returns whether somebody may want to be woken: then
    /// [`Writer::publish`] knows.
    #[must_use]
    #[inline(always)]
    pub fn publish(&mut self, ring: Ring<'_>, writer: &Writer) -> bool {
        ring.header.data_head.store(self.changed.pos, Ordering::Release); // A, pairs with B
        self.changed.head = self.changed.pos;
        writer.light_fence(); // I, pairs with J
        // Relaxed: I orders it.
        ring.header.wait.armed.load(Ordering::Relaxed) != 0
    }
}
