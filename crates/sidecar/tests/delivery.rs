//! Delivery guarantees, tested with scripted outputs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod scripted;

use perfring_consumer::{Consumer, Item, Location, Stat};
use perfring_producer::{Policy, Producer, RecordType};
use perfring_sidecar::config::{Config, Delivery, From, Input, InputSource};
use perfring_sidecar::{Engine, Note};
use scripted::{Hook, Reported, Scripted, publish, ring, until};
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
    for _ in 0..100 {
        engine.turn();
    }
    assert_eq!(outputs.each_ref().map(|output| output.records().len()), [3, 5, 5]);
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
    assert!(engine.remove_output("old", Instant::now()).unwrap().error.is_none());
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
    let mut first =
        engine(&[("stays", Delivery::Required, &stays), ("goes", Delivery::Required, &goes)]);
    attach(&mut first, &path);
    publish(&mut producer, 0..3);
    until(&mut first, "three are delivered", |engine| {
        goes.records().len() == 3 && engine.is_settled()
    });
    goes.set(|script| (script.prompt, script.loses) = (false, true));
    publish(&mut producer, 3..6);
    until(&mut first, "six came", |_| goes.records().len() == 6);
    let removed = first.remove_output("goes", Instant::now()).unwrap();
    let error = removed.error.as_ref().unwrap().to_string();
    assert!(error.contains("cannot deliver"), "{error}");
    // Its successor gets them, and until then they stay.
    let comes = Scripted::default();
    let (required, filter) = (Delivery::Required, Default::default());
    first.add_successor("goes", required, filter, comes.boxed(), removed).unwrap();
    for _ in 0..3 {
        first.turn();
    }
    assert_eq!((first.close(Instant::now()).len(), comes.records().len()), (0, 0));
    drop(first);
    assert_eq!(next(&path), Some(3));
}

