//! Refusals one after the other, most of which store little: after each, the totals in the page alone are exact by
//! cause, and none is of a record that there was room for.
#![cfg(not(loom))]

use perfring_abi::{LOST_SIZE, Policy, RecordType, record_size};
use perfring_ring::heap::HeapRing;
use perfring_ring::{
    End, Fences, OwnerInfo, Reader, Refusal, Refused, Reserved, RingTotals, SharedWriter, System,
    Wake, Writer,
};
use std::sync::atomic::Ordering::Relaxed;

const KIND: RecordType = RecordType::new(4711).unwrap();
const SIZE: u64 = 4096;
const ROUNDS: u64 = if cfg!(miri) { 400 } else { 200_000 };

/// Xorshift: the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// A short payload, mostly one of two lengths.
    fn len(&mut self) -> usize {
        match self.roll(6) {
            0 => self.roll(300) as usize,
            1 => 16,
            _ => 64,
        }
    }
}

fn add(refused: &mut Refused, refusal: Refusal, size: u64) {
    let cause = match refusal {
        Refusal::Full => &mut refused.full,
        Refusal::TooLarge { .. } => &mut refused.too_large,
        Refusal::Pending { .. } => &mut refused.pending,
        other => panic!("{other:?}"),
    };
    cause.records += 1;
    cause.bytes += size;
}

/// Whether there is no room for a record of `size` bytes, after the markers of `losses` causes, at this end.
fn is_full(heap: &HeapRing, end: u64, losses: usize, size: u64) -> bool {
    let markers = losses as u64 * u64::from(LOST_SIZE);
    let markers = if markers + size < SIZE { markers } else { 0 };
    end + markers + size - heap.header().data_tail.load(Relaxed) >= SIZE
}

fn causes(refused: Refused, reported: Refused) -> usize {
    let both = refused.by_cause().into_iter().zip(reported.by_cause());
    both.filter(|(refused, reported)| refused != reported).count()
}

#[test]
fn each_refusal_of_an_exclusive_ring_is_in_the_page_when_it_returns() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
    let (ring, layout) = (heap.ring(), heap.layout());
    let attach = || Writer::attach(ring, layout, Fences::Asymmetric).unwrap();
    let mut writer = attach();
    let mut reader = Reader::attach(ring, Fences::Asymmetric).unwrap();
    let (mut dice, mut expected) = (Dice(42), Refused::default());
    let mut wakes = 0;
    for _ in 0..ROUNDS {
        let armed = dice.roll(20) == 0;
        match dice.roll(40) {
            0 => while reader.next(ring).unwrap().0.is_some() {},
            1 => drop(reader.next(ring).unwrap()),
            2 => writer.begin_batch(ring),
            3 => {
                let _ = writer.publish(ring, Wake::Auto);
                let before = writer.totals();
                writer = attach();
                assert_eq!(writer.totals(), before, "the next one has all from the page");
            }
            _ => {}
        }
        let _ = reader.release(ring);
        let len = if dice.roll(50) == 0 { writer.max_len() + 1 } else { dice.len() };
        let size = record_size(len);
        let unreported = causes(expected, writer.totals().reported);
        heap.header().wait.armed.store(armed.into(), Relaxed);
        let reserved = match dice.roll(3) {
            0 if len < writer.plain_end() => writer.reserve_as::<false>(ring, KIND, len, None),
            1 => writer.reserve_as::<false>(ring, KIND, len, Some(0)),
            _ => writer.reserve(ring, KIND, len, 0),
        };
        let refusal = match reserved {
            Ok(reserved) => {
                match dice.roll(8) {
                    0 => writer.discard(ring, reserved),
                    1 => drop(writer.end(ring, reserved, len, End::Hold)),
                    2 => {} // leaves no trace
                    _ => drop(writer.end(ring, reserved, len, End::Publish(Wake::No))),
                }
                continue;
            }
            Err(refusal) => refusal,
        };
        let owed = writer.refuse(ring, refusal, len);
        assert!(!armed || owed.is_due(), "a full ring has to be read");
        wakes += u64::from(owed.is_due());
        add(&mut expected, refusal, size);
        assert_eq!(heap.header().wait.armed.load(Relaxed), 0, "a sleeper is claimed");
        assert!(refusal != Refusal::Full || is_full(&heap, writer.pos(), unreported, size));
        assert_eq!(RingTotals::read(ring, Policy::Drop).unwrap().producer.refused, expected);
    }
    println!("{expected:?}, {wakes} wakes");
    assert!(expected.full.records > ROUNDS / 40 && wakes > 0 && expected.too_large.records > 0);
    while reader.next(ring).unwrap().0.is_some() {}
    let _ = reader.release(ring);
    let reserved = writer.reserve(ring, KIND, 8, 0).unwrap();
    let _ = writer.end(ring, reserved, 8, End::Publish(Wake::No));
    let totals = RingTotals::read(ring, Policy::Drop).unwrap();
    assert_eq!(totals.producer.reported, expected);
}

