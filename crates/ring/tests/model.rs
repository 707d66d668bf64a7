//! The real algorithm against a list of everything that was ever published, after every operation.
#![cfg(not(loom))]

mod case;
mod ring;
pub(crate) mod told;

use self::case::*;
use self::ring::*;
use perfring_abi::{Evict, Policy, RecordType, record_size};
use perfring_ring::heap::HeapRing;
use perfring_ring::{End, Fences, Wake, Writer};
use proptest::test_runner::{Config, TestRunner};

fn run(name: &str, policy: Policy) {
    let tally = Tally::default();
    let cases = if cfg!(miri) { 3 } else { 600 };
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&case(policy), |case| {
        let heap = HeapRing::new(case.size, case.policy).unwrap();
        let heap = heap.evict(case.evict).report(case.report);
        let heap = if case.time { heap.timed() } else { heap };
        let mut model = Model::new(&heap, &case, &tally);
        for op in &case.ops {
            model.apply(op);
            model.check();
        }
        let (committed, refused) = (model.next_id - 1, model.full.plus(model.too_large).records);
        assert_eq!(model.attempts, committed + refused + model.given_up);
        tick(&tally.overwritten, model.data(0, model.tail).records);
        let lapped: u64 = model.watchers.values().map(|w| w.lapped.records).sum();
        tick(&tally.lapped, lapped);
        Ok(())
    });
    println!("{name}: {cases} cases, {tally:?}");
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn a_drop_ring_does_what_its_model_does() {
    run("drop", Policy::Drop);
}

#[test]
fn an_overwrite_ring_does_what_its_model_does() {
    run("overwrite", Policy::Overwrite);
}

/// At whatever fill level a producer takes over, its evictions by halves leave at least three
/// eighths.
#[test]
fn a_ring_evicted_by_halves_keeps_three_eighths() {
    const SIZE: u64 = 1024;
    let (mut least, mut evictions) = (SIZE, 0);
    for taken_over_at in 0..if cfg!(miri) { 2 } else { 100 } {
        for len in [0, 8, 40, 100] {
            let heap = HeapRing::new(SIZE, Policy::Overwrite).unwrap().evict(Evict::Half);
            let ring = heap.ring();
            let mut writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
            for turn in 0..200 {
                if turn == taken_over_at {
                    writer = Writer::attach(ring, heap.layout(), Fences::Full).unwrap();
                }
                let tail = ring.tail();
                let reserved = writer.reserve(ring, RecordType::BYTES, len, 0).unwrap();
                if ring.tail() != tail {
                    let kept = writer.pos() + record_size(len) - ring.tail();
                    assert!(kept >= SIZE * 3 / 8, "{kept} kept after {taken_over_at}, {len}");
                    (least, evictions) = (least.min(kept), evictions + 1);
                }
                let _ = writer.end(ring, reserved, len, End::Publish(Wake::Auto));
            }
        }
    }
    println!("{evictions} evictions, at least {least} of {SIZE} bytes kept");
    assert!(evictions > 0);
}

/// A peek forgets losses that were found and not taken. They are found again, though nothing is counted any more.
#[test]
fn losses_that_a_peek_has_forgotten_are_told() {
    use self::case::Op::*;
    let case = Case {
        size: 128,
        policy: Policy::Drop,
        evict: Evict::Exact,
        report: perfring_abi::Report::CountersOnly,
        time: false,
        ops: vec![
            Batch(vec![113]),
            Release,
            Publish(97),
            Next(1),
            Batch(vec![1]),
            Lost(false),
            CommitLen(1, 0),
            Lost(false),
            Publish(1),
            HasLost,
            PeekPassRelease(1),
            Lost(false),
            Lost(false),
        ],
    };
    let tally = Tally::default();
    let heap = HeapRing::new(case.size, case.policy).unwrap();
    let heap = heap.evict(case.evict).report(case.report);
    let mut model = Model::new(&heap, &case, &tally);
    for op in &case.ops {
        model.apply(op);
        model.check();
    }
}
