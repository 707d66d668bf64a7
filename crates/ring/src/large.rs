//! Payloads too long for the data area: they stand in one piece in the AUX area, and a
//! `PERF_RECORD_AUX` in the data area says where (perf's own way for Intel PT and its like; the
//! record's body is `perf_aux_output_end`'s in `kernel/events/ring_buffer.c`, with a `sample_id` of
//! time and id).
//!
//! A *range* is allotted when the record is reserved, in the order of the records, so that both areas
//! are freed in one order. Drop: the consumer passes ranges as it passes their records, and stores
//! `aux_tail` before `data_tail`. Overwrite: `aux_tail` is how far the newest range reaches round,
//! in bytes and not in ranges, so that nobody looks for boundaries; a record whose range begins before
//! it has lost its payload.

use crate::book::Count;
use crate::record::{
    BODY_LEN, Bounds, Corrupt, Found, Frame, Lost, Range, Record, Shape, body_at, step,
};
use crate::{POS_MAX, Reader, Refusal, Reserved, Ring, Wake, Writer, sane};
use perfring_abi::atomic::{AtomicU64, Ordering, fence};
use perfring_abi::{
    AUX_SIZE, Cause, Header, Layout, Policy, RANGE_ALIGN, RECORD_ALIGN, RecordType, RecordWord,
    aux_record, range_size, record_size,
};

/// The positions of the AUX area, if they are such as producers and consumers leave.
pub(crate) fn positions(ring: Ring<'_>, size: u64) -> Option<(u64, u64)> {
    let line = &ring.header.aux;
    let tail = line.tail.load(Ordering::Acquire); // D, pairs with C
    // Relaxed: of the producer's own side, M or the lock on its place ordered it.
    let head = line.head.load(Ordering::Relaxed);
    let sane = head.is_multiple_of(RANGE_ALIGN)
        && tail.is_multiple_of(RANGE_ALIGN)
        && head <= POS_MAX
        && tail <= head
        && head - tail <= size;
    sane.then_some((head, tail))
}

impl Ring<'_> {
    /// Copies a range of this AUX area: for who holds it.
    pub fn copy_range(self, aux: &[AtomicU64], range: Range, to: &mut [u64]) {
        copy(self, aux, range, to);
    }
}

/// Copies a range, and judges the copy: whether what was copied was the payload, and not what is
/// written over it.
pub(crate) fn copy(ring: Ring<'_>, aux: &[AtomicU64], range: Range, to: &mut [u64]) -> bool {
    let mask = (aux.len() as u64).wrapping_sub(1);
    for (to, at) in to.iter_mut().zip(range.at / 8..) {
        // Relaxed: A was acquired, and what is newer is thrown away.
        let word = aux.get((at & mask) as usize);
        *to = word.map_or(0, |word| word.load(Ordering::Relaxed));
    }
    is_whole(ring, range)
}

/// Whether nothing has been written over a range that was read before.
pub(crate) fn is_whole(ring: Ring<'_>, range: Range) -> bool {
    fence(Ordering::Acquire); // F, pairs with E
    ring.header.aux.tail.load(Ordering::Relaxed) <= range.at
}

/// The words of a range, if there is memory for them: a file may claim any size.
pub(crate) fn space_for(range: Range, space: &mut alloc::vec::Vec<u64>) -> Option<()> {
    let words = range.len.div_ceil(8);
    space.clear();
    space.try_reserve_exact(words).ok()?;
    space.resize(words, 0);
    Some(())
}

/// The loss of a record's payload, where the record still stands.
pub(crate) fn gone(frame: &Frame) -> Lost {
    Lost { pos: frame.pos, records: 1, bytes: frame.size, cause: Cause::Lapped }
}

/// Whether a ring has an AUX area, and what the exclusive producer knows of it.
#[derive(Debug)]
pub(crate) struct Area {
    size: u64,
    /// End of the last range that is committed.
    pos: u64,
    /// `aux_tail` when last looked at, or stored.
    tail: u64,
}

impl Area {
    /// Its bytes.
    #[inline(always)]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Takes over from the last producer. It may have died after it published a record and before
    /// it stored where the range ends: that is the last of the records from the book on.
    pub(crate) fn attach(
        ring: Ring<'_>,
        layout: &Layout,
        from: u64,
        head: u64,
    ) -> Result<Self, Corrupt> {
        let size = layout.aux_size;
        if size == 0 {
            return Ok(Area { size, pos: 0, tail: 0 });
        }
        let bad = Corrupt { pos: head };
        let line = &ring.header.aux;
        let shape = Shape { timed: false, aux: Bounds { size, floor: None } };
        let mut end = line.head.load(Ordering::Relaxed); // as in `positions`
        for record in ring.records(from, head) {
            let Record { pos, word, .. } = record?;
            if shape.is_large(word)
                && let Some(body) = body_at(ring, pos, word)
                && let Some((_, range)) = shape.large(pos, body)
            {
                end = end.max(range.end());
            }
        }
        line.head.store(end, Ordering::Release); // B of who looks whether all is read
        let (pos, tail) = positions(ring, size).ok_or(bad)?;
        Ok(Area { size, pos, tail })
    }
}