#[test]
fn a_refusal_beside_another_producer_changes_nothing() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap();
    let ring = heap.ring();
    let attach = || Writer::attach(ring, heap.layout(), Fences::Asymmetric).unwrap();
    let mut first = attach();
    while let Ok(reserved) = first.reserve(ring, KIND, 64, 0) {
        let _ = first.end(ring, reserved, 64, End::Publish(Wake::No));
    }
    // Both copies of the totals are its own, and alike.
    for _ in 0..3 {
        let _ = first.refuse(ring, Refusal::Full, 64);
    }
    // Its second copy is another's, or both are.
    for refusals in 0..3 {
        let mut second = attach();
        for _ in 0..refusals {
            let _ = second.refuse(ring, Refusal::Full, 64);
        }
        let words =
            || heap.header().producer.copies.as_flattened().iter().map(|word| word.load(Relaxed));
        let before: Vec<u64> = words().collect();
        assert_eq!(first.reserve(ring, KIND, 64, 0).unwrap_err(), Refusal::Replaced);
        assert!(!first.refuse(ring, Refusal::Full, 64).is_due());
        assert!(words().eq(before));
    }
}

struct Alive;

impl System for Alive {
    fn is_alive(&self, _slot: u32) -> bool {
        true
    }
    fn relax(&self, _round: u32) {}
    fn now_ns(&self) -> u64 {
        1
    }
}

#[test]
fn each_refusal_of_a_shared_ring_is_in_its_slot_when_it_returns() {
    let heap = HeapRing::new(SIZE, Policy::Drop).unwrap().many(2);
    let (ring, at) = (heap.ring(), heap.shared());
    let attach = |slot| {
        let who = OwnerInfo::default();
        SharedWriter::attach(at, heap.layout(), Fences::Asymmetric, slot, &who, &Alive, |_| false)
            .unwrap()
    };
    let mut writers = [attach(0), attach(1)];
    let mut open: [Option<Reserved>; 2] = [None, None];
    let mut reader = Reader::attach(ring, Fences::Asymmetric).unwrap();
    let (mut dice, mut expected, mut again) = (Dice(4711), [Refused::default(); 2], 0);
    for _ in 0..ROUNDS {
        let armed = dice.roll(20) == 0;
        let who = dice.roll(2) as usize;
        match dice.roll(40) {
            0 => while reader.next(ring).unwrap().0.is_some() {},
            1 => drop(reader.next(ring).unwrap()),
            2 if open[who].is_none() => {
                open[who] = writers[who].reserve(at, &Alive, KIND, 40, 0).ok();
            }
            3..8 => {
                if let Some(open) = open[who].take() {
                    let _ = match dice.roll(3) {
                        0 => writers[who].discard(at, &Alive, open),
                        1 => writers[who].commit(at, &Alive, open, 8, Wake::No),
                        _ => writers[who].commit(at, &Alive, open, 40, Wake::No),
                    };
                }
            }
            8 if open[who].is_none() => {
                let before = writers[who].totals(at);
                writers[who] = attach(who as u32);
                assert_eq!(writers[who].totals(at), before, "the next one has all from the slot");
            }
            _ => {}
        }
        let _ = reader.release(ring);
        let writer = &mut writers[who];
        let len = if dice.roll(50) == 0 { writer.max_len() + 1 } else { dice.len() };
        let size = record_size(len);
        let unreported = causes(expected[who], writer.totals(at).reported);
        heap.header().wait.armed.store(armed.into(), Relaxed);
        let is_full_still = len <= writer.max_len() && writer.is_full_still(ring, len);
        let published = writer.publish(at, &Alive, KIND, len, None, Wake::No, |_| {});
        assert!(!is_full_still || published == Err(Refusal::Full));
        let Err(refusal) = published else { continue };
        again += u64::from(is_full_still);
        assert!(writer.refuse(at, refusal, len).is_due() || !armed, "a full ring has to be read");
        add(&mut expected[who], refusal, size);
        assert_eq!(heap.header().wait.armed.load(Relaxed), 0, "a sleeper is claimed");
        if refusal == Refusal::Full {
            assert!(is_full(
                &heap,
                heap.header().shared.producer_pos.load(Relaxed),
                unreported,
                size
            ));
            let head = ring.head();
            assert!(at.held_up().is_none() || ring.tail() != head, "held up, not full");
        }
        let totals = RingTotals::of(at, Policy::Drop, |_| false).unwrap();
        assert_eq!(totals.producer.refused, expected[0].plus(expected[1]));
    }
    println!("{expected:?}, {again} of them without the lock");
    let [one, other] = expected;
    assert!(again > ROUNDS / 40 && other.too_large.records > 0);
    assert!(one.pending.records > 0 || cfg!(miri));
}

/// Any number may be in the word of another process: none of them means "full as before".
#[test]
fn a_tail_that_nobody_can_have_written_is_no_full_ring() {
    for refused in [false, true] {
        let heap = HeapRing::new(SIZE, Policy::Drop).unwrap().many(1);
        let (at, who) = (heap.shared(), OwnerInfo::default());
        let fences = Fences::Asymmetric;
        let mut writer =
            SharedWriter::attach(at, heap.layout(), fences, 0, &who, &Alive, |_| false).unwrap();
        if refused {
            while writer.publish(at, &Alive, KIND, 64, None, Wake::No, |_| {}).is_ok() {}
            let _ = writer.refuse(at, Refusal::Full, 64);
        }
        for tail in [u64::MAX, u64::MAX - 7, 1 << 63, 4] {
            heap.header().data_tail.store(tail, Relaxed);
            for _ in 0..3 {
                let refusal =
                    writer.publish(at, &Alive, KIND, 64, None, Wake::No, |_| {}).unwrap_err();
                assert_eq!(refusal, Refusal::Corrupt { tail }, "{refused}");
                let _ = writer.refuse(at, refusal, 64);
            }
        }
    }
}
