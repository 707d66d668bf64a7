//! Shared rings under loom: the real reserve, commit and advance of two producers with a reader,
//! and the recovery from a death at every store.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release --target-dir target/loom -p perfring-ring --test ring loom_shared::
//! ```
//!
//! **Why this covers deaths.** A killed process leaves behind what others can see: the stores that
//! it has made. So a producer runs in a thread of its own and dies, by unwinding, before its store
//! number n, for every n that it reaches, while a survivor publishes at the same time. Loom tries
//! every interleaving (up to a bound of forced switches) and every stale value that the orderings
//! allow. The second test lets the successor die as well, at every store of what it does, one after
//! the other and so without a bound. `README.md` beside this file says which test failed for which
//! breach.
#![cfg(loom)]

use crate::loom_model::model;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use loom::thread;
use perfring_abi::atomic::death;
use perfring_abi::{Policy, RecordType, Report};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    CopyReader, Fences, Next, OwnerInfo, Place, ProducerFigures, Reader, Refusal, RingTotals,
    SharedWriter, Start, System, Wake, recover,
};
use std::sync::atomic::{AtomicU64 as Plain, Ordering::Relaxed};

/// System: a flag for each slot, in place of the kernel's locks.
struct Flags([AtomicBool; 3]);

impl Flags {
    fn new() -> Self {
        Flags([AtomicBool::new(true), AtomicBool::new(true), AtomicBool::new(true)])
    }

    fn dies(&self, slot: u32) {
        self.0[slot as usize].store(false, Release);
    }
}

impl System for Flags {
    fn is_alive(&self, slot: u32) -> bool {
        self.0.get(slot as usize).is_none_or(|alive| alive.load(Acquire))
    }

    fn relax(&self, _round: u32) {
        thread::yield_now();
    }

    fn now_ns(&self) -> u64 {
        1
    }
}

struct World {
    heap: HeapRing,
    liveness: Flags,
}

impl World {
    fn new(size: u64, policy: Policy) -> Arc<Self> {
        let heap = HeapRing::new(size, policy).unwrap().report(Report::CountersOnly).many(2);
        Arc::new(World { heap, liveness: Flags::new() })
    }

    fn attach(&self, slot: u32) -> SharedWriter {
        let (at, who) = (self.heap.shared(), OwnerInfo::default());
        SharedWriter::attach(
            at,
            self.heap.layout(),
            Fences::Full,
            slot,
            &who,
            &self.liveness,
            |_| false,
        )
        .unwrap()
    }

    fn end(&self) -> u64 {
        self.heap.header().shared.producer_pos.load(Acquire)
    }

