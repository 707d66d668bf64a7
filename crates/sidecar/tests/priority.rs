//! Rings with priority: outputs are given their records first, and those of others are not starved.

use crate::scripted::{DELAY, Reported, Scripted, all_due, publish, ring, until};
use perfring_consumer::{Location, stat::Stat};
use perfring_producer::Policy;
use perfring_sidecar::Engine;
use perfring_sidecar::config::{Delivery, Input, InputSource};
use perfring_testkit::wait::Watchdog;
use proptest::prelude::*;
use std::path::Path;

/// Items of a turn, and those of them that are left to rings without priority.
const TURN: usize = 2048;
const OTHERS: usize = 512;

fn engine(outputs: &[(&str, &Scripted)]) -> Engine {
    let mut engine = Engine::new(DELAY).unwrap();
    for (name, output) in outputs {
        let filter = Default::default();
        engine.add_output(name, Delivery::Required, filter, output.boxed()).unwrap();
    }
    engine
}

fn attach(engine: &mut Engine, path: &Path, priority: Option<bool>) {
    let location = Location::from(path.to_owned());
    let input = Input { priority, ..Input::new(InputSource::Ring(location.clone())) };
    engine.attach(&location, &input, None, |_| None).unwrap();
}

/// The records of each ring that an output was given.
fn given(output: &Scripted) -> [usize; 2] {
    let of = |name: &str| {
        let is_of =
            |reported: &&Reported| matches!(reported, Reported::Record(ring, ..) if ring == name);
        output.reported().iter().filter(is_of).count()
    };
    [of("fire.priority"), of("fire")]
}

#[test]
fn a_turn_begins_with_what_has_priority_by_its_name_or_by_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let mut fire = ring(dir.path(), "fire", Policy::Drop);
    let mut errors = ring(dir.path(), "fire.priority", Policy::Drop);
    assert_eq!(publish(&mut fire, 0..2500), 2500);
    assert_eq!(publish(&mut errors, 0..2500), 2500);
    // Which of the two has priority: the name's, both (in the order of time), or the other.
    for (of_fire, of_errors, first) in [
        (None, None, [TURN - OTHERS, OTHERS]),
        (Some(true), Some(false), [OTHERS, TURN - OTHERS]),
        (None, Some(false), [0, TURN]),
    ] {
        let output = Scripted::ready();
        let mut engine = engine(&[("output", &output)]);
        output.set(|script| script.prompt = false); // nothing is released
        attach(&mut engine, &dir.path().join("fire"), of_fire);
        attach(&mut engine, &dir.path().join("fire.priority"), of_errors);
        let priority: Vec<bool> = engine.rings().map(|ring| ring.priority).collect();
        assert_eq!(
            priority.iter().filter(|priority| **priority).count(),
            usize::from(first[0] > 0)
        );
        all_due();
        until(&mut engine, "something came", |_| given(&output) != [0, 0]);
        assert_eq!(given(&output), first, "{of_fire:?} {of_errors:?}");
    }
}

