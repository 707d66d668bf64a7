//! Delivery guarantees, tested with scripted outputs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod scripted;

use perfring_consumer::{Consumer, Item, Location, Stat};
use perfring_producer::{Policy, RecordType};
use perfring_sidecar::config::{Config, Delivery, From, Input, InputSource};
use perfring_sidecar::{Engine, Note};
use scripted::{Reported, Scripted, publish, ring, until};
use std::path::Path;
use std::time::{Duration, Instant};

fn engine(outputs: &[(&str, Delivery, &Scripted)]) -> Engine {
    let mut engine = Engine::new(Duration::from_millis(1)).unwrap();
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
    until(&mut engine, "both have ten", |_| slow.records().len() == 10);
    assert_eq!((tail(&path), engine.is_settled()), (0, false));
    // The ring's beginning and some records are delivered: nothing is released, as one turn took
    // all.
    slow.set(|script| drop(script.held.drain(..5)));
    engine.turn();
    assert_eq!(tail(&path), 0);
    publish(&mut producer, 10..20);
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
fn when_a_required_output_is_down_reading_stops_and_the_ring_reports_losses() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (first, down) = (Scripted::ready(), Scripted::ready());
    down.set(|script| script.room = 6); // the beginning and five records
    let mut engine =
        engine(&[("first", Delivery::Required, &first), ("down", Delivery::Required, &down)]);
    attach(&mut engine, &path);
    let written = publish(&mut producer, 0..10_000);
    until(&mut engine, "it is stalled", |engine| engine.turn() == perfring_sidecar::Turn::Stalled);
    for _ in 0..100 {
        assert_eq!(engine.turn(), perfring_sidecar::Turn::Stalled);
    }
    // The record that was offered to the first is held; no other is taken from the ring.
    assert_eq!((first.records().len(), down.records().len()), (6, 5));
    assert_eq!(tail(&path), 0, "delivered records are released with their turn");
    down.set(|script| script.room = usize::MAX);
    until(&mut engine, "all came", |_| down.records().len() as u64 == written);
    publish(&mut producer, 10_000..10_001);
    until(&mut engine, "the next came", |_| down.records().last() == Some(&10_000));
    for output in [&first, &down] {
        let expected: Vec<u64> = (0..written).chain([10_000]).collect();
        assert_eq!(output.records(), expected);
        assert_eq!(output.lost("full"), 10_000 - written);
    }
}

