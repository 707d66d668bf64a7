//! Reservations of the exclusive producer.

use crate::producer::exclusive::Writer;
use crate::producer::room::Room;
use crate::reserve::{Denied, Refusal, Reserved};
use crate::view::Ring;
use perfring_abi::atomic::{AtomicU64, Ordering};
use perfring_abi::{
    HEADER_LEN, Header, RecordType, RecordWord, TIMESTAMP_LEN, range_size, record_size,
};

/// Counts a refusal that is as the last ones, if it is.
#[inline(always)]
fn count_again(ring: Ring<'_>, room: &mut Room, size: u64) -> Result<(), Denied> {
    if room.refuse_again(ring.header, size) { Err(Denied::FullAgain) } else { Ok(()) }
}

impl Writer {
    /// From now on [`Writer::try_reserve`] and [`Writer::reserve_or_count`] return reservations that are lent, and
    /// [`Writer::lend`] lends none: their payloads are written elsewhere, and are to be copied to the ring before they end.
    pub fn lend_reservations(&mut self) {
        (self.in_place_end, self.elsewhere_from) = (0, 0);
    }

    /// Reserves space for a record, or returns the reason for a refusal. Counts nothing: a caller
    /// that gives up calls [`Writer::refuse`].
    ///
    /// `now` is called for the current time of the timestamps' clock, if it is needed. The record
    /// of a timed ring gets that, or the timestamp of the record before it, if that is later.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: impl FnOnce(&mut Self) -> u64,
    ) -> Result<Reserved, Refusal> {
        self.reserve::<true, _>(ring, kind, len, now, |_, _| Ok(()))
    }

    /// Like [`Writer::try_reserve`], for a payload that is only copied into the ring: it is never lent.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve_to_fill(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: impl FnOnce(&mut Self) -> u64,
    ) -> Result<Reserved, Refusal> {
        self.reserve::<false, _>(ring, kind, len, now, |_, _| Ok(()))
    }

    /// Like [`Writer::try_reserve`], but counts the refusal if it is as the last ones: for a caller that
    /// calls [`Writer::refuse`] for any other.
    ///
    /// # Errors
    /// See [`Denied`].
    #[inline(always)]
    pub fn reserve_or_count(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: impl FnOnce(&mut Self) -> u64,
    ) -> Result<Reserved, Denied> {
        self.reserve::<true, _>(ring, kind, len, now, |room, size| count_again(ring, room, size))
    }

    /// The result is built in one place, so that what the caller's compiler knows of the length is
    /// not lost where its branches join.
    #[inline(always)]
    fn reserve<const LENDS: bool, E: From<Refusal>>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: impl FnOnce(&mut Self) -> u64,
        shortly: impl FnOnce(&mut Room, u64) -> Result<(), E>,
    ) -> Result<Reserved, E> {
        let plain_end = if LENDS { self.in_place_end } else { self.plain_end };
        let (start, lead) = if len < plain_end {
            (self.place::<0, E>(ring, kind, len, 0, shortly)?, 0)
        } else {
            let now = now(self);
            self.place_other::<LENDS>(ring, kind, len, now)?
        };
        Ok(Reserved { start, kind, len, lead })
    }

    /// Like [`Writer::try_reserve`], for a payload shorter than [`Writer::plain_end`]; any other is
    /// refused as too large. The caller's code thus contains nothing for timestamps and the AUX
    /// area.
    ///
    /// # Errors
    /// See [`Refusal`].
    #[inline(always)]
    pub fn try_reserve_plain(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, Refusal> {
        self.reserve_plain(ring, kind, len, |_, _| Ok(()))
    }

    /// Like [`Writer::try_reserve_plain`], but counts a refusal as [`Writer::reserve_or_count`] does.
    ///
    /// # Errors
    /// See [`Denied`].
    #[inline(always)]
    pub fn reserve_plain_or_count(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
    ) -> Result<Reserved, Denied> {
        self.reserve_plain(ring, kind, len, |room, size| count_again(ring, room, size))
    }

    #[inline(always)]
    fn reserve_plain<E: From<Refusal>>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        shortly: impl FnOnce(&mut Room, u64) -> Result<(), E>,
    ) -> Result<Reserved, E> {
        if len >= self.plain_end {
            return Err(Refusal::TooLarge { len, max: self.max_len }.into());
        }
        let start = self.place::<0, E>(ring, kind, len, 0, shortly)?;
        Ok(Reserved { start, kind, len, lead: 0 })
    }

    /// Returns the start and the lead of a record that may have a timestamp or be large.
    #[inline(never)]
    fn place_other<const LENDS: bool>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        let is_elsewhere = if LENDS { len >= self.elsewhere_from } else { len > self.max_len };
        if is_elsewhere {
            return self.place_elsewhere::<LENDS>(ring.header, ring.data, kind, len, now);
        }
        self.place_here(ring, kind, len, now)
    }

    /// Returns the start and the lead of a record in the data area.
    #[inline(always)]
    fn place_here(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        if self.timestamp == 0 {
            return Ok((self.place::<0, _>(ring, kind, len, 0, |_, _| Ok(()))?, 0));
        }
        const TIMESTAMP: usize = TIMESTAMP_LEN as usize;
        let start = self.place::<TIMESTAMP, _>(ring, kind, len, now, |_, _| Ok(()))?;
        Ok((start, TIMESTAMP as u64))
    }

    #[inline(always)]
    fn place<const TIMESTAMP: usize, E: From<Refusal>>(
        &mut self,
        ring: Ring<'_>,
        kind: RecordType,
        len: usize,
        now: u64,
        shortly: impl FnOnce(&mut Room, u64) -> Result<(), E>,
    ) -> Result<u64, E> {
        let size = record_size(len + TIMESTAMP);
        let start = self.room.place(ring, size, |room| shortly(room, size))?;
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

    /// Like [`Writer::place_other`], for a payload that is too long for the data area, or is lent. It does not
    /// take what the caller's compiler knows, as that would be lost there.
    #[cold]
    #[inline(never)]
    fn place_elsewhere<const LENDS: bool>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        let ring = Ring::new(header, data);
        let (start, lead) = match len > self.max_len {
            true => self.place_large(ring, len, now)?,
            false => self.place_here(ring, kind, len, now)?,
        };
        let lends = LENDS && self.elsewhere_from == 0;
        Ok((start, if lends { Reserved::lent_lead(lead) } else { lead }))
    }

    fn place_large(&mut self, ring: Ring<'_>, len: usize, now: u64) -> Result<(u64, u64), Refusal> {
        let (policy, need) = (self.room.policy, range_size(len));
        if need > self.ranges.size {
            return Err(Refusal::TooLarge { len, max: self.max_len() });
        }
        let tail = self.ranges.find_room(ring, policy, need)?;
        let word = RecordWord::aux();
        let start = self.room.place(ring, word.size(), |_| Ok::<_, Refusal>(()))?;
        // Relaxed, as in `place`.
        ring.word(start).store(word.raw(), Ordering::Relaxed);
        self.ranges.make_room(ring, policy, tail);
        self.room.account.timestamp(now);
        Ok((start, Reserved::large_lead(self.ranges.pos)))
    }
}