#[test]
fn an_output_that_was_stuck_gets_errors_before_the_flood_that_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut fire = ring(dir.path(), "fire", Policy::Drop);
    let mut errors = ring(dir.path(), "fire.priority", Policy::Drop);
    // Alone, it stops the engine; beside another it falls behind, and has a lane.
    for alone in [true, false] {
        let (down, other) = (Scripted::ready(), Scripted::ready());
        let mut engine = match alone {
            true => engine(&[("down", &down)]),
            false => engine(&[("down", &down), ("other", &other)]),
        };
        attach(&mut engine, &dir.path().join("fire"), None);
        attach(&mut engine, &dir.path().join("fire.priority"), None);
        until(&mut engine, "both began", |_| down.reported().len() == 2);
        down.set(|script| script.room = 3);
        // The flood fills its ring, and refuses; errors are not refused.
        let flood = publish(&mut fire, 0..10_000);
        assert!(flood < 10_000);
        until(&mut engine, "it is stuck", |_| given(&down) == [0, 3]);
        assert_eq!(publish(&mut errors, 0..100), 100);
        // They are due, as the flood is, and a ring is polled within the delay.
        let since = std::time::Instant::now();
        until(&mut engine, "the delay is over", |_| since.elapsed() > 3 * DELAY);
        assert_eq!(given(&down), [0, 3]);
        // The one record that was offered and not taken, and then what has priority.
        down.set(|script| script.room = 1 + 100 + 10);
        until(&mut engine, "it has room", |_| given(&down) == [100, 3 + 1 + 10]);
        let reported = down.reported();
        let after: Vec<&Reported> = reported.iter().skip(2 + 3 + 1).collect();
        let is_error = |reported: &&&Reported| matches!(reported, Reported::Record(ring, ..) if ring == "fire.priority");
        assert_eq!(after.iter().take(100).filter(is_error).count(), 100, "alone: {alone}");
        down.set(|script| script.room = usize::MAX);
        until(&mut engine, "all came", |engine| {
            given(&down) == [100, flood as usize] && engine.is_settled()
        });
        // Each ring reports its own losses: the next record says so.
        publish(&mut fire, 20_000..20_001);
        publish(&mut errors, 100..101);
        until(&mut engine, "the last came", |engine| {
            given(&down) == [101, flood as usize + 1] && engine.is_settled()
        });
        assert_eq!(down.lost("full"), 10_000 - flood);
        let of_fire =
            |reported: &Reported| matches!(reported, Reported::Lost(ring, ..) if ring == "fire");
        let lost = |reported: &&Reported| matches!(reported, Reported::Lost(..));
        assert!(down.reported().iter().filter(lost).all(of_fire));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn neither_starves_the_other_and_each_comes_whole_and_in_its_order(
        counts in [0..2700u64, 0..2700u64],
        more in [0..400u64, 0..400u64],
        room in prop_oneof![Just(usize::MAX), 1..900usize],
        beside in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let names = ["fire.priority", "fire"];
        let mut producers = names.map(|name| ring(dir.path(), name, Policy::Drop));
        let (output, other) = (Scripted::ready(), Scripted::ready());
        let mut engine = match beside {
            true => engine(&[("output", &output), ("other", &other)]),
            false => engine(&[("output", &output)]),
        };
        names.iter().for_each(|name| attach(&mut engine, &dir.path().join(name), None));
        let mut written = [0u64; 2];
        for (at, count) in counts.into_iter().enumerate() {
            written[at] += publish(&mut producers[at], 0..count);
        }
        all_due();
        let dog = Watchdog::default();
        loop {
            output.set(|script| script.room = room);
            let before = given(&output);
            let was_behind = engine.outputs().any(|output| output.is_behind);
            engine.turn();
            let now = given(&output);
            let left = [0, 1].map(|at| written[at] as usize - before[at]);
            let came = [0, 1].map(|at| now[at] - before[at]);
            // Unless it is out of room, or holds records back for their order.
            if came[0] + came[1] > 0 && room == usize::MAX && !was_behind {
                if came[1] > 0 {
                    prop_assert!(came[0] >= left[0].min(TURN - OTHERS), "{left:?} {came:?}");
                }
                if came[0] >= TURN - OTHERS {
                    prop_assert!(came[1] >= left[1].min(OTHERS), "{left:?} {came:?}");
                }
            }
            if now == written.map(|records| records as usize) && engine.is_settled() {
                break;
            }
            engine.wait(DELAY);
            dog.check("all came");
        }
        for (at, count) in more.into_iter().enumerate() {
            written[at] += publish(&mut producers[at], 10_000..10_000 + count);
        }
        output.set(|script| script.room = usize::MAX);
        until(&mut engine, "all came", |engine| {
            given(&output) == written.map(|records| records as usize) && engine.is_settled()
        });
        for output in if beside { vec![&output, &other] } else { vec![&output] } {
            prop_assert_eq!(given(output), written.map(|records| records as usize));
            for name in names {
                let of_one = |reported: &Reported| match reported {
                    Reported::Record(ring, pos, _) if ring == name => Some(*pos),
                    _ => None,
                };
                let places: Vec<u64> = output.reported().iter().filter_map(of_one).collect();
                prop_assert!(places.windows(2).all(|two| two[0] < two[1]), "{}", name);
            }
        }
        for name in names {
            let totals = Stat::read(dir.path().join(name)).unwrap().totals.unwrap();
            prop_assert_eq!(totals.tail, totals.head);
        }
    }
}
