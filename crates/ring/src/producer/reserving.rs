//! Reservations of the exclusive producer.

use crate::producer::exclusive::Writer;
use crate::reserve::{Refusal, Reserved, Site};
use crate::view::Ring;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    HEADER_LEN, Header, RecordType, RecordWord, TIMESTAMP_LEN, range_size, record_size,
};

impl Writer {
    /// From now on [`Writer::reserve_as`] returns reservations that are lent: their payloads are written elsewhere, and are to
    /// be copied to the ring before they end.
    pub fn lend_reservations(&mut self) {
        (self.in_place_end, self.elsewhere_from) = (0, 0);
    }

    /// Reserves space for a record, or returns the reason for a refusal. Counts nothing: a caller that gives up calls
    /// [`Writer::refuse`]. The payload is to be written `IN_PLACE`, where it may be lent; or to be copied into the ring.
    ///
    /// `now` is the current time of the timestamps' clock. The record of a timed ring gets that, or the timestamp of the
    /// record before it, if that is later. Any other record needs none. `None` is for a caller that knows the payload to be
    /// shorter than [`Writer::plain_end`], or than [`Writer::in_place_end`] if it is to be written in place. The caller's code
    /// then contains nothing for timestamps and the AUX area.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn reserve_as<const IN_PLACE: bool>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: Option<u64>,
    ) -> Result<Reserved, Refusal> {
        let Some(now) = now else {
            debug_assert!(len < if IN_PLACE { self.in_place_end } else { self.plain_end });
            let start = self.place::<0>(ring, kind, len, 0)?;
            return Ok(Reserved { site: Site { start, lead: 0 }, kind, len });
        };
        const TIMESTAMP: usize = TIMESTAMP_LEN as usize;
        let from = if IN_PLACE { self.elsewhere_from } else { self.max_len + 1 };
        let site = if self.timestamp != 0 && len < from {
            let start = self.place::<TIMESTAMP>(ring, kind, len, now)?;
            Site { start, lead: TIMESTAMP as u64 }
        } else {
            self.place_elsewhere::<IN_PLACE>(ring.header, ring.data, kind, len, now)?
        };
        Ok(Reserved { site, kind, len })
    }

    #[inline(always)]
    fn place<const TIMESTAMP: usize>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<u64, Refusal> {
        let start = self.room.place(ring, record_size(len + TIMESTAMP))?;
        // The header is stored now, in order with the payload after it: at commit, a reader that
        // runs ahead may have taken its line back. It is not read before the head has passed it.
        // Relaxed: A publishes it, and E came before it.
        let word = RecordWord::of(kind, len + TIMESTAMP);
        ring.word(start).store(word.raw(), Ordering::Relaxed);
        if TIMESTAMP != 0 {
            let timestamp = self.room.account.timestamp(now);
            ring.word(start + u64::from(HEADER_LEN)).store(timestamp, Ordering::Relaxed);
        }
        Ok(start)
    }

    /// Places a record whose payload is too long for the data area, or is lent; or which has no
    /// timestamp. Takes the ring in two parts, so that the call from the hot path passes it in registers.
    #[cold]
    #[inline(never)]
    fn place_elsewhere<const IN_PLACE: bool>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<Site, Refusal> {
        const TIMESTAMP: usize = TIMESTAMP_LEN as usize;
        let ring = Ring::new(header, data);
        let site = if len > self.max_len {
            let (policy, need) = (self.room.policy, range_size(len));
            if need > self.ranges.size {
                return Err(Refusal::TooLarge { max: self.max_len() });
            }
            let tail = self.ranges.find_room(ring, policy, need)?;
            let word = RecordWord::aux();
            let start = self.room.place(ring, word.size())?;
            // Relaxed, as in `place`.
            ring.word(start).store(word.raw(), Ordering::Relaxed);
            self.ranges.make_room(ring, policy, tail);
            self.room.account.timestamp(now);
            Site::with_aux(start, self.ranges.pos)
        } else {
            let start = match self.timestamp {
                0 => self.place::<0>(ring, kind, len, 0)?,
                _ => self.place::<TIMESTAMP>(ring, kind, len, now)?,
            };
            Site { start, lead: self.timestamp as u64 }
        };
        Ok(if IN_PLACE && self.elsewhere_from == 0 { site.lent() } else { site })
    }
}
