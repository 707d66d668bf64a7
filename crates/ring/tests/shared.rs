//! Shared rings, step by step: the kernel's nine steps, and a property test against a plain model.
#![cfg(not(loom))]

use crate::common::{Reported, attach_at};
use perfring_abi::{Cause, Evict, Lead, Policy, RecordType, RecordWord, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    BatchSpan, Count, Fences, Next, Owed, Place, Reader, Recovered, Refusal, Refused, Reserved,
    RingCopy, RingTotals, Shared, SharedWriter, System, Wake, recover,
};
use proptest::prelude::*;
use std::collections::HashSet;
use std::sync::atomic::Ordering;

/// `data_tail`, `data_head`, `producer_pos`.
fn positions(heap: &HeapRing) -> [u64; 3] {
    let end = heap.header().shared.producer_pos.load(Ordering::Relaxed);
    [heap.ring().tail(), heap.ring().head(), end]
}

/// As drawn in `proto/ABI.md`, after "bpf: Add overwrite mode for BPF ring buffer".
#[test]
fn the_nine_steps() {
    let heap = HeapRing::new(4096, Policy::Overwrite).unwrap().report(Report::CountersOnly).many(5);
    let (at, liveness) = (heap.shared(), Reported::default());
    let mut producers: Vec<_> = (0..5).map(|slot| attach_at(&heap, &liveness, slot)).collect();
    let reserve = |producer: &mut SharedWriter, size: usize| {
        producer.reserve(at, &liveness, RecordType::BYTES, size - 8, 0)
    };
    let commit = |producer: &mut SharedWriter, reserved: Reserved| {
        let len = reserved.len();
        producer.fill(at, &reserved, &vec![producer.index() as u8 + 1; len]);
        let _ = producer.commit(at, &liveness, reserved, len, Wake::Auto);
    };
    assert_eq!(positions(&heap), [0, 0, 0], "1");
    let a = reserve(&mut producers[0], 512).unwrap();
    assert_eq!(positions(&heap), [0, 0, 512], "2: A is reserved");
    let b = reserve(&mut producers[1], 1024).unwrap();
    assert_eq!(positions(&heap), [0, 0, 1536], "3: B is reserved");
    let c = reserve(&mut producers[2], 2048).unwrap();
    assert_eq!(positions(&heap), [0, 0, 3584], "4: C is reserved");
    commit(&mut producers[0], a);
    assert_eq!(positions(&heap), [0, 512, 3584], "5: A is committed");
    commit(&mut producers[1], b);
    assert_eq!(positions(&heap), [0, 1536, 3584], "6: B is committed");
    let d = reserve(&mut producers[3], 1536).unwrap();
    assert_eq!(positions(&heap), [1536, 1536, 5120], "7: D is reserved over A and B");
    let refused = reserve(&mut producers[4], 1024).unwrap_err();
    assert_eq!(refused, Refusal::Pending { slot: 2 }, "8: E would overwrite C, which is open");
    let _ = producers[4].refuse(at, refused, 1024 - 8);
    assert_eq!(positions(&heap), [1536, 1536, 5120], "8: nothing moves");
    // D ends first here, which the drawing leaves open: nothing is published before C ends.
    commit(&mut producers[3], d);
    assert_eq!(positions(&heap), [1536, 1536, 5120], "9: D is committed, C is open");
    commit(&mut producers[2], c);
    assert_eq!(positions(&heap), [1536, 5120, 5120], "9: C and D are committed");

    let totals = RingTotals::of(at, Policy::Overwrite, |_| false).unwrap();
    assert_eq!(totals.overwritten, Count { records: 2, bytes: 1536 });
    assert_eq!(totals.present, Count { records: 2, bytes: 3584 });
    assert_eq!(totals.producer.refused.pending, Count { records: 1, bytes: 1024 });
    let snapshot = RingCopy::take(heap.ring(), Policy::Overwrite).unwrap();
    let mut found = Vec::new();
    let mut cursor = snapshot.start();
    while let Some((Next::Record((frame, words)), after)) = snapshot.step(cursor).unwrap() {
        let owner = words[0].to_ne_bytes()[0];
        assert!(words.iter().all(|word| word.to_ne_bytes() == [owner; 8]), "whole");
        found.push((frame.pos, frame.size, owner));
        cursor = after;
    }
    assert_eq!(found, [(1536, 2048, 3), (3584, 1536, 4)]);
}