#[test]
fn records_that_a_best_effort_output_is_not_given_are_reported_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = ring(dir.path(), "one", Policy::Drop);
    let mut two = ring(dir.path(), "two", Policy::Drop);
    let (all, some) = (Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("all", Delivery::Required, &all), ("some", Delivery::BestEffort, &some)]);
    attach(&mut engine, &dir.path().join("one"));
    attach(&mut engine, &dir.path().join("two"));
    some.set(|script| script.room = 0);
    publish(&mut one, 0..7);
    publish(&mut two, 100..103);
    // A loss that the ring reports meanwhile is passed on.
    let more = publish(&mut one, 7..10_000);
    until(&mut engine, "all has them", |_| all.records().len() as u64 == 10 + more);
    publish(&mut one, 20_000..20_001);
    until(&mut engine, "all has the last", |_| all.records().last() == Some(&20_000));
    assert_eq!(some.reported().len(), 2, "the two beginnings");
    some.set(|script| script.room = usize::MAX);
    publish(&mut one, 20_001..20_002);
    until(&mut engine, "some has the last", |_| some.records() == [20_001]);
    engine.flush();
    let refused = 10_000 - 7 - more;
    assert_eq!((some.lost("output busy"), some.lost("full")), (10 + more + 1, refused));
    assert_eq!((all.lost("output busy"), all.lost("full")), (0, refused));
    // The loss precedes the ring's next record; bytes are those in the ring: header,
    // timestamp and payload.
    let reported = some.reported();
    let at = |wanted: &Reported| reported.iter().position(|reported| reported == wanted);
    let of_one = Reported::Lost("one".into(), "output busy", 7 + more + 1, 24 * (7 + more + 1));
    let of_two = Reported::Lost("two".into(), "output busy", 3, 72);
    let last = reported.iter().position(|reported| matches!(reported, Reported::Record(..)));
    assert!(at(&of_one).is_some() && at(&of_one) < last && at(&of_two).is_some(), "{reported:?}");
    let dropped = engine.outputs().find(|output| output.name == "some").unwrap().dropped;
    assert_eq!((dropped.records, dropped.bytes), (11 + more, 24 * (11 + more)));
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
    until(&mut engine, "the next came", |_| good.records().len() == 4);
    engine.turn();
    let failed = engine.outputs().find(|output| output.name == "bad").unwrap().failed;
    assert!(failed.is_some_and(|error| error.to_string().contains("the script says")));
    let errors = engine.close(Instant::now());
    assert_eq!(errors.len(), 1);
    drop(engine);
    assert_eq!(next(&path), Some(3), "at least once: the good one gets it again");
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
fn an_observed_ring_reports_its_laps_and_returns_the_position_to_save() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "flight", Policy::Overwrite);
    let path = dir.path().join("flight");
    let output = Scripted::ready();
    let mut first = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut first, &path);
    publish(&mut producer, 0..100);
    until(&mut first, "a hundred came", |engine| {
        output.records().len() == 100 && engine.is_settled()
    });
    let saved = first.saved();
    drop(first);
    let written = 100 + publish(&mut producer, 100..50_000);
    assert_eq!(written, 50_000);
    // The next one continues there, and reports exactly what it missed.
    let output = Scripted::ready();
    let mut second = engine(&[("output", Delivery::Required, &output)]);
    let location = Location::from(path);
    let input = Input::new(InputSource::Ring(location.clone()));
    second.attach(&location, &input, None, |uuid| saved.get(uuid).copied()).unwrap();
    until(&mut second, "the last came", |_| output.records().last() == Some(&49_999));
    let (came, lapped) = (output.records().len() as u64, output.lost("lapped"));
    assert_eq!(came + lapped, 50_000 - 100, "came {came}, lapped {lapped}");
    assert!(lapped > 0 && second.rings().next().unwrap().observed);
}

#[test]
fn filters_select_records_and_never_hide_losses() {
    let config = Config::parse(
        r#"
        [[output]]
        type = "null"
        types = ["5001"]
        "#,
        "test",
    )
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let output = Scripted::ready();
    let mut engine = Engine::new(Duration::from_millis(1)).unwrap();
    let filter = config.outputs[0].filter.clone();
    engine.add_output("some", Delivery::Required, filter, output.boxed()).unwrap();
    attach(&mut engine, &dir.path().join("one"));
    let (wanted, other) = (RecordType::new(5001).unwrap(), RecordType::new(5002).unwrap());
    let mut written = 0;
    for n in 0..10_000u64 {
        let kind = if n % 2 == 0 { wanted } else { other };
        written += u64::from(producer.publish_as(kind, &n.to_ne_bytes()).is_ok());
    }
    until(&mut engine, "all are read", |engine| {
        engine.rings().all(|ring| ring.figures.records == written)
    });
    producer.publish_as(wanted, &10_000u64.to_ne_bytes()).unwrap();
    until(&mut engine, "the last came", |_| output.records().last() == Some(&10_000));
    assert!(output.records().iter().all(|n| n % 2 == 0));
    assert_eq!(output.records().len() as u64, written.div_ceil(2) + 1);
    assert_eq!(output.lost("full"), 10_000 - written);
}

#[test]
fn a_new_output_learns_of_all_rings_and_an_old_one_is_removed_without_affecting_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let (old, stays, new) = (Scripted::ready(), Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("old", Delivery::Required, &old), ("stays", Delivery::Required, &stays)]);
    attach(&mut engine, &dir.path().join("one"));
    publish(&mut producer, 0..2);
    until(&mut engine, "two came", |_| stays.records().len() == 2);
    engine.remove_output("old", Instant::now()).unwrap();
    engine.add_output("new", Delivery::Required, Default::default(), new.boxed()).unwrap();
    publish(&mut producer, 2..4);
    until(&mut engine, "four came", |_| stays.records().len() == 4);
    assert_eq!((old.records(), new.records()), (vec![0, 1], vec![2, 3]));
    assert_eq!(new.reported()[0], Reported::Began("one".into()));
    assert!(old.0.borrow().closed && !stays.0.borrow().closed);
    let begins =
        stays.reported().iter().filter(|reported| matches!(reported, Reported::Began(_))).count();
    assert_eq!(begins, 1);
}

