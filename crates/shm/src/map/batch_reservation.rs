//! The space that a producer of a shared ring has reserved for a batch.

use crate::map::shared_pair::SharedPair;
use perfring_abi::RecordType;
use perfring_ring::{BatchSpan, Refusal, Reserved, Site, SpanMark, Wake};
use std::ptr::NonNull;

/// Several records in one reservation, published at once when it is dropped.
#[derive(Debug)]
#[must_use = "a batch is published when it is dropped"]
pub struct BatchReservation<'a> {
    pub(super) pair: &'a SharedPair,
    pub(super) span: BatchSpan,
    pub(super) in_place: Option<LastRecord>,
}

/// The last record that was added to a batch in place.
#[derive(Debug)]
pub(super) struct LastRecord {
    /// The batch's mark before this record.
    before: SpanMark,
    /// The bytes that were left after this record. If the batch still has as many left, this is its last record, and its
    /// owner may be writing it.
    left: u64,
    /// The length of its payload.
    len: usize,
}

impl BatchReservation<'_> {
    /// Adds one record. Returns whether it fitted; if not, nothing changes and nothing is counted:
    /// publish this batch and begin another.
    #[inline]
    pub fn push(&mut self, kind: RecordType, payload: &[u8]) -> Result<(), Refusal> {
        let reserved = self.fill(kind, payload.len())?;
        // SAFETY: a part of this producer's open reservation, of this length.
        unsafe { self.pair.map.fill_open(reserved.site(), payload) };
        Ok(())
    }

    /// Adds one record of `len` bytes, to be written in place; `None` if it does not fit. The
    /// record is part of the batch as soon as this returns; its bytes are the ring's previous content
    /// at that place. If a panic drops the batch before the next record, the record is not published.
    #[inline]
    pub fn push_in_place(&mut self, kind: RecordType, len: usize) -> Result<&mut [u8], Refusal> {
        let before = self.span.mark();
        let reserved = self.fill(kind, len)?;
        let map = &self.pair.map;
        let site = reserved.site();
        let mut bytes = if map.lends() { self.lend(site, len) } else { map.open_bytes(site, len) };
        // In a destructor that a panic runs, the drop of the batch says nothing.
        let left = if std::thread::panicking() { u64::MAX } else { self.span.left() };
        self.in_place = Some(LastRecord { before, left, len });
        // SAFETY: a part of this producer's open reservation that no other record has; `&mut self`
        // lasts as long as the slice.
        Ok(unsafe { bytes.as_mut() })
    }

    /// Lends other memory for a record that is added in place, once the last one is in the ring.
    #[cold]
    fn lend(&self, site: Site, len: usize) -> NonNull<[u8]> {
        self.settle();
        self.pair.map.open_bytes(site.lent(), len)
    }

    /// Copies the last record that was added in place to the ring: it was lent.
    #[cold]
    #[inline(never)]
    fn settle(&self) {
        if let Some(LastRecord { before, len, .. }) = self.in_place {
            let site = self.pair.writer.borrow().at_mark(&self.span, before);
            // SAFETY: a part of this producer's open reservation; the slice that was returned borrowed the batch.
            unsafe { self.pair.map.settle(site.lent(), len) };
        }
    }

    #[inline]
    fn fill(&mut self, kind: RecordType, len: usize) -> Result<Reserved, Refusal> {
        let at = self.pair.at();
        let next = self.pair.writer.borrow().next_in_span(at, &mut self.span, kind, len);
        let Some(reserved) = next else { return Err(self.no_room()) };
        // SAFETY: a part of this producer's open reservation.
        unsafe { self.pair.map.zero_last_word(reserved.site(), len) };
        Ok(reserved)
    }

    #[cold]
    fn no_room(&self) -> Refusal {
        if self.pair.children.forked() { Refusal::Forked } else { Refusal::Full }
    }

    /// Returns the number of records in the batch.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.span.records()
    }

    /// Returns the bytes that are left, headers and padding included.
    #[must_use]
    pub fn left(&self) -> usize {
        self.span.left() as usize
    }
}

impl Drop for BatchReservation<'_> {
    fn drop(&mut self) {
        let pair = self.pair;
        if pair.children.forked() {
            return;
        }
        if self.in_place.is_some() && pair.map.lends() {
            self.settle();
        }
        let mut span = std::mem::take(&mut self.span);
        if let Some(record) = &self.in_place
            && span.left() == record.left
            && std::thread::panicking()
        {
            span.back_to(record.before);
        }
        let at = pair.at();
        let wake = pair.writer.borrow_mut().commit_span(at, &pair.liveness, span, Wake::Auto);
        pair.owed(wake);
    }
}