#[test]
fn the_successor_of_a_stuck_output_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    for (alone, delivered) in [(true, 0), (true, 2), (true, 3), (false, 1), (false, 3)] {
        let (other, old, new) = (Scripted::ready(), Scripted::ready(), Scripted::ready());
        let mut engine = engine(&[("old", Delivery::Required, &old)]);
        if !alone {
            let filter = Default::default();
            engine.add_output("other", Delivery::Required, filter, other.boxed()).unwrap();
        }
        attach(&mut engine, &path);
        until(&mut engine, "it began", |_| old.reported().len() == 1);
        old.set(|script| (script.room, script.prompt) = (3, false)); // three records
        publish(&mut producer, 0..5);
        until(&mut engine, "the third is taken", |_| old.records().len() == 3);
        for _ in 0..10 {
            engine.turn();
        }
        old.set(|script| drop(script.held.drain(..delivered)));
        let removed = engine.remove_output("old", Instant::now()).unwrap();
        publish(&mut producer, 5..7);
        let (required, filter) = (Delivery::Required, Default::default());
        engine.add_successor("old", required, filter, new.boxed(), removed).unwrap();
        until(&mut engine, "the rest came", |engine| {
            new.records().last() == Some(&6) && engine.is_settled()
        });
        assert_eq!(new.reported()[0], Reported::Began("one".into()));
        let mut all = old.records()[..delivered].to_vec();
        all.extend(new.records());
        assert_eq!(all, (0..7).collect::<Vec<_>>(), "alone: {alone}, {delivered} delivered");
        assert_eq!(other.records(), if alone { vec![] } else { (0..7).collect() });
        assert_eq!(tail(&path), Stat::read(path.clone()).unwrap().totals.unwrap().head);
    }
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
fn outputs_that_are_replaced_at_random_miss_and_repeat_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = perfring_testkit::rng::Rng::new(11);
    let names = ["a", "b"];
    let mut producers = names.map(|name| ring(dir.path(), name, Policy::Drop));
    let mut outputs: [Vec<Scripted>; 2] = std::array::from_fn(|_| vec![Scripted::ready()]);
    let [a, b] = outputs.each_ref().map(|all| all[0].clone());
    let mut engine = engine(&[("a", Delivery::Required, &a), ("b", Delivery::Required, &b)]);
    names.iter().for_each(|name| attach(&mut engine, &dir.path().join(name)));
    outputs.iter().for_each(|all| all[0].set(|script| script.prompt = false));
    // Numbers of delivered records, of each output.
    let mut delivered = [Vec::new(), Vec::new()];
    let (mut written, mut n, mut replaced) = (Vec::new(), 0u64, 0);
    let deliver = |output: &Scripted, into: &mut Vec<u64>, count: usize| {
        let records = output.records();
        output.set(|script| {
            let count = count.min(script.held.len());
            let done: Vec<u64> = script.held.drain(..count).collect();
            let number = |reported: &(usize, &Reported)| match reported.1 {
                Reported::Record(..) => Some(()),
                _ => None,
            };
            // All that it took has a number, in their order.
            let from = script.reported.len() - script.held.len() - done.len();
            let before = script.reported[..from].iter().enumerate();
            let before = before.filter_map(|reported| number(&reported)).count();
            let of = script.reported[from..from + done.len()].iter().enumerate();
            let now = of.filter_map(|reported| number(&reported)).count();
            into.extend(&records[before..before + now]);
        });
    };
    for _ in 0..4000 {
        for (all, into) in outputs.iter().zip(&mut delivered) {
            let output = all.last().unwrap();
            let room = rng.below(50) as usize;
            output.set(|script| script.room = if room < 15 { 0 } else { room });
            deliver(output, into, rng.below(60) as usize);
        }
        for _ in 0..rng.below(30) {
            n += 1;
            if producers[rng.below(2) as usize].publish(&n.to_ne_bytes()).is_ok() {
                written.push(n);
            }
        }
        engine.turn();
        let which = rng.below(20) as usize;
        if let Some(name) = names.get(which) {
            replaced += 1;
            let removed = engine.remove_output(name, Instant::now()).unwrap();
            let next = Scripted::default();
            let (required, filter) = (Delivery::Required, Default::default());
            engine.add_successor(name, required, filter, next.boxed(), removed).unwrap();
            outputs[which].push(next);
        }
    }
    for all in &outputs {
        all.last().unwrap().set(|script| script.room = usize::MAX);
    }
    until(&mut engine, "all is delivered", |engine| {
        for (all, into) in outputs.iter().zip(&mut delivered) {
            deliver(all.last().unwrap(), into, usize::MAX);
        }
        delivered.iter().all(|all| all.len() >= written.len()) && engine.is_settled()
    });
    eprintln!("{} records, {replaced} replacements", written.len());
    for mut all in delivered {
        all.sort_unstable();
        assert_eq!(all, written);
    }
}

#[test]
fn a_required_output_that_becomes_best_effort_drops_nothing_without_a_report() {
    const ALL: u64 = 1000;
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let (stuck, healthy, next_one) = (Scripted::default(), Scripted::ready(), Scripted::default());
    let outputs =
        [("stuck", Delivery::Required, &stuck), ("healthy", Delivery::Required, &healthy)];
    let mut engine = engine(&outputs);
    stuck.set(|script| script.room = 20); // and it delivers none of them
    attach(&mut engine, &dir.path().join("one"));
    assert_eq!(publish(&mut producer, 0..ALL), ALL);
    until(&mut engine, "the healthy one has all", |_| healthy.records().len() as u64 == ALL);
    assert_eq!(tail(&dir.path().join("one")), 0);
    let removed = engine.remove_output("stuck", Instant::now()).unwrap();
    next_one.set(|script| (script.room, script.prompt) = (100, true));
    let (delivery, filter) = (Delivery::BestEffort, Default::default());
    engine.add_successor("stuck", delivery, filter, next_one.boxed(), removed).unwrap();
    // It has room for a hundred, and holds nobody up.
    let path = dir.path().join("one");
    until(&mut engine, "all is released", |_| {
        let totals = Stat::read(path.clone()).unwrap().totals.unwrap();
        totals.tail == totals.head
    });
    let taken = next_one.records();
    assert!(!taken.is_empty() && taken.iter().copied().eq(0..taken.len() as u64));
    next_one.set(|script| script.room = usize::MAX);
    publish(&mut producer, ALL..ALL + 1);
    until(&mut engine, "it gets the next one", |_| next_one.records().last() == Some(&ALL));
    let (came, lost) = (next_one.records().len() as u64, next_one.lost("output busy"));
    eprintln!("{came} came, {lost} reported as lost");
    assert_eq!(came + lost, ALL + 1, "{lost}");
    assert!(engine.is_settled());
}