/// A record whose size leads beyond what is published, at every state of a full ring: no producer
/// that makes room by it stores a tail beyond the head.
#[test]
fn no_damaged_size_moves_the_tail_beyond_the_head() {
    const SIZE: u64 = 64;
    let mut refused = 0;
    for published in 16..64 {
        for size in (0..2048).step_by(8) {
            let heap = HeapRing::new(1024, Policy::Overwrite).unwrap().many(1);
            let (at, liveness) = (heap.shared(), Reported::default());
            let mut producer = attach_at(&heap, &liveness, 0);
            let len = SIZE as usize - 8;
            for _ in 0..published {
                let ended =
                    producer.publish(at, &liveness, RecordType::BYTES, len, None, Wake::No, |_| {});
                assert_eq!(ended, Ok(Owed::NOTHING));
            }
            let [tail, head, _] = positions(&heap);
            let damaged = RecordWord::pack(RecordType::BYTES.get(), 0, size);
            heap.data()[(tail % 1024 / 8) as usize].store(damaged.raw(), Ordering::Relaxed);
            let reserved = producer.reserve(at, &liveness, RecordType::BYTES, len, 0);
            assert!(heap.ring().tail() <= head, "{published}, {size}: tail beyond the head");
            if size == 0 || u64::from(size) > head - tail {
                assert_eq!(reserved.unwrap_err(), Refusal::Corrupt { tail }, "{published}, {size}");
                refused += 1;
            }
        }
    }
    println!("{refused} damaged sizes refused");
}

/// What the model knows of a part of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Open, by the producer in this slot.
    Open(u32),
    /// So many records.
    Data {
        records: u64,
        bytes: u64,
    },
    Discarded,
    Reclaimed,
    Marker,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    pos: u64,
    size: u64,
    kind: Kind,
}

enum Held {
    One(Reserved),
    Many(BatchSpan),
}

#[derive(Clone, Debug)]
enum Op {
    Publish { slot: u32, len: usize },
    Reserve { slot: u32, len: usize },
    Batch { slot: u32, bytes: u64, records: usize },
    End { which: usize, how: u8 },
    Die { slot: u32 },
    Attach { slot: u32 },
    Recover,
    Read { bytes: u64 },
}

const SLOTS: u32 = 4;

fn op() -> impl Strategy<Value = Op> {
    let slot = 0..SLOTS;
    prop_oneof![
        6 => (slot.clone(), 0..300usize).prop_map(|(slot, len)| Op::Publish { slot, len }),
        6 => (slot.clone(), 0..300usize).prop_map(|(slot, len)| Op::Reserve { slot, len }),
        2 => (slot.clone(), 8..400u64, 0..6usize)
            .prop_map(|(slot, bytes, records)| Op::Batch { slot, bytes, records }),
        8 => (0..8usize, 0..4u8).prop_map(|(which, how)| Op::End { which, how }),
        1 => slot.clone().prop_map(|slot| Op::Die { slot }),
        2 => slot.prop_map(|slot| Op::Attach { slot }),
        1 => Just(Op::Recover),
        4 => (0..1500u64).prop_map(|bytes| Op::Read { bytes }),
    ]
}

struct Model<'a> {
    heap: &'a HeapRing,
    policy: Policy,
    liveness: Reported,
    writers: Vec<Option<SharedWriter>>,
    open: Vec<(u32, u64, Held)>,
    parts: Vec<Part>,
    reader: Option<Reader>,
    refused: Refused,
    reported: Refused,
    /// With a timestamp in each record, of a clock that goes back from time to time.
    time: bool,
    clock: u64,
}