#[test]
fn a_required_output_that_cannot_be_closed_keeps_its_records_in_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (stays, goes) = (Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("stays", Delivery::Required, &stays), ("goes", Delivery::Required, &goes)]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..3);
    until(&mut engine, "three are delivered", |engine| {
        goes.records().len() == 3 && engine.is_settled()
    });
    goes.set(|script| (script.prompt, script.loses) = (false, true));
    publish(&mut producer, 3..6);
    until(&mut engine, "six came", |_| goes.records().len() == 6);
    let error = engine.remove_output("goes", Instant::now()).unwrap_err();
    assert!(error.to_string().contains("cannot deliver"), "{error}");
    for _ in 0..3 {
        engine.turn();
    }
    assert_eq!(engine.outputs().count(), 2, "it is not forgotten");
    assert_eq!(engine.close(Instant::now()).len(), 1);
    drop(engine);
    assert_eq!(next(&path), Some(3));
}

#[test]
fn the_record_that_an_output_had_no_room_for_is_not_skipped_by_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (first, old) = (Scripted::ready(), Scripted::ready());
    old.set(|script| script.room = 3); // the beginning and two records
    let mut engine =
        engine(&[("first", Delivery::Required, &first), ("old", Delivery::Required, &old)]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..5);
    until(&mut engine, "the third is held", |_| first.records().len() == 3);
    // With no room until the deadline it stays as it is; with room it gets that record first.
    assert!(engine.remove_output("old", Instant::now()).is_err() && !old.0.borrow().closed);
    old.set(|script| script.room = 1);
    engine.remove_output("old", Instant::now() + Duration::from_secs(60)).unwrap();
    let new = Scripted::ready();
    engine.add_output("new", Delivery::Required, Default::default(), new.boxed()).unwrap();
    until(&mut engine, "the rest came", |_| new.records().len() == 2);
    assert_eq!((old.records(), new.records()), (vec![0, 1, 2], vec![3, 4]));
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
    second.attach(&location, &input, None, |uuid| saved.get(uuid).copied()).unwrap();
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
    second.attach(&location, &input, None, |_| Some(*saved)).unwrap();
    second.file_removed(uuid);
    drop(producer);
    until(&mut second, "it is released", |engine| engine.rings().count() == 0);
    let notes = second.notes();
    assert!(matches!(&notes[..], [Note::Ended { removed: true, saved: None, .. }]), "{notes:?}");
}

#[test]
fn unreported_losses_of_a_dead_producer_are_reported_before_the_end_of_its_ring() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (all, some) = (Scripted::ready(), Scripted::ready());
    let written = publish(&mut producer, 0..10_000);
    drop(producer);
    let unreported = Stat::read(path.clone()).unwrap().totals.unwrap().unreported().records;
    assert_eq!(unreported, 10_000 - written);
    let mut first = engine(&[("all", Delivery::Required, &all)]);
    attach(&mut first, &path);
    let input = first.rings().next().unwrap().origin.location.clone();
    let input = Input::new(InputSource::Ring(Location::from(&*input)));
    until(&mut first, "all came", |engine| {
        all.records().len() as u64 == written && engine.is_settled()
    });
    // It stays, as another producer may attach and report them.
    first.drop_input(&input);
    until(&mut first, "it is released", |engine| engine.rings().count() == 0);
    assert_eq!(all.lost("full"), 0);
    drop(first);
    let all = Scripted::ready();
    let mut second =
        engine(&[("all", Delivery::Required, &all), ("some", Delivery::BestEffort, &some)]);
    attach(&mut second, &path);
    let uuid = second.rings().next().unwrap().origin.uuid;
    std::fs::remove_file(&path).unwrap();
    second.file_removed(&uuid);
    until(&mut second, "it is released", |engine| engine.rings().count() == 0);
    for output in [&all, &some] {
        assert_eq!(output.lost("full"), unreported);
        assert_eq!(output.reported().last(), Some(&Reported::Ended("one".into())));
    }
}