impl Reserved {
    /// Marks the lead of a reservation whose payload is to stand in the AUX area; the other bits are
    /// its position there.
    const LARGE: u64 = 1 << 63;

    pub(crate) fn large_lead(at: u64) -> u64 {
        Self::LARGE | at
    }

    /// Where the payload is to stand in the AUX area, if it is to stand there.
    #[must_use]
    #[inline(always)]
    pub fn range(&self) -> Option<Range> {
        if self.is_large() {
            Some(Range { at: self.lead & !Self::LARGE, len: self.len })
        } else {
            None
        }
    }

    #[inline(always)]
    pub(crate) fn is_large(&self) -> bool {
        self.lead & Self::LARGE != 0
    }

    /// The body of its record, with a payload of the first `len` bytes.
    pub(crate) fn body(&self, len: usize, time: u64, policy: Policy) -> [u64; aux_record::WORDS] {
        let mut body = [0; aux_record::WORDS];
        body[aux_record::OFFSET] = self.lead & !Self::LARGE;
        body[aux_record::LEN] = len as u64;
        body[aux_record::FLAGS] = match policy {
            Policy::Drop => 0,
            Policy::Overwrite => aux_record::OVERWRITE,
        };
        body[aux_record::TIME] = time;
        body[aux_record::ID] = self.kind.get().into();
        body
    }
}

pub(crate) fn write_body(ring: Ring<'_>, start: u64, body: [u64; aux_record::WORDS]) {
    for (word, nth) in body.into_iter().zip(1..) {
        // Relaxed: what publishes the record publishes it.
        ring.word(start + 8 * nth).store(word, Ordering::Relaxed);
    }
}

/// What a refused payload would have taken in a ring with an AUX area of `area` bytes and stamps of
/// `stamp`.
pub(crate) fn refused_size(area: u64, len: usize, stamp: usize) -> u64 {
    match area {
        0 => record_size(len.saturating_add(stamp)),
        _ => range_size(len).saturating_add(AUX_SIZE.into()),
    }
}

impl Writer {
    /// As [`Writer::try_reserve_at`], of a payload that is too long for the data area: its record's
    /// position, and its lead. Not what the caller's code knows: that would be forgotten there.
    #[cold]
    #[inline(never)]
    pub(crate) fn try_reserve_large(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        len: usize,
        now: u64,
    ) -> Result<(u64, u64), Refusal> {
        let ring = Ring::new(header, data);
        let Area { size, pos, tail } = self.area;
        let need = range_size(len);
        if need > size {
            return Err(Refusal::TooLarge { len, max: self.max_len() });
        }
        let mut to = tail;
        if pos + need - tail > size {
            to = match self.policy {
                Policy::Overwrite => pos + need - size,
                Policy::Drop => {
                    let tail = ring.header.aux.tail.load(Ordering::Acquire); // D, pairs with C
                    if !tail.is_multiple_of(RANGE_ALIGN) || !(self.area.tail..=pos).contains(&tail)
                    {
                        return Err(Refusal::Corrupt { tail });
                    }
                    if pos + need - tail > size {
                        return Err(Refusal::Full);
                    }
                    tail
                }
            };
        }
        let record = self.reserve_record(ring, RecordWord::aux())?;
        self.area.tail = to;
        if to != tail {
            if self.policy == Policy::Overwrite {
                // Relaxed: the fence orders it before what is written over the old.
                ring.header.aux.tail.store(to, Ordering::Relaxed);
            }
            fence(Ordering::Release); // E, pairs with F
        }
        self.rise(now);
        Ok((record, Reserved::large_lead(pos)))
    }

    /// Ends such a reservation, and publishes it with all that was held back. Returns whether a wake
    /// is owed.
    ///
    /// `aux_head` after `data_head`, as the kernel does it: a producer killed between the two leaves no
    /// range that has no record.
    ///
    /// All that it is told in scalars: what a call from the hot path can see has to be in memory.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "they are a ring and a reservation")]
    pub(crate) fn commit_large(
        &mut self,
        header: &Header,
        data: &[AtomicU64],
        start: u64,
        lead: u64,
        kind: RecordType,
        len: usize,
        wake: Wake,
    ) -> bool {
        let ring = Ring::new(header, data);
        let reserved = Reserved { start, kind, len, lead };
        write_body(ring, start, reserved.body(len, self.newest_stamp(), self.policy));
        self.area.pos += range_size(len);
        self.count_one(AUX_SIZE.into());
        let owed = self.publish(ring, wake);
        ring.header.aux.head.store(self.area.pos, Ordering::Release);
        owed
    }

    /// As [`Writer::tail_for`], of such a payload.
    pub(crate) fn tail_for_large(&self, ring: Ring<'_>, len: usize) -> u64 {
        let small = self.tail_for_record(ring, record_size(BODY_LEN));
        tail_for(ring, self.area.size, self.area.pos, len).max(small)
    }
}