impl<'a> Model<'a> {
    fn new(heap: &'a HeapRing, policy: Policy) -> Self {
        let reader = Reader::attach(heap.ring(), Fences::Full).unwrap();
        let reader = reader.with_losses(heap.shared(), heap.layout().loss_slots());
        Model {
            heap,
            policy,
            liveness: Reported::default(),
            writers: (0..SLOTS).map(|_| None).collect(),
            open: Vec::new(),
            parts: Vec::new(),
            reader: (policy == Policy::Drop).then_some(reader),
            refused: Refused::default(),
            reported: Refused::default(),
            time: heap.layout().time,
            clock: 0,
        }
    }

    fn size_of(&self, len: usize) -> u64 {
        self.heap.layout().record_size(len)
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        16 * self.clock + (self.clock.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
    }

    fn at(&self) -> Shared<'a> {
        self.heap.shared()
    }

    fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.pos + part.size)
    }

    fn head(&self) -> u64 {
        let open = |part: &&Part| matches!(part.kind, Kind::Open(_));
        self.parts.iter().find(open).map_or(self.end(), |part| part.pos)
    }

    /// A producer has just been granted something: the markers that came before it are in the ring,
    /// one for each cause that was unreported.
    fn granted(&mut self, start: u64, size: u64, kind: Kind) {
        let mut pos = self.end();
        while pos < start {
            self.parts.push(Part { pos, size: 32, kind: Kind::Marker });
            pos += 32;
        }
        assert_eq!(pos, start, "a reservation begins where the last one ends");
        self.parts.push(Part { pos, size, kind });
    }

    fn refuse(&mut self, slot: u32, refusal: Refusal, len: usize) {
        let (at, size) = (self.at(), self.size_of(len));
        let _ = self.writers[slot as usize].as_mut().unwrap().refuse(at, refusal, len);
        let count = match refusal {
            Refusal::Full => {
                assert_eq!(self.policy, Policy::Drop);
                &mut self.refused.full
            }
            Refusal::TooLarge { .. } => &mut self.refused.too_large,
            Refusal::Pending { slot } => {
                let part = self.parts.iter().find(|part| part.pos == self.heap.ring().head());
                assert_eq!(part.unwrap().kind, Kind::Open(slot), "the slot that holds it up");
                &mut self.refused.pending
            }
            other => panic!("no other process runs: {other:?}"),
        };
        count.records += 1;
        count.bytes += size;
        // A refusal that should not be: there was room.
        let tail = self.heap.ring().tail();
        let held = if self.policy == Policy::Drop { tail } else { self.head() };
        let markers = 4 * 32;
        assert!(
            matches!(refusal, Refusal::TooLarge { .. })
                || self.end() + size + markers - held >= self.heap.ring().data_size(),
            "{refusal:?} of {len} bytes at {} with {held}",
            self.end()
        );
    }

    fn run(&mut self, op: &Op) {
        let at = self.at();
        match *op {
            Op::Attach { slot } => {
                if self.writers[slot as usize].is_none() {
                    self.liveness.dead.borrow_mut().remove(&slot);
                    self.writers[slot as usize] = Some(attach_at(self.heap, &self.liveness, slot));
                }
            }
            Op::Publish { slot, len } => {
                let now = self.now();
                let Some(writer) = self.writers[slot as usize].as_mut() else { return };
                let (mut start, kind) = (0, RecordType::BYTES);
                let put = |reserved: &Reserved| start = reserved.pos();
                let done = match self.time {
                    true => {
                        let none =
                            writer.publish(at, &self.liveness, kind, len, None, Wake::Auto, |_| {});
                        assert!(matches!(none, Err(Refusal::TooLarge { .. })), "not without time");
                        writer.publish(at, &self.liveness, kind, len, Some(now), Wake::Auto, put)
                    }
                    false => writer.publish(at, &self.liveness, kind, len, None, Wake::Auto, put),
                };
                match done {
                    Ok(_) => {
                        let size = self.size_of(len);
                        self.granted(start, size, Kind::Data { records: 1, bytes: size });
                    }
                    Err(refusal) => self.refuse(slot, refusal, len),
                }
            }
            Op::Reserve { slot, len } => {
                let now = self.now();
                let Some(writer) = self.writers[slot as usize].as_mut() else { return };
                match writer.reserve(at, &self.liveness, RecordType::BYTES, len, now) {
                    Ok(reserved) => {
                        let start = reserved.pos();
                        let timestamp = self.heap.layout().lead().len() as u64;
                        assert_eq!(reserved.payload_pos(), start + 8 + timestamp);
                        self.granted(start, self.size_of(len), Kind::Open(slot));
                        self.open.push((slot, start, Held::One(reserved)));
                    }
                    Err(refusal) => self.refuse(slot, refusal, len),
                }
            }
            Op::Batch { slot, bytes, records } => {
                let now = self.now();
                let least = self.size_of(0);
                let Some(writer) = self.writers[slot as usize].as_mut() else { return };
                let size = bytes.next_multiple_of(8).max(least);
                match writer.reserve_span(at, &self.liveness, bytes, now) {
                    Ok(mut batch) => {
                        for _ in 0..records {
                            let _ = writer.next_in_span(at, &mut batch, RecordType::BYTES, 40);
                        }
                        let end = at.ring().data_size();
                        let start =
                            self.heap.header().shared.producer_pos.load(Ordering::Relaxed) - size;
                        assert!(size < end);
                        self.granted(start, size, Kind::Open(slot));
                        self.open.push((slot, start, Held::Many(batch)));
                    }
                    Err(refusal) => self.refuse(slot, refusal, (size - least) as usize),
                }
            }
            Op::End { which, how } => {
                if self.open.is_empty() {
                    return;
                }
                let (slot, start, held) = self.open.remove(which % self.open.len());
                let writer = self.writers[slot as usize].as_mut().unwrap();
                let ended = match held {
                    Held::One(reserved) if how == 0 => {
                        let _ = writer.discard(at, &self.liveness, reserved);
                        Kind::Discarded
                    }
                    Held::One(reserved) => {
                        let len = if how == 1 { reserved.len() / 2 } else { reserved.len() };
                        let _ = writer.commit(at, &self.liveness, reserved, len, Wake::Auto);
                        Kind::Data { records: 1, bytes: self.size_of(len) }
                    }
                    Held::Many(batch) => {
                        let records = batch.records();
                        let _ = writer.commit_span(at, &self.liveness, batch, Wake::Auto);
                        match records {
                            0 => Kind::Discarded,
                            _ => Kind::Data { records, bytes: records * self.size_of(40) },
                        }
                    }
                };
                let part = self.parts.iter_mut().find(|part| part.pos == start).unwrap();
                part.kind = ended;
            }
            Op::Die { slot } => {
                if self.writers[slot as usize].take().is_some() {
                    self.liveness.dead.borrow_mut().insert(slot);
                    self.open.retain(|(owner, ..)| *owner != slot);
                }
            }
            Op::Recover => {
                let had: HashSet<_> = self.dead_open();
                let done: Recovered = recover(at, 1, &self.liveness).unwrap();
                let swept: HashSet<_> = done.swept.iter().map(|(slot, _)| *slot).collect();
                assert_eq!((swept, done.lock), (had, None));
                self.sync();
                assert!(self.dead_open().is_empty());
            }
            Op::Read { bytes } => {
                let Some(reader) = &mut self.reader else { return };
                let upto = reader.cursor() + bytes;
                let at = self.heap.shared();
                while reader.cursor() < upto {
                    if reader.next(at.ring()).unwrap().0.is_none() {
                        while reader.lost(at, true).is_some() {}
                        let told = reader.resume_point().saved().told;
                        let totals = RingTotals::of(at, self.policy, |_| false).unwrap();
                        assert_eq!(told, totals.producer.refused, "everything is told at the end");
                        break;
                    }
                }
                let _ = reader.release(self.heap.ring());
            }
        }
    }

    fn dead_open(&self) -> HashSet<u32> {
        let dead = self.liveness.dead.borrow();
        let open = self.parts.iter().filter_map(|part| match part.kind {
            Kind::Open(slot) if dead.contains(&slot) => Some(slot),
            _ => None,
        });
        open.collect()
    }

    /// What a dead producer left open may have been reclaimed by a producer that needed it: all of
    /// it, or nothing.
    fn sync(&mut self) {
        for slot in 0..SLOTS {
            let left: Vec<_> = (0..self.parts.len())
                .filter(|&at| self.parts[at].kind == Kind::Open(slot))
                .filter(|&at| !self.open.iter().any(|(_, start, _)| *start == self.parts[at].pos))
                .collect();
            let data = self.heap.data();
            let still = |part: &Part| {
                let word = data[(part.pos / 8) as usize % data.len()].load(Ordering::Relaxed);
                perfring_abi::RecordWord::from_raw(word).owner() == Some(slot)
            };
            let open = left.iter().filter(|&&at| still(&self.parts[at])).count();
            assert!(open == 0 || open == left.len(), "swept only in part");
            if open == 0 {
                for at in left {
                    self.parts[at].kind = Kind::Reclaimed;
                }
            }
        }
    }

    fn check(&mut self) {
        self.sync();
        let (at, ring) = (self.at(), self.heap.ring());
        let [tail, head, end] = positions(self.heap);
        assert_eq!((head, end), (self.head(), self.end()));
        assert!(tail <= head && end - tail < ring.data_size());
        if self.policy == Policy::Overwrite {
            assert!(
                tail == 0
                    || self.parts.iter().any(|part| part.pos == tail)
                    || tail == end
                    || self.parts.iter().any(|part| part.pos < tail && tail < part.pos + part.size),
                "the tail is in no record"
            );
        }
        let count = |from: u64, to: u64| {
            let mut sums = [Count::default(); 4];
            for part in self.parts.iter().filter(|part| part.pos >= from && part.pos < to) {
                let (sum, count) = match part.kind {
                    Kind::Data { records, bytes } => {
                        sums[1].bytes += part.size - bytes; // the rest of it is a hole
                        (0, Count { records, bytes })
                    }
                    Kind::Discarded => (1, Count { records: 1, bytes: part.size }),
                    Kind::Reclaimed => (2, Count { records: 1, bytes: part.size }),
                    Kind::Marker => (3, Count { records: 1, bytes: part.size }),
                    Kind::Open(_) => continue,
                };
                sums[sum] = sums[sum].plus(count);
            }
            sums
        };
        let [written, discarded, reclaimed, markers] = count(0, head);
        let dead = |slot: u32| self.liveness.dead.borrow().contains(&slot);
        let totals = RingTotals::of(at, self.policy, dead).unwrap();
        let sums = totals.producer;
        assert_eq!((totals.head, sums.pos), (head, head));
        assert_eq!(sums.written, written);
        assert_eq!((sums.discarded, sums.reclaimed), (discarded, reclaimed));
        assert_eq!(sums.lost_markers, markers.records);
        assert_eq!(sums.refused, self.refused);
        let passed = match self.policy {
            Policy::Drop => totals.consumer.read,
            Policy::Overwrite => totals.overwritten,
        };
        assert_eq!(passed.plus(totals.present), written, "written = read or overwritten + present");
        // The slots agree: those of live producers count since they attached, no more than all.
        let seats = perfring_ring::producer_seats(at);
        for of in &seats {
            let open = self.parts.iter().filter(|part| part.kind == Kind::Open(of.number));
            assert_eq!(of.figures.open.records, open.count() as u64);
        }
        let sum = |of: fn(&perfring_ring::ProducerFigures) -> Count| {
            seats.iter().map(|seat| of(&seat.figures)).fold(Count::default(), Count::plus)
        };
        let all = count(0, end); // also what has ended behind an open one
        assert!(sum(|of| of.reclaimed).records <= all[2].records);
        assert!(sum(|of| of.written).records <= all[0].records);
        self.reported = sums.reported;
        self.timestamps_never_go_back();
    }

    fn timestamps_never_go_back(&self) {
        let dead = |slot: u32| self.liveness.dead.borrow().contains(&slot);
        let snapshot = RingCopy::of(self.at(), self.policy, dead)
            .unwrap()
            .with_lead(Lead::of(self.time, false));
        let (mut cursor, mut newest) = (snapshot.start(), 0);
        while let Some((found, after)) = snapshot.step(cursor).unwrap() {
            if let Next::Record((frame, words)) = found {
                assert_eq!(frame.time.is_some(), self.time);
                assert_eq!(words.len(), frame.len.div_ceil(8));
                assert!(frame.time.unwrap_or(0) >= newest, "a timestamp went back");
                newest = frame.time.unwrap_or(0);
            }
            cursor = after;
        }
        let noted = self.heap.header().shared.newest_timestamp.load(Ordering::Relaxed);
        assert!(noted >= newest && noted <= 16 * self.clock + 64);
    }

    /// Ends everything and reports everything: the ring is idle.
    fn finish(&mut self) {
        while !self.open.is_empty() {
            self.run(&Op::End { which: 0, how: 2 });
            self.check();
        }
        self.run(&Op::Recover);
        self.check();
        assert_eq!(self.head(), self.end(), "nothing is open");
    }
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("PERFRING_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    ProptestConfig { cases, failure_persistence: None, verbose: 0, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_producers_and_deaths_stand_as_the_model_says(
        policy in prop_oneof![Just(Policy::Drop), Just(Policy::Overwrite)],
        evict in prop_oneof![Just(Evict::Exact), Just(Evict::Half)],
        report in prop_oneof![Just(Report::InStream), Just(Report::CountersOnly)],
        size in prop_oneof![Just(1024u64), Just(4096)],
        time in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..200),
    ) {
        let heap = HeapRing::new(size, policy).unwrap().evict(evict).report(report).many(SLOTS);
        let heap = if time { heap.timed() } else { heap };
        let mut model = Model::new(&heap, policy);
        for slot in 0..SLOTS - 1 {
            model.run(&Op::Attach { slot });
        }
        for op in &ops {
            model.run(op);
            model.check();
        }
        model.finish();
    }
}

