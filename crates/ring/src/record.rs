//! Records: their test, their places, and the walk over them.
//!
//! A header word is a record's if the length of its payload can be derived from it and the record
//! ends at or before the end of the walk: [`payload_of`] is the only test. A size that is no
//! multiple of eight would lead between records. A size below the header's would not advance. A size
//! beyond the end would lead into unpublished bytes. Padding that does not fit into the
//! record is a length that no producer writes. A walk reports any of these as damage at that
//! position.

use crate::counters::{Count, Refused};
use crate::lost::Lost;
use crate::view::{POS_MAX, Ring, Shared, sane};
use perfring_abi::atomic::Ordering;
use perfring_abi::{
    AUX_SIZE, Cause, HEADER_LEN, Lead, RANGE_ALIGN, RecordType, RecordWord, WriterId, aux_record,
    range_size,
};

/// Returns the payload's length, if a record with this word fits into the `left` bytes that are
/// left.
#[inline(always)]
pub(crate) fn payload_of(word: RecordWord, left: u64) -> Option<usize> {
    match word.payload_len() {
        Some(len) if word.size() <= left => Some(len),
        _ => None,
    }
}

/// A record that a walk has found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordAt {
    pub(crate) pos: u64,
    pub(crate) word: RecordWord,
    /// Bytes after the header, without the padding.
    pub(crate) len: usize,
}

impl RecordAt {
    pub(crate) fn size(&self) -> u64 {
        self.word.size()
    }

    pub(crate) fn end(&self) -> u64 {
        self.pos + self.word.size()
    }

    /// The words after its header, as a range of a copy that begins at `from`.
    pub(crate) fn body_in(&self, from: u64) -> core::ops::Range<usize> {
        let at = ((self.pos - from) / 8) as usize;
        at + 1..at + (self.word.size() / 8) as usize
    }
}

/// Iterates over the records between two record boundaries. From the first word that is no record
/// on, it returns [`Corrupt`] without end. `load` reads a header word: with the ordering that its
/// caller needs, or from a copy.
#[derive(Debug)]
pub(crate) struct Walk<L> {
    pub(crate) pos: u64,
    pub(crate) end: u64,
    pub(crate) load: L,
}

impl<L: FnMut(u64) -> u64> Iterator for Walk<L> {
    type Item = Result<RecordAt, Corrupt>;

    #[inline(always)]
    fn next(&mut self) -> Option<Result<RecordAt, Corrupt>> {
        let pos = self.pos;
        if pos >= self.end {
            return None;
        }
        let word = RecordWord::from_raw((self.load)(pos));
        let Some(len) = payload_of(word, self.end - pos) else {
            return Some(Err(Corrupt { pos }));
        };
        #[cfg(all(test, not(loom)))]
        crate::steps::step();
        self.pos = pos + word.size();
        Some(Ok(RecordAt { pos, word, len }))
    }
}

/// How many records [`Walk::passes_group`] checks together.
pub(crate) const GROUP: usize = 7;

impl<L: FnMut(u64) -> u64> Walk<L> {
    /// Passes the next [`GROUP`] records if all have the header word of the last one, `word`. Returns whether it
    /// did. No step waits for the header before it, as in `next`.
    #[inline(always)]
    pub(crate) fn passes_group(&mut self, word: RecordWord) -> bool {
        let (size, all) = (word.size(), GROUP as u64 * word.size());
        let pos = self.pos;
        let alike = self.end - pos >= all
            && (0..GROUP as u64).all(|nth| (self.load)(pos + nth * size) == word.raw());
        if alike {
            self.pos = pos + all;
        }
        alike
    }
}

impl<'a> Ring<'a> {
    /// The records between two positions, by relaxed loads. The caller has acquired a head that is
    /// not before `end` (B), or wrote the records itself, or checks the tail afterwards to find out
    /// whether they were overwritten (F).
    #[inline]
    pub(crate) fn records(self, pos: u64, end: u64) -> Walk<impl FnMut(u64) -> u64 + use<'a>> {
        Walk { pos, end, load: move |pos| self.load(pos) }
    }
}

impl<'a> Shared<'a> {
    /// The records between two positions beyond `data_head`, including open reservations. A record that
    /// has ended is complete (N).
    pub(crate) fn records(self, pos: u64, end: u64) -> Walk<impl FnMut(u64) -> u64 + use<'a>> {
        Walk { pos, end, load: move |pos| self.word_at(pos).raw() }
    }

    /// The records from `head`, a `data_head`, to `producer_pos`, including open reservations. Empty if
    /// the two positions do not belong to one ring, because a walk between them would not end.
    pub(crate) fn unpublished(
        self,
        head: u64,
    ) -> impl Iterator<Item = Result<RecordAt, Corrupt>> + use<'a> {
        self.unpublished_from(head, head)
    }

    /// The records of [`Shared::unpublished`] from a position on. If that position is published by now, all of them.
    pub(crate) fn unpublished_from(
        self,
        head: u64,
        from: u64,
    ) -> impl Iterator<Item = Result<RecordAt, Corrupt>> + use<'a> {
        let end = self.producer_pos();
        let end = if sane(self.ring, end, head) { end } else { head };
        self.records(from.max(head), end)
    }
}

