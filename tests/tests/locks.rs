//! The holders of seats: neither a process that may only read the file, nor a child that another thread of a dead process
//! forked; and a process that holds a seat knows it.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use perfring_consumer::{
    AttachError, Consumer,
    files::{Idle, RingFile, recover},
    stat::Stat,
};
use perfring_producer::{Options, Producer, SharedProducer, files::create};
use perfring_testkit::wait::until;
use perfring_tests::foreign::{Build, c_peer, refused};
use perfring_tests::shared::{Driven, Reported, balance, said};
use perfring_tests::{NUMBERED, actor, ring_dir};
use std::fs::File;
use std::path::Path;

const POLLER: &str = env!("CARGO_BIN_EXE_poller");
const SHARER: &str = env!("CARGO_BIN_EXE_sharer");

/// Takes a read lock on bytes of the file (0: on all from there on), by a descriptor that can only read: until the file
/// is dropped.
fn read_lock(ring: &Path, (start, len): (u64, i64)) -> File {
    let file = File::open(ring).unwrap();
    let all = libc::flock {
        l_type: libc::F_RDLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start as libc::off_t,
        l_len: len,
        l_pid: 0,
    };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&all)).unwrap();
    file
}

/// The sentence of an attach whose seat has a read lock.
const SENTENCE: &str =
    "has a read lock on it, which prevents every attach: `perfring doctor` names";

#[test]
fn a_read_lock_makes_no_dead_producer_look_alive() {
    let dir = ring_dir();
    let ring = dir.path().join("ring");
    create(&ring, &Options { size: 1 << 14, ..Options::many() }).unwrap();
    let own = SharedProducer::attach(&ring).unwrap();
    let mut consumer = Consumer::attach(&ring).unwrap();
    let (mut other, _) = Driven::start(SHARER, &["drive", "other"], &ring);
    assert_eq!(other.ask("reserve 0 1 0 100"), "ok");
    other.kill();
    // Of its seat, and of free seats.
    let dead = RingFile::inspect(&ring).unwrap().layout().slot_lock_byte(1);
    let _reader = read_lock(&ring, (dead, 62));
    let alive =
        |stat: &Stat| stat.producers.iter().map(|member| member.is_alive()).collect::<Vec<_>>();
    let stat = Stat::read(&ring).unwrap();
    assert_eq!((alive(&stat), stat.consumer.is_alive()), (vec![true, false], true));
    // Laps behind the reservation of the dead one: it is ended, and nothing is lost.
    let mut reported = Reported::default();
    for seq in 0..500 {
        own.publish_as(NUMBERED, &said(0, seq, 100)).unwrap();
        reported.drain(&mut consumer);
    }
    assert_eq!(reported.by(0), (0..500).collect::<Vec<_>>());
    let producer = balance(&ring, true).totals.unwrap().producer;
    assert_eq!((producer.reclaimed.records, producer.refused.total().records), (1, 0));
}

#[test]
fn a_seat_that_a_read_lock_keeps_is_an_error_of_its_own() {
    let dir = ring_dir();
    let [one, many] = ["one", "many"].map(|name| dir.path().join(name));
    create(&one, &Options::default()).unwrap();
    create(&many, &Options::many()).unwrap();
    let readers = [read_lock(&one, (0, 0)), read_lock(&many, (0, 0))];
    let errors = [
        Producer::attach(&one).unwrap_err(),
        Consumer::attach(&one).unwrap_err(),
        SharedProducer::attach(&many).unwrap_err(),
        recover(&many).unwrap_err(),
        Idle::hold(&one).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, AttachError::ReadLocked { .. }), "{error}");
        assert!(error.to_string().contains(SENTENCE), "{error}");
    }
    let c = c_peer(Build::C11, dir.path()).expect("a C compiler: install gcc");
    for what in [["write", "1"], ["read", "1"]] {
        let said = refused(&c, &what, &one);
        assert!(said.contains(SENTENCE), "{said}");
    }
    // A holder is named although there is a read lock beside it.
    drop(readers);
    let _producer = Producer::attach(&one).unwrap();
    let busy = Producer::attach(&one).unwrap_err();
    assert!(matches!(busy, AttachError::Busy { .. }), "{busy}");
}

/// The rings of a directory in which a seat looks taken.
fn held(dir: &Path, count: u64) -> Vec<u64> {
    let looks_held = |number: &u64| {
        let stat = Stat::read(dir.join(number.to_string())).unwrap();
        stat.producer.is_alive()
            || stat.consumer.is_alive()
            || stat.producers.iter().any(|member| member.is_alive())
    };
    (0..count).filter(looks_held).collect()
}

#[test]
fn a_fork_in_another_thread_keeps_no_dead_process_alive() {
    const RINGS: u64 = 20;
    let dir = ring_dir();
    for number in 0..RINGS {
        let many = if number % 2 == 0 { Options::default() } else { Options::many() };
        create(dir.path().join(number.to_string()), &Options { size: 1 << 16, ..many }).unwrap();
    }
    let (mut parent, line) = Driven::start(POLLER, &["storm", &RINGS.to_string()], dir.path());
    assert_eq!(line, (2 * RINGS).to_string(), "all attached");
    let children = children_of(parent.child.id());
    parent.kill();
    assert!(children > 0, "it has forked");
    // A child that was being forked detaches itself in a moment. A child that kept a lock would keep it for ever.
    until("all seats to be free", || held(dir.path(), RINGS).is_empty());
}

#[test]
fn a_fork_in_another_thread_keeps_no_dead_c_program_alive() {
    const RINGS: u64 = 20;
    let dir = ring_dir();
    let c = c_peer(Build::C11, dir.path()).expect("a C compiler: install gcc");
    for number in 0..RINGS {
        create(
            dir.path().join(number.to_string()),
            &Options { size: 1 << 16, ..Options::default() },
        )
        .unwrap();
    }
    let mut command = actor(c.to_str().unwrap(), &["storm", &RINGS.to_string()], dir.path());
    let (mut parent, line) = Driven::of(&mut command);
    assert_eq!(line, (2 * RINGS).to_string(), "all attached");
    parent.child.wait().unwrap(); // it kills itself
    until("all seats to be free", || held(dir.path(), RINGS).is_empty());
}

/// The number of processes that this one has forked and that live.
fn children_of(parent: u32) -> usize {
    let path = format!("/proc/{parent}/task");
    let tasks = std::fs::read_dir(path).unwrap().flatten();
    tasks
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .map(|children| children.split_whitespace().count())
        .sum()
}
