//! Where records are borrowed in place: where nobody but this process's user may write them.

use perfring_consumer::{Consumer, ConsumerOptions, Item, Promise, Trust, advanced::Lines};
use perfring_producer::{Options, Producer, RecordType};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Reads a record. Returns whether its bytes are those of the ring, which others can change, and not a copy.
fn is_in_place(ring: &Path, options: &ConsumerOptions) -> bool {
    let mut consumer = Consumer::attach_with(ring, options).unwrap();
    let in_place = !consumer.is_guarded();
    let Some(Item::Record(record)) = consumer.read().unwrap() else { unreachable!("a record") };
    let at = record.bytes.as_ptr().addr();
    assert_eq!(record.bytes, [7; 100]);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_the_ring = maps.lines().filter(|line| line.ends_with(ring.to_str().unwrap()));
    let mapped = of_the_ring.into_iter().any(|line| {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (from, to) = (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16));
        (from.unwrap()..to.unwrap()).contains(&at)
    });
    assert_eq!(mapped, in_place, "what is_guarded says is what is done");
    mapped
}

fn ring(dir: &Path, mode: u32) -> std::path::PathBuf {
    let path = dir.join(format!("{mode:o}"));
    let mut producer = Producer::create(&path, &Options { mode, ..Options::default() }).unwrap();
    producer.publish_as(RecordType::BYTES, &[7; 100]).unwrap();
    path
}

#[test]
fn records_that_others_may_write_are_copied_unless_the_caller_promises_for_them() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, others) in
        [(0o600, false), (0o644, false), (0o620, true), (0o602, true), (0o666, true)]
    {
        for lines in [Lines::WriteTouch, Lines::Leave] {
            let default = ConsumerOptions { lines, ..ConsumerOptions::default() };
            assert_eq!(is_in_place(&ring(dir.path(), mode), &default), !others, "{mode:o}");
            std::fs::remove_file(dir.path().join(format!("{mode:o}"))).unwrap();
            let nobody = ConsumerOptions { trust: Trust::Nobody, ..default.clone() };
            assert!(!is_in_place(&ring(dir.path(), mode), &nobody), "{mode:o}");
            std::fs::remove_file(dir.path().join(format!("{mode:o}"))).unwrap();
            // SAFETY: this process alone has the ring.
            let promise = unsafe { Promise::all_writers_keep_to_the_protocol() };
            let peers = ConsumerOptions { trust: Trust::Peers(promise), ..default };
            assert!(is_in_place(&ring(dir.path(), mode), &peers), "{mode:o}");
            std::fs::remove_file(dir.path().join(format!("{mode:o}"))).unwrap();
        }
    }
}

#[test]
fn records_of_another_user_are_copied() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        println!("SKIPPED: giving a ring to another user needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let ring = ring(dir.path(), 0o600);
    std::os::unix::fs::chown(&ring, Some(12345), None).unwrap();
    assert!(!is_in_place(&ring, &ConsumerOptions::default()));
}