/// The `data_tail` to wait for until there may be a range for a payload. Which one will do it nobody
/// knows: any that is further.
pub(crate) fn tail_for(ring: Ring<'_>, size: u64, pos: u64, len: usize) -> u64 {
    // This one first: the consumer stores it last. (D)
    let data_tail = ring.header.data_tail.load(Ordering::Acquire);
    let tail = ring.header.aux.tail.load(Ordering::Acquire);
    let lacks = pos.wrapping_add(range_size(len)).wrapping_sub(tail) > size;
    if lacks { data_tail.saturating_add(RECORD_ALIGN.into()) } else { 0 }
}

/// What the consumer of a drop ring knows of the AUX area.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) size: u64,
    /// End of the last range that was read.
    pub(crate) end: u64,
    /// What `aux_tail` holds.
    pub(crate) released: u64,
    /// Of a shared ring, seen at a release: `aux_head`, and where what was reserved by then ends.
    seen: (u64, u64),
}

impl Passed {
    pub(crate) fn attach(ring: Ring<'_>, size: u64) -> Self {
        // Relaxed: the last consumer's, whose lock this one has.
        let tail = if size == 0 { 0 } else { ring.header.aux.tail.load(Ordering::Relaxed) };
        // What no consumer leaves is damage to the first range that is read.
        let tail = if tail.is_multiple_of(RANGE_ALIGN) { tail.min(POS_MAX) } else { POS_MAX };
        Passed { size, end: tail, released: tail, seen: (0, 0) }
    }
}

impl Reader {
    /// Passes a range, with its record.
    pub fn pass_range(&mut self, range: &Range) {
        self.area.end = self.area.end.max(range.end());
    }

    /// The last consumer may have died after it stored `aux_tail` and before it stored `data_tail`.
    /// It had read all up to the last record whose range it gave up, and those ranges may be
    /// another payload's by now: they do not come again.
    pub(crate) fn pass_handed_back(&mut self, ring: Ring<'_>) {
        let Passed { size, released, .. } = self.area;
        let head = ring.header.data_head.load(Ordering::Acquire); // B, pairs with A
        if size == 0 || released == 0 || !sane(ring, head, self.cursor()) {
            return;
        }
        // Where a record is and what it takes: without time, whose stamp nobody asks for.
        let shape = Shape { timed: false, aux: Bounds { size, floor: None } };
        let (mut pos, mut count, mut handed) = (self.cursor(), Count::default(), None);
        // A producer may have died before it stored this.
        let mut aux_head = ring.header.aux.head.load(Ordering::Acquire);
        // What is no record is damage to who reads it.
        while let Ok(Some((found, after))) = step(ring, shape, pos, head) {
            match found {
                Found::Record(frame) => count.add(frame.size),
                // Not by its end: one without a byte may begin, and end, at `aux_tail`.
                Found::Large(_, range) if range.at >= released => break,
                Found::Large(frame, range) => {
                    count.add(frame.size);
                    handed = Some((after, count));
                    aux_head = aux_head.max(range.end());
                }
                Found::Lost(_) => {}
            }
            pos = after;
        }
        // What was never written nobody has handed back: that `aux_tail` is damage, and they come.
        if let Some((after, count)) = handed.filter(|_| released <= aux_head) {
            self.know(after);
            self.pass(after, count);
        }
    }

    /// Whether so much of the AUX area was read that it goes back to the producer.
    #[inline]
    pub(crate) fn area_is_due(&self) -> bool {
        let Passed { size, end, released, .. } = self.area;
        end - released > size / 8 && !self.holds()
    }

    /// Before `data_tail`: whoever waits for it finds both.
    #[inline]
    pub(crate) fn release_ranges(&mut self, ring: Ring<'_>, end: u64) {
        if end > self.area.released {
            self.area.released = end;
            ring.header.aux.tail.store(end, Ordering::Release); // C, pairs with D
        }
    }

    /// Where the ranges end that go back with everything before `pos`: those that were read before
    /// it, up to `range_end`, and those that dead producers and shortened commits of a shared ring
    /// left, which no record tells of.
    ///
    /// A range is stored in `aux_head` after its reservation is in `producer_pos`. So of an
    /// `aux_head` that was seen before some `producer_pos`, everything is nobody's once the consumer
    /// has passed that. To be looked at before each store of `data_tail`, and nowhere else: who waits
    /// for a range waits for that.
    #[cold]
    pub(crate) fn ranges_before(&mut self, ring: Ring<'_>, pos: u64, range_end: u64) -> u64 {
        let head = ring.header.aux.head.load(Ordering::Acquire);
        let upto = ring.header.shared.producer_pos.load(Ordering::Acquire);
        let Passed { size, released, seen, .. } = self.area;
        // The exclusive producer leaves nothing, and does not say where it is. Nor is nonsense asked.
        let sane = upto != 0
            && head.is_multiple_of(RANGE_ALIGN)
            && head >= released
            && head - released <= size;
        let now = if sane { (head, upto) } else { (0, 0) };
        let passed = |(head, upto): (u64, u64)| if pos >= upto { head } else { 0 };
        let end = range_end.max(passed(seen)).max(passed(now));
        if pos >= seen.1 {
            self.area.seen = now;
        }
        self.area.end = self.area.end.max(end);
        end
    }
}
