//! Rings per CPU where libc registers no thread for restartable sequences: threads do it themselves, with an area that
//! is gone before they are.
//!
//! Seen red: with a destructor that leaves the thread registered.

use perfring_consumer::{Consumer, Item};
use perfring_producer::{CpuProducer, Options};
use perfring_testkit::wait::WATCHDOG;
use perfring_tests::shared::{balance, reporter, said};
use perfring_tests::{NUMBERED, actor, ring_dir};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

const THREADS: u64 = 24;
const RECORDS: u64 = 400;
/// As in `areas`.
const FIRST: u64 = 1 << 29;
const LAST: u64 = 1 << 30;
const AFTER: u64 = 1 << 31;

fn unregistered(args: &[&str], dir: &Path) -> Command {
    let mut command = actor(env!("CARGO_BIN_EXE_areas"), args, dir);
    command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
    command
}

fn lines(args: &[&str], dir: &Path) -> Vec<String> {
    let output = unregistered(args, dir).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn threads_that_libc_has_not_registered_publish_and_come_and_go() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    let options = Options { size: 4 << 20, ..Options::per_cpu() };
    // This process has what libc registered: both kinds publish in the same rings.
    let beside = CpuProducer::create(&dir, &options).unwrap();
    let (threads, records) = (THREADS.to_string(), RECORDS.to_string());
    let processes = [1000, 2000].map(|who: u64| {
        let args = ["threads", &who.to_string(), &threads, &records];
        unregistered(&args, &dir).stdout(Stdio::piped()).spawn().unwrap()
    });
    for seq in 0..RECORDS {
        beside.publish_timeout(NUMBERED, &said(1, seq, 40), WATCHDOG).unwrap();
    }
    for process in processes {
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.trim(), format!("0 refused, {} free, 0 without a ring", 2 * THREADS));
    }
    let mut read: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for ring in std::fs::read_dir(&dir).unwrap() {
        let ring = ring.unwrap().path();
        let mut consumer = Consumer::attach(&ring).unwrap();
        while let Some(Item::Record(record)) = consumer.read().unwrap() {
            let (who, seq) = reporter(record.bytes);
            read.entry(who).or_default().push(seq);
        }
        drop(consumer);
        balance(&ring, false);
    }
    let all: Vec<u64> = (0..RECORDS).chain([FIRST, LAST, AFTER]).collect();
    assert_eq!(read.len() as u64, 1 + 2 * (THREADS + 1));
    for (who, mut seqs) in read {
        seqs.sort_unstable();
        let expected = match who % 1000 {
            1 if who == 1 => &all[..RECORDS as usize],
            THREADS => &[0], // a forked child
            _ => &all,
        };
        assert_eq!(seqs, expected, "{who}");
    }
}

#[test]
fn a_thread_that_another_library_has_registered_is_told_so() {
    let dir = ring_dir();
    let dir = dir.path().join("set");
    drop(CpuProducer::create(&dir, &Options::per_cpu()).unwrap());
    let said = lines(&["taken"], &dir);
    let [attached, published, why, lost] = &said[..] else { panic!("{said:?}") };
    assert!(
        attached.contains("another library") && attached.contains("GLIBC_TUNABLES"),
        "{attached}"
    );
    assert!(attached.ends_with("; use a ring for one producer, or for many"), "{attached}");
    assert!(published.ends_with("`attach_to` says why"), "{published}");
    assert_eq!((why, &lost[..]), (attached, "1"));
}