    /// Performs an operation of a producer with the record `id`, of two words.
    fn act(&self, writer: &mut SharedWriter, act: Act, id: u64) -> Result<(), Refusal> {
        let (at, liveness) = (self.heap.shared(), &self.liveness);
        let payload: Vec<u8> = [id, !id].iter().flat_map(|word| word.to_ne_bytes()).collect();
        match act {
            Act::Publish => {
                let ring = self.heap.ring();
                let fill = |reserved: &perfring_ring::Reserved| {
                    let word = (reserved.payload_pos() / 8) as usize;
                    let data = self.heap.data();
                    assert_eq!(ring.data_size() as usize, data.len() * 8);
                    data[word % data.len()].store(id, Relaxed);
                    data[(word + 1) % data.len()].store(!id, Relaxed);
                };
                writer
                    .publish(at, liveness, RecordType::BYTES, 16, None, Wake::Auto, fill)
                    .map(drop)
            }
            Act::Commit | Act::Discard => {
                let reserved = writer.reserve(at, liveness, RecordType::BYTES, 16, 0)?;
                writer.fill(at, &reserved, &payload);
                let _ = match act {
                    Act::Commit => writer.commit(at, liveness, reserved, 16, Wake::Auto),
                    _ => writer.discard(at, liveness, reserved),
                };
                Ok(())
            }
            Act::Batch => {
                // One record and a hole, which the running totals do not expect.
                let mut batch = writer.reserve_span(at, liveness, 32, 0)?;
                let reserved = writer.next_in_span(at, &mut batch, RecordType::BYTES, 16).unwrap();
                writer.fill(at, &reserved, &payload);
                let _ = writer.commit_span(at, liveness, batch, Wake::Auto);
                Ok(())
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Publish,
    Commit,
    Discard,
    Batch,
}

fn whole(words: &[u64]) -> u64 {
    assert_eq!(words[0], !words[1], "a torn record");
    words[0]
}

fn read(reader: &mut Reader, heap: &HeapRing) -> Option<u64> {
    match reader.next(heap.ring()).unwrap().0 {
        Some(Next::Record(Place::Ring(frame))) => {
            let data = heap.data();
            let word = |at: u64| data[(at / 8) as usize % data.len()].load(Relaxed);
            Some(whole(&[word(frame.payload_pos()), word(frame.payload_pos() + 8)]))
        }
        Some(Next::Lost(_) | Next::Record(Place::Aux(..))) => {
            panic!("counters only, and no AUX area")
        }
        None => None,
    }
}

/// Runs two producers, each with one operation, and a reader at the same time. At the end
/// everything that was granted is published, without a further call (O).
fn two(name: &str, acts: [Act; 2]) {
    model(name, 3, move |hits| {
        let world = World::new(128, Policy::Drop);
        let mut reader = Reader::attach(world.heap.ring(), Fences::Full).unwrap();
        let writers = [world.attach(0), world.attach(1)];
        let run = |(mut writer, (act, id)): (SharedWriter, (Act, u64))| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.act(&mut writer, act, id).is_ok())
        };
        let threads: Vec<_> = writers.into_iter().zip(acts.into_iter().zip(1..)).map(run).collect();
        let mut got: Vec<u64> = read(&mut reader, &world.heap).into_iter().collect();
        let done: Vec<bool> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(world.heap.ring().head(), world.end(), "everything that ended is published");
        while let Some(id) = read(&mut reader, &world.heap) {
            got.push(id);
        }
        got.sort_unstable();
        let mut want: Vec<u64> = Vec::new();
        for nth in 0..2 {
            if done[nth] && acts[nth] != Act::Discard {
                want.push(nth as u64 + 1);
            }
        }
        assert_eq!(got, want);
        let totals = RingTotals::of(world.heap.shared(), Policy::Drop, |_| false).unwrap();
        assert_eq!(totals.producer.written.records, want.len() as u64);
        hits.fetch_add(u64::from(done == [true, true]), Relaxed);
    });
}

#[test]
fn two_that_publish_under_the_lock() {
    two("publish and publish", [Act::Publish, Act::Publish]);
}

#[test]
fn two_that_reserve_and_commit() {
    two("commit and commit", [Act::Commit, Act::Commit]);
}

#[test]
fn one_that_publishes_beside_one_that_commits() {
    two("publish and commit", [Act::Publish, Act::Commit]);
}

#[test]
fn one_that_discards_beside_a_batch() {
    two("discard and batch", [Act::Discard, Act::Batch]);
}

/// Refusals without the lock, beside a reader that makes room and a producer that takes it: each is counted once, and none
/// comes after the room that was seen to be there.
#[test]
fn refusals_without_the_lock_are_counted_beside_others() {
    model("refusals without the lock", 3, |hits| {
        let world = World::new(64, Policy::Drop);
        let mut reader = Reader::attach(world.heap.ring(), Fences::Full).unwrap();
        let (at, who) = (world.heap.shared(), OwnerInfo::default());
        let (layout, fences) = (world.heap.layout(), Fences::Asymmetric);
        let mut one =
            SharedWriter::attach(at, layout, fences, 0, &who, &world.liveness, |_| false).unwrap();
        let mut other = world.attach(1);
        let mut written = 0;
        let mut publish = |again: &mut u64, refused: &mut u64| {
            let (at, kind) = (world.heap.shared(), RecordType::BYTES);
            // As the tail is when the attempt asks, or earlier: then it takes the lock.
            let is_full_still = one.is_full_still(at.ring(), 16);
            let Err(refusal) = one.publish(at, &world.liveness, kind, 16, None, Wake::No, |_| {})
            else {
                return true;
            };
            let _ = one.refuse(at, refusal, 16);
            *again += u64::from(is_full_still);
            *refused += 1;
            false
        };
        let (mut again, mut refused) = (0, 0);
        while publish(&mut again, &mut refused) {
            written += 1;
        }
        assert!(!publish(&mut again, &mut refused));
        let beside = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let done = world.act(&mut other, Act::Publish, 7);
                if let Err(refusal) = done {
                    let _ = other.refuse(world.heap.shared(), refusal, 16);
                }
                u64::from(done.is_ok())
            })
        };
        let reads = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert!(matches!(reader.next(world.heap.ring()), Ok((Some(Next::Record(_)), _))));
                let _ = reader.release(world.heap.ring());
            })
        };
        written += u64::from(publish(&mut again, &mut refused));
        reads.join().unwrap();
        let others = beside.join().unwrap();
        written += others;
        refused += 1 - others;
        let last = publish(&mut again, &mut refused);
        written += u64::from(last);
        let totals = RingTotals::of(world.heap.shared(), Policy::Drop, |_| false).unwrap();
        assert_eq!(totals.producer.refused.full.records, refused);
        assert_eq!((totals.producer.written.records, written), (3, 3), "room for one more");
        hits.fetch_add(again, Relaxed);
    });
}

