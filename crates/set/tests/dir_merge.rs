//! The merge of a directory: its rings come and go, nothing is released before it is acknowledged.

use perfring_consumer::{Consumer, Start, stat::Stat};
use perfring_producer::types::{Encoding, Field, Kind, Schema, Shape};
use perfring_producer::{Options, Policy, Producer};
use perfring_set::{DirEvent, DirItem, DirMerge, FollowOptions, Merge, ReadMode, RingSet};
use perfring_testkit::wait::{WATCHDOG, until};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SHORT: Duration = Duration::from_millis(60);

struct Temp {
    _dir: tempfile::TempDir,
    set: RingSet,
}

fn temp() -> Temp {
    let dir = tempfile::tempdir().unwrap();
    let set = RingSet::open(dir.path().join("rings")).unwrap();
    Temp { _dir: dir, set }
}

fn options(mode: ReadMode) -> FollowOptions {
    let mut options = FollowOptions::default();
    (options.mode, options.delay) = (mode, Duration::from_millis(5));
    options
}

fn follow(set: &RingSet, mode: ReadMode) -> DirMerge {
    Merge::follow_with(set.dir(), &options(mode)).unwrap()
}

/// A line for each item: the ring, and the payload or what happened.
fn line(item: &DirItem<'_>) -> String {
    let what = match item.event {
        DirEvent::Record(record) => String::from_utf8(record.bytes.to_vec()).unwrap(),
        DirEvent::Lost(lost) => format!("{} lost", lost.records),
        DirEvent::Gone { .. } => "gone".to_owned(),
        DirEvent::Failed { retried: true, .. } => "busy".to_owned(),
        DirEvent::Failed { .. } => "damaged".to_owned(),
        _ => panic!("{item:?}"),
    };
    format!("{} {what}", item.ring)
}

/// Reads until `count` items are there.
fn read(merge: &mut DirMerge, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        assert!(merge.wait(WATCHDOG), "only {lines:?}");
        while lines.len() < count
            && let Some(item) = merge.read()
        {
            lines.push(line(&item));
        }
    }
    lines
}

fn say(producer: &mut Producer, text: &str) {
    producer.publish(text.as_bytes()).unwrap();
}

fn unread(path: &Path) -> u64 {
    Stat::read(path).unwrap().totals.unwrap().present.records
}

#[test]
fn rings_that_come_and_go_are_read_in_the_order_of_time() {
    let Temp { set, .. } = &temp();
    let mut merge = follow(set, ReadMode::Auto);
    assert!(!merge.wait(Duration::ZERO) && merge.read().is_none());
    let mut one = set.producer("one").unwrap();
    say(&mut one, "1");
    assert_eq!(read(&mut merge, 1), ["one 1"]);
    let mut two = set.producer("two").unwrap();
    let mut recorder = set
        .producer_with("three", &Options { policy: Policy::Overwrite, ..Options::default() })
        .unwrap();
    until("three rings are followed", || {
        assert!(!merge.wait(SHORT), "nothing is published yet");
        merge.rings().count() == 3
    });
    for n in 2..8 {
        say([&mut one, &mut two, &mut recorder][n % 3], &n.to_string());
    }
    let lines = ["three 2", "one 3", "two 4", "three 5", "one 6", "two 7"];
    assert_eq!(read(&mut merge, 6), lines);
    assert_eq!(merge.rings().count(), 3);
    // What is published into a removed file is read as long as its producer is attached.
    fs::remove_file(set.dir().join("one")).unwrap();
    assert!(!merge.wait(SHORT));
    say(&mut one, "8");
    drop(one);
    assert_eq!(read(&mut merge, 2), ["one 8", "one gone"]);
    merge.acknowledge();
    // Another ring of this name is another ring.
    let mut one = set.producer("one").unwrap();
    say(&mut one, "9");
    assert_eq!(read(&mut merge, 1), ["one 9"]);
    assert_eq!(merge.rings().count(), 3);
    assert_eq!(merge.figures().late, 0);
}

#[test]
fn what_is_not_acknowledged_is_read_again() {
    let Temp { set, .. } = &temp();
    for name in ["one", "two"] {
        let mut producer = set.producer(name).unwrap();
        say(&mut producer, "a");
        say(&mut producer, "b");
    }
    let lines = ["one a", "one b", "two a", "two b"];
    for _ in 0..2 {
        let mut merge = follow(set, ReadMode::Auto);
        assert_eq!(read(&mut merge, 4), lines);
        assert!(merge.read().is_none());
        assert_eq!(unread(&set.dir().join("one")), 2);
    }
    // One call for all rings, and for no more than was read.
    let mut merge = follow(set, ReadMode::Auto);
    assert_eq!(read(&mut merge, 3), lines[..3]);
    merge.acknowledge();
    assert_eq!((unread(&set.dir().join("one")), unread(&set.dir().join("two"))), (0, 1));
    drop(merge);
    let mut merge = follow(set, ReadMode::Auto);
    assert_eq!(read(&mut merge, 1), lines[3..]);
}

