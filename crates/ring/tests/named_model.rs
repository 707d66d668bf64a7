//! Named consumers against a plain model, with one producer and with many: after every operation and every death, what each
//! of them has read, what was missed, what is refused, and where the tails are.
#![cfg(not(loom))]

mod consumers;
mod world;

use self::world::{Case, Op, Tally, World};
use perfring_abi::{Policy, Report};
use perfring_ring::Start;
use perfring_ring::heap::HeapRing;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn ops(size: usize, seats: u32, producers: u32) -> impl Strategy<Value = Vec<Op>> {
    let len = prop_oneof![
        6 => 0..=(size / 8),
        3 => 0..=(size / 3),
        1 => (size - 40)..=(size + 40),
    ];
    let (seat, who) = (0..seats, 0..producers);
    let start = prop_oneof![Just(Start::Oldest), Just(Start::Latest)];
    let op = prop_oneof![
        24 => (who.clone(), len.clone()).prop_map(|(who, len)| Op::Publish { who, len }),
        1 => (who.clone(), len).prop_map(|(who, len)| Op::Discard { who, len }),
        1 => who.clone().prop_map(|who| Op::ProducerDies { who }),
        // More refusals at one tail than there are between two searches for the dead.
        1 => (who, 0..300u32).prop_map(|(who, times)| Op::Insist { who, times }),
        6 => seat.clone().prop_map(|seat| Op::Open { seat, renamed: false }),
        1 => seat.clone().prop_map(|seat| Op::Open { seat, renamed: true }),
        16 => (seat.clone(), 1u8..12).prop_map(|(seat, times)| Op::Read { seat, times }),
        3 => (seat.clone(), 60u8..140).prop_map(|(seat, times)| Op::Read { seat, times }),
        6 => seat.clone().prop_map(|seat| Op::Release { seat }),
        1 => seat.clone().prop_map(|seat| Op::Close { seat }),
        1 => seat.clone().prop_map(|seat| Op::Die { seat }),
        2 => seat.clone().prop_map(|seat| Op::DieBeforeTail { seat }),
        1 => (seat, any::<bool>()).prop_map(|(seat, late)| Op::DieJoining { seat, late }),
        1 => Just(Op::Recover),
        1 => (0u8..2, start).prop_map(|(who, start)| Op::Watch { who, start }),
        3 => (0u8..2, 1u8..9).prop_map(|(who, times)| Op::Observe { who, times }),
    ];
    vec(op, 1..200)
}

fn case() -> impl Strategy<Value = Case> {
    let report = prop_oneof![Just(Report::InStream), Just(Report::CountersOnly)];
    (6u32..=13, 1u32..=4, 0u32..=3, report).prop_flat_map(|(bits, seats, many, report)| {
        let size = 1 << bits;
        ops(size, seats, many.max(1)).prop_map(move |ops| Case {
            size: size as u64,
            seats,
            many,
            report,
            ops,
        })
    })
}

#[test]
fn named_consumers_do_what_their_model_does() {
    let tally = Tally::default();
    let cases = if cfg!(miri) { 3 } else { 1000 };
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&case(), |case| {
        let heap = HeapRing::new(case.size, Policy::Drop).unwrap();
        let heap = heap.report(case.report).consumers(case.seats);
        let heap = if case.many == 0 { heap } else { heap.many(case.many) };
        let mut world = World::new(&heap, &case, &tally);
        for op in &case.ops {
            world.apply(op);
            world.check();
        }
        Ok(())
    });
    println!("{cases} cases, {tally:?}");
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    tally.assert_all();
}
