//! Room for a reservation of the exclusive producer: the published position, the limit of overwriting,
//! and the slow path, which writes the totals, reports losses and makes room.

use crate::named::Waits;
use crate::producer::account::Account;
use crate::producer::tail::Tail;
use crate::record::Corrupt;
use crate::recount::totals_interval;
use crate::reserve::Refusal;
use crate::view::Ring;
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{Evict, Header, LOST_SIZE, Layout, Policy, Report};

/// The position of the exclusive producer, and its limits.
#[derive(Debug)]
pub(crate) struct Room {
    pub(super) account: Account,
    /// A reservation that ends here or before needs no further check.
    pub(super) limit: u64,
    /// For a reservation that ends here or before, an overwrite ring need only evict.
    pub(super) evict_limit: u64,
    /// The value of `data_head` while something is held back; at all other times `data_head` is `pos`.
    pub(super) held: Option<u64>,
    pub(super) tail: Tail,
    /// The least size, with the markers before the record, for which a drop ring is full until the tail moves from
    /// [`Room::tail`]: records that are published meanwhile only take more room.
    full_for: u64,
    pub(super) policy: Policy,
    evict: Evict,
    report: Report,
    /// Set in a ring with named consumers.
    pub(super) waits: Option<Waits>,
}

impl Room {
    /// Takes over from the last producer. Also returns the position of the totals in the page.
    pub(crate) fn attach(
        ring: Ring<'_>,
        layout: &Layout,
        head: u64,
        tail: u64,
    ) -> Result<(Self, u64), Corrupt> {
        let (account, from) = Account::attach(ring, layout, head)?;
        let tail = match layout.policy {
            Policy::Overwrite => Tail::take_over(ring, tail).ok_or(Corrupt { pos: tail })?,
            Policy::Drop => Tail::of_consumer(tail),
        };
        let Layout { policy, evict, report, .. } = *layout;
        let (limit, evict_limit, held, full_for) = (0, 0, None, u64::MAX);
        let waits = None;
        let room = Room {
            account,
            limit,
            evict_limit,
            held,
            tail,
            full_for,
            policy,
            evict,
            report,
            waits,
        };
        Ok((room, from))
    }

