//! How the engine delivers, driven turn by turn with scripted outputs.

mod losses;
mod replaced;
mod unread;

use crate::scripted::{DELAY, Reported, Scripted, all_due, publish, ring, until};
use perfring_consumer::{Consumer, Item, Location, Start, stat::Stat};
use perfring_producer::Policy;
use perfring_sidecar::config::{Delivery, From, Input, InputSource};
use perfring_sidecar::{Engine, Note};
use std::path::Path;
use std::time::Instant;

fn engine(outputs: &[(&str, Delivery, &Scripted)]) -> Engine {
    let mut engine = Engine::new(DELAY).unwrap();
    for (name, delivery, output) in outputs {
        engine.add_output(name, *delivery, Default::default(), output.boxed()).unwrap();
    }
    engine
}

fn attach(engine: &mut Engine, path: &Path) {
    let location = Location::from(path.to_owned());
    engine
        .attach(&location, &Input::new(InputSource::Ring(location.clone())), None, |_| None)
        .unwrap();
}

fn tail(path: &Path) -> u64 {
    Stat::read(path.to_owned()).unwrap().totals.unwrap().tail
}

/// Returns what the next consumer reads first, once the engine is dropped.
fn next(path: &Path) -> Option<u64> {
    let mut consumer = Consumer::attach(path.to_owned()).unwrap();
    let next = consumer.read().unwrap();
    next.map(|item| match item {
        Item::Record(record) => u64::from_ne_bytes(record.bytes.try_into().unwrap()),
        Item::Lost(_) => panic!("{item:?}"),
    })
}

#[test]
fn a_record_leaves_its_ring_once_every_output_that_promises_has_delivered_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (prompt, slow, careless) = (Scripted::ready(), Scripted::ready(), Scripted::default());
    slow.set(|script| script.prompt = false);
    let mut engine = engine(&[
        ("prompt", Delivery::Required, &prompt),
        ("slow", Delivery::Required, &slow),
        ("careless", Delivery::BestEffort, &careless),
    ]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..10);
    all_due();
    until(&mut engine, "both have ten", |_| slow.records().len() == 10);
    assert_eq!((tail(&path), engine.is_settled()), (0, false));
    // The ring's beginning and some records are delivered: nothing is released, as one turn took
    // all.
    slow.set(|script| drop(script.held.drain(..5)));
    engine.turn();
    assert_eq!(tail(&path), 0);
    publish(&mut producer, 10..20);
    all_due();
    until(&mut engine, "both have twenty", |_| slow.records().len() == 20);
    // All records of the first turn are delivered, and some of the second.
    slow.set(|script| drop(script.held.drain(..10)));
    engine.turn();
    let first = tail(&path);
    assert!(first > 0 && !engine.is_settled());
    slow.set(|script| script.held.clear());
    engine.turn();
    assert!(tail(&path) > first && engine.is_settled());
    assert_eq!(tail(&path), Stat::read(path).unwrap().totals.unwrap().head);
    assert!(careless.reported().is_empty());
}

#[test]
fn when_a_required_output_is_down_the_others_go_on_and_the_ring_keeps_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (first, down) = (Scripted::ready(), Scripted::ready());
    down.set(|script| script.room = 6); // the beginning and five records
    let mut engine =
        engine(&[("first", Delivery::Required, &first), ("down", Delivery::Required, &down)]);
    attach(&mut engine, &path);
    let written = publish(&mut producer, 0..10_000);
    all_due();
    until(&mut engine, "the first has all", |_| first.records().len() as u64 == written);
    assert!(written > 2000 && down.records().len() == 5, "{written}");
    assert_eq!(tail(&path), 0, "delivered records are released with their turn");
    // In the middle of a turn of the others.
    down.set(|script| script.room = 100);
    until(&mut engine, "some more came", |_| down.records().len() == 105);
    down.set(|script| script.room = usize::MAX);
    until(&mut engine, "all came", |_| down.records().len() as u64 == written);
    publish(&mut producer, 10_000..10_001);
    until(&mut engine, "the next came", |engine| {
        down.records().last() == Some(&10_000) && engine.is_settled()
    });
    for output in [&first, &down] {
        let expected: Vec<u64> = (0..written).chain([10_000]).collect();
        assert_eq!(output.records(), expected);
        assert_eq!(output.lost("full"), 10_000 - written);
    }
    assert_eq!(tail(&path), Stat::read(path).unwrap().totals.unwrap().head);
}

