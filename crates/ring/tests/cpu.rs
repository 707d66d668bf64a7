//! Rings per CPU: any producers, aborts and deaths against a plain list, and a crowd of threads on one
//! CPU.
#![cfg(not(loom))]

mod expected;
mod publishing;
mod readers;
mod reservations;
mod world;

use self::world::{SLOTS, Tally, World};
use perfring_abi::{Cause, Evict, Policy, RecordType, RecordWord, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    CopyReader, Count, Fences, Next, OwnerInfo, Place, Reader, Refusal, Reserved, Ring, RingTotals,
    Sequence, SharedWriter, Start, System, Unattached, Wake, close, section,
};
use perfring_testkit::rng::Rng;
use perfring_testkit::size::{cases, from_env};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

fn run(name: &str, policy: Policy, sizes: &[u64], cases: u64, steps: u64) -> Tally {
    let (mut rng, mut tally) = (Rng::from_env(), Tally::default());
    for _ in 0..cases {
        let size = sizes[rng.index(sizes.len())];
        let evict = [Evict::Exact, Evict::Half][rng.index(2)];
        let report = [Report::InStream, Report::CountersOnly][rng.index(2)];
        let heap = HeapRing::new(size, policy).unwrap().evict(evict).report(report).per_cpu(SLOTS);
        let heap = match rng.below(4) {
            0 | 1 => heap,
            2 => heap.timed(),
            _ => heap.with_sample_id(),
        };
        let mut world = World::new(&heap, rng.any(), &mut tally);
        for _ in 0..steps {
            world.step();
        }
        world.finish();
    }
    println!("{name}: {cases} cases of {steps} steps, {tally:?}");
    tally
}

fn count() -> u64 {
    if cfg!(miri) { 3 } else { from_env("PERFRING_CASES", cases(800, 8000)) }
}

#[test]
fn a_drop_ring_per_cpu_does_what_its_model_does() {
    let tally = run("drop", Policy::Drop, &[1024, 4096], count(), 200);
    assert!((tally.full > 0 && tally.full_still > 0) || cfg!(miri));
    tally.has_everything();
}

#[test]
fn an_overwrite_ring_per_cpu_does_what_its_model_does() {
    let tally = run("overwrite", Policy::Overwrite, &[1024, 4096], count(), 200);
    assert!(tally.lapped > 0 || cfg!(miri));
    tally.has_everything();
}

/// Blocks are not a quarter of the ring, but of a fixed size.
#[test]
fn a_large_ring_per_cpu_does_what_its_model_does() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        run("large", policy, &[1 << 17], count().div_ceil(20), 1000);
    }
}

/// Nobody dies here.
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

/// A producer of the crowd: a process whose threads run on one CPU, as [`Crowd::cpu`] has it.
struct Crowd<'a> {
    heap: &'a HeapRing,
    cpu: &'a Mutex<()>,
    slot: u32,
    writer: SharedWriter,
    by_sequence: u64,
}

impl<'a> Crowd<'a> {
    fn join(heap: &'a HeapRing, cpu: &'a Mutex<()>, slot: u32) -> Self {
        let (at, who) = (heap.shared(), OwnerInfo::default());
        let writer = loop {
            match SharedWriter::attach(at, heap.layout(), Fences::Full, slot, &who, &Alive, |_| {
                false
            }) {
                // Whoever has the lock is off its core.
                Err(Unattached::Contended { .. }) => std::thread::yield_now(),
                attached => break attached.unwrap(),
            }
        };
        Crowd { heap, cpu, slot, writer, by_sequence: 0 }
    }

