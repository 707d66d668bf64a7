//! Errors are not drowned: they have a ring of their own, which a flood of other records cannot fill.

use super::SHAPE;
use crate::shape::rings;
use perfring_consumer::stat::Stat;
use perfring_producer::types::{Class, Field, Shape};
use perfring_set::{DirEvent, FollowOptions, Merge, ReadMode, RingSet, is_priority};
use perfring_telemetry::producer::{Options, Policy};
use perfring_telemetry::{FIRST, Log, Resource, Severity, options};
use std::path::PathBuf;
use std::time::Duration;

/// What a ring, or a directory of some, refused.
fn lost(set: &RingSet, name: &str) -> u64 {
    let totals = |ring: &PathBuf| Stat::read(ring).unwrap().totals.unwrap();
    let rings = rings(&set.dir().join(name));
    rings.iter().map(|ring| totals(ring).producer.refused.total().records).sum()
}

#[test]
fn a_flood_fills_its_ring_and_errors_get_through_in_the_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let set = RingSet::open(dir.path().join("rings")).unwrap();
    let drop = Options { size: 1 << 16, policy: Policy::Drop, ..options() };
    let errors = set.ring_path(&RingSet::priority_name("shop"), &drop).unwrap();
    // Rings per CPU are in a directory of the set's.
    let sink = SHAPE.sink(&set.dir().join("shop"), &drop, Resource::here());
    let sink = sink.with_priority(Severity::Error, errors).unwrap();
    let fields = [Field::new("n", 0, Shape::ANY)];
    let kind = sink.declare(Class::Log, "log:ERROR", "", &fields).unwrap();
    let (mut refused, mut fitted) = (0, 0);
    for n in 0..20_000u64 {
        let severity = match n % 100 {
            99 => Severity::Error,
            98 => Severity::Fatal,
            97 => Severity::Warn4,
            _ => Severity::Debug,
        };
        let log = Log { severity: Some(severity), body: n.into(), ..Log::default() };
        if severity >= Severity::Error {
            sink.emit(&log).unwrap();
        } else if sink.emit(&log).is_ok() {
            fitted += 1;
        } else {
            refused += 1;
        }
        if n % 1000 == 0 {
            sink.write_at(Severity::Error, kind, |values| values.u64(FIRST, n)).unwrap();
            // Without a severity it is one of the others.
            match sink.write(kind, |values| values.u64(FIRST, n)) {
                Ok(()) => fitted += 1,
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 10_000, "{fitted} fitted, {refused} were refused");
    assert_eq!(sink.dropped(), refused);
    assert_eq!((lost(&set, "shop"), lost(&set, "shop.priority")), (refused, 0));

    let mut how = FollowOptions::default();
    how.mode = ReadMode::Observe;
    let mut merge = Merge::follow_with(set.dir(), &how).unwrap();
    let (mut last, mut turns, mut errors, mut rest, mut before) = (0, 0, 0, 0, String::new());
    while merge.wait(Duration::from_millis(200)) {
        while let Some(item) = merge.read() {
            let DirEvent::Record(record) = item.event else { continue };
            let time = record.time.unwrap();
            assert!(time >= last, "{item}");
            last = time;
            // The resource is in both.
            let is_log = item.record_type().unwrap().class.known() == Some(Class::Log);
            let count = if is_priority(item.ring) { &mut errors } else { &mut rest };
            *count += u64::from(is_log);
            turns += u64::from(before != item.ring);
            item.ring.clone_into(&mut before);
        }
    }
    eprintln!("{errors} errors, {rest} others, {refused} refused, {turns} turns between the rings");
    assert_eq!((errors, rest), (400 + 20, fitted));
    assert!(turns > 5, "they alternate, by their times");
}