#[test]
fn when_all_outputs_are_down_reading_stops_and_none_waits_for_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let outputs = [Scripted::ready(), Scripted::ready(), Scripted::ready()];
    let [a, b, c] = &outputs;
    let mut engine = engine(&[
        ("a", Delivery::Required, a),
        ("b", Delivery::Required, b),
        ("c", Delivery::Required, c),
    ]);
    attach(&mut engine, &dir.path().join("one"));
    for (room, output) in [3, 5, 5].into_iter().zip(&outputs) {
        output.set(|script| script.room = room);
    }
    let written = publish(&mut producer, 0..1000);
    let counts = || outputs.each_ref().map(|output| output.records().len());
    until(&mut engine, "no room is left", |_| counts() == [3, 5, 5]);
    for _ in 0..100 {
        engine.turn();
    }
    assert_eq!(counts(), [3, 5, 5]);
    // Each of them comes back first, whichever of them held the event.
    for output in &outputs {
        output.set(|script| script.room = usize::MAX);
        until(&mut engine, "it has all", |_| output.records().len() as u64 == written);
    }
    until(&mut engine, "all is delivered", |engine| engine.is_settled());
    for output in &outputs {
        assert_eq!(output.records(), (0..written).collect::<Vec<_>>());
    }
}

#[test]
fn outputs_that_stall_at_random_get_each_record_of_all_rings_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = perfring_testkit::rng::Rng::new(7);
    let names = ["a", "b", "c"];
    let mut producers = names.map(|name| ring(dir.path(), name, Policy::Drop));
    let outputs = [Scripted::ready(), Scripted::ready(), Scripted::ready()];
    let ([a, b, c], healthy) = (&outputs, Scripted::ready());
    let mut engine = engine(&[
        ("a", Delivery::Required, a),
        ("b", Delivery::Required, b),
        ("healthy", Delivery::Required, &healthy),
        ("c", Delivery::Required, c),
    ]);
    names.iter().for_each(|name| attach(&mut engine, &dir.path().join(name)));
    outputs.iter().for_each(|output| output.set(|script| script.prompt = false));
    let (mut written, mut n, mut behind) = (Vec::new(), 0, 0);
    for _ in 0..3000 {
        for output in &outputs {
            let (room, deliver) = (rng.below(60) as usize, rng.below(80) as usize);
            output.set(|script| {
                script.room = if room < 20 { 0 } else { room };
                drop(script.held.drain(..deliver.min(script.held.len())));
            });
        }
        for _ in 0..rng.below(40) {
            n += 1;
            let which = rng.below(3) as usize;
            if producers[which].publish(&(n as u64).to_ne_bytes()).is_ok() {
                written.push(n as u64);
            }
        }
        engine.turn();
        behind += engine.outputs().filter(|output| output.is_behind).count();
    }
    outputs.iter().for_each(|output| output.set(|script| script.room = 0));
    until(&mut engine, "one that waits for none has all", |_| {
        healthy.records().len() == written.len()
    });
    outputs.iter().for_each(|output| {
        output.set(|script| (script.room, script.prompt) = (usize::MAX, true));
        output.set(|script| script.held.clear());
    });
    until(&mut engine, "all is delivered", |engine| {
        outputs.iter().all(|output| output.records().len() >= written.len()) && engine.is_settled()
    });
    eprintln!("{} records, {behind} times an output was behind", written.len());
    assert!(behind > 1000 && written.len() > 20_000);
    for output in outputs.iter().chain([&healthy]) {
        let mut came = output.records();
        came.sort_unstable();
        assert_eq!(came, written);
        for name in names {
            let of_one = |reported: &Reported| match reported {
                Reported::Record(ring, pos, _) if ring == name => Some(*pos),
                _ => None,
            };
            let places: Vec<u64> = output.reported().iter().filter_map(of_one).collect();
            assert!(places.is_sorted(), "{name}");
        }
    }
    for name in names {
        let totals = Stat::read(dir.path().join(name)).unwrap().totals.unwrap();
        assert_eq!(totals.tail, totals.head);
    }
}

