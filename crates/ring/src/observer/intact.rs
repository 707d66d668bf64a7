//! The snapshot: a copy of everything intact, while producers run at full speed.

use crate::aux_area;
use crate::lost::Lost;
use crate::read_error::ReadError;
use crate::record::{Bounds, Corrupt, FrameWords, Next, Place, RecordShape, Walk, words_of};
use crate::time::Anchors;
use crate::told::Told;
use crate::totals::{RingTotals, Stranded};
use crate::view::{POS_MAX, Ring, Shared};
use alloc::vec::Vec;
use perfring_abi::atomic::AtomicU64;
use perfring_abi::{Lead, Policy};

/// Bytes that are copied between two checks of the tail.
const CHUNK: u64 = 64 << 10;
/// How often the copy restarts because a producer wrapped around the whole ring meanwhile.
const TRIES: u32 = if cfg!(loom) { 2 } else { 16 };

/// A copy of the records that a ring held at one moment.
#[derive(Clone, Debug)]
pub struct RingCopy {
    start: u64,
    words: Vec<u64>,
    totals: RingTotals,
    shape: RecordShape,
    /// Payloads of the AUX area, by the position of their records; without overwritten payloads.
    large: Vec<(u64, Vec<u64>)>,
    /// The first record with a range that no producer wrote, if any.
    damage: Option<u64>,
    anchors: Anchors,
}

impl RingCopy {
    /// Copies everything intact.
    ///
    /// The copy proceeds from the newest record back to the oldest. A producer overwrites from the
    /// oldest on, so the two meet. The records behind the meeting point were intact when they were copied,
    /// and are kept.
    ///
    /// Records that are committed behind open reservations of dead producers are included. `is_dead` returns whether a
    /// slot's producer is dead.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if no producer leaves such positions;
    /// [`ReadError::OutOfMemory`].
    pub fn of(
        at: Shared<'_>,
        policy: Policy,
        is_dead: impl Fn(u32) -> bool,
    ) -> Result<Self, ReadError> {
        let ring = at.ring();
        let totals = RingTotals::of(at, policy, &is_dead).ok_or(Corrupt { pos: ring.tail() })?;
        let copy = |ring| copy(ring, Stranded::find(at, &is_dead).upto);
        let (mut start, mut words) = copy(ring)?;
        for _ in 1..TRIES {
            if !words.is_empty() || ring.tail() >= ring.head() {
                break;
            }
            (start, words) = copy(ring)?;
        }
        // After the copy: the anchor that a record needs was written before the record was
        // published.
        let anchors = Anchors::read(ring);
        let (shape, large, damage) = (RecordShape::default(), Vec::new(), None);
        Ok(RingCopy { start, words, totals, shape, large, damage, anchors })
    }

    /// Sets the fields that each record has before its payload.
    #[must_use]
    pub fn with_lead(self, lead: Lead) -> Self {
        RingCopy { shape: RecordShape { lead, ..self.shape }, ..self }
    }

    /// Adds the payloads in the ring's AUX area that are still intact; [`RingCopy::step`] reports
    /// the others as lost. Call it immediately after taking the snapshot.
    ///
    /// # Errors
    /// [`ReadError::OutOfMemory`] if there is no memory for a payload. Damage is found by
    /// [`RingCopy::step`] when it comes to it.
    pub fn with_aux(self, ring: Ring<'_>, aux: &[AtomicU64]) -> Result<Self, ReadError> {
        if aux.is_empty() {
            return Ok(self);
        }
        let bounds = Bounds { size: aux.len() as u64 * 8, floor: None };
        let mut snapshot = RingCopy { shape: RecordShape { aux: bounds, ..self.shape }, ..self };
        let (mut cursor, mut end, mut ranges) = (snapshot.start, 0, Vec::new());
        while let Ok(Some((found, after))) = snapshot.step_to(cursor) {
            if let Next::Record(Place::Aux(frame, range)) = found {
                if range.at < end {
                    snapshot.damage = Some(frame.pos);
                    break;
                }
                end = range.end();
                ranges.push((frame.pos, range));
            }
            cursor = after;
        }
        // From the newest on, because they are overwritten from the oldest on. The area's size limits the
        // copy, also for damaged records.
        for (pos, range) in ranges.into_iter().rev() {
            let mut words = Vec::new();
            if end - range.at > bounds.size || !aux_area::is_whole(ring, range) {
                break;
            }
            aux_area::space_for(range, &mut words)?;
            if aux_area::copy(ring, aux, range, &mut words) {
                snapshot.large.push((pos, words));
            }
        }
        Ok(snapshot)
    }

