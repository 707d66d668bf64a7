//! What is lost, and to whom it is reported.

use super::{attach, engine};
use crate::scripted::{DELAY, Hook, Reported, Scripted, publish, ring, until};
use perfring_consumer::{Location, Stat};
use perfring_producer::{Policy, Producer, RecordType};
use perfring_sidecar::Engine;
use perfring_sidecar::config::{Config, Delivery, Input, InputSource};
use std::path::Path;

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
    let mut engine = Engine::new(DELAY).unwrap();
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