/// Two open reservations are ended by their owners at the same time: at least one sees the other
/// (O).
#[test]
fn ends_that_meet_leave_nothing_behind() {
    model("ends that meet", 4, |hits| {
        let world = World::new(128, Policy::Drop);
        let mut writers = [world.attach(0), world.attach(1)];
        let (at, liveness) = (world.heap.shared(), &world.liveness);
        let mut reader = Reader::attach(world.heap.ring(), Fences::Full).unwrap();
        let mut open = Vec::new();
        for writer in &mut writers {
            open.push(writer.reserve(at, liveness, RecordType::BYTES, 16, 0).unwrap());
        }
        let threads: Vec<_> = writers
            .into_iter()
            .zip(open)
            .zip(1u64..)
            .map(|((mut writer, reserved), id)| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let at = world.heap.shared();
                    let words = [id, !id].map(u64::to_ne_bytes);
                    writer.fill(at, &reserved, words.as_flattened());
                    let _ = writer.commit(at, &world.liveness, reserved, 16, Wake::Auto);
                    world.heap.ring().head()
                })
            })
            .collect();
        // Whichever producer publishes a record, it is whole, even if its own producer left
        // publishing to the other.
        let mut got: Vec<u64> = (0..2).filter_map(|_| read(&mut reader, &world.heap)).collect();
        let heads: Vec<u64> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(world.heap.ring().head(), 48, "both are published");
        got.extend((got.len()..2).filter_map(|_| read(&mut reader, &world.heap)));
        assert_eq!(got, [1, 2]);
        hits.fetch_add(u64::from(heads == [48, 0]), Relaxed);
    });
}

/// An overwrite ring of two records, two producers, and an observer that copies (E over M, F).
#[test]
fn an_observer_of_a_shared_ring_never_sees_a_torn_record() {
    model("overwrite", 3, |laps| {
        let world = World::new(64, Policy::Overwrite);
        let mut writers = [world.attach(0), world.attach(1)];
        world.act(&mut writers[0], Act::Publish, 1).unwrap();
        world.act(&mut writers[1], Act::Publish, 2).unwrap();
        let ring = world.heap.ring();
        let mut observer = CopyReader::new(ring, Policy::Overwrite, Start::Oldest).unwrap();
        let threads: Vec<_> = writers
            .into_iter()
            .zip(3..)
            .map(|(mut writer, id)| {
                let world = Arc::clone(&world);
                thread::spawn(move || u64::from(world.act(&mut writer, Act::Publish, id).is_ok()))
            })
            .collect();
        let (mut seen, mut lost) = (0, 0);
        let mut poll = |observer: &mut CopyReader| match observer.next(ring).unwrap() {
            Some(Next::Record((_, words))) => {
                whole(words);
                seen += 1;
            }
            Some(Next::Lost(reported)) => {
                lost += reported.records;
                laps.fetch_add(1, Relaxed);
            }
            None => thread::yield_now(),
        };
        poll(&mut observer);
        let written: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
        for _ in 0..5 {
            poll(&mut observer);
        }
        assert_eq!(seen + lost, 2 + written);
    });
}

