//! The plain list: everything that was ever granted in a ring, in the order of positions.

use perfring_abi::{Lead, RecordWord, WriterId};
use perfring_ring::{Count, Frame, Lost, Refused};
use std::num::NonZeroU32;

/// What is in a part of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reserved by the producer in this slot.
    Open(u32),
    Data {
        id: u64,
        len: usize,
        time: Option<u64>,
    },
    Discarded,
    Reclaimed,
    /// What a shorter record, or a batch, left of its reservation.
    Rest,
    /// Losses for this cause, by its index.
    Marker(usize, Count),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) pos: u64,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
}

/// What the parts before a position are, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) data: Count,
    pub(crate) discarded: Count,
    pub(crate) reclaimed: Count,
    pub(crate) reported: [Count; 4],
    pub(crate) markers: u64,
}

pub(crate) fn add(count: &mut Count, bytes: u64) {
    *count = count.plus(Count { records: 1, bytes });
}

#[derive(Debug, Default)]
pub(crate) struct Expected {
    parts: Vec<Part>,
    /// Refused in each slot, by cause, and not yet reported.
    pub(crate) unreported: [[Count; 4]; 8],
}

impl Expected {
    pub(crate) fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.pos + part.size)
    }

    /// Where `data_head` is if no reservation has ended unnoticed.
    pub(crate) fn head(&self) -> u64 {
        let open = |part: &&Part| matches!(part.kind, Kind::Open(_));
        self.parts.iter().find(open).map_or(self.end(), |part| part.pos)
    }

    pub(crate) fn from(&self, pos: u64) -> &[Part] {
        &self.parts[self.parts.partition_point(|part| part.pos < pos)..]
    }

    pub(crate) fn at(&self, pos: u64) -> Option<Part> {
        self.from(pos).first().copied().filter(|part| part.pos == pos)
    }

    pub(crate) fn before(&self, pos: u64) -> Option<Part> {
        let at = self.parts.partition_point(|part| part.pos < pos);
        at.checked_sub(1).map(|at| self.parts[at])
    }

    pub(crate) fn is_boundary(&self, pos: u64) -> bool {
        pos == self.end() || self.at(pos).is_some()
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (u64, u32)> {
        self.parts.iter().filter_map(|part| match part.kind {
            Kind::Open(slot) => Some((part.pos, slot)),
            _ => None,
        })
    }

    /// The producer in a slot has been granted `size` bytes at `start`. Before that it has reported
    /// all its losses or none.
    pub(crate) fn granted(&mut self, slot: u32, start: u64, size: u64, kind: Kind) {
        self.reported_until(slot, start);
        self.parts.push(Part { pos: start, size, kind });
    }

    /// Takes what is between the end and a position for markers of this slot.
    pub(crate) fn reported_until(&mut self, slot: u32, pos: u64) {
        if pos == self.end() {
            return;
        }
        let losses = std::mem::take(&mut self.unreported[slot as usize]);
        for (cause, lost) in losses.into_iter().enumerate().filter(|(_, lost)| lost.records > 0) {
            let pos = self.end();
            self.parts.push(Part { pos, size: 32, kind: Kind::Marker(cause, lost) });
        }
        assert_eq!(self.end(), pos, "markers of all causes, and nothing else");
    }

    pub(crate) fn unreported_causes(&self, slot: u32) -> u64 {
        let losses = &self.unreported[slot as usize];
        losses.iter().filter(|lost| lost.records > 0).count() as u64
    }

    /// The reservation at `pos` has ended as these parts.
    pub(crate) fn ended(&mut self, pos: u64, kinds: &[(u64, Kind)]) {
        let at = self.parts.partition_point(|part| part.pos < pos);
        assert!(matches!(self.parts[at].kind, Kind::Open(_)));
        let (mut next, end) = (pos, pos + self.parts[at].size);
        let parts = kinds.iter().map(|&(size, kind)| {
            let part = Part { pos: next, size, kind };
            next += size;
            part
        });
        let parts: Vec<_> = parts.filter(|part| part.size > 0).collect();
        assert_eq!(next, end);
        self.parts.splice(at..=at, parts);
    }

    /// What is between two positions.
    pub(crate) fn sums(&self, from: u64, to: u64) -> Sums {
        let mut sums = Sums::default();
        for part in self.from(from).iter().take_while(|part| part.pos < to) {
            match part.kind {
                Kind::Open(_) => {}
                Kind::Data { .. } => add(&mut sums.data, part.size),
                Kind::Discarded => add(&mut sums.discarded, part.size),
                Kind::Reclaimed => add(&mut sums.reclaimed, part.size),
                Kind::Rest => sums.discarded.bytes += part.size,
                Kind::Marker(cause, lost) => {
                    sums.reported[cause] = sums.reported[cause].plus(lost);
                    sums.markers += 1;
                }
            }
        }
        sums
    }

    /// Checks what a reader got at a position. Returns the record's id.
    pub(crate) fn check_record(&self, frame: &Frame, words: &[u64]) -> u64 {
        let &Frame { pos, len, time, writer, .. } = frame;
        let part = self.at(pos).unwrap_or_else(|| panic!("no record begins at {pos}"));
        let Kind::Data { id, .. } = part.kind else { panic!("{part:?} is no record") };
        assert_eq!(part.kind, Kind::Data { id, len, time });
        assert_eq!(words, payload(id, len), "a torn record at {pos}");
        let said = (frame.lead == Lead::SampleId).then(|| who((id >> 48) as u32));
        assert_eq!(writer, said, "who wrote the record at {pos}");
        id
    }

    pub(crate) fn check_marker(&self, lost: Lost) {
        let part = self.at(lost.pos).unwrap_or_else(|| panic!("no marker at {lost:?}"));
        let Kind::Marker(cause, count) = part.kind else { panic!("{part:?} is no marker") };
        assert_eq!(Count { records: lost.records, bytes: lost.bytes }, count);
        assert_eq!(lost.cause, perfring_abi::Cause::REFUSED[cause]);
    }
}

/// Who published a record, and its number there.
pub(crate) fn id(slot: u32, number: u64) -> u64 {
    u64::from(slot) << 48 | number
}

/// The thread of the producer in a slot.
pub(crate) fn who(slot: u32) -> WriterId {
    WriterId { pid: NonZeroU32::MIN.saturating_add(slot), tid: 100 * (slot + 1) }
}

/// The payload of a record, as words with zeros behind.
pub(crate) fn payload(id: u64, len: usize) -> Vec<u64> {
    let words = len.div_ceil(8);
    let word = |at: usize| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64 + 1) << 32 ^ id;
    let mut words: Vec<_> = (0..words).map(word).collect();
    if !len.is_multiple_of(8) {
        let last = words.last_mut().unwrap();
        *last = u64::from_ne_bytes({
            let mut bytes = last.to_ne_bytes();
            bytes[len % 8..].fill(0);
            bytes
        });
    }
    words
}

pub(crate) fn bytes(words: &[u64], len: usize) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).take(len).collect()
}

pub(crate) fn all(refused: &Refused) -> [Count; 4] {
    refused.by_cause().map(|(_, count)| count)
}

/// Returns whether a word is that of an open reservation of this slot.
pub(crate) fn is_open(raw: u64, slot: u32) -> bool {
    RecordWord::from_raw(raw).owner() == Some(slot)
}
