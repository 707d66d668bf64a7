//! Requests for a ring's pages take effect, according to the kernel's own figures.

use nix::errno::Errno;
use perfring_consumer::{Consumer, Item};
use perfring_producer::{Options, Pages, Producer};
use perfring_tests::{NUMBERED, number_of, numbered, report_skip, ring_dir, skip};
use std::path::Path;

const SIZE: u64 = 32 << 20;

/// Returns the sum of one field of all mappings of a file, KiB.
fn mapped(file: &Path, field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut sum, mut ours) = (0, false);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some(name) if name.ends_with(':') => {
                if ours && name.trim_end_matches(':') == field {
                    sum += words.next().unwrap().parse::<u64>().unwrap();
                }
            }
            _ => ours = line.ends_with(file.to_str().unwrap()),
        }
    }
    sum
}

/// `ENOMEM` and `EAGAIN`.
const NO_MEMORY: i32 = Errno::ENOMEM as i32;
const AGAIN: i32 = Errno::EAGAIN as i32;

#[test]
fn pages_are_faulted_in_locked_and_huge() {
    let dir = ring_dir();
    let path = dir.path().join("ring");
    // Larger than the size that is faulted in at once.
    let mut producer =
        Producer::create(&path, &Options { size: SIZE, ..Options::default() }).unwrap();
    let both = 2 * SIZE / 1024;
    assert!(mapped(&path, "Rss") < both / 2, "not all of it before the request");
    producer.set_pages(Pages::FaultIn).unwrap();
    assert!(mapped(&path, "Rss") >= both);
    assert_eq!(mapped(&path, "Locked"), 0);
    match producer.set_pages(Pages::Lock) {
        Ok(()) => assert!(mapped(&path, "Locked") > 0),
        Err(error) => skip(&format!("locking {} MiB: {error}", (2 * SIZE) >> 20)),
    }
    for number in 0..1000 {
        producer.publish_as(NUMBERED, &numbered(number, 4000)).unwrap();
    }
    match producer.set_pages(Pages::Huge) {
        // All except the parts at both ends that do not fill a huge page.
        Ok(()) => {
            let huge = mapped(&path, "ShmemPmdMapped");
            println!("{huge} of {both} KiB are huge");
            assert!(huge >= both * 3 / 4);
        }
        // Other processes decide whether there is contiguous memory: no fault of this machine's, but not silent.
        Err(error) if matches!(error.source.raw_os_error(), Some(NO_MEMORY | AGAIN)) => {
            report_skip(&format!("huge pages, for now: {error}"));
        }
        Err(error) => skip(&format!("huge pages: {error}")),
    }
    // The records are unchanged, for all processes.
    let mut consumer = Consumer::attach(&path).unwrap();
    consumer.set_pages(Pages::FaultIn).unwrap();
    for number in 0..1000 {
        assert!(matches!(consumer.read().unwrap(),
            Some(Item::Record(record)) if number_of(record.bytes) == number));
    }
}

#[test]
fn huge_pages_for_a_small_ring_are_an_error() {
    let dir = ring_dir();
    let producer = Producer::create(dir.path().join("ring"), &Options::default()).unwrap();
    let error = producer.set_pages(Pages::Huge).unwrap_err();
    println!("{error}");
    assert!(error.to_string().contains("holds no whole huge page"));
}