/// Checks what must hold once every producer is dead or done and the ring was recovered.
fn balanced(world: &World, policy: Policy, attached_once: bool) -> RingTotals {
    let at = world.heap.shared();
    recover(at, 9, &world.liveness).unwrap();
    assert_eq!(world.heap.ring().head(), world.end(), "nothing is open");
    let totals = RingTotals::of(at, policy, |_| true).unwrap();
    let sums = totals.producer;
    assert_eq!(sums.pos, sums.written.bytes + sums.discarded.bytes + sums.reclaimed.bytes);
    let passed = match policy {
        Policy::Drop => totals.consumer.read,
        Policy::Overwrite => totals.overwritten,
    };
    assert_eq!(passed.plus(totals.present), sums.written);
    if !attached_once {
        return totals; // figures are since the last attach
    }
    // The slots' figures agree with the stream's, to the record and the byte.
    let seats = perfring_ring::producer_seats(at);
    let sum = |of: fn(&ProducerFigures) -> perfring_ring::Count| {
        seats.iter().fold(perfring_ring::Count::default(), |sum, seat| sum.plus(of(&seat.figures)))
    };
    assert_eq!(sum(|of| of.written), sums.written);
    assert_eq!(sum(|of| of.reclaimed), sums.reclaimed);
    assert_eq!(sum(|of| of.discarded).records, sums.discarded.records);
    assert_eq!(sum(|of| of.open).records, 0);
    totals
}

/// A producer dies at every one of its stores, while another publishes: the other succeeds or gets
/// a bounded answer. Afterwards everything that was granted to it is present, once.
fn deaths(name: &str, policy: Policy, act: Act) {
    let died = std::sync::Arc::new(Plain::new(0));
    let mut at = 0;
    loop {
        let deaths = std::sync::Arc::clone(&died);
        died.store(0, Relaxed);
        model("", 2, move |_| {
            let world = World::new(if policy == Policy::Drop { 128 } else { 64 }, policy);
            let mut victim = world.attach(0);
            let mut survivor = world.attach(1);
            if policy == Policy::Overwrite {
                world.act(&mut survivor, Act::Publish, 8).unwrap();
                world.act(&mut survivor, Act::Publish, 9).unwrap();
            }
            let before = if policy == Policy::Overwrite { 2 } else { 0 };
            let killed = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let lived = death::after(at, || world.act(&mut victim, act, 1).is_ok());
                    world.liveness.dies(0);
                    lived
                })
            };
            let granted = [2, 3]
                .map(|id| match world.act(&mut survivor, Act::Commit, id) {
                    Ok(()) => 1,
                    Err(refusal) => {
                        let _ = survivor.refuse(world.heap.shared(), refusal, 16);
                        0
                    }
                })
                .iter()
                .sum::<u64>();
            let lived = killed.join().unwrap();
            if lived.is_none() {
                deaths.fetch_add(1, Relaxed);
            }
            world.liveness.dies(1);
            let totals = balanced(&world, policy, true);
            let mine = u64::from(act != Act::Discard);
            let written = totals.producer.written.records;
            match lived {
                Some(true) => assert_eq!(written, before + granted + mine),
                Some(false) => assert_eq!(written, before + granted),
                None => assert!((before + granted..=before + granted + mine).contains(&written)),
            }
            assert!(totals.producer.reclaimed.records <= 1);
        });
        if died.load(Relaxed) == 0 {
            break;
        }
        at += 1;
    }
    println!("{name}: dies at each of {at} stores");
    assert!(at > 10, "{name}: too few stores to be true");
}