/// The ring holds at `pos` something that no perfring producer writes there. Records before it
/// remain valid; nothing is known of what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The position of the damage.
    pub pos: u64,
}

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the ring is damaged at position {}: no record can stand there", self.pos)
    }
}

impl core::error::Error for Corrupt {}

/// The position and properties of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The position of its header.
    pub pos: u64,
    /// `type`.
    pub kind: u32,
    /// The payload's length in bytes.
    pub len: usize,
    /// The bytes that it uses in the ring.
    pub size: u64,
    /// Its timestamp, in a timed ring: ns.
    pub time: Option<u64>,
    /// The process and thread that wrote it, in a ring with [`Lead::SampleId`].
    pub writer: Option<WriterId>,
    /// The fields before its payload.
    pub lead: Lead,
}

impl Frame {
    /// Returns the position at which the payload begins.
    #[must_use]
    #[inline]
    pub fn payload_pos(&self) -> u64 {
        self.pos + u64::from(HEADER_LEN) + self.lead.len() as u64
    }
}

/// The next item of a ring, at each stage between the ring and the program. `R` is the record at that stage: its [`Place`],
/// its frame with a copy of its words, or a record with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<R> {
    /// A record.
    Record(R),
    /// Records that are missing here.
    Lost(Lost),
}

impl<R> Next<R> {
    /// Converts the record, if this is a record.
    #[inline(always)]
    pub fn map<S>(self, record: impl FnOnce(R) -> S) -> Next<S> {
        match self {
            Next::Record(found) => Next::Record(record(found)),
            Next::Lost(lost) => Next::Lost(lost),
        }
    }
}

/// A record whose payload was copied, and its words.
pub type FrameWords<'a> = (Frame, &'a [u64]);

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Its payload is in the ring.
    Ring(Frame),
    /// Its payload is in the AUX area.
    Aux(Frame, AuxRange),
}

impl Place {
    /// Returns the record's position and properties.
    #[must_use]
    #[inline(always)]
    pub fn frame(&self) -> &Frame {
        match self {
            Place::Ring(frame) | Place::Aux(frame, _) => frame,
        }
    }

    /// Returns the payload's range, if the payload is in the AUX area.
    #[must_use]
    #[inline(always)]
    pub fn range(&self) -> Option<AuxRange> {
        match self {
            Place::Ring(_) => None,
            Place::Aux(_, range) => Some(*range),
        }
    }
}

/// Returns the next item at or after `cursor` and before `head`, with the position after it.
/// Holes are skipped. `head` is acquired, so everything before it is stable until it is released.
#[inline(always)]
pub(crate) fn step(
    ring: Ring<'_>,
    shape: RecordShape,
    cursor: u64,
    head: u64,
) -> Result<Option<(Next<Place>, u64)>, Corrupt> {
    for record in ring.records(cursor, head) {
        let record = record?;
        if let Some(next) = shape.decode(record, ring.body(record.pos))? {
            return Ok(Some((next, record.end())));
        }
    }
    Ok(None)
}

impl<'a> Ring<'a> {
    /// The words after the header at `pos`, by relaxed loads, as for the header.
    #[inline]
    pub(crate) fn body(self, pos: u64) -> impl Fn(usize) -> u64 + use<'a> {
        move |nth| self.load(pos + u64::from(HEADER_LEN) + 8 * nth as u64)
    }
}

/// Returns the frame of a record whose payload follows its header; `None` if the record is too short for the fields before
/// the payload. `nth` loads a word of its body.
#[inline(always)]
pub(crate) fn split(lead: Lead, record: RecordAt, nth: impl Fn(usize) -> u64) -> Option<Frame> {
    let (time, writer) = match lead {
        Lead::None => (None, 0),
        Lead::Time => (Some(nth(0)), 0),
        Lead::SampleId => (Some(nth(0)), nth(1)),
    };
    // Converted from one word in every case, so that it is stored as one word: a load of the whole would wait for two
    // stores of halves.
    let writer = WriterId::from_word(writer);
    let RecordAt { pos, word, len } = record;
    let len = len.checked_sub(lead.len())?;
    Some(Frame { pos, kind: word.kind(), len, size: word.size(), time, writer, lead })
}

/// Returns the frame of a record whose body was copied, and the payload's words. One function does both, because the words
/// before the payload are checked together with it.
#[inline(always)]
pub(crate) fn split_body(lead: Lead, record: RecordAt, body: &[u64]) -> Option<(Frame, &[u64])> {
    let (time, writer, payload) = match (lead, body) {
        (Lead::None, payload) => (None, None, payload),
        (Lead::Time, [time, payload @ ..]) => (Some(*time), None, payload),
        (Lead::SampleId, [time, writer, payload @ ..]) => {
            (Some(*time), WriterId::from_word(*writer), payload)
        }
        _ => return None,
    };
    let RecordAt { pos, word, len } = record;
    let len = len.checked_sub(lead.len())?;
    Some((Frame { pos, kind: word.kind(), len, size: word.size(), time, writer, lead }, payload))
}