    fn on_cpu<T>(&self, then: impl FnOnce(Ring<'a>) -> T) -> T {
        let _only = self.cpu.lock().unwrap();
        then(self.heap.ring())
    }

    fn publish(&mut self, word: u64, now: u64, abort: u64) -> Result<(), Refusal> {
        let (at, timed) = (self.heap.shared(), self.heap.layout().time);
        let len = 16 + if timed { 8 } else { 0 };
        let header = RecordWord::of(RecordType::BYTES, len);
        for round in abort.. {
            let mut steps = round;
            let step = || {
                steps += 1;
                steps != 3 // once at most
            };
            let now_there = timed.then_some(now);
            let done = self.on_cpu(|ring| section(ring, header, &[word, !word], now_there, step));
            match done {
                Some(Sequence::Done) => {
                    self.by_sequence += 1;
                    return Ok(());
                }
                None => continue,
                Some(Sequence::Slow) => {}
            }
            let slot = self.slot;
            self.on_cpu(|ring| close(ring, slot));
            if self.writer.open_for_sequences(at, &Alive, 16).is_ok() {
                continue;
            }
            let data = self.heap.data();
            let put = |reserved: &Reserved| {
                for (word, pos) in [word, !word].into_iter().zip(reserved.payload_pos() / 8..) {
                    data[pos as usize % data.len()].store(word, Relaxed);
                }
            };
            let kind = RecordType::BYTES;
            match self.writer.publish(at, &Alive, kind, 16, Some(now), Wake::Auto, put) {
                Ok(_) => return Ok(()),
                Err(_) if self.writer.found_open() => {}
                Err(refusal) => return Err(refusal),
            }
        }
        unreachable!()
    }

    fn reserve(&mut self, word: u64, now: u64) -> Result<(), Refusal> {
        let at = self.heap.shared();
        loop {
            let slot = self.slot;
            self.on_cpu(|ring| close(ring, slot));
            match self.writer.reserve(at, &Alive, RecordType::BYTES, 16, now) {
                Ok(reserved) => {
                    self.writer.fill(
                        at,
                        &reserved,
                        [word, !word].map(u64::to_ne_bytes).as_flattened(),
                    );
                    std::thread::yield_now(); // long enough to block the others
                    let _ = self.writer.commit(at, &Alive, reserved, 16, Wake::Auto);
                    return Ok(());
                }
                Err(_) if self.writer.found_open() => {}
                Err(refusal) => return Err(refusal),
            }
        }
    }
}

/// Returns how many records were published by sequences.
fn crowd(policy: Policy, size: u64, time: bool) -> u64 {
    const PRODUCERS: u32 = 3;
    const EACH: u64 = if cfg!(miri) { 50 } else { 40_000 };
    let heap = HeapRing::new(size, policy).unwrap().per_cpu(PRODUCERS);
    let (heap, cpu) = (if time { heap.timed() } else { heap }, Mutex::new(()));
    let since = std::time::Instant::now();
    let now = || since.elapsed().as_nanos() as u64;
    let produce = |slot: u32| {
        let mut me = Crowd::join(&heap, &cpu, slot);
        let (mut number, mut refused, mut by_sequence) = (0, 0, 0);
        for turn in 0..EACH {
            let word = u64::from(slot) << 56 | number;
            let done = match turn % 64 {
                7 => me.reserve(word, now()),
                _ => me.publish(word, now(), turn % 5),
            };
            if turn % 16 == 15 {
                by_sequence += me.by_sequence;
                me = Crowd::join(&heap, &cpu, slot);
            }
            match done {
                Ok(()) => number += 1,
                Err(refusal) => {
                    assert!(policy == Policy::Drop || refusal != Refusal::Full, "never full");
                    assert!(!matches!(refusal, Refusal::Corrupt { .. }), "{refusal:?}");
                    let _ = me.writer.refuse(heap.shared(), refusal, 16);
                    refused += 1;
                    std::thread::yield_now();
                }
            }
        }
        assert_eq!(number + refused, EACH);
        (number, refused, by_sequence + me.by_sequence)
    };
    let (mut next, mut newest) = ([0; PRODUCERS as usize], 0);
    let mut see = |words: [u64; 2], timestamp: Option<u64>| {
        assert_eq!((words[0], timestamp.is_some()), (!words[1], time), "whole");
        assert!(timestamp.unwrap_or(0) >= newest, "a timestamp went back");
        newest = timestamp.unwrap_or(0);
        let (of, number) = ((words[0] >> 56) as usize, words[0] << 8 >> 8);
        assert!(number >= next[of], "in order, and once");
        assert!(policy == Policy::Overwrite || number == next[of], "without a gap");
        next[of] = number + 1;
    };
    let mut told = 0;
    let sums: Vec<_> = std::thread::scope(|scope| {
        let (ring, mut done) = (heap.ring(), false);
        let lead = heap.layout().lead();
        let slots = heap.layout().loss_slots();
        let reader = Reader::attach(ring, Fences::Full).unwrap().with_lead(lead);
        let mut reader = reader.with_losses(heap.shared(), slots);
        let observer = CopyReader::new(ring, policy, Start::Oldest).unwrap().with_lead(lead);
        let mut observer = observer.with_losses(heap.shared(), slots);
        let produce = &produce;
        let threads: Vec<_> =
            (0..PRODUCERS).map(|slot| scope.spawn(move || produce(slot))).collect();
        loop {
            let word = |pos: u64| heap.data()[(pos / 8) as usize % heap.data().len()].load(Relaxed);
            let empty = match policy {
                Policy::Drop => match reader.next(ring).unwrap().0 {
                    Some(Next::Record(Place::Ring(frame))) => {
                        let pos = frame.payload_pos();
                        see([word(pos), word(pos + 8)], frame.time);
                        false
                    }
                    Some(Next::Lost(lost)) => {
                        told += lost.records;
                        false
                    }
                    found => found.is_none(),
                },
                Policy::Overwrite => match observer.next_in(heap.shared(), &[]).unwrap() {
                    Some(Next::Record((frame, words))) => {
                        see([words[0], words[1]], frame.time);
                        false
                    }
                    Some(Next::Lost(lost)) => {
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
        while let Some(lost) = match policy {
            Policy::Drop => reader.lost(heap.shared(), true),
            Policy::Overwrite => observer.lost(heap.shared(), true),
        } {
            told += lost.records;
        }
        if policy == Policy::Drop {
            let _ = reader.release(ring);
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let totals = RingTotals::of(heap.shared(), policy, |_| false).unwrap();
    let sum = |of: fn(&(u64, u64, u64)) -> u64| sums.iter().map(of).sum::<u64>();
    assert_eq!(totals.producer.written.records, sum(|sums| sums.0));
    assert_eq!(totals.producer.refused.total().records, sum(|sums| sums.1));
    assert_eq!(told, sum(|sums| sums.1), "each is told once");
    if policy == Policy::Drop {
        assert_eq!(totals.consumer.read.records, next.iter().sum::<u64>());
        assert_eq!(totals.present, Count::default());
    }
    println!("{policy:?}, {size} bytes, time {time}: {sums:?} in {:?}", since.elapsed());
    sum(|sums| sums.2)
}

#[test]
fn a_crowd_on_one_cpu() {
    for policy in [Policy::Drop, Policy::Overwrite] {
        for (size, time) in [(512, false), (1024, true), (1 << 16, false)] {
            assert!(crowd(policy, size, time) > 0);
        }
    }
}
