//! Reservations: the ring is closed while one is open.

use super::expected::{Kind, add, bytes, payload};
use super::world::{Held, KIND, ROUNDS, What, World};
use perfring_ring::Wake;
use std::sync::atomic::Ordering::Relaxed;

impl World<'_> {
    pub(super) fn reserve(&mut self, slot: u32) {
        let (len, now) = (self.len(), self.now());
        for _ in 0..ROUNDS {
            if !self.close(slot) {
                return;
            }
            let (at, old) = (self.at(), self.newest());
            let writer = self.writers[slot as usize].as_mut().unwrap();
            match writer.reserve(at, &self.liveness, KIND, len, now) {
                Ok(reserved) => {
                    let (start, time) = (reserved.pos(), self.timed().then(|| now.max(old)));
                    self.granted(slot, start, self.size_of(len), Kind::Open(slot));
                    let id = self.new_id(slot);
                    let words = bytes(&payload(id, len), len);
                    self.writer(slot).fill(at, &reserved, &words);
                    self.open.push(Held { slot, start, what: What::One { reserved, id, time } });
                    return;
                }
                Err(refusal) => {
                    if self.refused(slot, refusal, len) {
                        return;
                    }
                }
            }
        }
    }

    pub(super) fn batch(&mut self, slot: u32) {
        let (asked, now) = (8 + self.rng.below(400), self.now());
        let size = asked.next_multiple_of(8).max(self.size_of(0));
        for _ in 0..ROUNDS {
            if !self.close(slot) {
                return;
            }
            let (at, old) = (self.at(), self.newest());
            let writer = self.writers[slot as usize].as_mut().unwrap();
            match writer.reserve_span(at, &self.liveness, asked, now) {
                Ok(mut span) => {
                    let start = self.heap.header().shared.producer_pos.load(Relaxed) - size;
                    self.granted(slot, start, size, Kind::Open(slot));
                    let mut records = Vec::new();
                    for _ in 0..self.rng.below(5) {
                        let len = self.rng.index(80);
                        let writer = self.writers[slot as usize].as_ref().unwrap();
                        let Some(next) = writer.next_in_span(at, &mut span, KIND, len) else {
                            break;
                        };
                        let id = self.new_id(slot);
                        let writer = self.writers[slot as usize].as_ref().unwrap();
                        writer.fill(at, &next, &bytes(&payload(id, len), len));
                        records.push((id, len));
                    }
                    let time = self.timed().then(|| now.max(old));
                    let what = What::Batch { span, records, time };
                    self.open.push(Held { slot, start, what });
                    return;
                }
                Err(refusal) => {
                    let len = (size - self.size_of(0)) as usize;
                    if self.refused(slot, refusal, len) {
                        return;
                    }
                }
            }
        }
    }

    /// Ends some reservation.
    pub(crate) fn end_one(&mut self) {
        let free = |held: &&Held| !self.busy.contains(&held.slot);
        let starts: Vec<_> = self.open.iter().filter(free).map(|held| held.start).collect();
        if starts.is_empty() {
            return;
        }
        let start = starts[self.rng.index(starts.len())];
        let nth = self.open.iter().position(|held| held.start == start).unwrap();
        let Held { slot, start, what } = self.open.remove(nth);
        let (at, how, half) = (self.at(), self.rng.below(4), self.one_in(2));
        let whole = self.expected.at(start).unwrap().size;
        let (writer, own) =
            (self.writers[slot as usize].as_mut().unwrap(), &mut self.own[slot as usize]);
        let record_size = |len| self.heap.layout().record_size(len);
        let ends = match what {
            What::One { reserved, .. } if how == 0 => {
                let _ = writer.discard(at, &self.liveness, reserved);
                vec![(whole, Kind::Discarded)]
            }
            What::One { reserved, id, time } => {
                let len = if half { reserved.len() / 16 * 8 } else { reserved.len() };
                let _ = writer.commit(at, &self.liveness, reserved, len, Wake::Auto);
                let size = record_size(len);
                add(&mut own.written, size);
                vec![(size, Kind::Data { id, len, time }), (whole - size, Kind::Rest)]
            }
            What::Batch { span, records, time } => {
                let left = span.left();
                let _ = writer.commit_span(at, &self.liveness, span, Wake::Auto);
                let mut ends = Vec::new();
                for &(id, len) in &records {
                    add(&mut own.written, record_size(len));
                    ends.push((record_size(len), Kind::Data { id, len, time }));
                }
                ends.push((left, if records.is_empty() { Kind::Discarded } else { Kind::Rest }));
                ends
            }
        };
        if let [(size, Kind::Discarded)] = ends[..] {
            add(&mut own.discarded, size);
        }
        self.expected.ended(start, &ends);
        self.tally.ended += 1;
    }
}