    #[inline(always)]
    pub(crate) fn pos(&self) -> u64 {
        self.account.pos()
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> u64 {
        self.held.unwrap_or(self.pos())
    }

    /// Holds back all records that are committed from now on.
    #[inline(always)]
    pub(crate) fn hold(&mut self) {
        if self.held.is_none() {
            self.held = Some(self.pos());
        }
    }

    /// Publishes everything up to `pos`, the current position.
    #[inline(always)]
    pub(crate) fn publish_at(&mut self, ring: Ring<'_>, pos: u64) {
        debug_assert_eq!(pos, self.pos());
        ring.header.data_head.store(pos, Ordering::Release); // A, pairs with B
        if self.held.is_some() {
            self.held = None; // a store only if there is something to change
        }
    }

    /// Makes the next reservation recompute the limits.
    pub(crate) fn forget_limits(&mut self) {
        (self.limit, self.evict_limit) = (0, 0);
    }

    /// Finds room for `size` bytes, and returns their position.
    #[inline(always)]
    pub(crate) fn place(&mut self, ring: Ring<'_>, size: u64) -> Result<u64, Refusal> {
        let start = self.pos();
        let end = start + size;
        if end > self.limit && !self.evict_few(ring, end) {
            self.make_room(ring.header, ring.data, size)?;
            return Ok(self.pos());
        }
        Ok(start)
    }

    /// The path that most reservations of a full overwrite ring need: evicts the oldest records, if
    /// nothing else is due. Returns whether it made room.
    ///
    /// Because `end` is within an interval of the totals, which is at most a quarter of the ring, the
    /// tail stays behind the position of the totals.
    #[inline(always)]
    fn evict_few(&mut self, ring: Ring<'_>, end: u64) -> bool {
        end <= self.evict_limit
            && (self.tail.evict_known(ring, end) || self.evict_on(ring.header, ring.data, end))
    }

    /// Like [`Tail::evict_known`], for any number of records. Takes the ring in two parts, so that
    /// the ring is passed in registers.
    #[inline(never)]
    fn evict_on(&mut self, header: &Header, data: &[AtomicU64], end: u64) -> bool {
        let ring = Ring::new(header, data);
        self.walk(ring, end);
        self.tail.store(ring);
        fence(Ordering::Release); // E, pairs with F
        end - self.tail.pos < ring.data_size()
    }

    /// Evicts record by record, at most all of them. Only the mark is published.
    fn walk(&mut self, ring: Ring<'_>, end: u64) {
        while !self.tail.pass_known(ring, end, self.head()) {
            // The tail is stored at this mark before the next mark is written: a mark is always at or after the tail.
            if self.tail.pos > self.account.totals.pos {
                self.account.write(ring);
            }
            self.tail.store(ring);
            if self.tail.poll_on(ring, self.head()).is_err() {
                // Everything that was ever written is evicted. The count of it is private and true at
                // the end of the committed records, so these are published.
                self.publish_at(ring, self.pos());
                self.tail.give_up(ring, self.pos(), self.account.written());
            }
        }
    }

    /// Makes room for a record of `size` bytes at `self.pos()`, reports the unreported losses, and
    /// sets the next limit.
    ///
    /// Takes the ring in two parts, so that the call from the hot path passes it in registers.
    #[inline(never)]
    pub(crate) fn make_room(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        size: u64,
    ) -> Result<(), Refusal> {
        let ring = Ring::new(header, data);
        if self.account.is_replaced(ring) {
            self.forget_limits(); // a smaller record comes here too
            return Err(Refusal::Replaced);
        }
        // Relaxed: nothing is written. With named consumers this producer moves the tail itself, in `reload_tail`.
        if self.waits.is_none()
            && self.marker_bytes(ring, size) + size >= self.full_for
            && header.data_tail.load(Ordering::Relaxed) == self.tail.pos
        {
            return Err(Refusal::Full);
        }
        self.make_more_room(header, data, size)
    }

    #[inline(never)]
    fn make_more_room(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        size: u64,
    ) -> Result<(), Refusal> {
        let ring = Ring::new(header, data);
        let mask = ring.data_size() - 1;
        let markers = self.marker_bytes(ring, size);
        let end = self.pos() + markers + size;
        let full = end - self.tail.pos > mask;
        match self.policy {
            Policy::Drop if full => {
                self.full_for = markers + size;
                self.reload_tail(ring, end)?;
                self.full_for = u64::MAX;
            }
            Policy::Overwrite if full => {
                // Nothing unpublished may be overwritten.
                self.publish_held(ring);
                self.advance_tail(ring, end);
            }
            _ => {}
        }
        // A process that takes this ring over walks from the totals to the head: the records in between must
        // remain.
        let totals = self.account.totals.pos;
        if self.pos() - totals >= totals_interval(ring)
            || end - totals > mask
            || (self.policy == Policy::Overwrite && self.tail.pos > totals)
        {
            self.publish_held(ring);
            self.account.write(ring);
        }
        if self.policy == Policy::Overwrite && full {
            self.tail.store(ring);
        }
        // Totals and tail are published before anything before them is overwritten. A drop ring's
        // producer passes on the tail that it loaded (D), for observers that check it.
        fence(Ordering::Release); // E, pairs with F
        if markers != 0 {
            self.hold();
            self.account.report_losses(ring);
        } else if self.unreported() != 0 {
            // The markers did not fit beside this record: the next reservation takes this path again.
            self.forget_limits();
            return Ok(());
        }
        self.set_limits(ring, end);
        Ok(())
    }

    fn set_limits(&mut self, ring: Ring<'_>, end: u64) {
        let due = self.account.totals.pos + totals_interval(ring);
        self.limit = (self.tail.pos + ring.data_size() - 1).min(due);
        match (self.policy, self.evict) {
            (Policy::Overwrite, Evict::Exact) => self.evict_limit = due,
            (Policy::Overwrite, Evict::Half) if self.tail.half.is_none() => {
                self.find_half(ring, end);
            }
            _ => {}
        }
    }

    /// Publishes the records that a batch holds back, if the batch cannot continue otherwise. The wake is left to
    /// the end of the current reservation, which publishes in any case.
    fn publish_held(&mut self, ring: Ring<'_>) {
        if self.head() != self.pos() {
            self.publish_at(ring, self.pos());
        }
    }

    /// Remembers the boundary before the record that crosses the middle of the ring, or makes sure
    /// to be called for that record.
    fn find_half(&mut self, ring: Ring<'_>, end: u64) {
        let middle = self.tail.pos + ring.data_size() / 2;
        if end <= middle {
            self.limit = self.limit.min(middle);
        } else if self.pos() <= middle + ring.data_size() / 8 {
            self.tail.half = Some((self.pos(), self.account.written()));
        }
        // Further on, in a ring just taken over or after a large record, a jump to this position would
        // leave too few records: the next eviction walks.
    }

    /// Applies the kernel's space rule, after a reload of the consumer's tail.
    fn reload_tail(&mut self, ring: Ring<'_>, end: u64) -> Result<(), Refusal> {
        let (head, mask) = (self.head(), ring.data_size() - 1);
        if let Some(waits) = &mut self.waits {
            let raised = waits.raise(ring, self.tail.pos, head, end.saturating_sub(mask));
            self.tail.pos = raised.map_err(|tail| Refusal::Corrupt { tail })?;
            return if end - self.tail.pos > mask { Err(Refusal::Full) } else { Ok(()) };
        }
        let tail = ring.header.data_tail.load(Ordering::Acquire); // D, pairs with C
        let last = self.tail.pos;
        // The only word of the page that this producer accepts from outside. The tail may only advance,
        // and not past the published records.
        if !tail.is_multiple_of(8) || tail.wrapping_sub(last) > head - last {
            return Err(Refusal::Corrupt { tail });
        }
        self.tail.pos = tail;
        if end - tail > mask { Err(Refusal::Full) } else { Ok(()) }
    }

    fn advance_tail(&mut self, ring: Ring<'_>, end: u64) {
        match self.evict {
            Evict::Exact => self.walk(ring, end),
            Evict::Half => {
                // The walk is for a ring just taken over, without a known boundary, and for a large record.
                if !self.tail.jump(ring, end) {
                    self.walk(ring, end + ring.data_size() / 2);
                }
            }
        }
    }

    /// Returns the bytes of the `PERF_RECORD_LOST` records that are due before a record of `size`
    /// bytes; 0 if they and the record do not fit the ring together. Then a later record includes them.
    pub(crate) fn marker_bytes(&self, ring: Ring<'_>, size: u64) -> u64 {
        let bytes = self.unreported() * u64::from(LOST_SIZE);
        if bytes + size < ring.data_size() { bytes } else { 0 }
    }

    fn unreported(&self) -> u64 {
        if self.report == Report::CountersOnly { 0 } else { self.account.unreported() }
    }
}