#[test]
fn an_end_is_reported_while_items_are_unacknowledged_and_the_ring_is_kept_until_then() {
    let Temp { set, .. } = &temp();
    let mut producer = set.producer("one").unwrap();
    say(&mut producer, "a");
    let mut merge = follow(set, ReadMode::Auto);
    assert_eq!(read(&mut merge, 1), ["one a"]);
    let kept = set.dir().join(".kept"); // hidden from followers
    fs::hard_link(set.dir().join("one"), &kept).unwrap();
    fs::remove_file(set.dir().join("one")).unwrap();
    drop(producer);
    assert_eq!(read(&mut merge, 1), ["one gone"]);
    assert!(!merge.wait(SHORT));
    assert!(Consumer::attach(&kept).is_err(), "it is attached still");
    assert_eq!(unread(&kept), 1);
    merge.acknowledge();
    assert_eq!(unread(&kept), 0);
    Consumer::attach(&kept).unwrap();
}

#[test]
fn drop_rings_are_consumed_and_overwrite_rings_observed_by_default() {
    let Temp { set, .. } = &temp();
    let overwrite = Options { policy: Policy::Overwrite, ..Options::default() };
    say(&mut set.producer("drop").unwrap(), "a");
    say(&mut set.producer_with("overwrite", &overwrite).unwrap(), "a");
    for (mode, consumed) in [
        (ReadMode::Auto, [true, false]),
        (ReadMode::Observe, [false, false]),
        (ReadMode::Consume, [true, true]),
    ] {
        let mut merge = follow(set, mode);
        let mut lines = read(&mut merge, 2);
        lines.sort();
        assert_eq!(lines, ["drop a", "overwrite a"]);
        let attached =
            ["drop", "overwrite"].map(|name| Consumer::attach(set.dir().join(name)).is_err());
        assert_eq!(attached, consumed, "{mode:?}");
    }
}

#[test]
fn what_cannot_be_read_is_reported_once_and_the_others_go_on() {
    let Temp { set, .. } = &temp();
    fs::write(set.dir().join("bad"), "no ring").unwrap();
    say(&mut set.producer("busy").unwrap(), "a");
    let consumer = Consumer::attach(set.dir().join("busy")).unwrap();
    let mut merge = follow(set, ReadMode::Auto);
    let mut lines = read(&mut merge, 2);
    lines.sort();
    assert_eq!(lines, ["bad damaged", "busy busy"]);
    say(&mut set.producer("good").unwrap(), "a");
    assert_eq!(read(&mut merge, 1), ["good a"]);
    // It is tried again, without another report, until it succeeds.
    drop(consumer);
    assert_eq!(read(&mut merge, 1), ["busy a"]);
}

#[test]
fn records_have_their_wall_time_and_types_that_are_registered_late() {
    let Temp { set, .. } = &temp();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let (mut producer, begun) = (set.producer("one").unwrap(), now());
    let mut merge = follow(set, ReadMode::Auto);
    for n in 0..50u64 {
        let name = format!("Late{n}");
        let fields = [Field::new("n", 0, Shape::plain(Kind::U64, 8))];
        let schema = Schema::new(&name, Encoding::Pod).with_fields(8, &fields).with_hashed_id();
        producer.register(&schema).unwrap();
        producer.publish_as(schema.id, &n.to_ne_bytes()).unwrap();
        assert!(merge.wait(WATCHDOG));
        let item = merge.read().unwrap();
        assert_eq!(item.to_string(), format!("one: Late{n} n={n}"));
        let wall = item.wall().unwrap();
        let slack = 10_000_000; // two clocks
        assert!((begun - slack..=now() + slack).contains(&wall), "{begun} {wall} {}", now());
        merge.acknowledge();
    }
}

#[test]
fn from_the_latest_only_the_rings_that_are_there_at_first_are_not_read_from_their_oldest() {
    let Temp { set, .. } = &temp();
    let mut one = set.producer("one").unwrap();
    say(&mut one, "a");
    let mut options = options(ReadMode::Observe);
    options.start = Start::Latest;
    let mut merge = Merge::follow_with(set.dir(), &options).unwrap();
    assert!(!merge.wait(SHORT));
    say(&mut one, "b");
    assert_eq!(read(&mut merge, 1), ["one b"]);
    say(&mut set.producer("two").unwrap(), "a");
    assert_eq!(read(&mut merge, 1), ["two a"]);
}