#[test]
fn an_output_that_fails_keeps_what_it_did_not_deliver_in_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (good, bad) = (Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("good", Delivery::Required, &good), ("bad", Delivery::Required, &bad)]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..3);
    until(&mut engine, "three came", |engine| engine.is_settled() && bad.records().len() == 3);
    bad.set(|script| script.fails = true);
    publish(&mut producer, 3..6);
    until(&mut engine, "the next came", |_| good.records().len() == 6);
    engine.turn();
    let failed = engine.outputs().find(|output| output.name == "bad").unwrap().failed;
    assert!(failed.is_some_and(|error| error.to_string().contains("the script says")));
    let errors = engine.close(Instant::now());
    assert_eq!(errors.len(), 1);
    drop(engine);
    assert_eq!(next(&path), Some(3), "at least once: the good one gets it again");
}

#[test]
fn a_removed_ring_with_another_file_ends_once_it_is_read_although_it_has_a_producer() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let output = Scripted::ready();
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &path);
    let uuid = engine.rings().next().unwrap().origin.uuid;
    engine.file_replaced(&uuid);
    publish(&mut producer, 0..5);
    until(&mut engine, "five came", |engine| output.records().len() == 5 && engine.is_settled());
    assert_eq!(engine.rings().count(), 1, "its file is there");
    std::fs::remove_file(&path).unwrap();
    engine.file_removed(&uuid);
    publish(&mut producer, 5..9);
    engine.file_replaced(&uuid);
    until(&mut engine, "it has ended", |engine| engine.rings().count() == 0);
    assert_eq!(output.records(), (0..9).collect::<Vec<_>>(), "what it held was not left there");
}

#[test]
fn a_removed_ring_of_a_dead_producer_is_read_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let output = Scripted::ready();
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &path);
    let uuid = engine.rings().next().unwrap().origin.uuid;
    publish(&mut producer, 0..5);
    std::fs::remove_file(&path).unwrap();
    engine.file_removed(&uuid);
    until(&mut engine, "five came", |engine| output.records().len() == 5 && engine.is_settled());
    for _ in 0..20 {
        engine.turn();
    }
    assert_eq!(engine.rings().count(), 1, "its producer is alive, and may write more");
    publish(&mut producer, 5..9);
    drop(producer);
    output.set(|script| script.prompt = false);
    until(&mut engine, "the end was reported", |_| {
        output.reported().last() == Some(&Reported::Ended("one".into()))
    });
    assert_eq!(output.records(), (0..9).collect::<Vec<_>>());
    engine.turn();
    assert_eq!(engine.rings().count(), 1, "it stays until all of it is delivered");
    output.set(|script| script.held.clear());
    until(&mut engine, "it is released", |engine| engine.rings().count() == 0);
    let notes = engine.notes();
    assert!(
        matches!(&notes[..], [Note::Ended { figures, .. }] if figures.records == 9),
        "{notes:?}"
    );
}

#[test]
fn a_damaged_ring_is_reported_and_set_aside_and_the_others_continue() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let mut good = ring(dir.path(), "good", Policy::Drop);
    let mut bad = ring(dir.path(), "bad", Policy::Drop);
    let output = Scripted::ready();
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &dir.path().join("good"));
    attach(&mut engine, &dir.path().join("bad"));
    publish(&mut bad, 0..3);
    until(&mut engine, "three came", |engine| output.records().len() == 3 && engine.is_settled());
    publish(&mut bad, 3..4);
    publish(&mut good, 10..12);
    // The header of the fourth record says that it is longer than the ring.
    let file = std::fs::File::options().write(true).open(dir.path().join("bad")).unwrap();
    file.write_all_at(&[0xff; 8], 4096 + 3 * 24).unwrap();
    until(&mut engine, "it is set aside", |engine| engine.rings().count() == 1);
    publish(&mut good, 12..14);
    until(&mut engine, "the good ones came", |_| output.records().ends_with(&[13]));
    let numbers = output.records();
    assert!([10, 11, 12, 13].iter().all(|n| numbers.contains(n)) && numbers.len() == 7);
    let notes = engine.notes();
    let why = |note: &Note| match note {
        Note::SetAside { ring, why, .. } => Some(format!("{ring}: {why}")),
        _ => None,
    };
    let why: Vec<String> = notes.iter().filter_map(why).collect();
    assert!(why.len() == 1 && why[0].starts_with("bad: "), "{notes:?}");
    assert!(output.reported().contains(&Reported::Ended("bad".into())));
}

