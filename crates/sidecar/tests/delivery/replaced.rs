//! Outputs that are added, removed and replaced.

use super::{attach, engine, next, tail};
use crate::scripted::{Reported, Scripted, publish, ring, until};
use perfring_consumer::stat::Stat;
use perfring_producer::Policy;
use perfring_sidecar::config::Delivery;
use std::time::Instant;

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