    /// Returns the position of the oldest record in it.
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the position after the newest.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.words.len() as u64 * 8
    }

    /// Returns the ring's totals, read just before the copy.
    #[must_use]
    pub fn totals(&self) -> &RingTotals {
        &self.totals
    }

    /// Returns the anchors, which convert its timestamps to wall-clock times.
    #[must_use]
    pub fn anchors(&self) -> &Anchors {
        &self.anchors
    }

    /// Returns the item at `cursor` or after it, with its payload and the position to continue from.
    /// Start from [`RingCopy::start`].
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid record.
    pub fn step(&self, cursor: u64) -> Result<Option<(Next<FrameWords<'_>>, u64)>, Corrupt> {
        let Some((found, after)) = self.step_to(cursor)? else {
            return Ok(None);
        };
        let frame = match found {
            Next::Lost(lost) => return Ok(Some((Next::Lost(lost), after))),
            Next::Record(Place::Ring(frame)) => {
                let (from, to) = (frame.payload_pos() - self.start, after - self.start);
                let words = &self.words[(from / 8) as usize..(to / 8) as usize];
                return Ok(Some((Next::Record((frame, words)), after)));
            }
            Next::Record(Place::Aux(frame, _)) => frame,
        };
        if self.damage.is_some_and(|damage| frame.pos >= damage) {
            return Err(Corrupt { pos: frame.pos });
        }
        // Sorted with the newest first.
        let at = self.large.binary_search_by(|(pos, _)| frame.pos.cmp(pos)).ok();
        Ok(Some(match at.and_then(|at| self.large.get(at)) {
            Some((_, words)) => (Next::Record((frame, words)), after),
            None => (Next::Lost(aux_area::lost_payload(&frame)), after),
        }))
    }

    /// Returns the losses that the producers had counted when the copy was made, without the losses that its markers report.
    pub fn unmarked(&self) -> impl Iterator<Item = Lost> + use<> {
        let producer = &self.totals.producer;
        let mut told = Told::of(producer.reported);
        // The copy may reach beyond the totals.
        let mut cursor = self.totals.head.max(self.start);
        while let Ok(Some((found, after))) = self.step_to(cursor) {
            if let Next::Lost(lost) = found {
                told.pass(lost);
            }
            cursor = after;
        }
        let (refused, end) = (producer.refused, self.end());
        core::iter::from_fn(move || told.next_of(refused, end))
    }

    #[inline(always)]
    fn step_to(&self, cursor: u64) -> Result<Option<(Next<Place>, u64)>, Corrupt> {
        if cursor < self.start {
            return Err(Corrupt { pos: cursor });
        }
        let load = |pos| self.words[((pos - self.start) / 8) as usize];
        for record in (Walk { pos: cursor, end: self.end(), load }) {
            let record = record?;
            if record.word.owner().is_some() {
                continue; // an open reservation of a dead producer
            }
            let body = &self.words[record.body_in(self.start)];
            if let Some(next) = self.shape.decode(record, words_of(body))? {
                return Ok(Some((next, record.end())));
            }
        }
        Ok(None)
    }
}

/// Returns the position of the oldest record, and everything from there to the head. Empty if the
/// producer wrapped around once while the first chunk was copied.
fn copy(ring: Ring<'_>, head: u64) -> Result<(u64, Vec<u64>), ReadError> {
    let mut tail = ring.tail();
    if !head.is_multiple_of(8) || !tail.is_multiple_of(8) || head > POS_MAX {
        return Err(ReadError::Corrupt { pos: tail });
    }
    tail = tail.min(head);
    if head - tail >= ring.data_size() {
        return Err(ReadError::Corrupt { pos: tail });
    }
    let first = tail;
    let at = |pos: u64| ((pos - first) / 8) as usize;
    // A file may claim any size, more than the available memory: do not abort for that.
    let mut words = Vec::new();
    let bytes = head - tail;
    words.try_reserve_exact(at(head)).map_err(|_| ReadError::OutOfMemory { bytes })?;
    words.resize(at(head), 0);
    let mut from = head;
    while from > tail {
        let chunk = from.saturating_sub(CHUNK).max(tail);
        ring.copy_out(chunk, &mut words[at(chunk)..at(from)]);
        from = chunk;
        let now = ring.tail(); // F
        if now < tail || !now.is_multiple_of(8) {
            return Err(ReadError::Corrupt { pos: now });
        }
        tail = now.min(head);
    }
    words.drain(..at(tail));
    Ok((tail, words))
}
