//! What is lost, and to whom it is reported.

use super::{attach, engine};
use crate::scripted::{DELAY, Hook, Reported, Scripted, publish, ring, until};
use perfring_consumer::{Location, Start, stat::Stat};
use perfring_producer::{Policy, Producer, RecordType};
use perfring_sidecar::Engine;
use perfring_sidecar::config::{Config, Delivery, Input, InputSource};
use std::path::Path;
use std::time::Instant;

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
    second.attach(&location, &input, None, |uuid| saved.get(uuid).copied().map(Start::At)).unwrap();
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
fn losses_of_a_dead_producer_are_reported_once_and_stay_in_the_sums_when_its_ring_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let path = dir.path().join("one");
    let (all, some) = (Scripted::ready(), Scripted::ready());
    let written = publish(&mut producer, 0..10_000);
    drop(producer);
    let lost = 10_000 - written;
    assert_eq!(Stat::read(path.clone()).unwrap().totals.unwrap().unreported().records, lost);
    // Not delivered before it is killed: the next one is told again.
    let held = Scripted::ready();
    held.set(|script| script.prompt = false);
    let mut killed = engine(&[("all", Delivery::Required, &held)]);
    attach(&mut killed, &path);
    until(&mut killed, "the loss came", |_| held.lost("full") == lost);
    drop(killed);
    let mut first = engine(&[("all", Delivery::Required, &all)]);
    attach(&mut first, &path);
    let input = first.rings().next().unwrap().origin.location.clone();
    let input = Input::new(InputSource::Ring(Location::from(&*input)));
    until(&mut first, "all came", |engine| {
        all.records().len() as u64 == written && all.lost("full") == lost && engine.is_settled()
    });
    first.drop_input(&input);
    until(&mut first, "it is released", |engine| engine.rings().count() == 0);
    let sums = first.ring_figures();
    assert_eq!((sums.records, sums.lost[0].1.records), (written, lost), "{sums:?}");
    drop(first);
    // It was delivered: the next one is not told again, nor when the ring is removed.
    let all = Scripted::ready();
    let mut second =
        engine(&[("all", Delivery::Required, &all), ("some", Delivery::BestEffort, &some)]);
    attach(&mut second, &path);
    let uuid = second.rings().next().unwrap().origin.uuid;
    std::fs::remove_file(&path).unwrap();
    second.file_removed(&uuid);
    until(&mut second, "it is released", |engine| engine.rings().count() == 0);
    for output in [&all, &some] {
        assert_eq!(
            output.reported(),
            [Reported::Began("one".into()), Reported::Ended("one".into())]
        );
    }
}

#[test]
fn what_a_ring_loses_at_its_end_is_reported_before_it_ends_though_the_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("one");
    let output = Scripted::ready();
    let mut producer = ring(dir.path(), "one", Policy::Drop);
    let mut engine = engine(&[("output", Delivery::Required, &output)]);
    attach(&mut engine, &path);
    publish(&mut producer, 0..1);
    until(&mut engine, "it came", |_| output.records() == [0]);
    let uuid = engine.rings().next().unwrap().origin.uuid;
    std::fs::remove_file(&path).unwrap();
    engine.file_removed(&uuid);
    producer.publish(&[0; 128 << 10]).unwrap_err();
    let written = publish(&mut producer, 1..10_000);
    drop(producer);
    until(&mut engine, "it is released", |engine| engine.rings().count() == 0);
    assert_eq!(output.records().len() as u64, 1 + written);
    assert_eq!((output.lost("too_large"), output.lost("full")), (1, 9999 - written));
    assert_eq!(output.reported().last(), Some(&Reported::Ended("one".into())));
}

#[test]
fn an_output_that_is_behind_is_told_the_losses_at_the_end_of_a_stream_once() {
    // It stops in the records, at the loss, and behind it.
    for room in [6, 1001, 1002, 1003, 2000] {
        let dir = tempfile::tempdir().unwrap();
        let mut producer = ring(dir.path(), "one", Policy::Drop);
        let (all, down) = (Scripted::ready(), Scripted::ready());
        let mut engine =
            engine(&[("all", Delivery::Required, &all), ("down", Delivery::Required, &down)]);
        attach(&mut engine, &dir.path().join("one"));
        down.set(|script| script.room = room);
        publish(&mut producer, 0..1000);
        until(&mut engine, "all has them", |_| all.records().len() == 1000);
        let mut lost = [0; 2];
        for round in 1..4 {
            // The ring is not released meanwhile, and at last it is full.
            producer.publish(&[0; 128 << 10]).unwrap_err();
            lost[0] += 1;
            until(&mut engine, "all has the one", |_| all.lost("too_large") == lost[0]);
            let more = publish(&mut producer, 1000 * round..1000 * round + 1000);
            lost[1] += 1000 - more;
            let all_came = |all: &Scripted| {
                all.records().len() as u64 + all.lost("full") == 1000 * round + 1000
            };
            until(&mut engine, "all has the rest", |_| all_came(&all));
        }
        assert!(lost[1] > 0);
        down.set(|script| script.room = usize::MAX);
        until(&mut engine, "it has all", |engine| {
            down.records() == all.records() && down.lost("full") == lost[1] && engine.is_settled()
        });
        // The markers of it are passed.
        publish(&mut producer, 9000..9001);
        until(&mut engine, "both have the last", |engine| {
            [&all, &down].iter().all(|it| it.records().last() == Some(&9000)) && engine.is_settled()
        });
        for output in [&all, &down] {
            let told = [output.lost("too_large"), output.lost("full")];
            assert_eq!(told, lost, "{room}: {:?}", output.reported().last());
        }
        let totals = Stat::read(dir.path().join("one")).unwrap().totals.unwrap();
        assert_eq!(totals.tail, totals.head, "{room}: all is released");
    }
}

#[test]
fn a_successor_is_told_the_losses_at_the_end_of_a_stream_that_were_not_delivered() {
    // The outputs's events: a beginning, 100 records, one loss, 100 records.
    for delivered in [0, 50, 101, 102, 150, 202] {
        let dir = tempfile::tempdir().unwrap();
        let mut producer = ring(dir.path(), "one", Policy::Drop);
        let output = Scripted::ready();
        output.set(|script| script.prompt = false);
        let mut engine = engine(&[("output", Delivery::Required, &output)]);
        attach(&mut engine, &dir.path().join("one"));
        publish(&mut producer, 0..100);
        until(&mut engine, "they came", |_| output.records().len() == 100);
        producer.publish(&[0; 128 << 10]).unwrap_err();
        until(&mut engine, "it came", |_| output.lost("too_large") == 1);
        publish(&mut producer, 100..200);
        until(&mut engine, "all came", |_| output.records().len() == 200);
        output.set(|script| drop(script.held.drain(..delivered)));
        engine.turn();
        let removed = engine.remove_output("output", Instant::now()).unwrap();
        let next = Scripted::ready();
        let filter = Default::default();
        engine.add_successor("output", Delivery::Required, filter, next.boxed(), removed).unwrap();
        publish(&mut producer, 200..201);
        until(&mut engine, "the last came", |_| next.records().last() == Some(&200));
        let first = [delivered.saturating_sub(1), delivered.saturating_sub(2)]
            [usize::from(delivered > 101)];
        assert_eq!(next.records(), (first as u64..201).collect::<Vec<_>>(), "{delivered}");
        assert_eq!(next.lost("too_large"), u64::from(delivered < 102), "{delivered}");
    }
}