/// The words of a copied body, as [`split`] loads them.
#[inline(always)]
pub(crate) fn words_of(body: &[u64]) -> impl Fn(usize) -> u64 {
    move |nth| body.get(nth).copied().unwrap_or(0)
}

/// Returns the loss that a `PERF_RECORD_LOST` reports. perfring's marker has the bytes; the marker of another perf writer may
/// lack them.
#[cold]
pub(crate) fn lost_of(record: RecordAt, nth: impl Fn(usize) -> u64) -> Option<Lost> {
    let words = record.size() / 8 - 1;
    if words < 2 {
        return None;
    }
    let (cause, records) = (Cause::from_code(nth(0)), nth(1));
    let bytes = if words > 2 { nth(2) } else { 0 };
    Some(Lost { pos: record.pos, records, bytes, cause, at_end: false })
}

/// Writes a `PERF_RECORD_LOST` for each cause with losses, from `pos` on. Returns how many it
/// wrote.
pub(crate) fn write_lost(ring: Ring<'_>, pos: u64, losses: Refused) -> u64 {
    let mut words = (pos..).step_by(8);
    let mut markers = 0;
    let lost = losses.by_cause().into_iter().filter(|(_, lost)| *lost != Count::default());
    for (cause, Count { records, bytes }) in lost {
        let marker = [RecordWord::lost().raw(), cause.code(), records, bytes];
        for (word, at) in marker.into_iter().zip(&mut words) {
            // Relaxed: A or O publishes it.
            ring.word(at).store(word, Ordering::Relaxed);
        }
        markers += 1;
    }
    markers
}

/// Bytes of the body of a `PERF_RECORD_AUX`.
pub(crate) const BODY_LEN: usize = (AUX_SIZE - HEADER_LEN) as usize;

/// A payload in the AUX area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxRange {
    /// The position in that area at which it begins.
    pub at: u64,
    /// Its length in bytes; it is padded to a multiple of 64.
    pub len: usize,
}

impl AuxRange {
    /// Returns where the next range can begin.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at.saturating_add(range_size(self.len))
    }
}

/// The limits of ranges that readers know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// The area's size in bytes; 0 for a ring without an area.
    pub(crate) size: u64,
    /// The position before which no range begins, if the caller knows it. No range ends more than `size` after it.
    pub(crate) floor: Option<u64>,
}

/// The shape of the records in a ring.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordShape {
    pub(crate) lead: Lead,
    pub(crate) aux: Bounds,
}

impl RecordShape {
    /// Decodes a record, or a loss; `None` for a hole. `nth` loads a word of its body.
    #[inline(always)]
    pub(crate) fn decode(
        self,
        record: RecordAt,
        nth: impl Fn(usize) -> u64,
    ) -> Result<Option<Next<Place>>, Corrupt> {
        let (word, bad) = (record.word, Corrupt { pos: record.pos });
        if self.is_large(word) {
            let (frame, range) = self.large(record, nth).ok_or(bad)?;
            return Ok(Some(Next::Record(Place::Aux(frame, range))));
        }
        if word.is_data() {
            let frame = split(self.lead, record, nth).ok_or(bad)?;
            return Ok(Some(Next::Record(Place::Ring(frame))));
        }
        if word.kind() == RecordType::LOST {
            return Ok(Some(Next::Lost(lost_of(record, nth).ok_or(bad)?)));
        }
        Ok(None)
    }

    /// Decodes the range that the body of a record describes. `None` if no producer writes such a
    /// body. A ring without an AUX area does not call this, because such a record is another writer's.
    pub(crate) fn large(
        self,
        record: RecordAt,
        nth: impl Fn(usize) -> u64,
    ) -> Option<(Frame, AuxRange)> {
        if record.size() != AUX_SIZE.into() {
            return None;
        }
        let (pos, body): (_, [u64; aux_record::WORDS]) = (record.pos, core::array::from_fn(nth));
        let Bounds { size, floor } = self.aux;
        let (at, len) = (body[aux_record::OFFSET], body[aux_record::LEN]);
        let kind = u32::try_from(body[aux_record::ID]).ok().and_then(RecordType::new)?;
        if len > size || at > POS_MAX || !at.is_multiple_of(RANGE_ALIGN) {
            return None;
        }
        let range = AuxRange { at, len: len as usize };
        if floor.is_some_and(|floor| at < floor || range.end() - floor > size) {
            return None;
        }
        let time = (self.lead != Lead::None).then_some(body[aux_record::TIME]);
        let (len, size, writer, lead) = (range.len, AUX_SIZE.into(), None, self.lead);
        Some((Frame { pos, kind: kind.get(), len, size, time, writer, lead }, range))
    }

    /// Returns whether the payload of a record with this word may be in the AUX area.
    pub(crate) fn is_large(self, word: RecordWord) -> bool {
        self.aux.size != 0 && word.kind() == RecordType::AUX
    }
}
