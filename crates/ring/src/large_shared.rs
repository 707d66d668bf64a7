//! Payloads of the AUX area, of a shared ring: as in `large`, under the lock.

use crate::large;
use crate::record::{BODY_LEN, Record, Walk};
use crate::{Peers, Refusal, Reserved, Ring, Shared, SharedWriter, Wake};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{
    Header, Policy, RecordType, RecordWord, Slot, aux_record, range_size, record_size,
};

impl SharedWriter {
    /// As [`SharedWriter::try_reserve`], of a payload that is too long for the data area: its record's
    /// position, and its lead.
    ///
    /// The ring in its parts, so that the call from the hot path passes it in registers.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three are the ring")]
    pub(crate) fn try_reserve_large<P: Peers>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        peers: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        self.reserve_large(Shared::new(Ring::new(header, data), slots), peers, kind, len, now)
    }

    fn reserve_large<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        kind: RecordType,
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        let need = range_size(len);
        if need > self.aux_size {
            return Err(Refusal::TooLarge { len, max: self.max_len() });
        }
        let floor = self.floor;
        let start = self.begin(&at, peers, RecordWord::aux().size())?;
        let range_at = match self.find_range(at, peers, start, need) {
            Ok(range_at) => range_at,
            Err(refusal) => {
                // Nothing is reserved, and the next may begin here.
                self.floor = floor;
                self.owner.unlock(at);
                return Err(refusal);
            }
        };
        let lead = Reserved::large_lead(range_at);
        let reserved = Reserved { start, kind, len, lead };
        let time = if self.stamped() { crate::shared::rise(at, now) } else { 0 };
        large::write_body(at.ring, start, reserved.body(len, time, self.policy));
        self.open_as(at, start, RecordWord::busy_aux(self.index()));
        // After `producer_pos`: whoever sees the range sees that something is reserved (O). Under
        // the lock.
        at.ring.header.aux.head.store(range_at + need, Ordering::Release);
        self.owner.unlock(at);
        Ok((start, lead))
    }

    /// Commits such a reservation. Returns whether a wake is owed.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "three are the ring")]
    pub(crate) fn commit_large<P: Peers>(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        slots: &[Slot],
        peers: &P,
        start: u64,
        len: usize,
        wake: Wake,
    ) -> bool {
        let at = Shared::new(Ring::new(header, data), slots);
        let word = RecordWord::aux();
        // What is left of its range is free when the next one is. Relaxed: N publishes it.
        let len_word = at.ring.word(start + 8 + 8 * aux_record::LEN as u64);
        len_word.store(len as u64, Ordering::Relaxed);
        self.count_written(at, start, 1, word.size());
        self.end(at, peers, start, word, word.size(), wake)
    }

    /// Where the next range begins, and room for it.
    fn find_range<P: Peers>(
        &mut self,
        at: Shared<'_>,
        peers: &P,
        start: u64,
        need: u64,
    ) -> Result<u64, Refusal> {
        let size = self.aux_size;
        // What this producer has reserved it may have open: the page is not believed in that.
        let (head, tail) = large::positions(at.ring, size)
            .filter(|(head, _)| *head >= self.range_floor)
            .ok_or(Refusal::Corrupt { tail: at.ring.header.aux.tail.load(Ordering::Relaxed) })?;
        if head + need - tail > size {
            if self.policy == Policy::Drop {
                return Err(Refusal::Full);
            }
            let to = head + need - size;
            self.close_ranges(at, peers, start, to)?;
            // Relaxed: the fence orders it before what is written over the old.
            at.ring.header.aux.tail.store(to, Ordering::Relaxed);
        }
        // E, pairs with F: who moved `aux_tail` over what is written over now, D or M has it seen
        // here, and this passes it on.
        fence(Ordering::Release);
        self.range_floor = head + need;
        Ok(head)
    }

    /// Sees to it that no reservation is open whose range begins before `to`: those of the dead are
    /// ended. What is open is never overwritten.
    fn close_ranges<P: Peers>(
        &self,
        at: Shared<'_>,
        peers: &P,
        start: u64,
        to: u64,
    ) -> Result<(), Refusal> {
        let head = at.ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        for record in Walk::new(head, start, |pos| at.look(pos).raw() /* N */) {
            let Record { pos, word, .. } =
                record.map_err(|bad| Refusal::Corrupt { tail: bad.pos })?;
            if word.is_busy_aux()
                && let Some(slot) = word.owner()
            {
                // Relaxed: M orders it; nobody writes there while it is open.
                let at_range =
                    at.ring.word(pos + 8 + 8 * aux_record::OFFSET as u64).load(Ordering::Relaxed);
                if at_range < to {
                    if (slot as usize) >= at.slots.len()
                        || slot == self.index()
                        || peers.is_alive(slot)
                    {
                        return Err(Refusal::Pending { slot });
                    }
                    self.owner.sweep(at, slot);
                }
            }
        }
        Ok(())
    }

    /// As [`SharedWriter::tail_for`], of such a payload.
    pub(crate) fn tail_for_large(&self, at: Shared<'_>, len: usize) -> u64 {
        let small = self.tail_for_record(at, record_size(BODY_LEN));
        // Relaxed: who waits looks again.
        let head = at.ring.header.aux.head.load(Ordering::Relaxed);
        large::tail_for(at.ring, self.aux_size, head, len).max(small)
    }
}