#[test]
fn a_death_under_the_lock_costs_no_other_record() {
    deaths("publish, drop", Policy::Drop, Act::Publish);
}

#[test]
fn a_death_with_a_reservation_open_costs_no_other_record() {
    deaths("commit, drop", Policy::Drop, Act::Commit);
}

#[test]
fn a_death_in_a_discard_costs_no_other_record() {
    deaths("discard, drop", Policy::Drop, Act::Discard);
}

#[test]
fn a_death_in_a_batch_costs_no_other_record() {
    deaths("batch, drop", Policy::Drop, Act::Batch);
}

#[test]
fn a_death_while_it_overwrites_costs_no_other_record() {
    deaths("publish, overwrite", Policy::Overwrite, Act::Publish);
}

/// The victim dies at every store of each operation, its successor at every store of the recovery
/// (and of what it does next). A third producer then finds the ring intact.
#[test]
fn heirs_may_die_as_well() {
    let mut pairs = 0;
    for policy in [Policy::Drop, Policy::Overwrite] {
        for act in [Act::Publish, Act::Commit, Act::Discard, Act::Batch] {
            for successor_recovers in [false, true] {
                let mut first = 0;
                while successors_of(policy, act, successor_recovers, first, &mut pairs) {
                    first += 1;
                }
            }
        }
    }
    println!("{pairs} pairs of deaths");
    assert!(pairs > 1000);
}

/// Runs all deaths of the successor of a victim that died at its store number `first`. Returns
/// whether it did.
fn successors_of(policy: Policy, act: Act, recovers: bool, first: u64, pairs: &mut u64) -> bool {
    for second in 0.. {
        let died = std::sync::Arc::new((Plain::new(0), Plain::new(0)));
        let out = std::sync::Arc::clone(&died);
        // One execution: nothing runs at the same time.
        model("", 0, move |_| {
            let (victim, successor) = one_after_another(policy, act, recovers, first, second);
            out.0.store(victim.into(), Relaxed);
            out.1.store(successor.into(), Relaxed);
        });
        *pairs += 1;
        if died.1.load(Relaxed) == 0 {
            return died.0.load(Relaxed) != 0;
        }
    }
    unreachable!("a successor that never runs")
}

/// Returns whether the victim died, and whether the successor did.
fn one_after_another(
    policy: Policy,
    act: Act,
    successor_recovers: bool,
    first: u64,
    second: u64,
) -> (bool, bool) {
    let world = World::new(256, policy);
    let mut victim = world.attach(0);
    let mut other = world.attach(1);
    // Records before, so that there are totals and, in an overwrite ring, an eviction to come.
    for id in 10..20 {
        let _ = world.act(&mut other, Act::Publish, id);
    }
    let before = world.act(&mut victim, Act::Commit, 21).is_ok();
    let lived = death::after(first, || world.act(&mut victim, act, 1).is_ok());
    world.liveness.dies(0);
    let successor = death::after(second, || {
        if successor_recovers {
            recover(world.heap.shared(), 3, &world.liveness).map(drop).is_ok()
        } else {
            world.act(&mut other, Act::Commit, 2).is_ok()
        }
    });
    if successor.is_none() {
        // Recovery runs with the slot number after the last one.
        world.liveness.dies(if successor_recovers { 2 } else { 1 });
    }
    if successor.is_none() && !successor_recovers {
        // The producer that takes the slot sweeps it, too.
        let mut third = world.attach(1);
        let _ = world.act(&mut third, Act::Publish, 3);
    }
    assert!(before || policy == Policy::Drop);
    world.liveness.dies(0);
    world.liveness.dies(1);
    let totals = balanced(&world, policy, successor_recovers || successor.is_some());
    assert!(totals.producer.reclaimed.records <= 2);
    (lived.is_none(), successor.is_none())
}
