//! Those who read, and what must hold after every step.

use super::expected::{Sums, all};
use super::world::{SLOTS, World};
use crate::model::told;
use perfring_abi::{Cause, Evict, Policy};
use perfring_ring::{
    CopyReader, Count, Fences, Next, Place, Reader, RingCopy, RingTotals, Seat, Start,
    newest_timestamp,
};
use std::sync::atomic::Ordering::Relaxed;

/// A reader's last record of each producer.
#[derive(Debug, Default)]
pub(crate) struct Order([u64; SLOTS as usize]);

impl Order {
    fn check(&mut self, id: u64) {
        let last = &mut self.0[(id >> 48) as usize];
        assert!(*last < id, "each producer's records in their order, once");
        *last = id;
    }
}

impl World<'_> {
    pub(super) fn attach_readers(&mut self) {
        let (ring, lead) = (self.ring(), self.heap.layout().lead());
        let slots = self.heap.layout().loss_slots();
        if self.policy == Policy::Drop {
            let reader = Reader::attach(ring, Fences::Full).unwrap().with_lead(lead);
            self.reader = Some(reader.with_losses(self.heap.shared(), slots));
            self.read_order = Order::default();
            self.read_told = self.reader.as_ref().unwrap().resume_point().saved().told;
        }
        let start = if self.one_in(4) { Start::Latest } else { Start::Oldest };
        let observer = CopyReader::new(ring, self.policy, start).unwrap().with_lead(lead);
        self.observer = observer.with_losses(self.heap.shared(), slots);
        self.seen_order = Order::default();
        self.seen_told = self.observer.saved().told;
    }

    pub(super) fn read(&mut self) {
        let (ring, most) = (self.ring(), self.rng.below(self.ring().data_size()));
        let at = self.heap.shared();
        let Some(reader) = &mut self.reader else { return };
        let upto = reader.cursor() + most;
        let mut next = reader.cursor();
        while reader.cursor() < upto
            && let Some(found) = reader.next(ring).unwrap().0
        {
            let missed = match found {
                Next::Record(Place::Ring(frame)) => {
                    let words =
                        (0..frame.len.div_ceil(8) as u64).map(|nth| frame.payload_pos() + 8 * nth);
                    let words: Vec<_> = words.map(|pos| ring.load(pos)).collect();
                    let id = self.expected.check_record(&frame, &words);
                    self.read_order.check(id);
                    self.tally.read += 1;
                    self.expected.sums(next, frame.pos)
                }
                Next::Lost(lost) => {
                    told::note(&mut self.read_told, lost);
                    self.expected.sums(next, lost.pos)
                }
                Next::Record(Place::Aux(..)) => panic!("there is no AUX area"),
            };
            assert_eq!(missed.data, Count::default(), "nothing is left out");
            next = reader.cursor();
        }
        let markers = self.expected.sums(0, reader.cursor()).reported;
        let all_told = all(&self.read_told).into_iter().zip(markers);
        assert!({ all_told }.all(|(told, marked)| told.records >= marked.records), "markers");
        if reader.cursor() == ring.head() && self.one_in(2) {
            let reader = self.reader.as_mut().unwrap();
            while let Some(lost) = reader.lost(at, true) {
                assert_eq!(lost.pos, ring.head());
                told::note(&mut self.read_told, lost);
            }
            assert_eq!(all(&self.read_told), self.refused, "everything is told at the end");
        }
        let reader = self.reader.as_ref().unwrap();
        assert_eq!(reader.resume_point().saved().told, self.read_told);
        assert!(reader.cursor() <= self.expected.head());
        let release = self.rng.below(4) != 0;
        if release {
            let _ = self.reader.as_mut().unwrap().release(ring);
        }
    }

    pub(super) fn observe(&mut self) {
        let at = self.heap.shared();
        for _ in 0..self.rng.below(60) {
            let from = self.observer.saved().pos;
            let Some(seen) = self.observer.next_in(at, &[]).unwrap() else {
                // That was a look into one slot.
                while let Some(lost) = self.observer.lost(at, true) {
                    told::note(&mut self.seen_told, lost);
                }
                assert_eq!(all(&self.seen_told), self.refused, "everything is told at the end");
                break;
            };
            let missed = match seen {
                Next::Record((frame, words)) => {
                    let id = self.expected.check_record(&frame, words);
                    self.seen_order.check(id);
                    self.tally.seen += 1;
                    self.expected.sums(from, frame.pos).data
                }
                Next::Lost(lost) if lost.cause == Cause::Lapped => {
                    self.tally.lapped += lost.records;
                    let lapped = self.expected.sums(from, self.observer.saved().pos).data;
                    lapped.since(Count { records: lost.records, bytes: lost.bytes })
                }
                Next::Lost(lost) => {
                    told::note(&mut self.seen_told, lost);
                    self.expected.sums(from, lost.pos).data
                }
            };
            assert_eq!(missed, Count::default(), "nothing is left out");
        }
        let saved = self.observer.saved();
        assert_eq!(saved.told, self.seen_told);
        let told = all(&self.seen_told).into_iter().zip(self.refused);
        assert!({ told }.all(|(told, counted)| told.records <= counted.records), "too much");
        assert_eq!(saved.before, self.expected.sums(0, saved.pos).data);
    }

    pub(crate) fn check(&mut self) {
        self.sync();
        let (header, ring) = (self.heap.header(), self.ring());
        let (tail, head) = (ring.tail(), ring.head());
        let end = header.shared.producer_pos.load(Relaxed).max(head);
        assert_eq!((head, end), (self.expected.head(), self.expected.end()));
        assert!(tail <= head && end - tail < ring.data_size());
        let dead = self.liveness.dead.borrow();
        assert!(self.at().locked_by().is_none_or(|slot| dead.contains(&slot)), "the lock is free");
        drop(dead);
        if self.is_open() {
            assert_eq!(self.expected.open().next(), None, "an open ring has nothing reserved");
            assert_eq!(head, end);
            let limit = header.cpu.limit.load(Relaxed);
            assert!(limit - tail < ring.data_size(), "no sequence overwrites what is present");
        }
        self.check_tail(tail);
        self.check_totals(head);
        self.check_contents(tail, head);
        self.check_slots();
    }

    /// A tail moves where a reader releases, or as far as a producer needs room.
    fn check_tail(&mut self, tail: u64) {
        assert!(tail >= self.tail && self.expected.is_boundary(tail));
        let last = self.expected.before(tail).filter(|last| last.pos >= self.tail);
        if let (Policy::Overwrite, Some(last)) = (self.policy, last) {
            let size = self.ring().data_size();
            let more = match self.heap.layout().evict {
                Evict::Exact => 0,
                Evict::Half => size / 2,
            };
            assert!(self.room + more - last.pos >= size, "evicted without need");
        }
        self.tail = tail;
    }

    fn check_totals(&self, head: u64) {
        let dead = |slot: u32| self.liveness.dead.borrow().contains(&slot);
        let totals = RingTotals::of(self.at(), self.policy, dead).unwrap();
        let (sums, producer) = (self.expected.sums(0, head), totals.producer);
        assert_eq!((totals.head, totals.tail, producer.pos), (head, self.tail, head));
        let Sums { data, discarded, reclaimed, reported, markers } = sums;
        assert_eq!(producer.written, data);
        assert_eq!((producer.discarded, producer.reclaimed), (discarded, reclaimed));
        assert_eq!((all(&producer.reported), producer.lost_markers), (reported, markers));
        assert_eq!(all(&producer.refused), self.refused);
        let gone = match self.policy {
            Policy::Drop => totals.consumer.read,
            Policy::Overwrite => totals.overwritten,
        };
        assert_eq!(gone, self.expected.sums(0, self.tail).data);
        assert_eq!(gone.plus(totals.present), data, "written = read or overwritten + present");
    }

    /// What is in the ring is what was published, to the word.
    fn check_contents(&mut self, tail: u64, head: u64) {
        let snapshot = RingCopy::of(self.at(), self.policy, |_| false).unwrap();
        let snapshot = snapshot.with_lead(self.heap.layout().lead());
        assert_eq!((snapshot.start(), snapshot.end()), (tail, head));
        let (mut cursor, mut newest, mut records) = (tail, 0, 0);
        while let Some((found, after)) = snapshot.step(cursor).unwrap() {
            match found {
                Next::Record((frame, words)) => {
                    self.expected.check_record(&frame, words);
                    assert!(frame.time.unwrap_or(0) >= newest, "a timestamp went back");
                    newest = frame.time.unwrap_or(0);
                    records += 1;
                }
                Next::Lost(lost) => self.expected.check_marker(lost),
            }
            cursor = after;
        }
        assert_eq!(records, self.expected.sums(tail, head).data.records);
        assert!(newest_timestamp(self.ring()) >= newest);
    }

    fn check_slots(&self) {
        for Seat { number, figures, .. } in perfring_ring::producer_seats(self.at()) {
            let own = self.own[number as usize];
            let open = self.expected.open().filter(|(_, slot)| *slot == number);
            assert_eq!(figures.open.records, open.count() as u64);
            assert_eq!(figures.written, own.written, "without its sequences");
            assert_eq!(figures.discarded, own.discarded);
            assert_eq!(all(&figures.refused), own.refused);
        }
    }

    /// Ends and reads everything.
    pub(crate) fn finish(&mut self) {
        while self.expected.open().any(|(_, slot)| self.has(slot)) {
            self.end_one();
            self.check();
        }
        self.recover();
        self.check();
        self.observe();
        assert_eq!(self.expected.head(), self.expected.end(), "nothing is open");
        let ring = self.ring();
        while self.reader.as_ref().is_some_and(|reader| reader.cursor() < ring.head()) {
            self.read();
        }
        if let Some(reader) = &mut self.reader {
            let _ = reader.release(ring);
            self.check();
            let totals = RingTotals::of(self.at(), self.policy, |_| false).unwrap();
            assert_eq!(totals.present, Count::default());
        }
        self.tally.markers += self.expected.sums(0, ring.head()).markers;
    }

    fn has(&self, slot: u32) -> bool {
        !self.liveness.dead.borrow().contains(&slot)
    }
}