#[test]
fn an_output_that_is_behind_gets_the_rest_of_a_removed_ring_and_then_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one");
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let (all, down) = (Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("all", Delivery::Required, &all), ("down", Delivery::Required, &down)]);
    attach(&mut engine, &path);
    down.set(|script| script.room = 1);
    let uuid = engine.rings().next().unwrap().origin.uuid;
    publish(&mut producer, 0..100);
    drop(producer);
    until(&mut engine, "the other has all", |_| all.records().len() == 100);
    std::fs::remove_file(&path).unwrap();
    engine.file_removed(&uuid);
    for _ in 0..20 {
        engine.turn();
    }
    assert_eq!(engine.rings().count(), 1);
    down.set(|script| script.room = usize::MAX);
    until(&mut engine, "it is released", |engine| engine.rings().count() == 0);
    for output in [&all, &down] {
        assert_eq!(output.records(), (0..100).collect::<Vec<_>>());
        assert_eq!(output.reported().last(), Some(&Reported::Ended("one".into())));
    }
}

#[test]
fn a_best_effort_output_does_not_delay_the_end_of_a_ring() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one");
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let (all, down, bad) = (Scripted::ready(), Scripted::ready(), Scripted::ready());
    let mut engine = engine(&[
        ("all", Delivery::Required, &all),
        ("down", Delivery::BestEffort, &down),
        ("bad", Delivery::BestEffort, &bad),
    ]);
    attach(&mut engine, &path);
    let uuid = engine.rings().next().unwrap().origin.uuid;
    down.set(|script| script.room = 0);
    bad.set(|script| script.fails = true);
    publish(&mut producer, 0..3);
    drop(producer);
    engine.file_removed(&uuid);
    until(&mut engine, "it is released", |engine| engine.rings().count() == 0);
    assert!(matches!(&engine.notes()[..], [Note::Ended { .. }]));
    // Its lock is free, although one output is not told yet.
    assert!(Consumer::attach(path).is_ok());
    assert!(!down.reported().contains(&Reported::Ended("one".into())));
    down.set(|script| script.room = usize::MAX);
    until(&mut engine, "it is reported", |_| {
        down.reported().contains(&Reported::Ended("one".into()))
    });
    assert_eq!(down.lost("output busy"), 3);
}

#[test]
fn the_position_in_an_observed_ring_exists_from_the_first_moment_and_outlives_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "flight", Policy::Overwrite);
    let path = dir.path().join("flight");
    let location = Location::from(path);
    let input = Input { from: From::Latest, ..Input::new(InputSource::Ring(location.clone())) };
    publish(&mut producer, 0..10);
    let output = Scripted::ready();
    let mut first = engine(&[("output", Delivery::Required, &output)]);
    first.attach(&location, &input, None, |_| None).unwrap();
    // It ends before anything arrived: what arrives meanwhile is not skipped.
    let saved = first.saved();
    drop(first);
    publish(&mut producer, 10..13);
    let output = Scripted::ready();
    let mut second = engine(&[("output", Delivery::Required, &output)]);
    second.attach(&location, &input, None, |uuid| saved.get(uuid).copied().map(Start::At)).unwrap();
    until(&mut second, "three came", |engine| {
        output.records() == [10, 11, 12] && engine.is_settled()
    });
    let positions = second.saved();
    second.drop_input(&input);
    until(&mut second, "it is released", |engine| engine.rings().count() == 0);
    let notes = second.notes();
    let [Note::Ended { uuid, removed: false, saved: Some(saved), .. }] = &notes[..] else {
        panic!("{notes:?}");
    };
    assert_eq!(positions.get(uuid), Some(saved));
    let input = Input::new(InputSource::Ring(location.clone()));
    second.attach(&location, &input, None, |_| Some(Start::At(*saved))).unwrap();
    second.file_removed(uuid);
    drop(producer);
    until(&mut second, "it is released", |engine| engine.rings().count() == 0);
    let notes = second.notes();
    assert!(matches!(&notes[..], [Note::Ended { removed: true, saved: None, .. }]), "{notes:?}");
}