#[test]
fn what_an_overwrite_ring_loses_of_a_slow_output_is_reported_to_it_alone_and_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "flight", Policy::Overwrite);
    let (all, down) = (Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("all", Delivery::Required, &all), ("down", Delivery::Required, &down)]);
    attach(&mut engine, &dir.path().join("flight"));
    down.set(|script| script.room = 10);
    for n in 0..100 {
        publish(&mut producer, 1000 * n..1000 * n + 1000);
        until(&mut engine, "the other has it", |_| all.records().last() == Some(&(1000 * n + 999)));
    }
    down.set(|script| script.room = usize::MAX);
    publish(&mut producer, 100_000..100_001);
    until(&mut engine, "it has the last", |engine| {
        down.records().last() == Some(&100_000) && engine.is_settled()
    });
    assert_eq!((all.records().len(), all.lost("lapped")), (100_001, 0));
    let (came, lost) = (down.records().len() as u64, down.lost("lapped"));
    assert!(lost > 90_000 && came + lost == 100_001, "{came} came, {lost} lost");
}

/// A flight recorder, its readers `all` and `down`, and what was written: `down` lacks some of what `all` has.
fn one_is_behind(dir: &Path) -> (Producer, Engine, [Scripted; 2], u64) {
    let mut producer = ring(dir, "flight", Policy::Overwrite);
    let (all, down) = (Scripted::ready(), Scripted::ready());
    let mut engine =
        engine(&[("all", Delivery::Required, &all), ("down", Delivery::Required, &down)]);
    attach(&mut engine, &dir.join("flight"));
    down.set(|script| script.room = 6);
    publish(&mut producer, 0..1000);
    until(&mut engine, "the other has all", |_| all.records().len() == 1000);
    assert_eq!(down.records().len(), 6);
    (producer, engine, [all, down], 1000)
}

#[test]
fn what_laps_an_output_that_is_behind_and_the_others_as_well_is_reported_to_each_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let (mut producer, mut engine, [all, down], before) = one_is_behind(dir.path());
    down.set(|script| script.room = usize::MAX);
    // Nothing is read meanwhile: all that either lacks is gone when it comes to it.
    publish(&mut producer, before..50_000);
    until(&mut engine, "it has the last", |engine| {
        down.records().last() == Some(&49_999) && engine.is_settled()
    });
    for output in [&all, &down] {
        let (came, lost) = (output.records().len() as u64, output.lost("lapped"));
        assert!(lost > 40_000 && came + lost == 50_000, "{came} came, {lost} lost");
    }
    assert_eq!(down.lost("lapped") - all.lost("lapped"), before - 7, "one was held for it");
}

#[test]
fn what_laps_an_output_again_while_it_rejoins_the_others_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    for again in [1, 700, 20_000] {
        let dir = dir.path().join(again.to_string());
        std::fs::create_dir(&dir).unwrap();
        let (mut producer, mut engine, [all, down], before) = one_is_behind(&dir);
        publish(&mut producer, before..50_000);
        // As soon as it hears of its loss, and before the others are given anything, more is overwritten.
        let mut producer = Some(producer);
        let hook = move |reported: &Reported| {
            if matches!(reported, Reported::Lost(_, "lapped", ..))
                && let Some(mut producer) = producer.take()
            {
                publish(&mut producer, 50_000..50_000 + again);
            }
        };
        down.set(|script| (script.room, script.hook) = (usize::MAX, Hook::new(hook)));
        until(&mut engine, "it has the last", |engine| {
            down.records().last() == Some(&(50_000 + again - 1)) && engine.is_settled()
        });
        for output in [&all, &down] {
            let (came, lost) = (output.records().len() as u64, output.lost("lapped"));
            assert_eq!(came + lost, 50_000 + again, "{again}: {came} came, {lost} lost");
        }
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