/// All at once: producers in threads, in a ring so small that they always block each other, and an
/// observer or a consumer.
fn crowd(policy: Policy, time: bool) {
    const PRODUCERS: u32 = 3;
    const EACH: u64 = if cfg!(miri) { 50 } else { 150_000 };
    let heap = HeapRing::new(512, policy).unwrap().many(PRODUCERS);
    let heap = if time { heap.timed() } else { heap };
    let since = std::time::Instant::now();
    let now = || since.elapsed().as_nanos() as u64;
    let liveness = Reported::default();
    let writers: Vec<_> = (0..PRODUCERS).map(|slot| attach_at(&heap, &liveness, slot)).collect();
    // `Reported` is for one thread; here no producer dies.
    struct Alive;
    impl System for Alive {
        fn is_alive(&self, _slot: u32) -> bool {
            true
        }
        fn relax(&self, _round: u32) {
            std::thread::yield_now();
        }
        fn now_ns(&self) -> u64 {
            1
        }
    }
    let produce = |mut writer: SharedWriter| {
        let at = heap.shared();
        let (mut number, mut refused) = (0, 0);
        for turn in 0..EACH {
            let word = u64::from(writer.index()) << 56 | number;
            let granted = if turn % 2 == 0 {
                let data = heap.data();
                let put = |reserved: &Reserved| {
                    let at = (reserved.payload_pos() / 8) as usize % data.len();
                    data[at].store(word, Ordering::Relaxed);
                };
                let kind = RecordType::BYTES;
                writer.publish(at, &Alive, kind, 8, Some(now()), Wake::Auto, put).map(drop)
            } else {
                writer.reserve(at, &Alive, RecordType::BYTES, 8, now()).map(|reserved| {
                    writer.fill(at, &reserved, &word.to_ne_bytes());
                    if turn % 16 == 1 {
                        std::thread::yield_now(); // long enough to block the others
                    }
                    let _ = writer.commit(at, &Alive, reserved, 8, Wake::Auto);
                })
            };
            match granted {
                Ok(()) => number += 1,
                Err(refusal) => {
                    assert!(policy == Policy::Drop || refusal != Refusal::Full, "never full");
                    let _ = writer.refuse(at, refusal, 8);
                    refused += 1;
                }
            }
        }
        let _ = writer.detach(at, &Alive);
        assert_eq!(number + refused, EACH);
        number
    };
    let totals = |at| RingTotals::of(at, policy, |_| false).unwrap();
    let mut next = [0; PRODUCERS as usize];
    let mut newest = 0;
    let mut see = |word: u64, timestamp: Option<u64>| {
        assert_eq!(timestamp.is_some(), time);
        assert!(timestamp.unwrap_or(0) >= newest, "a timestamp went back");
        newest = timestamp.unwrap_or(0);
        let (of, number) = ((word >> 56) as usize, word << 8 >> 8);
        assert!(number >= next[of], "in order, and once");
        assert!(policy == Policy::Overwrite || number == next[of], "without a gap");
        next[of] = number + 1;
    };
    let mut told = 0;
    let written: u64 = std::thread::scope(|scope| {
        let mut done = false;
        let ring = heap.ring();
        let reader = Reader::attach(ring, Fences::Full).unwrap().with_lead(Lead::of(time, false));
        let mut reader = reader.with_losses(heap.shared(), heap.layout().loss_slots());
        let observer =
            perfring_ring::CopyReader::new(ring, policy, perfring_ring::Start::Oldest).unwrap();
        let slots = heap.layout().loss_slots();
        let mut observer =
            observer.with_lead(Lead::of(time, false)).with_losses(heap.shared(), slots);
        let threads: Vec<_> = writers.into_iter().map(|w| scope.spawn(|| produce(w))).collect();
        loop {
            let empty = match policy {
                Policy::Drop => match reader.next(ring).unwrap().0 {
                    Some(Next::Record(Place::Ring(frame))) => {
                        let at = (frame.payload_pos() / 8) as usize % heap.data().len();
                        see(heap.data()[at].load(Ordering::Relaxed), frame.time);
                        false
                    }
                    Some(Next::Lost(lost)) => {
                        told += lost.records;
                        false
                    }
                    Some(Next::Record(Place::Aux(..))) => {
                        panic!("without an AUX area")
                    }
                    None => match reader.lost(heap.shared(), false) {
                        Some(lost) => {
                            told += lost.records;
                            false
                        }
                        None => true,
                    },
                },
                Policy::Overwrite => match observer.next_in(heap.shared(), &[]).unwrap() {
                    Some(perfring_ring::Next::Record((frame, words))) => {
                        see(words[0], frame.time);
                        false
                    }
                    Some(perfring_ring::Next::Lost(lost)) => {
                        told += if lost.cause == Cause::Lapped { 0 } else { lost.records };
                        false
                    }
                    None => true,
                },
            };
            if empty && done {
                break;
            }
            done = threads.iter().all(|thread| thread.is_finished());
            if empty {
                std::thread::yield_now();
            }
        }
        // All have ended: a look into all slots finds the rest.
        while let Some(lost) = match policy {
            Policy::Drop => reader.lost(heap.shared(), true),
            Policy::Overwrite => observer.lost(heap.shared(), true),
        } {
            told += lost.records;
        }
        if policy == Policy::Drop {
            let _ = reader.release(ring);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let totals = totals(heap.shared());
    assert_eq!(totals.producer.written.records, written);
    assert_eq!(totals.producer.refused.total().records, told, "each is told once");
    assert_eq!(u64::from(PRODUCERS) * EACH, written + totals.producer.refused.total().records);
    assert_eq!(heap.ring().head(), positions(&heap)[2], "everything is published");
    if policy == Policy::Drop {
        assert_eq!(totals.consumer.read.records, written);
        assert_eq!(next.iter().sum::<u64>(), written);
    }
}

#[test]
fn a_crowd_in_a_drop_ring() {
    crowd(Policy::Drop, false);
    crowd(Policy::Drop, true);
}

#[test]
fn a_crowd_in_an_overwrite_ring() {
    crowd(Policy::Overwrite, false);
    crowd(Policy::Overwrite, true);
}
