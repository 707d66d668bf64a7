//! Reservations of a producer of a shared ring: for one record, or for a batch.

use crate::reserve::{Refusal, Reserved, Site};
use crate::shared::publish::SharedWriter;
use crate::shared::span::{BatchSpan, SpanMark};
use crate::time;
use crate::view::{Ring, Shared, System};
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    HEADER_LEN, Header, Lead, RecordType, Slot, TIMESTAMP_LEN, range_size, record_size,
};

impl SharedWriter {
    /// From now on [`SharedWriter::reserve`] returns reservations that are lent: their payloads are written elsewhere,
    /// and are to be copied to the ring before they end.
    pub fn lend_reservations(&mut self) {
        self.elsewhere_from = 0;
    }

    /// Reserves space for a record, marked as open. Any number can be open at a time, and end in
    /// any order. `now` is as in [`SharedWriter::publish`].
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn reserve<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reserved, Refusal> {
        if len >= self.elsewhere_from {
            let (header, data, slots) = (at.ring.header, at.ring.data, at.slots);
            let site = self.reserve_elsewhere(header, data, slots, liveness, kind, len, now)?;
            return Ok(Reserved { site, kind, len });
        }
        let reserved = self.begin(&at, liveness, kind, len, now)?;
        self.room.open(at, reserved.pos(), reserved.size());
        Ok(reserved)
    }

    /// Reserves space for several records, in one reservation of `bytes`: a multiple of 8, headers,
    /// timestamps and padding included. All of them get one timestamp. `now` is as in
    /// [`SharedWriter::publish`].
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reserve_span<P: System>(
        &mut self,
        at: Shared<'_>,
        liveness: &P,
        bytes: u64,
        now: u64,
    ) -> Result<BatchSpan, Refusal> {
        let least = record_size(self.lead.len());
        let size = (bytes.saturating_add(7) & !7).max(least);
        let len = usize::try_from(size - least).unwrap_or(usize::MAX);
        if len > self.max_len {
            return Err(Refusal::TooLarge { max: self.max_len });
        }
        let start = self.room.begin(&at, liveness, size)?;
        let time = if self.is_timed() { time::rise(at.ring, now) } else { 0 };
        self.room.open(at, start, size);
        Ok(BatchSpan { start, size, time, ..BatchSpan::default() })
    }

    /// Takes the lock, finds room for a record that is not too long for the data area, and writes its timestamp if it has
    /// one. Holds the lock when it returns `Ok`.
    #[inline(always)]
    pub(super) fn begin<P: System>(
        &mut self,
        at: &Shared<'_>,
        liveness: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Reserved, Refusal> {
        let lead = self.lead.len();
        let start = self.room.begin(at, liveness, record_size(len + lead))?;
        if lead != 0 {
            write_lead(at.ring, start, self.lead, time::rise(at.ring, now), self.writer);
        }
        Ok(Reserved { site: Site { start, lead: lead as u64 }, kind, len })
    }

    /// Reserves space for a payload that is too long for the data area, or is lent. Returns its place.
    ///
    /// Takes the ring in parts, so that the call from the hot path passes it in registers.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three are the ring")]
    fn reserve_elsewhere<P: System>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        liveness: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Site, Refusal> {
        let at = Shared::new(Ring::new(header, data), slots);
        let site = if len <= self.max_len {
            let reserved = self.begin(&at, liveness, kind, len, now)?;
            self.room.open(at, reserved.pos(), reserved.size());
            reserved.site
        } else if range_size(len) > self.allotted.size {
            return Err(Refusal::TooLarge { max: self.max_len() });
        } else {
            let now = self.is_timed().then_some(now);
            self.allotted.reserve(at, liveness, &mut self.room, kind, len, now)?
        };
        Ok(if self.elsewhere_from == 0 { site.lent() } else { site })
    }

    /// Returns the next record of a batch, to be filled, if it fits.
    pub fn next_in_span(
        &self,
        at: Shared<'_>,
        span: &mut BatchSpan,
        kind: RecordType,
        len: usize,
    ) -> Option<Reserved> {
        if len > self.max_len {
            return None;
        }
        let site = Site { start: span.next(), lead: self.lead.len() as u64 };
        let reserved = Reserved { site, kind, len };
        if reserved.size() > span.left() {
            return None;
        }
        if self.is_timed() {
            write_lead(at.ring, span.next(), self.lead, span.time, self.writer);
        }
        span.add(at.ring, reserved.word(len));
        Some(reserved)
    }

    /// Returns the place of the record that was added to a batch at a mark.
    #[must_use]
    pub fn at_mark(&self, span: &BatchSpan, mark: SpanMark) -> Site {
        Site { start: span.start + mark.used, lead: self.lead.len() as u64 }
    }
}

/// Writes the fields before the payload of the record at `start`.
#[inline(always)]
fn write_lead(ring: Ring<'_>, start: u64, lead: Lead, time: u64, writer: u64) {
    let body = start + u64::from(HEADER_LEN);
    // Relaxed, both: A, N or O publishes them.
    ring.word(body).store(time, Ordering::Relaxed);
    if lead == Lead::SampleId {
        ring.word(body + u64::from(TIMESTAMP_LEN)).store(writer, Ordering::Relaxed);
    }
}
