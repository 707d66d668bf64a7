//! `perfring replay`.

use crate::command::{Live, Place, publish, run};
use crate::files::{contents, text};
use crate::kinds;
use nix::sys::signal::Signal;
use perfring_consumer::{Item, Snapshot, stat::Stat};
use perfring_producer::{Producer, RecordType};
use perfring_testkit::wait::until;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn what_is_replayed_is_the_same_byte_for_byte_with_its_types() {
    let place = Place::new();
    let ring = kinds::all_kinds_in(place.ring(&["--time"]));
    let mut producer = Producer::attach(Path::new(&ring)).unwrap();
    let max = producer.max_len();
    producer.publish(&vec![b'm'; max]).unwrap();
    producer.publish(b"").unwrap();
    producer.publish_as(RecordType::new(9999).unwrap(), &[0, 255, 7]).unwrap();
    let (file, again) = (text(&place.path("file")), place.path("again"));
    assert_eq!(run(&["record", &ring, "--for", "10ms", "-o", &file], b"").code(), 0);
    let done = run(&["replay", &file, &text(&again), "--rate", "max"], b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert!(done.err().contains("assigned new timestamps"), "{}", done.err());
    let wanted = contents(Path::new(&ring));
    assert_eq!(contents(&again), wanted);
    let types = |ring: &Path| Snapshot::take(ring).unwrap().types().words().to_vec();
    assert!(types(&again) == types(Path::new(&ring)) && !types(&again).is_empty());
    // Into an existing shared ring; and again through a pipe.
    let shared = text(&place.path("shared"));
    assert_eq!(run(&["create", &shared, "--producers", "many"], b"").code(), 0);
    assert_eq!(run(&["replay", &file, &shared, "--rate", "max", "--of", "ring"], b"").code(), 0);
    assert_eq!(contents(Path::new(&shared)), wanted);
    let done = run(&["replay", &file, &shared, "--rate", "max", "--of", "other"], b"");
    assert!(done.err().contains("published 0 records"), "{}", done.err());
}

#[test]
fn a_replay_keeps_the_times_between_records() {
    let place = Place::new();
    let ring = place.ring(&["--time"]);
    publish(&ring, b"one\n");
    std::thread::sleep(Duration::from_millis(200)); // the time that must be kept
    publish(&ring, b"two\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "--for", "1ms", "-o", &file], b"").code(), 0);
    let distance = |ring: &Path| {
        let snapshot = Snapshot::take(ring).unwrap();
        let times: Vec<u64> = snapshot
            .iter()
            .filter_map(|item| match item {
                Ok(Item::Record(record)) => record.time,
                _ => None,
            })
            .collect();
        times[1] - times[0]
    };
    let was = distance(Path::new(&ring));
    for (nth, (rate, least)) in
        [("1", was), ("4", was / 4), ("20/s", 50_000_000)].iter().enumerate()
    {
        let again = place.path(&format!("again{nth}"));
        let began = Instant::now();
        let done = run(&["replay", &file, &text(&again), "--rate", rate], b"");
        assert_eq!(done.code(), 0, "{}", done.err());
        // However busy the machine is, the second record is not early.
        let took = began.elapsed().as_nanos() as u64;
        println!("{was} ns, at rate {rate}: {} ns", distance(&again));
        assert!(took >= *least, "{rate}: {took} of {least}");
    }
    run(&["replay", &file, &ring, "--rate", "0"], b"").refuses(2, "max");
}

#[test]
fn a_full_ring_counts_refusals_or_is_waited_for() {
    let place = Place::new();
    let ring = place.ring(&[]);
    publish(&ring, &b"some line\n".repeat(1000));
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "1000", "-o", &file], b"").code(), 0);
    let small = text(&place.path("small"));
    let replay = ["replay", &file, &small, "--rate", "max", "--size", "4K"];
    let done = run(&[&replay[..], &["--fail-on-loss"]].concat(), b"");
    assert_eq!(done.code(), 5, "{}", done.err());
    let totals = Stat::read(Path::new(&small)).unwrap().totals.unwrap();
    let (written, full) = (totals.producer.written.records, totals.producer.refused.full.records);
    assert_eq!(written + full, 1000);
    assert!(done.err().contains(&format!("published {written} records, lost {full}: full")));
    // A consumer makes room.
    assert_eq!(run(&["consume", &small], b"").code(), 0);
    let reader = Live::start(&["consume", "-f", "-n", "1000", &small]);
    let done = run(&[&replay[..], &["--wait", "5m", "--fail-on-loss"]].concat(), b"");
    assert_eq!(done.code(), 0, "{}", done.err());
    assert_eq!(reader.end().0, "some line\n".repeat(1000));
}

#[test]
fn a_loop_continues_until_ctrl_c() {
    let place = Place::new();
    let ring = place.ring(&["--policy", "overwrite"]);
    publish(&ring, b"1\n2\n");
    let file = text(&place.path("file"));
    assert_eq!(run(&["record", &ring, "-n", "2", "-o", &file], b"").code(), 0);
    let again = place.path("again");
    let live = Live::start(&["replay", "--loop", "--rate", "max", &file, &text(&again)]);
    let written = || Some(Stat::read(&again).ok()?.totals?.producer.written.records);
    until("it was replayed often", || written().is_some_and(|written| written > 100));
    live.signal(Signal::SIGINT);
    let (_, err, code) = live.end();
    assert_eq!(code, 130, "{err}");
    let said: u64 = err.split(' ').nth(2).unwrap().parse().unwrap();
    assert_eq!(said, written().unwrap(), "{err}");
}
